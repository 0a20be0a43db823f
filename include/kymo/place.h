/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* place.h - await points: the chains of awaits whose leaves keep a waker of a task.
 *
 * For adapters. When a waker of the task that is being polled is cloned, the whole chain of awaits
 * is on the stack. Chains are kept once, and compared word by word where they come again:
 *
 *   kymo_place_clone()    at every clone of the polled task's waker
 *   kymo_place_close()    before kymo_poll_end(), which gets its answer: where the task waits now
 *   kymo_place_polled()   after kymo_poll_end()
 *   kymo_place_end()      the task is over
 *   kymo_place_wake()     at a wake of any task: the functions that issue it
 *
 * A leaf that keeps its waker does not clone it again: its point stays, as an older one, while more
 * wakers of the task live than its last poll cloned.
 *
 * The last points of every live task are in a table of fixed size in the ring file. Another process
 * can read it at any moment, also when the process hangs or has ended. It takes no memory before
 * the first entry.
 *
 * Threads   any.      Signals  unsafe.      Since 0.1
 */
#ifndef KYMO_PLACE_H
#define KYMO_PLACE_H

#include <kymo/emit.h>
#include <kymo/stack.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO_PLACE_STACKS_MAX 3u
#define KYMO_PLACE_FRAMES_MAX 96u
#define KYMO_WAKE_FRAMES_MAX 12u
#define KYMO_WAKE_DRIVER_FRAMES_MAX 6u

/* In words, as metadata "places.rule" of a trace. */
#define KYMO_PLACE_RULE "every wait of 10 ms and more; 3 points a task"

#define KYMO_PLACE_SETS 2048u
#define KYMO_PLACE_WAYS 8u
#define KYMO_PLACE_ROW_BITS 14 /* of sets times ways */
#define KYMO_PLACE_TURN 10125u

/* Shared memory, laid out for readers by wire/place_table.h. */
struct kymo_place_row {
	uint64_t task;
	uint64_t polled; /* end of its last poll: ticks >> 12 << 24 | number of its points */
	uint64_t since;  /* when its older points were cloned, alike | name of the task */
	uint64_t reserved;
};

/* A task's home is one of them by its hash; any of its ways may hold it. */
struct kymo_place_set {
	struct kymo_place_row ways[KYMO_PLACE_WAYS];
};

/* Tasks with numbers near each other have their sets on few pages: a service polls some hundreds of
 * them in turn, and a page of its own for each is a TLB miss at every poll. No two share a set
 * unless 2,048 numbers lie between them, because different CPUs poll them. Any 16,384 in a row fill
 * the table once; each such row is turned against the one before, so that tasks that live long do
 * not meet in few sets, whatever lies between their numbers. */
static inline uint32_t kymo_place_hash(uint64_t task)
{
	return (uint32_t)task + (uint32_t)(task >> KYMO_PLACE_ROW_BITS) * KYMO_PLACE_TURN;
}
#define KYMO_PLACE_SET_OF(hash) ((hash) & (KYMO_PLACE_SETS - 1))
#define KYMO_PLACE_WAY_OF(hash) ((hash) / KYMO_PLACE_SETS & (KYMO_PLACE_WAYS - 1))
#define KYMO_PLACE_LOW_BITS 24
#define KYMO_PLACE_LOW_MASK ((UINT64_C(1) << KYMO_PLACE_LOW_BITS) - 1)
#define KYMO_PLACE_TICKS_SHIFT 12

/* One poll. The caller sets the task and until_sp and zeroes the rest when the poll begins. */
struct kymo_place_poll {
	uint64_t task_word;                /* kymo_task_word() */
	uint64_t until_sp;                 /* frames below it belong to the poll */
	const struct kymo_place_set *sets; /* of the recording that holds the stacks */
	struct kymo_place_row *row;        /* of the task, once it was searched for; NULL */
	uint32_t clones;
	/* Wakers of the task that lived when the poll began, among them that of a thread which is
	 * about to give it back: who wakes by value holds it until the wake returns. 0: not known.
	 */
	uint32_t wakers;
	uint32_t points; /* what kymo_place_close() found */
	/* The chains that are held, the newest last. */
	uint16_t count, truncated; /* truncated: bit i of stacks[i] */
	uint16_t stacks[KYMO_PLACE_STACKS_MAX];
};

/* The number of living wakers is not known: all of them may. */
#define KYMO_PLACE_LIVING_UNKNOWN UINT32_MAX

/* Can stacks through the code at this address be walked? The recorder process makes the tables
 * for it before, or while, this process records (stack.h); earlier stacks are lost. */
KYMO_API bool kymo_place_is_ready(uint64_t code);

/* A waker of the polled task is cloned.
 *
 * start    registers of the function that clones
 * living   wakers of the task that live before this clone, at most. Of the chains that this poll
 *          has cloned so many stay; the last ones are those that did not wait.
 * Cost     some 15 ns where the chain was seen before; else a walk, and the first time in a process
 *          some hundred system calls.
 */
KYMO_API void kymo_place_clone(struct kymo_place_poll *poll, const struct kymo_stack_start *start,
			       uint32_t living);

/* Before kymo_poll_end(), by the thread that polled. living: wakers of the task that live, at most.
 *
 * Returns  what is added to the flags of kymo_poll_end().
 */
KYMO_API uint32_t kymo_place_close(struct kymo_place_poll *poll, uint32_t living);

/* Right after kymo_poll_end(); another thread may poll the task by then. */
static inline void kymo_place_polled(const struct kymo_place_poll *poll)
{
	const struct kymo_thread *thread = kymo_thread_self;
	struct kymo_place_row *row = poll->row;
	uint64_t task, word;

	if (!row || poll->sets != thread->places)
		return;
	task = __atomic_load_n(&row->task, __ATOMIC_RELAXED);
	if ((task ^ poll->task_word >> KYMO_NAME_BITS) << (64 - KYMO_TASK_BITS))
		return; /* it is over */
	/* The header of the record that has just been written holds the low ticks. */
	word = __atomic_load_n(thread->cursor - 1, __ATOMIC_RELAXED);
	word = ((uint64_t)thread->epoch << (32 - KYMO_PLACE_TICKS_SHIFT + KYMO_PLACE_LOW_BITS)) |
	       (word >> KYMO_STAMP_SHIFT & 0xfffff000u) << KYMO_PLACE_TICKS_SHIFT | poll->points;
	/* Not over what its next poll has left meanwhile. */
	if ((int64_t)(word - __atomic_load_n(&row->polled, __ATOMIC_RELAXED)) >
	    -(int64_t)KYMO_PLACE_LOW_MASK)
		__atomic_store_n(&row->polled, word, __ATOMIC_RELEASE);
}

/* The task is over: its entry is free. */
KYMO_API void kymo_place_end(uint64_t task);

/* A wake is issued: its innermost frames, kept and recognized as chains are.
 *
 * start       registers of the function that wakes
 * until_sp    frames below it belong to the poll that wakes; 0: it is outside of polls
 * frames_max  KYMO_WAKE_FRAMES_MAX, or in the runtime's own code KYMO_WAKE_DRIVER_FRAMES_MAX
 *
 * Returns   what is added to the flags of a KYMO_RECORD_WAKE; 0: not known, or the thread is not on
 *           a stack of its own.
 * Cost      some 10 ns where the frames were seen before.
 */
KYMO_API uint32_t kymo_place_wake(const struct kymo_stack_start *start, uint64_t until_sp,
				  uint32_t frames_max);

#ifdef __cplusplus
}
#endif

#endif
