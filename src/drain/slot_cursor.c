/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* From slots to queues: which slots may have something new, what is new in them, whose it is,
 * what is missing, and how far the merge may go.
 *
 * The order of looks is what makes the watermark right: anchor (drain.c), hand, then for each
 * slot busy flag, cursor, records. A claim behind the hand we saw was made after the anchor,
 * so its stamps lie above T; a clear busy flag means that the records we copy are complete up
 * to T. */
#include <drain/drain_state.h>

#include <base/alloc.h>
#include <base/testpoint.h>
#include <drain/ring_copy.h>
#include <errno.h>
#include <kymo/base.h>
#include <kymo/emit.h>
#include <stdlib.h>
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
};

/* Room for so many records. */
static int reserve(struct ky_drain *drain, struct ky_dthread *thread, uint32_t count)
{
	uint32_t waiting = thread->tail - thread->head;
	uint32_t capacity = thread->capacity ? thread->capacity * 2 : 64;
	struct ky_rec *recs;

	if (thread->capacity - thread->tail >= count)
		return 0;
	while (capacity - thread->tail < count)
		capacity *= 2;
	if (thread->head && waiting < thread->capacity / 2 && thread->capacity - waiting >= count) {
		memmove(thread->recs, thread->recs + thread->head, waiting * sizeof(*recs));
		thread->head = 0;
		thread->tail = waiting;
		return 0;
	}
	recs = ky_realloc(thread->recs, (size_t)capacity * sizeof(*recs));
	if (!recs) {
		drain->is_out_of_memory = true;
		return -ENOMEM;
	}
	drain->queued_bytes += (uint64_t)(capacity - thread->capacity) * sizeof(*recs);
	thread->recs = recs;
	thread->capacity = capacity;
	return 0;
}

int ky_drain_queue(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ticks, uint32_t type,
		   uint32_t arg, uint64_t a)
{
	if (reserve(drain, thread, 1) != 0)
		return -ENOMEM;
	thread->recs[thread->tail++] = (struct ky_rec){ticks, a, type, arg};
	drain->waiting++;
	return 0;
}

/* ---- one record after the other ---- */

static int queue_gap(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ticks,
		     uint64_t count, uint32_t cause)
{
	uint64_t from = thread->has_slot ? thread->read_ticks : thread->start_ticks;

	if (ky_drain_queue(drain, thread, ticks, KY_REC_GAP, cause, count) ||
	    ky_drain_queue(drain, thread, from < ticks ? from : ticks, KY_REC_MORE, 0, 0))
		return -ENOMEM;
	return 0;
}

static int queue_horizon(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ticks)
{
	uint64_t from = drain->horizon_ticks;

	if (thread->start_ticks > from)
		from = thread->start_ticks;
	if (ky_drain_queue(drain, thread, ticks, KY_REC_GAP, KY_LOSS_HORIZON | KY_GAP_INEXACT, 0) ||
	    ky_drain_queue(drain, thread, from < ticks ? from : ticks, KY_REC_MORE, 0, 0))
		return -ENOMEM;
	return 0;
}

/* Whether what is missing of the thread was overwritten while nobody was to write it: before the
 * first look at a ring in flight, or before a stream was taken up again. */
static bool is_flown(const struct ky_drain *drain, const struct ky_dthread *thread)
{
	uint64_t from = thread->has_slot ? thread->read_ticks : thread->start_ticks;

	if (drain->is_cut)
		return false;
	if (drain->step == 1)
		return !thread->has_slot && drain->ring.flags & KY_RING_FLIGHT;
	if (drain->step == drain->back_step)
		return true;
	return thread->back_step < drain->back_step && from < drain->back_ticks;
}

/* The thread says here how many records it has written: what we did not see is lost. */
static int account(struct ky_drain *drain, struct ky_dthread *thread, uint64_t record_count,
		   uint64_t ticks, bool *has_gap)
{
	uint64_t missing = record_count - thread->record_next;
	uint32_t cause = thread->gap_cause ? thread->gap_cause : KY_LOSS_OVERWRITTEN;
	/* A cut begins somewhere: what came before was never promised. */
	bool is_horizon = drain->is_cut && !thread->has_slot && drain->step == 1;

	if (cause == KY_LOSS_OVERWRITTEN && is_flown(drain, thread))
		cause = KY_LOSS_FLIGHT;
	*has_gap = thread->gap_cause != KY_LOSS_NONE || record_count != thread->record_next;
	thread->gap_cause = KY_LOSS_NONE;
	if (ticks < thread->read_ticks)
		ticks = thread->read_ticks;
	if (record_count > thread->record_next && missing <= GAP_RECORDS_MAX) {
		if (is_horizon)
			missing = 0;
		/* The thread's part of the trace begins later than the trace. */
		if (is_horizon && ticks > drain->horizon_ticks &&
		    queue_horizon(drain, thread, ticks))
			return -ENOMEM;
		drain->has_flown |= cause == KY_LOSS_FLIGHT;
		if (cause == KY_LOSS_FLIGHT && ticks > drain->flown_ticks)
			drain->flown_ticks = ticks;
		if (cause == KY_LOSS_FLIGHT)
			drain->stats.records_flown += missing;
		else
			drain->stats.records_lost += missing;
		if (missing && queue_gap(drain, thread, ticks, missing, cause))
			return -ENOMEM;
	}
	thread->record_next = record_count;
	thread->read_ticks = ticks;
	thread->has_slot = true;
	return 0;
}

static int thread_change(struct ky_drain *drain, struct ky_slot_cursor *cursor,
			 const uint64_t *words)
{
	struct ky_dthread *before = cursor->thread;
	struct ky_dthread *thread = ky_drain_thread(drain, (uint32_t)(words[1] >> 32),
						    (uint32_t)words[1]);
	bool has_gap;

	if (!thread)
		return drain->is_out_of_memory ? -ENOMEM : KYMO_E_CORRUPT;
	if (before != thread) {
		before->cursor_count--;
		before->ended_closed = false;
		if (!before->exit_step) {
			before->exit_step = drain->step;
			before->exit_ticks = before->read_ticks;
		}
		thread->cursor_count++;
		cursor->thread = thread;
	}
	return account(drain, thread, words[3], words[2], &has_gap);
}

static int special(struct ky_drain *drain, struct ky_slot_cursor *cursor, const uint64_t *words,
		   uint32_t type)
{
	struct ky_dthread *thread = cursor->thread;
	int err = 0;

	if (type == KYMO_RECORD_THREAD_CHANGE) {
		err = thread_change(drain, cursor, words);
		cursor->thread->record_next++;
		drain->stats.records_read++;
		return err;
	}
	thread->record_next++;
	drain->stats.records_read++;
	if (type == KYMO_RECORD_TIME) {
		if (words[1] > thread->read_ticks)
			thread->read_ticks = words[1];
		return 0;
	}
	thread->read_ticks = ky_record_ticks(thread->read_ticks, words[0]);
	if (type == KYMO_RECORD_CUSTOM)
		return ky_drain_queue(drain, thread, thread->read_ticks, type,
				      (uint32_t)words[0] & 0xffffu, words[1]);
	if (type == KYMO_RECORD_SPAN_BEGIN || type == KYMO_RECORD_SPAN_END)
		return ky_drain_queue(drain, thread, thread->read_ticks, type, 0, words[1]) ||
				       ky_drain_queue(drain, thread, words[2], KY_REC_MORE, 0, 0) ?
			       -ENOMEM :
			       0;
	/* WORKER_BEGIN */
	if (ky_drain_note_launch(drain, words[2], words[3], words[1] >> 24, thread->read_ticks) ||
	    ky_drain_queue(drain, thread, thread->read_ticks, type, 0, words[1]) ||
	    ky_drain_queue(drain, thread, words[2], KY_REC_MORE, 0, words[3]))
		err = -ENOMEM;
	return err;
}

/* Plain records straight into the queue, which has room. Returns words taken: up to the end, the
 * first special record, or the first that is none. */
static uint32_t parse_plain(struct ky_dthread *thread, const uint64_t *words, uint32_t count)
{
	struct ky_rec *to = thread->recs + thread->tail;
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
	thread->tail += (uint32_t)(to - first);
	thread->record_next += (uint64_t)(to - first);
	thread->read_ticks = last;
	return (uint32_t)(at - words);
}

/* Takes whole records from the copied words. Returns words taken; KYMO_E_CORRUPT; -ENOMEM. */
static int parse(struct ky_drain *drain, struct ky_slot_cursor *cursor, uint32_t count)
{
	const uint64_t *words = drain->words;
	uint32_t at = 0, length, before;
	int err;

	while (at < count) {
		struct ky_dthread *thread = cursor->thread;

		if (reserve(drain, thread, count - at) != 0)
			return -ENOMEM;
		before = thread->tail;
		at += parse_plain(thread, words + at, count - at);
		drain->stats.records_read += thread->tail - before;
		drain->waiting += thread->tail - before;
		if (at == count)
			break;
		length = ky_record_words(words[at]);
		if (!length || length > count - at)
			return KYMO_E_CORRUPT;
		err = special(drain, cursor, words + at, ky_record_type(words[at]));
		if (err)
			return err;
		at += length;
	}
	return (int)at;
}

/* ---- slots ---- */

static void hold(struct ky_drain *drain, struct ky_slot_cursor *cursor, uint32_t offset,
		 uint64_t ticks)
{
	if (!cursor->hold_since_ns || cursor->hold_offset != offset) {
		cursor->hold_since_ns = drain->now_ns ? drain->now_ns : 1;
		cursor->hold_offset = offset;
	}
	if (drain->now_ns - cursor->hold_since_ns < KY_HOLD_MAX_NS && ticks < drain->hold_ticks)
		drain->hold_ticks = ticks;
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

/* Nobody can be told any more what this slot holds; the thread's next slot says how much that
 * was. */
static void give_up(struct ky_drain *drain, struct ky_slot_cursor *cursor)
{
	drain->stats.slots_skipped_corrupt++;
	if (cursor->thread)
		cursor->thread->gap_cause = KY_LOSS_CORRUPT;
	cursor->is_complete = true;
}

static int queue_carried(struct ky_drain *drain, struct ky_dthread *thread,
			 const struct ky_slot_head *head)
{
	uint32_t depth = head->carried_depth < 255 ? head->carried_depth : 255;

	/* At least one record even for no open polls: it ends the gap. */
	for (uint32_t i = 0; i < KY_OPEN_DEPTH && (i == 0 || i < depth); i++) {
		uint64_t begin = head->carried[i].begin_ticks, ticks = thread->read_ticks;

		if (begin > ticks)
			begin = ticks;
		if (ky_drain_queue(drain, thread, ticks, KY_REC_CARRIED, i,
				   head->carried[i].task_word) ||
		    ky_drain_queue(drain, thread, begin, KY_REC_MORE, 0, depth))
			return -ENOMEM;
	}
	return 0;
}

/* The records that said it may lie in the gap. */
static int queue_worker(struct ky_drain *drain, struct ky_dthread *thread,
			const struct ky_slot_head *head)
{
	if (!head->worker_runtime)
		return 0;
	if (!head->worker_identity)
		return ky_drain_queue(drain, thread, thread->read_ticks, KYMO_RECORD_RUNTIME, 0,
				      head->worker_runtime);
	if (ky_drain_queue(drain, thread, thread->read_ticks, KY_REC_WORKER, 0,
			   head->worker_task) ||
	    ky_drain_queue(drain, thread, head->worker_runtime, KY_REC_MORE, 0,
			   head->worker_identity))
		return -ENOMEM;
	return 0;
}

/* A claim we have not seen: whose is it, and does it follow what we know? */
static int begin_slot(struct ky_drain *drain, struct ky_slot_cursor *cursor, uint32_t slot,
		      uint64_t number)
{
	struct ky_slot_head head;
	struct ky_dthread *thread;
	bool has_gap = false, is_first;
	int err = ky_ring_view_head(&drain->ring, slot, number, &head);

	if (err)
		return 0; /* taken again meanwhile: the next step sees the newer claim */
	detach(cursor);
	cursor->number = number;
	cursor->offset = KY_SLOT_HEADER_BYTES;
	cursor->hold_since_ns = 0;
	cursor->is_complete = false;
	cursor->is_parked = false;
	thread = ky_drain_thread(drain, head.thread, head.tid);
	if (!thread) {
		if (drain->is_out_of_memory)
			return -ENOMEM;
		give_up(drain, cursor);
		return 0;
	}
	cursor->thread = thread;
	thread->cursor_count++;
	thread->ended_closed = false;
	is_first = !thread->has_slot;
	if (is_first && !thread->start_ticks)
		thread->start_ticks = head.start_ticks;
	err = account(drain, thread, head.record_count, head.start_ticks, &has_gap);
	if (!err && has_gap)
		err = queue_worker(drain, thread, &head);
	if (!err && has_gap)
		err = queue_carried(drain, thread, &head);
	/* A change that came to light at this claim is told nowhere else. */
	if (!err)
		err = ky_drain_queue(drain, thread, thread->read_ticks, KY_REC_GATES, 0,
				     head.gates);
	return err;
}

static int take_new(struct ky_drain *drain, struct ky_slot_cursor *cursor, uint32_t slot,
		    uint32_t offset)
{
	int count = ky_ring_view_copy(&drain->ring, slot, cursor->number, cursor->offset, offset,
				      drain->words);

	if (count == KYMO_E_AGAIN)
		return 0; /* overwritten under our eyes: the next step finds the gap */
	if (count < 0) {
		give_up(drain, cursor);
		return 0;
	}
	cursor->offset = offset;
	count = parse(drain, cursor, (uint32_t)count);
	if (count == KYMO_E_CORRUPT)
		give_up(drain, cursor);
	return count == -ENOMEM ? count : 0;
}

static int visit(struct ky_drain *drain, uint32_t slot, uint64_t claim)
{
	struct ky_slot_cursor *cursor = &drain->cursors[slot];
	uint64_t number = KY_CLAIM_NUMBER(claim);
	uint32_t state = KY_CLAIM_STATE(claim), offset;
	bool is_busy;
	int err = 0;

	if (!number || number > drain->hand)
		return 0;
	if (number != cursor->number) {
		if (state == KY_SLOT_FILLING) {
			hold(drain, cursor, 0, drain->through_before);
			return 0;
		}
		err = begin_slot(drain, cursor, slot, number);
		if (err || cursor->number != number)
			return err;
	}
	if (cursor->is_complete)
		return 0;
	/* The claim's state was read before the cursor: a closed slot's cursor is its last. */
	err = ky_ring_view_published(&drain->ring, slot, &is_busy, &offset);
	if (err || offset < cursor->offset) {
		give_up(drain, cursor);
		return 0;
	}
	if (offset > cursor->offset)
		err = take_new(drain, cursor, slot, offset);
	if (drain->is_cut && state == KY_SLOT_OPEN &&
	    ky_ring_view_state(&drain->ring, slot) & KY_STATE_WAS_BUSY && cursor->thread &&
	    cursor->thread->read_ticks < drain->busy_ticks)
		drain->busy_ticks = cursor->thread->read_ticks;
	cursor->is_parked = state == KY_SLOT_PARKED && cursor->offset == offset;
	if (state == KY_SLOT_OPEN && is_busy && !cursor->is_complete)
		hold(drain, cursor, offset, cursor->thread->read_ticks);
	else
		cursor->hold_since_ns = 0;
	if (state == KY_SLOT_CLOSED && cursor->offset == offset && !cursor->is_complete) {
		cursor->is_complete = true;
		cursor->thread->ended_closed = true;
		detach(cursor);
	}
	return err;
}

static void list_slot(struct ky_drain *drain, uint32_t slot, uint64_t expected)
{
	struct ky_slot_cursor *cursor = &drain->cursors[slot];

	if (expected > cursor->expected)
		cursor->expected = expected;
	if (cursor->is_listed)
		return;
	cursor->is_listed = true;
	drain->listed[drain->listed_count++] = slot;
}

/* Puts the slots on the list that were handed out since the last step. */
static void list_claims(struct ky_drain *drain)
{
	const struct ky_ring_view *ring = &drain->ring;
	uint64_t from = drain->hand,
		 to = atomic_load_explicit(&ring->header->hand, memory_order_acquire);
	uint32_t usable = ky_ring_view_usable(ring), populated = ky_ring_view_populated(ring);

	if (usable > ring->slot_count)
		usable = ring->slot_count;
	drain->hand = to;
	if (!usable || to == from)
		return;
	/* The first look, a whole round, or other slots than before: look at every slot. */
	if (drain->step == 1 || to - from >= usable || to < from || usable != drain->usable_seen) {
		drain->has_lapped |= to - from > usable;
		drain->usable_seen = usable;
		for (uint32_t slot = 0; slot < populated; slot++) {
			uint64_t number = KY_CLAIM_NUMBER(ky_ring_view_claim(ring, slot));

			if (number > drain->cursors[slot].number)
				list_slot(drain, slot, number);
		}
		/* Claims under way have no mark yet: the last round of them is watched. */
		from = to > usable ? to - usable : 0;
	}
	for (uint64_t number = from; number < to; number++)
		list_slot(drain, (uint32_t)(number % usable), number + 1);
}

static int by_number(const void *a, const void *b)
{
	const struct ky_visit *left = a, *right = b;

	return left->number < right->number ? -1 : left->number > right->number;
}

static uint32_t plan_visits(struct ky_drain *drain)
{
	uint32_t populated = ky_ring_view_populated(&drain->ring), count = 0;

	for (uint32_t i = 0; i < drain->listed_count; i++) {
		uint32_t slot = drain->listed[i];

		if (slot >= populated)
			continue; /* handed out, its pages not there yet */
		drain->visits[count++] = (struct ky_visit){
			KY_CLAIM_NUMBER(ky_ring_view_claim(&drain->ring, slot)), 0, 0, slot};
	}
	/* A thread's slots are claimed one after the other: claim order is its reading order. */
	for (uint32_t i = 1; i < count; i++) {
		if (drain->visits[i].number < drain->visits[i - 1].number) {
			qsort(drain->visits, count, sizeof(*drain->visits), by_number);
			break;
		}
	}
	return count;
}

/* A slot may have been handed out before the plan was made and claimed since. Its thread may have
 * filled others before it that are not visited yet: they come first, or they would be told as
 * lost. Returns true when another visit is at this place now. */
static bool postpone(struct ky_drain *drain, uint32_t at, uint32_t count, uint64_t number)
{
	struct ky_visit late = drain->visits[at];
	uint32_t to = at;

	if (number == late.number || number > drain->hand)
		return false;
	late.number = number;
	late.start_ticks = 0;
	for (; to + 1 < count && drain->visits[to + 1].number < number; to++)
		drain->visits[to] = drain->visits[to + 1];
	drain->visits[to] = late;
	return to > at;
}

static void unlist_finished(struct ky_drain *drain)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < drain->listed_count; i++) {
		uint32_t slot = drain->listed[i];
		struct ky_slot_cursor *cursor = &drain->cursors[slot];

		if (cursor->is_complete && cursor->number >= cursor->expected)
			cursor->is_listed = false;
		else
			drain->listed[kept++] = slot;
	}
	drain->listed_count = kept;
}

/* ---- memory ---- */

/* The beginning of a slot that is not visited yet. Asked once: all that are left are looked at for
 * every batch, and each is a miss of the cache. */
static uint64_t start_of(const struct ky_drain *drain, struct ky_visit *visit)
{
	struct ky_slot_head head;

	if (!visit->start_ticks)
		visit->start_ticks = ky_ring_view_head(&drain->ring, visit->slot, visit->number,
						       &head) == 0 ?
					     head.start_ticks :
					     UINT64_MAX;
	return visit->start_ticks;
}

static void find_floors(struct ky_drain *drain, uint32_t from, uint32_t count)
{
	uint64_t floor = UINT64_MAX;

	for (uint32_t i = count; i-- > from;) {
		struct ky_visit *next = &drain->visits[i];
		const struct ky_slot_cursor *cursor = &drain->cursors[next->slot];

		if (cursor->thread && !cursor->is_complete && cursor->number == next->number) {
			if (cursor->thread->read_ticks < floor)
				floor = cursor->thread->read_ticks;
		} else if (next->number &&
			   !(cursor->is_complete && cursor->number == next->number) &&
			   start_of(drain, next) < floor) {
			floor = next->start_ticks;
		}
		next->floor_ticks = floor;
	}
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t waiting_bytes(const struct ky_drain *drain)
{
	return drain->waiting * sizeof(struct ky_rec);
}

/* Queues are kept for reuse; those that grew large and are empty now are given back. */
static void give_back(struct ky_drain *drain)
{
	for (uint32_t i = 0; i < drain->thread_count; i++) {
		struct ky_dthread *thread = drain->threads[i];

		if (thread->head < thread->tail || thread->capacity < 1024)
			continue;
		drain->queued_bytes -= (uint64_t)thread->capacity * sizeof(*thread->recs);
		ky_free(thread->recs);
		thread->recs = NULL;
		thread->head = thread->tail = thread->capacity = 0;
	}
}

/* A batch is waiting: merges what no unread slot can precede while it is still in the cache.
 * Only when memory is short, too, what busy threads could precede, and then everything (late
 * ones are counted). */
static int relieve(struct ky_drain *drain, uint32_t at, uint32_t count)
{
	uint64_t budget = drain->options.memory_bytes_max;
	uint64_t floor, limit = drain->is_final ? UINT64_MAX : drain->through_ticks;
	int err;

	find_floors(drain, at, count);
	floor = at < count ? drain->visits[at].floor_ticks : UINT64_MAX;
	floor = least(floor ? floor - 1 : 0, limit);
	err = ky_drain_read_directory(drain);
	if (!err)
		err = ky_drain_merge(drain, least(least(floor, drain->hold_ticks),
						  ky_drain_settle_ticks(drain) - 1));
	if (!err && waiting_bytes(drain) > budget)
		err = ky_drain_merge(drain, floor);
	if (!err && waiting_bytes(drain) > budget)
		err = ky_drain_merge(drain, limit);
	if (drain->queued_bytes > budget)
		give_back(drain);
	return err;
}

/* What a thread with a slot misses from now on was not overwritten in flight. */
static void end_of_flight(struct ky_drain *drain)
{
	for (uint32_t i = 0; drain->step == drain->back_step && i < drain->thread_count; i++)
		if (drain->threads[i]->cursor_count)
			drain->threads[i]->back_step = drain->step;
}

int ky_drain_read(struct ky_drain *drain)
{
	uint64_t batch = BATCH_BYTES, relieved_at = 0;
	uint32_t count;
	int err = 0;

	if (!drain->options.memory_bytes_max)
		drain->options.memory_bytes_max = MEMORY_DEFAULT;
	if (batch > drain->options.memory_bytes_max / 2)
		batch = drain->options.memory_bytes_max / 2;
	drain->hold_ticks = UINT64_MAX;
	list_claims(drain);
	count = plan_visits(drain);
	KY_TESTPOINT("drain.planned");
	for (uint32_t i = 0; i < count && !err;) {
		uint64_t claim = ky_ring_view_claim(&drain->ring, drain->visits[i].slot);

		if (postpone(drain, i, count, KY_CLAIM_NUMBER(claim)))
			continue;
		if (waiting_bytes(drain) > relieved_at + batch) {
			err = relieve(drain, i, count);
			relieved_at = waiting_bytes(drain);
		}
		if (!err)
			err = visit(drain, drain->visits[i++].slot, claim);
	}
	unlist_finished(drain);
	end_of_flight(drain);
	return err;
}

/* The last that is known of it: a thread without a sub-buffer has its start and its end only. */
static uint64_t latest_ticks(const struct ky_dthread *thread)
{
	uint64_t ticks = thread->read_ticks > thread->exit_ticks ? thread->read_ticks :
								   thread->exit_ticks;

	return ticks > thread->start_ticks ? ticks : thread->start_ticks;
}

void ky_drain_close_gaps(struct ky_drain *drain)
{
	bool has_no_slot = atomic_load_explicit(&drain->ring.header->dropped_no_slot_count,
						memory_order_relaxed) > 0;

	for (uint32_t i = 0; i < drain->thread_count; i++) {
		struct ky_dthread *thread = drain->threads[i];
		uint32_t cause = thread->gap_cause ? thread->gap_cause : KY_LOSS_OVERWRITTEN;
		bool is_unseen = !thread->has_slot && drain->has_lapped && !drain->is_cut;
		bool has_vanished = thread->ended_closed && !thread->cursor_count &&
				    drain->has_lapped && !thread->exit_step;

		if (!thread->gap_cause && !is_unseen && !has_vanished)
			continue;
		thread->gap_cause = KY_LOSS_NONE;
		thread->ended_closed = false;
		if (is_unseen && has_no_slot)
			cause = KY_LOSS_NO_SLOT;
		/* A lower bound: a thread that was announced has written at least once, unless it
		 * found no room, which the header has counted. */
		is_unseen = is_unseen && !has_no_slot;
		queue_gap(drain, thread, latest_ticks(thread), is_unseen, cause | KY_GAP_INEXACT);
		drain->stats.records_lost += is_unseen;
		thread->has_slot = true;
	}
}
