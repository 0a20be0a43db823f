/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Where every live task waits, at the end of a trace: read from the ring's place table. */
#include <drain/drain_state.h>

#include <kymo/emit.h>

enum {
	STATE_WAITS = 0,
	STATE_MOVED = 1,
	STATE_POLLED = 2
};

static bool is_being_polled(const struct ky_drain *drain, uint64_t task)
{
	for (uint32_t i = 0; i < drain->thread_count; i++) {
		const struct ky_dthread *thread = drain->threads[i];

		for (uint32_t depth = 0; depth < thread->depth; depth++)
			if (thread->stack[depth].task == task)
				return true;
	}
	return false;
}

static uint64_t ns_of(struct ky_drain *drain, uint64_t ticks, uint64_t now_ns)
{
	uint64_t ns = ticks && ticks <= INT64_MAX ? ky_timeline_ns(&drain->timeline, ticks) : 0;

	return ns < now_ns ? ns : now_ns;
}

static void write_one(struct ky_drain *drain, const uint8_t *area, const struct ky_place_seen *seen,
		      uint32_t number, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	uint64_t frames[KYMO_PLACE_FRAMES_MAX], since_ns = ns_of(drain, seen->since_ticks, ns);
	uint64_t task = seen->task_word >> KYMO_NAME_BITS;
	uint32_t count = ky_ring_view_place_stack(area, number, frames), stack, name, state;

	ky_drain_ready(drain, ns);
	stack = ky_trc_enc_stack(enc, frames, count);
	name = ky_drain_name_pool(drain, (uint32_t)(seen->task_word & 0xffffffu));
	state = is_being_polled(drain, task)          ? STATE_POLLED :
		seen->moved_ticks > seen->taken_ticks ? STATE_MOVED :
							STATE_WAITS;
	ky_trc_enc_event(enc, KY_EV_AWAIT_PLACE, ns);
	ky_trc_enc_varint(enc, task);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_f64(enc, seen->one_in ? 1.0 / seen->one_in : 1.0);
	ky_trc_enc_u8(enc, seen->is_truncated);
	ky_trc_enc_varint(enc, since_ns ? since_ns : 1);
	ky_trc_enc_varint(enc, ns_of(drain, seen->polled_ticks, ns));
	ky_trc_enc_u8(enc, (uint8_t)state);
	ky_trc_enc_u32(enc, name);
}

void ky_drain_write_places(struct ky_drain *drain, uint64_t ns)
{
	const uint8_t *area = ky_ring_view_places(&drain->ring);
	uint64_t now_ticks = ky_timeline_ticks(&drain->timeline, ns);
	struct ky_place_seen seen;

	for (uint32_t slot = 0; area && slot < KY_PLACE_SLOTS; slot++) {
		if (ky_ring_view_place(area, slot, now_ticks, &seen) != KY_PLACE_WHOLE)
			continue;
		write_one(drain, area, &seen, seen.stacks[0], ns);
		for (uint32_t i = 1; i < KYMO_PLACE_STACKS_MAX; i++)
			if (seen.stacks[i] != KY_PLACE_NO_STACK)
				write_one(drain, area, &seen, seen.stacks[i], ns);
	}
}
