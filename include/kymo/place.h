/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* place.h - await points: the stack of the future that keeps a task's waker, kept with the task.
 *
 * For adapters. When a waker of the task that is being polled is cloned, the whole chain of awaits
 * is on the stack:
 *
 *   kymo_place_choose()   is the await point of this poll recorded? Holds for the poll
 *   kymo_stack_capture()  (stack.h) up to the poll
 *   kymo_place_take()     holds it; a leaf that continues in the same poll did not wait
 *   kymo_place_emit()     before kymo_poll_end(): what is still held is where the task waits
 *   kymo_place_polled()   after each kymo_poll_end(): its wait then decides about the next poll
 *   kymo_place_end()      the task is over
 *
 * The last await point of every live task is in a table of fixed size in the ring file. Another
 * process can read it at any moment, also when the process hangs or has ended. It takes no memory
 * before the first entry.
 *
 * Rule:     a poll is taken when its task had not been polled for 10 ms; when it is the task's
 *           first one, or this thread has taken few lately, and the thread's budget allows (500 a
 *           second, 4,096 at once; the last quarter of it for first polls alone); else 1 in 64.
 * Threads   any.      Signals  unsafe.      Since 0.1
 */
#ifndef KYMO_PLACE_H
#define KYMO_PLACE_H

#include <kymo/emit.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO_PLACE_STACKS_MAX 3u
#define KYMO_PLACE_FRAMES_MAX 96u
#define KYMO_PLACE_ONE_IN 64u

/* In words, as metadata "places.rule" of a trace. */
#define KYMO_PLACE_RULE                                                                            \
	"all polls after 10 ms idle; others within 500/s a thread, beyond that 1 in 64; "          \
	"3 stacks a poll"

#define KYMO_PLACE_SETS 2048u
#define KYMO_PLACE_WAYS 8u
#define KYMO_PLACE_ROW_BITS 14 /* of sets times ways */
#define KYMO_PLACE_TURN 10125u

/* Shared memory, laid out for readers by wire/place_table.h. A task's home is one of them by its
 * hash; any of its ways may hold it. */
struct kymo_place_set {
	uint64_t tasks[KYMO_PLACE_WAYS];
	/* When the task that hashes to this way was polled last: ticks >> 12 << 24 | its tag. */
	uint64_t polled[KYMO_PLACE_WAYS];
};

/* Tasks with numbers near each other have their sets on one page: a service polls some hundreds of
 * them in turn, and a page of its own for each is a TLB miss at every
 * clone. No two share a set unless 2,048 numbers lie between them, because different CPUs poll
 * them. Any 16,384 in a row fill the table once; each such row is turned against the one before, so
 * that tasks that live long do not meet in few sets, whatever lies between their numbers. */
static inline uint32_t kymo_place_hash(uint64_t task)
{
	return (uint32_t)task + (uint32_t)(task >> KYMO_PLACE_ROW_BITS) * KYMO_PLACE_TURN;
}
#define KYMO_PLACE_SET_OF(hash) ((hash) & (KYMO_PLACE_SETS - 1))
#define KYMO_PLACE_WAY_OF(hash) ((hash) / KYMO_PLACE_SETS & (KYMO_PLACE_WAYS - 1))
#define KYMO_PLACE_TAG_OF(hash) ((hash)&0xffffffu)
#define KYMO_PLACE_TAG_BITS 24
#define KYMO_PLACE_TICKS_SHIFT 12

/* Right after kymo_poll_end(): the poll of `task` is over. Some twelve instructions. */
static inline void kymo_place_polled(uint64_t task)
{
	const struct kymo_thread *thread = kymo_thread_self;
	struct kymo_place_set *sets = thread->places;
	uint32_t hash = kymo_place_hash(task);
	uint64_t word;

	if (!sets)
		return;
	/* The header of the record that has just been written holds the low ticks. */
	word = __atomic_load_n(thread->cursor - 1, __ATOMIC_RELAXED);
	word = ((uint64_t)thread->epoch << (32 - KYMO_PLACE_TICKS_SHIFT + KYMO_PLACE_TAG_BITS)) |
	       (word >> KYMO_STAMP_SHIFT & 0xfffff000u) << KYMO_PLACE_TICKS_SHIFT |
	       KYMO_PLACE_TAG_OF(hash);
	__atomic_store_n(&sets[KYMO_PLACE_SET_OF(hash)].polled[KYMO_PLACE_WAY_OF(hash)], word,
			 __ATOMIC_RELAXED);
}

/* What a thread needs to choose; zeros at first. */
struct kymo_place_chooser {
	uint64_t refilled_ticks;
	uint32_t spent; /* of the thread's budget */
	uint32_t random;
	uint64_t empty_ticks; /* refilled then, and spent but for first polls; 0: not so */
};

/* Can stacks through the code at this address be walked? The recorder process makes the tables
 * for it before, or while, this process records (stack.h); earlier stacks are lost. */
KYMO_API bool kymo_place_is_ready(uint64_t code);

/* Is the await point of this poll of `task` recorded? When not, the task's entry is marked as
 * old.
 *
 * Returns  n: yes, as 1 of n polls of its kind; 0: no, or nothing is recorded here.
 * Cost     3 ns; the first time in a process some hundred system calls.
 */
KYMO_API uint32_t kymo_place_choose(struct kymo_place_chooser *chooser, uint64_t task);

struct kymo_place {
	const uint64_t *frames;
	uint32_t frame_count; /* up to KYMO_PLACE_FRAMES_MAX are kept, the leaf's end */
	bool is_truncated;    /* the stack does not reach the poll */
};

/* A stack that is held; its frames lie in the ring. */
struct kymo_place_held {
	uint64_t ticks;
	uint32_t stack;
	bool is_truncated;
	bool is_reported; /* recorded already: it could not have been later */
};

/* The stacks of one poll, the newest last. An adapter removes a stack that was no wait from
 * `held` before kymo_place_emit(). */
struct kymo_place_taken {
	uint64_t task;
	uint32_t name;   /* as in kymo_poll_begin() */
	uint32_t one_in; /* what kymo_place_choose() answered */
	uint32_t count;
	bool may_have_moved;               /* at which of them it waits is not certain */
	const struct kymo_place_set *sets; /* of the recording that holds them */
	struct kymo_place_held held[KYMO_PLACE_STACKS_MAX];
};

/* During the poll. The same stack again is held once, as the newest; beyond KYMO_PLACE_STACKS_MAX
 * none is. */
KYMO_API void kymo_place_take(struct kymo_place_taken *taken, const struct kymo_place *place);

/* At the end of the poll, by the thread that polled; another one may poll the task by then. */
KYMO_API void kymo_place_emit(const struct kymo_place_taken *taken);

/* The task is over: its entry is free. */
KYMO_API void kymo_place_end(uint64_t task);

#ifdef __cplusplus
}
#endif

#endif
