/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the inline path declines: first event, full sub-buffer, epoch change, nested polls, clock of
 * the OS, signal handlers inside an event, forked children, exited threads. */
#include <record/emit/emit_engine.h>

#include <base/testpoint.h>
#include <errno.h>
#include <record/emit/usdt.h>
#include <string.h>

#define BACKOFF_MAX 1024u
#define DEPTH_ONE 0x100u
#define DEPTH_MAX 0xff00u
#define TIME_WORDS 2u

static void count_drop(struct ky_thread *thread, enum kymo_drop_cause cause)
{
	struct ky_ring *ring = thread ? thread->ring :
					__atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);
	struct ky_ring_header *header = ring->header;
	_Atomic uint64_t *word[] = {&header->dropped_signal_count, &header->dropped_no_slot_count,
				    &header->dropped_no_state_count, &header->dropped_exited_count};

	atomic_fetch_add_explicit(&header->dropped_count, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(word[cause - 1], 1, memory_order_relaxed);
	if (!thread)
		return;
	__atomic_fetch_add(&thread->pending[cause - 1], 1, __ATOMIC_RELAXED);
	/* The next event takes the slow path and reports. */
	__atomic_store_n(&thread->hot.limit, NULL, __ATOMIC_RELAXED);
}

static bool has_pending(const struct ky_thread *thread)
{
	uint32_t any = 0;

	for (int i = 0; i < 4; i++)
		any |= __atomic_load_n(&thread->pending[i], __ATOMIC_RELAXED);
	return any != 0;
}

static void set_limit(struct ky_thread *thread, bool is_traced)
{
	uint64_t *limit = NULL;

	if (!is_traced)
		thread->traced = 0; /* the fast path will not say when those polls end */
	if (thread->hot.sub && !thread->ring->clock.is_os && !is_traced)
		limit = thread->hot.end - (KY_FAST_WORDS_MAX - 1);
	/* All four accesses, ours and those of ky_engine_stop(), are in one order: either we see
	 * its phase, or it clears our limit after us. A handler that dropped an event in between is
	 * seen by has_pending(). */
	__atomic_store_n(&thread->hot.limit, limit, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&ky_engine.phase, __ATOMIC_SEQ_CST) != KY_LIVE || has_pending(thread))
		__atomic_store_n(&thread->hot.limit, NULL, __ATOMIC_RELAXED);
}

/* Room for this many words and a TIME record, in the open sub-buffer or the next one. */
static bool make_room(struct ky_thread *thread, uint32_t words)
{
	if (thread->hot.sub && (size_t)(thread->hot.end - thread->hot.cursor) >= words + TIME_WORDS)
		return true;
	if (thread->backoff_left) {
		thread->backoff_left--;
		return false;
	}
	if (ky_slot_next(thread)) {
		thread->backoff = 0;
		ky_engine_follow_settings();
		return true;
	}
	/* Everything is open: scanning again for each event would cost the host more than it
	 * reports. */
	thread->backoff = thread->backoff ? thread->backoff * 2 : 8;
	if (thread->backoff > BACKOFF_MAX)
		thread->backoff = BACKOFF_MAX;
	thread->backoff_left = thread->backoff;
	return false;
}

static void put(struct ky_thread *thread, uint64_t ticks, uint32_t record, uint32_t arg,
		uint32_t words, const uint64_t *payload)
{
	uint64_t *at = thread->hot.cursor;

	for (uint32_t i = 0; i < words; i++)
		__atomic_store_n(&at[1 + i], payload[i], __ATOMIC_RELAXED);
	__atomic_store_n(&at[0], kymo_header_word(ticks, record, arg), __ATOMIC_RELAXED);
	thread->hot.cursor = at + 1 + words;
	thread->hot.record_count++;
	KY_TESTPOINT("slow.before_publish");
	/* Pairs with the reader's acquire of `published`. */
	__atomic_store_n(&thread->hot.sub->published, (uint32_t)(uintptr_t)thread->hot.cursor,
			 __ATOMIC_RELEASE);
}

/* One record with its stamp; a TIME record first when the stamp's base moved on. room: made
 * already. */
static uint64_t write_record(struct ky_thread *thread, uint32_t record, uint32_t arg,
			     uint32_t words, const uint64_t *payload)
{
	uint32_t open = thread->hot.flags & ~1u;
	uint64_t ticks;

	__atomic_store_n(&thread->hot.sub->state, open | 1u, __ATOMIC_RELAXED);
	ticks = ky_clock_ticks(&thread->ring->clock);
	if ((uint32_t)(ticks >> 32) != thread->hot.epoch) {
		thread->hot.epoch = (uint32_t)(ticks >> 32);
		put(thread, ticks, KYMO_RECORD_TIME, 0, 1, &ticks);
	}
	if (record == KYMO_RECORD_POLL_BEGIN && open >> 8 < KY_OPEN_DEPTH) {
		__atomic_store_n(&thread->hot.sub->open[open >> 8].task_word, payload[0],
				 __ATOMIC_RELAXED);
		__atomic_store_n(&thread->hot.sub->open[open >> 8].begin_ticks, ticks,
				 __ATOMIC_RELAXED);
	}
	put(thread, ticks, record, arg, words, payload);
	return ticks;
}

/* What a reader must know before the next record of this thread: drops, changed gates. */
static void emit_changes(struct ky_thread *thread)
{
	uint32_t gates = __atomic_load_n(&kymo_control.gates, __ATOMIC_RELAXED);
	uint64_t word = gates;

	if (!has_pending(thread) && gates == thread->gates_seen)
		return;
	for (uint32_t cause = 0; cause < 4; cause++) {
		if (!__atomic_load_n(&thread->pending[cause], __ATOMIC_RELAXED) ||
		    !make_room(thread, 2))
			continue;
		word = __atomic_exchange_n(&thread->pending[cause], 0, __ATOMIC_RELAXED);
		write_record(thread, KYMO_RECORD_DROPPED, cause + 1, 1, &word);
	}
	word = gates;
	if (gates != thread->gates_seen && make_room(thread, 2)) {
		/* make_room() may have claimed a slot whose header says it already. */
		if (gates != thread->gates_seen)
			write_record(thread, KYMO_RECORD_GATES, 0, 1, &word);
		thread->gates_seen = gates;
	}
}

/* Whether this event belongs to a poll whose begin was dropped; keeps the count of those. */
static bool is_unrecorded(struct ky_thread *thread, uint32_t record)
{
	if (record == KYMO_RECORD_POLL_BEGIN &&
	    (thread->unrecorded || (thread->hot.flags & DEPTH_MAX) == DEPTH_MAX)) {
		thread->unrecorded++;
		count_drop(thread, KYMO_DROP_NO_STATE);
		return true;
	}
	if (record == KYMO_RECORD_POLL_END && thread->unrecorded) {
		thread->unrecorded--;
		count_drop(thread, KYMO_DROP_NO_STATE);
		return true;
	}
	return false;
}

/* What the headers of later sub-buffers say: whose worker this thread is. */
static void note_worker(struct ky_thread *thread, uint32_t record, const uint64_t *payload)
{
	if (record == KYMO_RECORD_WORKER_BEGIN) {
		memcpy(thread->worker, payload, sizeof(thread->worker));
	} else if (record == KYMO_RECORD_WORKER_END) {
		memset(thread->worker, 0, sizeof(thread->worker));
		thread->parked_on = 0;
	} else if (record == KYMO_RECORD_PARKED_ON) {
		thread->parked_on = payload[0];
	} else if (record == KYMO_RECORD_RUNTIME && !thread->worker[2]) {
		thread->worker[1] = payload[0];
	}
}

/* thread is marked as inside an event. Returns the flags to leave. */
static uint32_t emit(struct ky_thread *thread, uint32_t record, uint32_t arg, uint32_t words,
		     const uint64_t *payload, bool *is_written)
{
	uint32_t open;

	if (thread->generation != __atomic_load_n(&ky_engine.generation, __ATOMIC_ACQUIRE))
		ky_thread_reattach(thread);
	if (!thread->generation)
		return 0; /* closed meanwhile */
	open = thread->hot.flags & ~1u;
	if (record == KYMO_RECORD_POLL_END && !open)
		return 0; /* its begin was in another life */
	if (!is_unrecorded(thread, record)) {
		emit_changes(thread);
		*is_written = make_room(thread, words + 1);
		if (*is_written)
			write_record(thread, record, arg, words, payload);
		else
			count_drop(thread, KYMO_DROP_NO_SLOT);
		note_worker(thread, record, payload);
	} else {
		return open;
	}
	if (record == KYMO_RECORD_POLL_END)
		return open - DEPTH_ONE;
	if (record != KYMO_RECORD_POLL_BEGIN)
		return open;
	if (*is_written)
		return open + DEPTH_ONE;
	/* Outermost: its end finds nothing open and is not recorded either. Nested: remember
	 * that. */
	if (open)
		thread->unrecorded++;
	return open;
}

/* Whether there is a ring to write to, or one can be had now. Where not, nothing stays open. */
static bool is_ready(struct kymo_thread *self)
{
	uint32_t phase = __atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE);

	if (phase == KY_LIVE && ky_engine_is_orphan()) {
		ky_engine_disarm_child();
		return false;
	}
	if (phase == KY_LIVE)
		return true;
	if (phase == KY_LAZY || phase == KY_STARTING) {
		if (self == &ky_thread_none)
			return true;
		if (ky_thread_is_state(self) && !(self->flags & 1u))
			return ky_engine_start() == 0;
		return false;
	}
	if (ky_thread_is_state(self) && !(self->flags & 1u))
		__atomic_store_n(&self->flags, 0, __ATOMIC_RELAXED);
	return false;
}

/* The state to write with, marked as inside an event; NULL: dropped and counted, or nothing to
 * do. */
static struct ky_thread *begin(uint32_t record)
{
	struct kymo_thread *self = kymo_thread_self;
	struct ky_thread *thread = (struct ky_thread *)(void *)self;

	if (!is_ready(self))
		return NULL;
	if (self == &ky_thread_none) {
		if (record == KYMO_RECORD_POLL_END)
			return NULL;
		thread = ky_thread_attach();
		if (!thread && __atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE) == KY_LIVE)
			count_drop(NULL, KYMO_DROP_NO_STATE);
		return thread;
	}
	if (!ky_thread_is_state(self)) {
		count_drop(NULL, self == &ky_thread_busy ? KYMO_DROP_SIGNAL : KYMO_DROP_EXITED);
		return NULL;
	}
	if (__atomic_load_n(&self->flags, __ATOMIC_RELAXED) & 1u) {
		count_drop(thread, KYMO_DROP_SIGNAL);
		return NULL;
	}
	__atomic_store_n(&self->flags, self->flags | 1u, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return thread;
}

static void enter(uint32_t record, uint32_t arg, uint32_t words, const uint64_t *payload)
{
	struct ky_thread *thread = begin(record);
	struct ky_usdt_record taken = {record, arg, payload, 0, 0, false};
	struct ky_usdt_event event;
	bool is_traced = ky_usdt_is_wanted();
	uint32_t after;

	if (!thread)
		return;
	KY_TESTPOINT("slow.inside");
	taken.before = thread->hot.flags & ~1u;
	if (is_traced)
		ky_usdt_prepare(thread, &event);
	after = emit(thread, record, arg, words, payload, &taken.is_written);
	taken.after = after;
	if (is_traced)
		ky_usdt_take(thread, &taken, &event);
	if (thread->hot.sub)
		__atomic_store_n(&thread->hot.sub->state, after, __ATOMIC_RELEASE);
	set_limit(thread, is_traced);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&thread->hot.flags, after, __ATOMIC_RELAXED);
	if (is_traced)
		ky_usdt_fire(&event);
}

void kymo_emit_slow(uint32_t record, uint32_t arg, uint32_t words, uint64_t a, uint64_t b,
		    uint64_t c)
{
	const uint64_t payload[3] = {a, b, c};
	int err = errno;

	enter(record, arg, words < 3 ? words : 3, payload);
	errno = err;
}

void ky_emit_words(uint32_t record, uint32_t arg, uint32_t words, const uint64_t *payload)
{
	enter(record, arg, words, payload);
}
