/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Where tasks waited, written when a long wait ends, and where each waits at the end of a trace: by
 * the points of the ring's place table. */
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

/* A task that waits at the points of a word, or did up to this moment. */
struct waiting {
	uint64_t task, points;
	uint64_t polled_ns; /* since when */
	uint64_t older_ns;  /* the same of its older points, at the latest; 0: not known */
	uint64_t wait_ns;
	uint32_t name;
	uint8_t state;
};

static void write_point(struct ky_convert *convert, const struct waiting *waiting, uint32_t point,
			uint64_t ns)
{
	const uint8_t *area = ky_ring_view_places(&convert->common->ring);
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint64_t frames[KYMO_PLACE_FRAMES_MAX], since_ns = waiting->polled_ns;
	uint32_t count = ky_ring_view_place_stack(area, ky_points_stack(waiting->points, point),
						  frames);
	uint32_t stack = ky_trc_enc_stack(enc, frames, count);
	uint32_t name = ky_name_pool(&convert->common->names, &convert->chunk, waiting->name);

	if (waiting->points & KY_PLACE_OLDER(point) && waiting->older_ns &&
	    waiting->older_ns < since_ns)
		since_ns = waiting->older_ns;
	ky_trc_enc_event(enc, KY_EV_AWAIT_PLACE, ns);
	ky_trc_enc_varint(enc, waiting->task);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_f64(enc, 1.0);
	ky_trc_enc_u8(enc, (waiting->points & KY_PLACE_TRUNCATED(point)) != 0);
	ky_trc_enc_varint(enc, since_ns ? since_ns : 1);
	ky_trc_enc_varint(enc, waiting->polled_ns);
	ky_trc_enc_u8(enc, waiting->state);
	ky_trc_enc_u32(enc, name);
	ky_trc_enc_varint(enc, waiting->wait_ns);
	ky_trc_enc_u8(enc, (uint8_t)point);
}

static bool has_point(uint64_t word, uint32_t point)
{
	return word && point < KYMO_PLACE_STACKS_MAX &&
	       ky_points_stack(word, point) != KY_PLACE_NO_STACK;
}

/* ---- a wait that ended ---- */

void ky_convert_points(const struct ky_convert *convert, struct ky_drain_task *task,
		       uint32_t points)
{
	const uint8_t *area = ky_ring_view_places(&convert->common->ring);
	uint64_t before, now;

	if (!area)
		return;
	before = ky_ring_view_points(area, task->points);
	now = ky_ring_view_points(area, points);
	for (uint32_t i = 0; has_point(now, i); i++)
		for (uint32_t k = 0; now & KY_PLACE_OLDER(i) && has_point(before, k); k++)
			if (ky_points_stack(now, i) == ky_points_stack(before, k) &&
			    !(before & KY_PLACE_OLDER(k)))
				task->older_ns = task->last_poll_ns;
	if (!before)
		task->older_ns = 0;
	task->points = points;
}

void ky_convert_waited(struct ky_convert *convert, uint64_t id, uint64_t ns)
{
	const struct ky_drain_task *task = ky_task_table_find(&convert->tasks, id);

	if (task)
		ky_convert_task_waited(convert, task, id, ns, ns);
}

void ky_convert_task_waited(struct ky_convert *convert, const struct ky_drain_task *task,
			    uint64_t id, uint64_t end_ns, uint64_t ns)
{
	const uint8_t *area = ky_ring_view_places(&convert->common->ring);
	struct waiting waiting = {.task = id};

	if (!area || !ky_waits_long(task, end_ns) || convert->chunk.is_muted)
		return;
	waiting.points = ky_ring_view_points(area, task->points);
	waiting.polled_ns = task->last_poll_ns;
	waiting.older_ns = task->older_ns;
	waiting.wait_ns = end_ns - task->last_poll_ns;
	waiting.name = ky_task_name(task);
	waiting.state = waiting.points & KY_PLACE_UNSURE ? STATE_MOVED : STATE_WAITS;
	for (uint32_t point = 0; has_point(waiting.points, point); point++)
		write_point(convert, &waiting, point, ns);
}

/* ---- those that wait at the end ---- */

bool ky_convert_next_place(struct ky_convert *convert, struct ky_list_at *at,
			   struct ky_place_seen *seen, uint64_t ns)
{
	const struct ky_drain_common *common = convert->common;
	const uint8_t *area = ky_ring_view_places(&common->ring);
	uint64_t now_ticks = ky_timeline_ticks(&common->timeline, ns);

	for (; area && at->entry < KY_PLACE_ENTRIES; at->entry++, at->part = 0) {
		if (at->part == 0) {
			at->entry = ky_ring_view_next_place(area, at->entry);
			if (at->entry == KY_PLACE_ENTRIES)
				break;
			if (!ky_ring_view_place(area, at->entry, now_ticks, seen))
				continue;
		}
		if (ky_is_root(seen->task) &&
		    ky_root_list_now(&convert->roots, seen->task) == KY_ROOT_POLLED)
			continue;
		if (has_point(seen->points, at->part))
			return true;
	}
	return false;
}

static bool is_unsure(const struct ky_convert *convert, const struct ky_place_seen *seen)
{
	return seen->points & KY_PLACE_UNSURE ||
	       (ky_is_root(seen->task) &&
		ky_root_list_now(&convert->roots, seen->task) == KY_ROOT_UNKNOWN);
}

void ky_convert_place(struct ky_convert *convert, struct ky_list_at *at,
		      const struct ky_place_seen *seen, uint64_t ns)
{
	struct waiting waiting = {.task = seen->task,
				  .points = seen->points,
				  .polled_ns = ns_of(convert, seen->polled_ticks, ns),
				  .older_ns = ns_of(convert, seen->since_ticks, ns),
				  .name = seen->name};

	waiting.state = is_being_polled(convert, seen->task) ? STATE_POLLED :
			is_unsure(convert, seen)             ? STATE_MOVED :
							       STATE_WAITS;
	write_point(convert, &waiting, at->part++, ns);
}
