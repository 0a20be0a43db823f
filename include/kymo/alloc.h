/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* alloc.h - sampled allocations and their ends: for allocators, and for adapters that interpose
 * one.
 *
 * Rule:     bytes are sampled, each with the same probability: on average one of
 *           kymo_recorder_options.alloc_bytes. So an allocation of b bytes is recorded with
 *           probability p = 1 - exp(-b / alloc_bytes), once, with its stack, and stands for 1 / p
 *           of its size. The end of a recorded allocation is recorded.
 * Gate:     KYMO_GATE_ALLOC, closed unless asked for. Ends of recorded allocations are recorded
 *           while it is closed too.
 * Memory:   1 MiB, as it is used; in the ring file up to KYMO_ALLOCS_MAX live recorded
 *           allocations, 2.3 MiB, made with the first one. Allocations beyond that count as lost.
 * Forked:   a child records nothing until it opens its own recorder.
 * Cost:     an allocation that is not recorded: a subtraction and a branch; a free of one: a hash,
 *           a load and a branch.
 * Threads   any.      Signals  safe; what a handler allocates in the middle of a sample is counted
 *           as lost.      Since 0.1
 *
 * Not from an allocator in a library that programs open with dlopen(): its thread-local storage may
 * be allocated at its first use.
 */
#ifndef KYMO_ALLOC_H
#define KYMO_ALLOC_H

#include <kymo/emit.h>
#include <kymo/stack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO_ALLOC_BYTES_DEFAULT 524288u
#define KYMO_ALLOC_BYTES_MIN 1024u
#define KYMO_ALLOC_BYTES_MAX 1073741824u
#define KYMO_ALLOCS_MAX 32768u
#define KYMO_ALLOC_FILTER_BITS 20
#define KYMO_ALLOC_GRANULE_BITS 9

/* Bytes that the calling thread may allocate before it has to ask again. */
KYMO_API extern __thread int64_t kymo_alloc_left KYMO_TLS_MODEL;

/* How many live recorded allocations begin in these 512 bytes, or in others a multiple of
 * 512 MiB away: neighbours in memory share its cache lines. */
KYMO_API extern uint8_t kymo_alloc_filter[1u << KYMO_ALLOC_FILTER_BITS];

/* The caller of the allocator. */
struct kymo_alloc_caller {
	struct kymo_stack_start from; /* KYMO_STACK_HERE() */
	uintptr_t own_low, own_high;  /* code of an adapter: left out at the leaf's end; or zeros */
};

/* A recorded allocation that is about to end. */
struct kymo_alloc_taken {
	uint64_t address, bytes, weight;
	uint64_t stamp, end_stamp;
	uint64_t about;
};

/* True: a caller that allocates so many bytes, or just did, calls kymo_alloc_emit(). */
static inline bool kymo_alloc_is_due(size_t bytes)
{
	kymo_alloc_left = (int64_t)((uint64_t)kymo_alloc_left - bytes);
	return KYMO_UNLIKELY(kymo_alloc_left < 0);
}

/* Records it, or not: the threshold may have changed. address NULL: there was no memory.
 * errno stays. */
KYMO_API __attribute__((cold)) void kymo_alloc_emit(const void *address, size_t bytes,
						    const struct kymo_alloc_caller *caller);

/* An allocation was made: all that an allocator has to call. */
static inline void kymo_alloc(const void *address, size_t bytes)
{
	if (kymo_alloc_is_due(bytes)) {
		struct kymo_alloc_caller caller = {{0, 0, 0, 0}, 0, 0};

		KYMO_STACK_HERE(&caller.from);
		kymo_alloc_emit(address, bytes, &caller);
	}
}

static inline uint32_t kymo_alloc_hash(const void *address)
{
	return (uint32_t)((uint64_t)(uintptr_t)address >> KYMO_ALLOC_GRANULE_BITS) &
	       ((1u << KYMO_ALLOC_FILTER_BITS) - 1);
}

/* False: it was not recorded. True: perhaps. */
static inline bool kymo_alloc_is_known(const void *address)
{
	return KYMO_UNLIKELY(__atomic_load_n(&kymo_alloc_filter[kymo_alloc_hash(address)],
					     __ATOMIC_RELAXED) != 0);
}

/* For calls that may fail, such as realloc(): takes the allocation out of the table, so that
 * another one at the same address is distinct. True: it was recorded; then either kymo_alloc_end()
 * or, when it stays as it is, kymo_alloc_put_back() follows. */
KYMO_API __attribute__((cold)) bool kymo_alloc_take(const void *address,
						    struct kymo_alloc_taken *taken);
KYMO_API __attribute__((cold)) void kymo_alloc_end(const struct kymo_alloc_taken *taken);
KYMO_API __attribute__((cold)) void kymo_alloc_put_back(const struct kymo_alloc_taken *taken);

/* An allocation is about to be freed: call it before the address can be used again. */
static inline void kymo_free(const void *address)
{
	struct kymo_alloc_taken taken;

	if (kymo_alloc_is_known(address) && kymo_alloc_take(address, &taken))
		kymo_alloc_end(&taken);
}

#ifdef __cplusplus
}
#endif

#endif
