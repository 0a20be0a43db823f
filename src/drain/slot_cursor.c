/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* From slots to queues: which slots may have something new, what is new in them, whose it is,
 * what is missing, and how far the merge may go.
 *
 * The order of readings makes the watermark right: anchor (drain.c), claim index, then for each
 * slot busy flag, cursor, records. A claim after the claim index we saw was made after the anchor,
 * so its stamps lie above T; a clear busy flag means that the records we copy are complete up
 * to T. */
#include <drain/copy_stage.h>

#include <base/alloc.h>
#include <base/testpoint.h>
#include <drain/ring_copy.h>
#include <errno.h>
#include <kymo/base.h>
#include <kymo/emit.h>
#include <stdlib.h>
#include <ring/ring_progress.h>
#include <string.h>
#include <wire/ring_record.h>

#define GAP_RECORDS_MAX ((uint64_t)1 << 48) /* more is not a count but garbage */
#define MEMORY_DEFAULT ((size_t)64 << 20)
#define BATCH_BYTES ((uint64_t)512 << 10) /* stays in the cache until it is merged */

/* Words of records that say neither whose they are nor what time it is, and have a fixed length;
 * 0: all others, also those there are not. */
static const uint8_t plain_words[256] = {
	[KYMO_RECORD_POLL_BEGIN] = 2,     [KYMO_RECORD_POLL_END] = 1,
	[KYMO_RECORD_WAKE] = 2,           [KYMO_RECORD_SPAWN] = 2,
	[KYMO_RECORD_TASK_END] = 2,       [KYMO_RECORD_PARK] = 1,
	[KYMO_RECORD_UNPARK] = 1,         [KYMO_RECORD_DRIVER_TURN] = 2,
	[KYMO_RECORD_WORKER_END] = 1,     [KYMO_RECORD_RUNTIME] = 2,
	[KYMO_RECORD_BLOCKING_BEGIN] = 2, [KYMO_RECORD_BLOCKING_END] = 1,
	[KYMO_RECORD_NOTIFY] = 2,         [KYMO_RECORD_WAKER_CLONE] = 2,
	[KYMO_RECORD_MARK] = 2,           [KYMO_RECORD_DROPPED] = 2,
	[KYMO_RECORD_GATES] = 2,          [KYMO_RECORD_WAIT] = 2,
	[KYMO_RECORD_ROOT_BEGIN] = 2,     [KYMO_RECORD_ROOT_END] = 2,
	[KYMO_RECORD_FAILED_CALLS] = 2};

static int push(struct ky_copy *copy, struct ky_dthread *thread, uint64_t ticks, uint32_t type,
		uint32_t arg, uint64_t a)
{
	return ky_queue_push(&thread->queue, &copy->common->threads.queues,
			     &(struct ky_rec){ticks, a, type, arg});
}

/* ---- one record after the other ---- */

static int queue_gap(struct ky_copy *copy, struct ky_dthread *thread, uint64_t ticks,
		     uint64_t count, uint32_t cause)
{
	uint64_t from = thread->has_slot ? thread->read_ticks : thread->start_ticks;

	if (push(copy, thread, ticks, KY_REC_GAP, cause, count) ||
	    push(copy, thread, from < ticks ? from : ticks, KY_REC_MORE, 0, 0))
		return -ENOMEM;
	return 0;
}

static int queue_horizon(struct ky_copy *copy, struct ky_dthread *thread, uint64_t ticks)
{
	uint64_t from = copy->common->horizon_ticks;

	if (thread->start_ticks > from)
		from = thread->start_ticks;
	if (push(copy, thread, ticks, KY_REC_GAP, KY_LOSS_HORIZON | KY_GAP_INEXACT, 0) ||
	    push(copy, thread, from < ticks ? from : ticks, KY_REC_MORE, 0, 0))
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
	if (push(copy, thread, ticks, KY_REC_GAP, KY_LOSS_OVERWRITTEN | KY_GAP_INEXACT, count) ||
	    push(copy, thread, from, KY_REC_MORE, 0, 0))
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

/* The thread says here how many records it has written: what we did not see is lost. */
static int account(struct ky_copy *copy, struct ky_dthread *thread, uint64_t record_count,
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

static int thread_change(struct ky_copy *copy, struct ky_slot_cursor *cursor, const uint64_t *words)
{
	struct ky_dthread *before = cursor->thread;
	struct ky_dthread *thread;
	bool has_gap;
	int err = ky_thread_table_take(&copy->common->threads, (uint32_t)(words[1] >> 32),
				       (uint32_t)words[1], &thread);

	if (err)
		return err == -ENOMEM ? err : KYMO_E_CORRUPT;
	if (before != thread) {
		before->cursor_count--;
		before->ended_closed = false;
		if (!before->exit_step) {
			before->exit_step = copy->common->step;
			before->exit_ticks = before->read_ticks;
		}
		thread->cursor_count++;
		cursor->thread = thread;
	}
	return account(copy, thread, words[3], words[2], &has_gap);
}

static int special(struct ky_copy *copy, struct ky_slot_cursor *cursor, const uint64_t *words,
		   uint32_t type)
{
	struct ky_dthread *thread = cursor->thread;
	struct ky_launch launch;
	int err = 0;

	if (type == KYMO_RECORD_THREAD_CHANGE) {
		err = thread_change(copy, cursor, words);
		cursor->thread->record_next++;
		copy->common->stats.records_read++;
		return err;
	}
	thread->record_next++;
	copy->common->stats.records_read++;
	if (type == KYMO_RECORD_TIME) {
		if (words[1] > thread->read_ticks)
			thread->read_ticks = words[1];
		return 0;
	}
	thread->read_ticks = ky_record_ticks(thread->read_ticks, words[0]);
	if (type == KYMO_RECORD_CUSTOM)
		return push(copy, thread, thread->read_ticks, type, (uint32_t)words[0] & 0xffffu,
			    words[1]);
	if (type == KYMO_RECORD_SPAN_BEGIN || type == KYMO_RECORD_SPAN_END)
		return push(copy, thread, thread->read_ticks, type, 0, words[1]) ||
				       push(copy, thread, words[2], KY_REC_MORE, 0, 0) ?
			       -ENOMEM :
			       0;
	if (type == KYMO_RECORD_POLL_COUNTS || type == KYMO_RECORD_POLL_COST)
		return push(copy, thread, thread->read_ticks, type, (uint32_t)words[0] & 0xffffu,
			    words[1]) ||
				       push(copy, thread, words[2], KY_REC_MORE, 0, words[3]) ?
			       -ENOMEM :
			       0;
	/* WORKER_BEGIN */
	launch = (struct ky_launch){words[2], words[3], words[1] >> 24, thread->read_ticks};
	if (ky_launch_note(&copy->common->launches, &launch) ||
	    push(copy, thread, thread->read_ticks, type, 0, words[1]) ||
	    push(copy, thread, words[2], KY_REC_MORE, 0, words[3]))
		err = -ENOMEM;
	return err;
}

/* Plain records straight into the queue, which has room. Returns words taken: up to the end, the
 * first special record, or the first that is none. */
static uint32_t parse_plain(struct ky_dthread *thread, const uint64_t *words, uint32_t count)
{
	struct ky_rec *to = thread->queue.recs + thread->queue.tail;
	const struct ky_rec *first = to;
	const uint64_t *at = words, *end = words + count;
	uint64_t last = thread->read_ticks;

	while (at < end) {
		uint64_t header = *at;
		uint32_t type = ky_record_type(header), length = plain_words[type];

		if (!length || (length == 2 && at + 1 == end))
			break;
		last = ky_record_ticks(last, header);
		to->ticks = last;
		to->type = type;
		to->arg = (uint32_t)header & 0xffffu;
		/* A branch, for it is predicted: added up, each step would wait for two loads. */
		if (length == 2) {
			to->a = at[1];
			at += 2;
		} else {
			to->a = 0;
			at++;
		}
		to++;
	}
	thread->queue.tail += (uint32_t)(to - first);
	thread->record_next += (uint64_t)(to - first);
	thread->read_ticks = last;
	return (uint32_t)(at - words);
}

/* Takes whole records from the copied words. Returns words taken; KYMO_E_CORRUPT; -ENOMEM. */
static int parse(struct ky_copy *copy, struct ky_slot_cursor *cursor, uint32_t count)
{
	const uint64_t *words = copy->words;
	uint32_t at = 0, length, before;
	int err;

	while (at < count) {
		struct ky_dthread *thread = cursor->thread;

		if (ky_queue_reserve(&thread->queue, &copy->common->threads.queues, count - at) !=
		    0)
			return -ENOMEM;
		before = thread->queue.tail;
		at += parse_plain(thread, words + at, count - at);
		copy->common->stats.records_read += thread->queue.tail - before;
		copy->common->threads.queues.waiting += thread->queue.tail - before;
		if (at == count)
			break;
		length = ky_record_words(words[at]);
		if (!length || length > count - at)
			return KYMO_E_CORRUPT;
		err = special(copy, cursor, words + at, ky_record_type(words[at]));
		if (err)
			return err;
		at += length;
	}
	return (int)at;
}

/* ---- slots ---- */

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
		if (push(copy, thread, ticks, KY_REC_CARRIED, i, head->carried[i].task_word) ||
		    push(copy, thread, begin, KY_REC_MORE, 0, depth))
			return -ENOMEM;
	}
	return 0;
}

/* The records that said it may lie in the gap. */
static int queue_worker(struct ky_copy *copy, struct ky_dthread *thread,
			const struct ky_slot_head *head)
{
	if (push(copy, thread, thread->read_ticks, KY_REC_WORKER, 0, head->worker_task) ||
	    push(copy, thread, head->worker_identity ? head->worker_runtime : 0, KY_REC_MORE, 0,
		 head->worker_identity))
		return -ENOMEM;
	if (head->worker_runtime && !head->worker_identity)
		return push(copy, thread, thread->read_ticks, KYMO_RECORD_RUNTIME, 0,
			    head->worker_runtime);
	return 0;
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
	err = account(copy, thread, head.record_count, head.start_ticks, &has_gap);
	if (!err && has_gap)
		err = queue_worker(copy, thread, &head);
	if (!err && has_gap)
		err = queue_carried(copy, thread, &head);
	/* A change that came to light at this claim is reported nowhere else. */
	if (!err)
		err = push(copy, thread, thread->read_ticks, KY_REC_GATES, 0, head.gates);
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
	count = parse(copy, cursor, (uint32_t)count);
	if (count == KYMO_E_CORRUPT)
		give_up(copy, cursor);
	return count == -ENOMEM ? count : 0;
}

static int visit(struct ky_copy *copy, uint32_t slot, uint64_t claim)
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

static void list_slot(struct ky_copy *copy, uint32_t slot, uint64_t expected)
{
	struct ky_slot_cursor *cursor = &copy->cursors[slot];

	if (expected > cursor->expected)
		cursor->expected = expected;
	if (cursor->is_listed)
		return;
	cursor->is_listed = true;
	copy->listed[copy->listed_count++] = slot;
}

/* Puts the slots on the list that were given out since the last step. */
static void list_claims(struct ky_copy *copy)
{
	const struct ky_ring_view *ring = &copy->common->ring;
	uint64_t from = copy->claim_index,
		 to = atomic_load_explicit(&ring->header->claim_index, memory_order_acquire);
	uint32_t usable = ky_ring_view_usable(ring), populated = ky_ring_view_populated(ring);

	if (usable > ring->slot_count)
		usable = ring->slot_count;
	copy->claim_index = to;
	if (!usable || to == from)
		return;
	/* The first reading, a whole round, or other slots than before: read every slot. */
	if (copy->common->step == 1 || to - from >= usable || to < from ||
	    usable != copy->usable_seen) {
		copy->has_lapped |= to - from > usable;
		copy->usable_seen = usable;
		for (uint32_t slot = 0; slot < populated; slot++) {
			uint64_t number = KY_CLAIM_NUMBER(ky_ring_view_claim(ring, slot));

			if (number > copy->cursors[slot].number)
				list_slot(copy, slot, number);
		}
		/* Claims under way have no mark yet: the last round of them is watched. */
		from = to > usable ? to - usable : 0;
	}
	for (uint64_t number = from; number < to; number++)
		list_slot(copy, (uint32_t)(number % usable), number + 1);
}

static int by_number(const void *a, const void *b)
{
	const struct ky_visit *left = a, *right = b;

	return left->number < right->number ? -1 : left->number > right->number;
}

static uint32_t plan_visits(struct ky_copy *copy)
{
	uint32_t populated = ky_ring_view_populated(&copy->common->ring), count = 0;

	for (uint32_t i = 0; i < copy->listed_count; i++) {
		uint32_t slot = copy->listed[i];

		if (slot >= populated)
			continue; /* given out, its pages not there yet */
		copy->visits[count++] = (struct ky_visit){
			KY_CLAIM_NUMBER(ky_ring_view_claim(&copy->common->ring, slot)), 0, 0, slot};
	}
	/* A thread's slots are claimed one after the other: claim order is its reading order. */
	for (uint32_t i = 1; i < count; i++) {
		if (copy->visits[i].number < copy->visits[i - 1].number) {
			qsort(copy->visits, count, sizeof(*copy->visits), by_number);
			break;
		}
	}
	return count;
}

/* A slot may have been given out before the plan was made and claimed since. Its thread may have
 * filled others before it that are not visited yet: they come first, or they would be reported as
 * lost. Returns true when another visit is at this place now. */
static bool postpone(struct ky_copy *copy, uint32_t at, uint32_t count, uint64_t number)
{
	struct ky_visit late = copy->visits[at];
	uint32_t to = at;

	if (number == late.number || number > copy->claim_index)
		return false;
	late.number = number;
	late.start_ticks = 0;
	for (; to + 1 < count && copy->visits[to + 1].number < number; to++)
		copy->visits[to] = copy->visits[to + 1];
	copy->visits[to] = late;
	return to > at;
}

static void unlist_finished(struct ky_copy *copy)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < copy->listed_count; i++) {
		uint32_t slot = copy->listed[i];
		struct ky_slot_cursor *cursor = &copy->cursors[slot];

		if (cursor->is_complete && cursor->number >= cursor->expected)
			cursor->is_listed = false;
		else
			copy->listed[kept++] = slot;
	}
	copy->listed_count = kept;
}

/* ---- memory ---- */

/* The beginning of a slot that is not visited yet. Asked once: all that are left are read for
 * every batch, and each is a miss of the cache. */
static uint64_t start_of(const struct ky_copy *copy, struct ky_visit *visit)
{
	struct ky_slot_head head;

	if (!visit->start_ticks)
		visit->start_ticks = ky_ring_view_head(&copy->common->ring, visit->slot,
						       visit->number, &head) == 0 ?
					     head.start_ticks :
					     UINT64_MAX;
	return visit->start_ticks;
}

static void find_floors(struct ky_copy *copy, uint32_t from, uint32_t count)
{
	uint64_t floor = UINT64_MAX;

	for (uint32_t i = count; i-- > from;) {
		struct ky_visit *next = &copy->visits[i];
		const struct ky_slot_cursor *cursor = &copy->cursors[next->slot];

		if (cursor->thread && !cursor->is_complete && cursor->number == next->number) {
			if (cursor->thread->read_ticks < floor)
				floor = cursor->thread->read_ticks;
		} else if (next->number &&
			   !(cursor->is_complete && cursor->number == next->number) &&
			   start_of(copy, next) < floor) {
			floor = next->start_ticks;
		}
		next->floor_ticks = floor;
	}
}

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

uint64_t ky_copy_floor(struct ky_copy *copy)
{
	uint64_t floor = UINT64_MAX;

	find_floors(copy, copy->visit_at, copy->visit_count);
	if (copy->visit_at < copy->visit_count)
		floor = copy->visits[copy->visit_at].floor_ticks;
	return floor ? floor - 1 : 0;
}

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
	list_claims(copy);
	copy->visit_at = 0;
	copy->visit_count = plan_visits(copy);
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

		if (postpone(copy, *at, copy->visit_count, KY_CLAIM_NUMBER(claim)))
			continue;
		if (waiting_bytes(copy) > copy->relieved_at + batch)
			return KY_COPY_FULL;
		err = visit(copy, copy->visits[(*at)++].slot, claim);
	}
	copy->reading_step = 0;
	unlist_finished(copy);
	end_of_flight(copy);
	return err;
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
		if (push(copy, thread, ticks, KY_REC_EXIT, 0, 0) != 0)
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
