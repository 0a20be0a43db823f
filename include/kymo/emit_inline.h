/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* emit_inline.h - bodies of the fast path; include <kymo/emit.h>, not this.
 *
 * One event: mark busy (private, against our own signal handlers; shared, for the drain's merge
 * watermark), take the stamp, store payload, header, cursor (release), clear both marks. The stamp
 * is read after the sub-buffer was claimed and while the shared mark is set: drain.c relies on it.
 */
#ifndef KYMO_EMIT_INLINE_H
#define KYMO_EMIT_INLINE_H

#ifndef KYMO_EMIT_H
#include <kymo/emit.h>
#endif

#define KYMO_STAMP_SHIFT 21 /* (ticks >> 3) << 24, with the low bits masked away */

static inline uint64_t kymo_header_word(uint64_t ticks, uint32_t record, uint32_t arg)
{
	return ((ticks << KYMO_STAMP_SHIFT) & ~UINT64_C(0xffffff)) | (record << 16) |
	       (arg & 0xffffu);
}

/* A tracer is attached to a probe of this record: the slow path fires it. An end of a poll is not
 * asked for: where its begin took the slow path, `limit` sends it there, too. */
static inline bool kymo_emit_is_traced(uint32_t record)
{
	if (record == KYMO_RECORD_POLL_BEGIN || record == KYMO_RECORD_TASK_END ||
	    record == KYMO_RECORD_SPAWN || record == KYMO_RECORD_SPAWN_WINDOW)
		return kymo_usdt_is_on(KYMO_USDT_TASKS);
	if (record == KYMO_RECORD_WAKE)
		return kymo_usdt_is_on(KYMO_USDT_WAKES);
	if (record == KYMO_RECORD_PARK || record == KYMO_RECORD_UNPARK)
		return kymo_usdt_is_on(KYMO_USDT_WORKERS);
	return false;
}

/* Where `flags` must equal `expected`, writes one record of 0..3 payload words and leaves `after`
 * in flags. Returns its ticks; 0 with nothing changed when the slow path has to take over. */
static inline uint64_t kymo_emit_fast(struct kymo_thread *thread, uint32_t expected, uint32_t after,
				      uint32_t record, uint32_t arg, uint32_t words, uint64_t a,
				      uint64_t b, uint64_t c)
{
	struct kymo_sub_buffer_hot *sub;
	uint64_t *at, ticks;
	uint32_t high;

	if (kymo_emit_is_traced(record))
		return 0;
	__atomic_store_n(&thread->flags, expected | 1u, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	at = thread->cursor;
	if (KYMO_UNLIKELY(at >= __atomic_load_n(&thread->limit, __ATOMIC_RELAXED))) {
		__atomic_store_n(&thread->flags, expected, __ATOMIC_RELAXED);
		return 0;
	}
	sub = thread->sub;
	__atomic_store_n(&sub->state, expected | 1u, __ATOMIC_RELAXED);
	ticks = kymo_arch_ticks(&high);
	if (KYMO_UNLIKELY(high != thread->epoch)) {
		__atomic_store_n(&sub->state, expected, __ATOMIC_RELAXED);
		__atomic_store_n(&thread->flags, expected, __ATOMIC_RELAXED);
		return 0;
	}
	if (record == KYMO_RECORD_POLL_BEGIN) {
		__atomic_store_n(&sub->open[0].task_word, a, __ATOMIC_RELAXED);
		__atomic_store_n(&sub->open[0].begin_ticks, ticks, __ATOMIC_RELAXED);
	}
	if (words > 0)
		__atomic_store_n(&at[1], a, __ATOMIC_RELAXED);
	if (words > 1)
		__atomic_store_n(&at[2], b, __ATOMIC_RELAXED);
	if (words > 2)
		__atomic_store_n(&at[3], c, __ATOMIC_RELAXED);
	__atomic_store_n(&at[0], kymo_header_word(ticks, record, arg), __ATOMIC_RELAXED);
	at += 1 + words;
	thread->cursor = at;
	thread->record_count++;
	__atomic_store_n(&sub->published, (uint32_t)(uintptr_t)at, __ATOMIC_RELEASE);
	__atomic_store_n(&sub->state, after, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&thread->flags, after, __ATOMIC_RELAXED);
	return ticks;
}

/* One event that opens or closes nothing, whatever its gate says. */
static inline void kymo_emit_ungated(uint32_t record, uint32_t arg, uint32_t words, uint64_t a,
				     uint64_t b, uint64_t c)
{
	struct kymo_thread *thread = kymo_thread_self;
	uint32_t flags = __atomic_load_n(&thread->flags, __ATOMIC_RELAXED);

	if (KYMO_UNLIKELY(flags & 1u) ||
	    KYMO_UNLIKELY(!kymo_emit_fast(thread, flags, flags, record, arg, words, a, b, c)))
		kymo_emit_slow(record, arg, words, a, b, c);
}

/* The same where its gate is open. */
static inline void kymo_emit(uint32_t gate, uint32_t record, uint32_t arg, uint32_t words,
			     uint64_t a, uint64_t b, uint64_t c)
{
	if (kymo_gate_is_open(gate))
		kymo_emit_ungated(record, arg, words, a, b, c);
}

/* As kymo_poll_begin(), of a caller that has found the gate open. */
static inline uint64_t kymo_poll_begin_ungated(uint64_t task, uint32_t name, uint32_t queue_depth)
{
	struct kymo_thread *thread = kymo_thread_self;
	uint64_t word = kymo_task_word(task, name), ticks = 0;
	uint32_t high;

	if (KYMO_LIKELY(__atomic_load_n(&thread->flags, __ATOMIC_RELAXED) == 0))
		ticks = kymo_emit_fast(thread, 0, 0x100u, KYMO_RECORD_POLL_BEGIN, queue_depth, 1,
				       word, 0, 0);
	if (KYMO_UNLIKELY(!ticks)) {
		kymo_emit_slow(KYMO_RECORD_POLL_BEGIN, queue_depth, 1, word, 0, 0);
		ticks = kymo_arch_ticks(&high);
	}
	return ticks;
}

/* A poll of `task` starts on this thread. queue_depth: local run queue, KYMO_QUEUE_UNKNOWN if not
 * known. Polls nest; end them in reverse order on the same thread. Returns the counter, as of the
 * record or just after it; 0: not recorded. */
static inline uint64_t kymo_poll_begin(uint64_t task, uint32_t name, uint32_t queue_depth)
{
	return kymo_gate_is_open(KYMO_GATE_POLL) ?
		       kymo_poll_begin_ungated(task, name, queue_depth) :
		       0;
}

/* How long the task of the poll that has just begun was ready before, where its runtime says so and
 * its wakes are not recorded. */
static inline void kymo_poll_delay(uint64_t delay_ns)
{
	kymo_emit(KYMO_GATE_WAKE, KYMO_RECORD_POLL_DELAY, 0, 1, delay_ns, 0, 0);
}

/* The innermost open poll of this thread ends. poll_end_flags: enum kymo_poll_end_flags.
 * Not gated: it is recorded exactly when its begin was, so closing the gate inside a poll leaves no
 * poll open for ever. With nothing open it costs one thread-local load and two branches. Returns
 * the counter, as kymo_poll_begin() does; 0: nothing was open. */
static inline uint64_t kymo_poll_end(uint32_t poll_end_flags)
{
	struct kymo_thread *thread = kymo_thread_self;
	uint32_t flags = __atomic_load_n(&thread->flags, __ATOMIC_RELAXED), high;
	uint64_t ticks = 0;

	/* One open poll is the usual case, so it is asked for first. */
	if (KYMO_LIKELY(flags == 0x100u))
		ticks = kymo_emit_fast(thread, 0x100u, 0, KYMO_RECORD_POLL_END, poll_end_flags, 0,
				       0, 0, 0);
	else if (flags == 0)
		return 0;
	if (KYMO_UNLIKELY(!ticks)) {
		kymo_emit_slow(KYMO_RECORD_POLL_END, poll_end_flags, 0, 0, 0, 0);
		ticks = kymo_arch_ticks(&high);
	}
	return ticks;
}

/* `task` is made ready from here: inside the open poll of this thread that is who woke it.
 * copy: number of the runtime copy the task belongs to (0 where there is one). */
static inline void kymo_wake(uint64_t task, uint32_t copy, uint32_t wake_flags)
{
	kymo_emit(KYMO_GATE_WAKE, KYMO_RECORD_WAKE, wake_flags, 1, kymo_task_word(task, copy), 0,
		  0);
}

/* `task` was created from here: inside the open poll of this thread that is its parent. */
static inline void kymo_spawn(uint64_t task, uint32_t name)
{
	kymo_emit(KYMO_GATE_SPAWN, KYMO_RECORD_SPAWN, 0, 1, kymo_task_word(task, name), 0, 0);
}

/* `task` ended outside a poll (dropped at shutdown). An end inside a poll is KYMO_POLL_READY. */
static inline void kymo_task_end(uint64_t task, uint32_t name)
{
	kymo_emit(KYMO_GATE_POLL, KYMO_RECORD_TASK_END, 0, 1, kymo_task_word(task, name), 0, 0);
}

/* The time-out of a wait, for kymo_park(); ms below 0: it has none. */
static inline uint32_t kymo_park_timeout(int64_t ms)
{
	if (ms < 0)
		return KYMO_PARK_TIMEOUT_NONE << KYMO_PARK_TIMEOUT_SHIFT;
	if (ms > KYMO_PARK_TIMEOUT_MS_MAX)
		ms = KYMO_PARK_TIMEOUT_MS_MAX;
	return (uint32_t)(ms + KYMO_PARK_TIMEOUT_ZERO) << KYMO_PARK_TIMEOUT_SHIFT;
}

/* The worker on this thread goes to sleep. wait: enum kymo_wait, and kymo_park_timeout() where the
 * time-out is known. */
static inline void kymo_park(uint32_t wait)
{
	kymo_emit(KYMO_GATE_PARK, KYMO_RECORD_PARK, wait, 0, 0, 0, 0);
}

/* For kymo_unpark(), where the wait brought one event. fd: -1 where it is not known. */
static inline uint32_t kymo_ready_one(int fd)
{
	return fd >= 0 && fd <= (int)KYMO_READY_FD_MAX ? KYMO_READY_ONE | (uint32_t)fd : 1;
}

/* It woke up. ready: how many events the wait brought, up to KYMO_READY_MAX; kymo_ready_one();
 * or KYMO_READY_FAILED. */
static inline void kymo_unpark(uint32_t ready)
{
	kymo_emit(KYMO_GATE_PARK, KYMO_RECORD_UNPARK, ready, 0, 0, 0, 0);
}

/* This thread becomes a worker.
 *
 * task, name  what launched it; 0 when nothing did
 * runtime     any key that is the same for all workers of one runtime
 * identity    any key that two threads share only when they serve the same worker index
 */
static inline void kymo_worker_begin(uint64_t task, uint32_t name, uint64_t runtime,
				     uint64_t identity)
{
	/* Rare, and the slow path remembers it for the headers of later sub-buffers. */
	if (kymo_gate_is_open(KYMO_GATE_POLL))
		kymo_emit_slow(KYMO_RECORD_WORKER_BEGIN, 0, 3, kymo_task_word(task, name), runtime,
			       identity);
}

/* This thread is no worker any more. */
static inline void kymo_worker_end(void)
{
	if (kymo_gate_is_open(KYMO_GATE_POLL))
		kymo_emit_slow(KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
}

/* What wakes the worker on this thread from its parks: the word of a PARKED_ON. */
static inline void kymo_parked_on(uint64_t word)
{
	/* Rare, and the slow path remembers it, too. */
	if (kymo_gate_is_open(KYMO_GATE_PARK))
		kymo_emit_slow(KYMO_RECORD_PARKED_ON, 0, 1, word, 0, 0);
}

/* This thread's polls belong to this runtime from here on. */
static inline void kymo_runtime_enter(uint64_t runtime)
{
	if (kymo_gate_is_open(KYMO_GATE_POLL))
		kymo_emit_slow(KYMO_RECORD_RUNTIME, 0, 1, runtime, 0, 0);
}

/* A closure starts on a blocking-pool thread. */
static inline void kymo_blocking_begin(uint64_t task, uint32_t name)
{
	kymo_emit(KYMO_GATE_BLOCKING, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(task, name),
		  0, 0);
}

/* It ended. poll_end_flags: enum kymo_poll_end_flags. */
static inline void kymo_blocking_end(uint32_t poll_end_flags)
{
	kymo_emit(KYMO_GATE_BLOCKING, KYMO_RECORD_BLOCKING_END, poll_end_flags, 0, 0, 0, 0);
}

/* A label at this moment. string: id from kymo_string_intern(). */
static inline void kymo_mark(uint32_t string)
{
	kymo_emit(KYMO_GATE_MARK, KYMO_RECORD_MARK, 0, 1, string, 0, 0);
}

#endif
