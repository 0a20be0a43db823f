/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* chain_memo.h - the chains that a thread has recognized lately, in memory that it alone changes.
 *
 * The memory of chains (chain_memory.h) is shared, so each place of the stack that it names is
 * bounded before the stack is read there. What a thread finds there it keeps here with places that
 * were bounded once: a word is then two loads and a comparison. A chain is kept for one stack
 * pointer, so its words are compared as they stand.
 *
 * Invariants:  every place of a kept chain lies between its sp and until_sp, on the stack that is
 *              the thread's own for as long as it lives. Another ring, or a change of the unwind
 *              tables, empties it. A handler that comes while it is in use finds it taken, and
 *              neither looks nor keeps.
 * Memory:      static, for 63 threads at a time; 2.3 MiB, touched as used. Others do without.
 * Threads:     owner.      Signals: safe.
 */
#ifndef KY_RECORD_SAMPLE_CHAIN_MEMO_H
#define KY_RECORD_SAMPLE_CHAIN_MEMO_H

#include <kymo/emit.h>
#include <kymo/stack.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wire/place_table.h>

#define KY_MEMO_SETS 32u
#define KY_MEMO_WAYS 2u
#define KY_MEMO_AT_ONCE 4u
#define KY_MEMO_WORDS_MAX 48u /* two a frame, where frames have pointers */

/* It reads the frames of others, about which instrumentation has its own opinion. */
#define KY_MEMO_RAW __attribute__((no_sanitize("address"), no_sanitize("thread")))
/* What is instrumented takes in nothing that is not. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define KY_MEMO_IS_INSTRUMENTED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
	defined(KY_MEMO_IS_INSTRUMENTED)
#define KY_MEMO_INLINE KY_MEMO_RAW static __attribute__((unused, noinline))
#else
#define KY_MEMO_INLINE KY_MEMO_RAW static inline __attribute__((always_inline))
#endif

#define KY_MEMO_IN_USE ((uintptr_t)1)

struct ky_chain {
	uint32_t stack; /* its number in the store; KY_PLACE_NO_STACK: not known */
	bool is_truncated;
};

struct ky_memo_words {
	uint16_t at[KY_MEMO_AT_ONCE]; /* words from sp */
	uint64_t value[KY_MEMO_AT_ONCE];
};

struct ky_memo_chain {
	uint64_t pc, sp, until_sp; /* pc 0: free */
	const struct ky_memo_words *end;
	struct ky_chain is;
	uint64_t registers;                        /* 0: none of the two counts */
	uint64_t fp, fp_mask, second, second_mask; /* at the start; mask 0: it may be any */
	struct ky_memo_words words[KY_MEMO_WORDS_MAX / KY_MEMO_AT_ONCE];
};

struct ky_chain_memo {
	uintptr_t head; /* of the place table that the chains are of; 0: none; KY_MEMO_IN_USE */
	const _Atomic uint64_t *tables; /* their index_word (wire/unwind_image.h) */
	uint64_t changes;               /* of them */
	uint32_t refused_count;         /* chains that found no way free, modulo 2^32 */
	_Atomic uint32_t is_taken;
	struct ky_memo_chain chains[KY_MEMO_SETS][KY_MEMO_WAYS];
};

/* Never NULL: a thread without one has that of nobody, which stays empty. */
extern __thread struct ky_chain_memo *ky_chain_memo_self KYMO_TLS_MODEL;

static inline uint32_t ky_memo_set(uint64_t pc, uint64_t sp)
{
	return (uint32_t)(pc ^ sp >> 4) * 0x9e3779b1u >> 27;
}

_Static_assert(KY_MEMO_SETS == 1u << (32 - 27), "as ky_memo_set() has it");

KY_MEMO_INLINE bool ky_memo_is_same(const struct ky_memo_chain *chain,
				    const struct kymo_stack_start *start, uint64_t until_sp)
{
	const uint64_t *stack = (const uint64_t *)(uintptr_t)start->sp;
	const struct ky_memo_words *words = chain->words, *end = chain->end;

	if (chain->pc != start->pc || chain->sp != start->sp || chain->until_sp != until_sp)
		return false;
	for (; words != end; words++)
		if (stack[words->at[0]] != words->value[0] ||
		    stack[words->at[1]] != words->value[1] ||
		    stack[words->at[2]] != words->value[2] ||
		    stack[words->at[3]] != words->value[3])
			return false;
	return !chain->registers || (((chain->fp ^ start->fp) & chain->fp_mask) == 0 &&
				     ((chain->second ^ start->second) & chain->second_mask) == 0);
}

/* NULL: it is not kept. Cost: some 30 instructions, and 5 a word; more where two chains have the
 * same place of code and of the stack. */
KY_MEMO_INLINE const struct ky_memo_chain *ky_chain_memo_find(const struct ky_place_head *head,
							      const struct kymo_stack_start *start,
							      uint64_t until_sp)
{
	struct ky_chain_memo *memo = ky_chain_memo_self;
	const struct ky_memo_chain *chain = memo->chains[ky_memo_set(start->pc, start->sp)];
	const struct ky_memo_chain *end = chain + KY_MEMO_WAYS;

	if (memo->head != (uintptr_t)head ||
	    atomic_load_explicit(memo->tables, memory_order_acquire) >> 32 != memo->changes)
		return NULL;
	memo->head = KY_MEMO_IN_USE;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	while (chain < end && !ky_memo_is_same(chain, start, until_sp))
		chain++;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memo->head = (uintptr_t)head;
	return chain < end ? chain : NULL;
}

/* What a chain that has just been recognized is kept with. */
struct ky_memo_item {
	const struct ky_place_head *head;
	const _Atomic uint64_t *tables;
	uint64_t changes; /* that it was recognized by */
	const struct kymo_stack_start *start;
	uint64_t until_sp; /* from start->sp up to here it is the thread's own stack */
	struct ky_chain is;
	bool has_fp, has_second;
	uint32_t count;                 /* of places; more than there is room for: it is not kept */
	uint16_t at[KY_MEMO_WORDS_MAX]; /* each below until_sp */
};

void ky_chain_memo_keep(const struct ky_memo_item *item);

/* The calling thread ends. */
void ky_chain_memo_thread_end(void);

#endif
