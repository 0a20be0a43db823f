/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Where every live task waits, at the end of a trace: read from the ring's place table. */
#include <drain/convert_stage.h>

#include <kymo/emit.h>

enum {
	STATE_WAITS = 0,
	STATE_MOVED = 1,
	STATE_POLLED = 2
};

static bool is_being_polled(const struct ky_convert *convert, uint64_t task)
{
	for (uint32_t i = 0; i < convert->common->threads.count; i++) {
		const struct ky_dthread *thread = convert->common->threads.list[i];

		for (uint32_t depth = 0; depth < thread->depth; depth++)
			if (thread->stack[depth].task == task)
				return true;
	}
	return false;
}

static uint64_t ns_of(struct ky_convert *convert, uint64_t ticks, uint64_t now_ns)
{
	uint64_t ns = ticks && ticks <= INT64_MAX ?
			      ky_timeline_ns(&convert->common->timeline, ticks) :
			      0;

	return ns < now_ns ? ns : now_ns;
}

static void write_one(struct ky_convert *convert, const uint8_t *area,
		      const struct ky_place_seen *seen, uint32_t number, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint64_t frames[KYMO_PLACE_FRAMES_MAX], since_ns = ns_of(convert, seen->since_ticks, ns);
	uint64_t task = seen->task_word >> KYMO_NAME_BITS;
	uint32_t count = ky_ring_view_place_stack(area, number, frames), stack, name, state;

	stack = ky_trc_enc_stack(enc, frames, count);
	name = ky_name_pool(&convert->common->names, &convert->chunk,
			    (uint32_t)(seen->task_word & 0xffffffu));
	state = is_being_polled(convert, task)        ? STATE_POLLED :
		seen->moved_ticks > seen->taken_ticks ? STATE_MOVED :
							STATE_WAITS;
	ky_trc_enc_event(enc, KY_EV_AWAIT_PLACE, ns);
	ky_trc_enc_varint(enc, task);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_f64(enc, seen->one_in ? 1.0 / seen->one_in : 1.0);
	ky_trc_enc_u8(enc, seen->is_truncated);
	ky_trc_enc_varint(enc, since_ns ? since_ns : 1);
	ky_trc_enc_varint(enc, ns_of(convert, seen->polled_ticks, ns));
	ky_trc_enc_u8(enc, (uint8_t)state);
	ky_trc_enc_u32(enc, name);
}

bool ky_convert_next_place(struct ky_convert *convert, struct ky_list_at *at,
			   struct ky_place_seen *seen, uint64_t ns)
{
	const struct ky_drain_common *common = convert->common;
	const uint8_t *area = ky_ring_view_places(&common->ring);
	uint64_t now_ticks = ky_timeline_ticks(&common->timeline, ns);

	/* Of one task the first stack, then those there are of the others. */
	while (area && at->slot < KY_PLACE_SLOTS) {
		if (at->part == 0 &&
		    ky_ring_view_place(area, at->slot, now_ticks, seen) == KY_PLACE_WHOLE)
			return true;
		for (; at->part && at->part < KYMO_PLACE_STACKS_MAX; at->part++)
			if (seen->stacks[at->part] != KY_PLACE_NO_STACK)
				return true;
		at->slot++;
		at->part = 0;
	}
	return false;
}

void ky_convert_place(struct ky_convert *convert, struct ky_list_at *at,
		      const struct ky_place_seen *seen, uint64_t ns)
{
	write_one(convert, ky_ring_view_places(&convert->common->ring), seen,
		  seen->stacks[at->part++], ns);
}
