/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/record_gap.h>

#include <errno.h>
#include <ring/ring_progress.h>

#define GAP_RECORDS_MAX ((uint64_t)1 << 48) /* more is not a count but garbage */

static int queue_gap(struct ky_copy *copy, struct ky_dthread *thread, uint64_t ticks,
		     uint64_t count, uint32_t cause)
{
	uint64_t from = thread->has_slot ? thread->read_ticks : thread->start_ticks;

	if (ky_copy_push(copy, thread, ticks, KY_REC_GAP, cause, count) ||
	    ky_copy_push(copy, thread, from < ticks ? from : ticks, KY_REC_MORE, 0, 0))
		return -ENOMEM;
	return 0;
}

static int queue_horizon(struct ky_copy *copy, struct ky_dthread *thread, uint64_t ticks)
{
	uint64_t from = copy->common->horizon_ticks;

	if (thread->start_ticks > from)
		from = thread->start_ticks;
	if (ky_copy_push(copy, thread, ticks, KY_REC_GAP, KY_LOSS_HORIZON | KY_GAP_INEXACT, 0) ||
	    ky_copy_push(copy, thread, from < ticks ? from : ticks, KY_REC_MORE, 0, 0))
		return -ENOMEM;
	return 0;
}

/* Of the part that another stream has: nothing, unless the ring has overwritten what came after. */
static int queue_since(struct ky_copy *copy, struct ky_dthread *thread, uint64_t ticks)
{
	struct ky_drain_common *common = copy->common;
	uint64_t from = common->from_ticks, count = common->stats.records_lost == 0;

	common->has_flown = true; /* polls may be open already */
	if (ticks <= from || ky_ring_horizon_ticks(&common->ring) <= from)
		return 0;
	/* As this sub-buffer says, or the directory, where it was read before. */
	if (thread->start_ticks > from && thread->start_ticks < ticks)
		from = thread->start_ticks;
	if (ky_copy_push(copy, thread, ticks, KY_REC_GAP, KY_LOSS_OVERWRITTEN | KY_GAP_INEXACT,
			 count) ||
	    ky_copy_push(copy, thread, from, KY_REC_MORE, 0, 0))
		return -ENOMEM;
	common->stats.records_lost += count; /* one at least of all threads */
	return 0;
}

/* Whether what is missing of the thread was overwritten while it was not to be written: before
 * the first reading of a ring in flight, or before a stream was taken up again. */
static bool is_flown(const struct ky_copy *copy, const struct ky_dthread *thread)
{
	uint64_t from = thread->has_slot ? thread->read_ticks : thread->start_ticks;

	if (copy->common->is_cut)
		return false;
	if (copy->common->step == 1)
		return !thread->has_slot && copy->common->ring.flags & KY_RING_FLIGHT;
	if (copy->common->step == copy->back_step)
		return true;
	return thread->back_step < copy->back_step && from < copy->common->back_ticks;
}

int ky_gap_account(struct ky_copy *copy, struct ky_dthread *thread, uint64_t record_count,
		   uint64_t ticks, bool *has_gap)
{
	uint64_t missing = record_count - thread->record_next;
	uint32_t cause = thread->gap_cause ? thread->gap_cause : KY_LOSS_OVERWRITTEN;
	/* A cut begins somewhere: what came before was never promised. */
	bool is_horizon = copy->common->is_cut && !thread->has_slot && copy->common->step == 1;
	bool is_since = copy->common->from_ticks && !copy->common->is_cut && !thread->has_slot &&
			copy->common->step == 1;

	if (cause == KY_LOSS_OVERWRITTEN && is_flown(copy, thread))
		cause = KY_LOSS_FLIGHT;
	*has_gap = thread->gap_cause != KY_LOSS_NONE || record_count != thread->record_next;
	thread->gap_cause = KY_LOSS_NONE;
	if (ticks < thread->read_ticks)
		ticks = thread->read_ticks;
	if (record_count > thread->record_next && missing <= GAP_RECORDS_MAX) {
		if (is_horizon || is_since)
			missing = 0;
		if (is_since && queue_since(copy, thread, ticks))
			return -ENOMEM;
		/* The thread's part of the trace begins later than the trace. */
		if (is_horizon && ticks > copy->common->horizon_ticks &&
		    queue_horizon(copy, thread, ticks))
			return -ENOMEM;
		copy->common->has_flown |= cause == KY_LOSS_FLIGHT;
		if (cause == KY_LOSS_FLIGHT && ticks > copy->common->flown_ticks)
			copy->common->flown_ticks = ticks;
		if (cause == KY_LOSS_FLIGHT)
			copy->common->stats.records_flown += missing;
		else
			copy->common->stats.records_lost += missing;
		if (missing && queue_gap(copy, thread, ticks, missing, cause))
			return -ENOMEM;
	}
	thread->record_next = record_count;
	thread->read_ticks = ticks;
	thread->has_slot = true;
	return 0;
}

/* The last that is known of it: a thread without a sub-buffer has its start and its end only. */
static uint64_t latest_ticks(const struct ky_dthread *thread)
{
	uint64_t ticks = thread->read_ticks > thread->exit_ticks ? thread->read_ticks :
								   thread->exit_ticks;

	return ticks > thread->start_ticks ? ticks : thread->start_ticks;
}

int ky_copy_last_gaps(struct ky_copy *copy)
{
	bool has_no_slot = atomic_load_explicit(&copy->common->ring.header->dropped_no_slot_count,
						memory_order_relaxed) > 0;

	for (uint32_t i = 0; i < copy->common->threads.count; i++) {
		struct ky_dthread *thread = copy->common->threads.list[i];
		uint32_t cause = thread->gap_cause ? thread->gap_cause : KY_LOSS_OVERWRITTEN;
		bool is_unseen = !thread->has_slot && copy->has_lapped && !copy->common->is_cut &&
				 thread->start_ticks >= copy->common->from_ticks;
		bool has_vanished = thread->ended_closed && !thread->cursor_count &&
				    copy->has_lapped && !thread->exit_step;

		if (!thread->gap_cause && !is_unseen && !has_vanished)
			continue;
		thread->gap_cause = KY_LOSS_NONE;
		thread->ended_closed = false;
		if (is_unseen && has_no_slot)
			cause = KY_LOSS_NO_SLOT;
		/* A lower bound: a thread that was announced has written at least once, unless it
		 * found no room, which the header has counted. */
		is_unseen = is_unseen && !has_no_slot;
		if (queue_gap(copy, thread, latest_ticks(thread), is_unseen,
			      cause | KY_GAP_INEXACT))
			return -ENOMEM;
		copy->common->stats.records_lost += is_unseen;
		thread->has_slot = true;
	}
	return 0;
}
