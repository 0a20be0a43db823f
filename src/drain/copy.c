/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The first stage: sub-buffers into queues, as much at a time as memory is for.
 *
 * The order of readings makes the watermark right: anchor (drain.c), claim index (slot_plan.c),
 * then for each slot busy flag, cursor, records (slot_cursor.c). A claim after the claim index we
 * saw was made after the anchor, so its stamps lie above T; a clear busy flag means that the
 * records we copy are complete up to T. */
#include <drain/copy_stage.h>

#include <base/alloc.h>
#include <base/testpoint.h>
#include <drain/slot_cursor.h>
#include <drain/slot_plan.h>
#include <errno.h>

#define MEMORY_DEFAULT ((size_t)64 << 20)
#define BATCH_BYTES ((uint64_t)512 << 10) /* stays in the cache until it is merged */

/* ---- memory ---- */

static uint64_t waiting_bytes(const struct ky_copy *copy)
{
	return copy->common->threads.queues.waiting * sizeof(struct ky_rec);
}

bool ky_copy_is_over_budget(const struct ky_copy *copy)
{
	return waiting_bytes(copy) > copy->memory_bytes_max;
}

/* Queues are kept for reuse; those that grew large and are empty now are given back. */
void ky_copy_give_back(struct ky_copy *copy)
{
	struct ky_thread_table *threads = &copy->common->threads;

	if (threads->queues.bytes <= copy->memory_bytes_max)
		return;
	for (uint32_t i = 0; i < threads->count; i++) {
		struct ky_queue *queue = &threads->list[i]->queue;

		if (ky_queue_is_empty(queue) && queue->capacity >= 1024)
			ky_queue_give_back(queue, &threads->queues);
	}
}

/* ---- sub-buffers ---- */

uint64_t ky_copy_hold_ticks(const struct ky_copy *copy)
{
	return copy->hold_ticks;
}

/* What a thread with a slot misses from now on was not overwritten in flight. */
static void end_of_flight(struct ky_copy *copy)
{
	for (uint32_t i = 0;
	     copy->common->step == copy->back_step && i < copy->common->threads.count; i++)
		if (copy->common->threads.list[i]->cursor_count)
			copy->common->threads.list[i]->back_step = copy->common->step;
}

static void begin_reading(struct ky_copy *copy)
{
	copy->hold_ticks = UINT64_MAX;
	copy->relieved_at = 0;
	ky_slot_plan_make(copy);
	copy->reading_step = copy->common->step;
	KY_TESTPOINT("drain.planned");
}

int ky_copy_slots(struct ky_copy *copy)
{
	uint64_t batch = BATCH_BYTES;
	uint32_t *at = &copy->visit_at;
	int err = 0;

	if (batch > copy->memory_bytes_max / 2)
		batch = copy->memory_bytes_max / 2;
	if (copy->reading_step == copy->common->step)
		copy->relieved_at = waiting_bytes(copy);
	else
		begin_reading(copy);
	while (*at < copy->visit_count && !err) {
		uint64_t claim = ky_ring_view_claim(&copy->common->ring, copy->visits[*at].slot);

		if (ky_slot_plan_postpone(copy, KY_CLAIM_NUMBER(claim)))
			continue;
		if (waiting_bytes(copy) > copy->relieved_at + batch)
			return KY_COPY_FULL;
		err = ky_slot_visit(copy, copy->visits[(*at)++].slot, claim);
	}
	copy->reading_step = 0;
	ky_slot_plan_end(copy);
	end_of_flight(copy);
	return err;
}

int ky_copy_exits(struct ky_copy *copy)
{
	struct ky_drain_common *common = copy->common;

	for (uint32_t i = 0; i < common->threads.count; i++) {
		struct ky_dthread *thread = common->threads.list[i];
		uint64_t ticks = thread->exit_ticks > thread->read_ticks ? thread->exit_ticks :
									   thread->read_ticks;

		/* Reported in an earlier step: its last records were there when this step read. */
		if (!thread->exit_step || thread->is_exit_queued ||
		    (thread->exit_step == common->step && !common->is_final))
			continue;
		thread->is_exit_queued = true;
		if (ky_copy_push(copy, thread, ticks, KY_REC_EXIT, 0, 0) != 0)
			return -ENOMEM;
	}
	return 0;
}

/* ---- the stage ---- */

int ky_copy_open(struct ky_copy **out, struct ky_drain_common *common,
		 const struct ky_drain_options *options)
{
	size_t slots = (size_t)common->ring.slot_count + 1;
	struct ky_copy *copy = ky_alloc(sizeof(*copy));

	*out = copy;
	if (!copy)
		return -ENOMEM;
	copy->common = common;
	copy->memory_bytes_max = options->memory_bytes_max ? options->memory_bytes_max :
							     MEMORY_DEFAULT;
	copy->fetch_samples = options->fetch_samples;
	copy->fetch_ctx = options->fetch_ctx;
	copy->count_thread = options->count_thread;
	copy->count_ctx = options->count_ctx;
	copy->cursors = ky_alloc(slots * sizeof(*copy->cursors));
	copy->listed = ky_alloc(slots * sizeof(*copy->listed));
	copy->visits = ky_alloc(slots * sizeof(*copy->visits));
	return copy->cursors && copy->listed && copy->visits ? 0 : -ENOMEM;
}

void ky_copy_close(struct ky_copy *copy)
{
	if (!copy)
		return;
	ky_free(copy->cursors);
	ky_free(copy->listed);
	ky_free(copy->visits);
	ky_free(copy);
}

bool ky_copy_resume(struct ky_copy *copy, uint64_t ticks)
{
	const struct ky_ring_view *ring = &copy->common->ring;
	uint64_t claim_index = atomic_load_explicit(&ring->header->claim_index,
						    memory_order_relaxed);

	if (ticks)
		copy->common->back_ticks = ticks;
	copy->back_step = copy->common->step + 1;
	return claim_index < copy->claim_index ||
	       claim_index - copy->claim_index >= ky_ring_view_usable(ring);
}

uint32_t ky_copy_open_slots(const struct ky_copy *copy)
{
	uint32_t open = 0;

	for (uint32_t i = 0; i < copy->listed_count; i++) {
		const struct ky_slot_cursor *cursor = &copy->cursors[copy->listed[i]];

		open += cursor->thread && !cursor->is_complete && !cursor->is_parked;
	}
	return open;
}
