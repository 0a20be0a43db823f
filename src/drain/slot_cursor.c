/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/slot_cursor.h>

#include <drain/record_gap.h>
#include <drain/record_parse.h>
#include <drain/ring_copy.h>
#include <errno.h>
#include <kymo/base.h>
#include <kymo/emit.h>

static void hold(struct ky_copy *copy, struct ky_slot_cursor *cursor, uint32_t offset,
		 uint64_t ticks)
{
	if (!cursor->hold_since_ns || cursor->hold_offset != offset) {
		cursor->hold_since_ns = copy->common->now_ns ? copy->common->now_ns : 1;
		cursor->hold_offset = offset;
	}
	if (copy->common->now_ns - cursor->hold_since_ns < KY_HOLD_MAX_NS &&
	    ticks < copy->hold_ticks)
		copy->hold_ticks = ticks;
}

static void detach(struct ky_slot_cursor *cursor)
{
	if (!cursor->thread)
		return;
	cursor->thread->cursor_count--;
	if (!cursor->is_complete && !cursor->is_parked && !cursor->thread->gap_cause)
		cursor->thread->gap_cause = KY_LOSS_OVERWRITTEN;
	cursor->thread = NULL;
}

/* It is not known any more what this slot holds; the thread's next slot says how much that
 * was. */
static void give_up(struct ky_copy *copy, struct ky_slot_cursor *cursor)
{
	copy->common->stats.slots_skipped_corrupt++;
	if (cursor->thread)
		cursor->thread->gap_cause = KY_LOSS_CORRUPT;
	cursor->is_complete = true;
}

static int queue_carried(struct ky_copy *copy, struct ky_dthread *thread,
			 const struct ky_slot_head *head)
{
	uint32_t depth = head->carried_depth < 255 ? head->carried_depth : 255;

	/* At least one record even for no open polls: it ends the gap. */
	for (uint32_t i = 0; i < KY_OPEN_DEPTH && (i == 0 || i < depth); i++) {
		uint64_t begin = head->carried[i].begin_ticks, ticks = thread->read_ticks;

		if (begin > ticks)
			begin = ticks;
		if (ky_copy_push(copy, thread, ticks, KY_REC_CARRIED, i,
				 head->carried[i].task_word) ||
		    ky_copy_push(copy, thread, begin, KY_REC_MORE, 0, depth))
			return -ENOMEM;
	}
	return 0;
}

/* The records that said it may lie in the gap. */
static int queue_worker(struct ky_copy *copy, struct ky_dthread *thread,
			const struct ky_slot_head *head)
{
	if (ky_copy_push(copy, thread, thread->read_ticks, KY_REC_WORKER, 0, head->worker_task) ||
	    ky_copy_push(copy, thread, head->worker_identity ? head->worker_runtime : 0,
			 KY_REC_MORE, 0, head->worker_identity))
		return -ENOMEM;
	if (head->worker_runtime && !head->worker_identity &&
	    ky_copy_push(copy, thread, thread->read_ticks, KYMO_RECORD_RUNTIME, 0,
			 head->worker_runtime))
		return -ENOMEM;
	return head->parked_on ? ky_copy_push(copy, thread, thread->read_ticks,
					      KYMO_RECORD_PARKED_ON, 0, head->parked_on) :
				 0;
}

/* A claim we have not seen: whose is it, and does it follow what we know? */
static int begin_slot(struct ky_copy *copy, struct ky_slot_cursor *cursor, uint32_t slot,
		      uint64_t number)
{
	struct ky_slot_head head;
	struct ky_dthread *thread;
	bool has_gap = false, is_first;
	int err = ky_ring_view_head(&copy->common->ring, slot, number, &head);

	if (err)
		return 0; /* taken again meanwhile: the next step sees the newer claim */
	detach(cursor);
	cursor->number = number;
	cursor->offset = KY_SLOT_HEADER_BYTES;
	cursor->hold_since_ns = 0;
	cursor->is_complete = false;
	cursor->is_parked = false;
	err = ky_thread_table_take(&copy->common->threads, head.thread, head.tid, &thread);
	if (err == -ENOMEM)
		return err;
	if (err) {
		give_up(copy, cursor);
		return 0;
	}
	cursor->thread = thread;
	thread->cursor_count++;
	thread->ended_closed = false;
	is_first = !thread->has_slot;
	if (is_first && !thread->start_ticks)
		thread->start_ticks = head.start_ticks;
	err = ky_gap_account(copy, thread, head.record_count, head.start_ticks, &has_gap);
	if (!err && has_gap)
		err = queue_worker(copy, thread, &head);
	if (!err && has_gap)
		err = queue_carried(copy, thread, &head);
	/* A change that came to light at this claim is reported nowhere else. */
	if (!err)
		err = ky_copy_push(copy, thread, thread->read_ticks, KY_REC_GATES, 0, head.gates);
	return err;
}

static int take_new(struct ky_copy *copy, struct ky_slot_cursor *cursor, uint32_t slot,
		    uint32_t offset)
{
	int count = ky_ring_view_copy(&copy->common->ring, slot, cursor->number, cursor->offset,
				      offset, copy->words);

	if (count == KYMO_E_AGAIN)
		return 0; /* overwritten under our eyes: the next step finds the gap */
	if (count < 0) {
		give_up(copy, cursor);
		return 0;
	}
	cursor->offset = offset;
	count = ky_parse_records(copy, cursor, (uint32_t)count);
	if (count == KYMO_E_CORRUPT)
		give_up(copy, cursor);
	return count == -ENOMEM ? count : 0;
}

int ky_slot_visit(struct ky_copy *copy, uint32_t slot, uint64_t claim)
{
	struct ky_slot_cursor *cursor = &copy->cursors[slot];
	uint64_t number = KY_CLAIM_NUMBER(claim);
	uint32_t state = KY_CLAIM_STATE(claim), offset;
	bool is_busy;
	int err = 0;

	if (!number || number > copy->claim_index)
		return 0;
	if (number != cursor->number) {
		if (state == KY_SLOT_FILLING) {
			hold(copy, cursor, 0, copy->common->late_ticks);
			return 0;
		}
		err = begin_slot(copy, cursor, slot, number);
		if (err || cursor->number != number)
			return err;
	}
	if (cursor->is_complete)
		return 0;
	/* The claim's state was read before the cursor: a closed slot's cursor is its last. */
	err = ky_ring_view_published(&copy->common->ring, slot, &is_busy, &offset);
	if (err || offset < cursor->offset) {
		give_up(copy, cursor);
		return 0;
	}
	if (offset > cursor->offset)
		err = take_new(copy, cursor, slot, offset);
	if (copy->common->is_cut && state == KY_SLOT_OPEN &&
	    ky_ring_view_state(&copy->common->ring, slot) & KY_STATE_WAS_BUSY && cursor->thread &&
	    cursor->thread->read_ticks < copy->common->busy_ticks)
		copy->common->busy_ticks = cursor->thread->read_ticks;
	cursor->is_parked = state == KY_SLOT_PARKED && cursor->offset == offset;
	if (state == KY_SLOT_OPEN && is_busy && !cursor->is_complete)
		hold(copy, cursor, offset, cursor->thread->read_ticks);
	else
		cursor->hold_since_ns = 0;
	if (state == KY_SLOT_CLOSED && cursor->offset == offset && !cursor->is_complete) {
		cursor->is_complete = true;
		cursor->thread->ended_closed = true;
		detach(cursor);
	}
	return err;
}
