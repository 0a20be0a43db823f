/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* alloc.h - who allocates, and who keeps what was allocated: for allocators, and for whoever stands
 * between a program and one.
 *
 * Rule:     bytes are sampled: each one with the same chance, on average one in so many as
 *           kymo_recorder_options.alloc_bytes says. So an allocation of b bytes is told with
 *           probability p = 1 - exp(-b / alloc_bytes), once, with its stack, and stands for 1 / p
 *           of its size. Its end is told whenever it was.
 * Gate:     KYMO_GATE_ALLOC, shut unless asked for. Ends of what was told are told nevertheless.
 * Memory:   1 MiB, as it is used; in the ring file up to KYMO_ALLOCS_MAX allocations that were
 *           told and live, 2.3 MiB, made when the first one is told. Beyond that they are counted
 *           as lost.
 * Forked:   a child tells nothing until it records itself.
 * Cost:     an allocation that is not told: a subtraction and a branch; a free of one: a hash, a
 *           load and a branch.
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

/* How many allocations that live and were told begin in these 512 bytes, or others a multiple of
 * 512 MiB away: neighbours in memory share its cache lines. */
KYMO_API extern uint8_t kymo_alloc_filter[1u << KYMO_ALLOC_FILTER_BITS];

/* Who asked for memory. */
struct kymo_alloc_caller {
	struct kymo_stack_start from; /* KYMO_STACK_HERE() */
	uintptr_t own_low, own_high;  /* code of an adapter: left out at the leaf's end; or zeros */
};

/* An allocation that was told and is about to end. */
struct kymo_alloc_taken {
	uint64_t address, bytes, weight;
	uint64_t stamp, end_stamp;
	uint64_t about;
};

/* True: whoever just allocated, or is about to allocate, so many bytes calls kymo_alloc_tell(). */
static inline bool kymo_alloc_is_due(size_t bytes)
{
	kymo_alloc_left = (int64_t)((uint64_t)kymo_alloc_left - bytes);
	return KYMO_UNLIKELY(kymo_alloc_left < 0);
}

/* Tells it, or not: the threshold may have been another one. address NULL: there was no memory.
 * errno stays. */
KYMO_API __attribute__((cold)) void kymo_alloc_tell(const void *address, size_t bytes,
						    const struct kymo_alloc_caller *caller);

/* An allocation was made: the call of an allocator that wants no more. */
static inline void kymo_alloc(const void *address, size_t bytes)
{
	if (kymo_alloc_is_due(bytes)) {
		struct kymo_alloc_caller caller = {{0, 0, 0, 0}, 0, 0};

		KYMO_STACK_HERE(&caller.from);
		kymo_alloc_tell(address, bytes, &caller);
	}
}

static inline uint32_t kymo_alloc_hash(const void *address)
{
	return (uint32_t)((uint64_t)(uintptr_t)address >> KYMO_ALLOC_GRANULE_BITS) &
	       ((1u << KYMO_ALLOC_FILTER_BITS) - 1);
}

/* False: it was not told. True: perhaps. */
static inline bool kymo_alloc_is_known(const void *address)
{
	return KYMO_UNLIKELY(__atomic_load_n(&kymo_alloc_filter[kymo_alloc_hash(address)],
					     __ATOMIC_RELAXED) != 0);
}

/* For what may fail, as realloc(): takes the allocation out, so that whoever gets the same address
 * meanwhile is told from it. True: it was told; then either kymo_alloc_end() or, when it stays as
 * it is, kymo_alloc_put_back() follows. */
KYMO_API __attribute__((cold)) bool kymo_alloc_take(const void *address,
						    struct kymo_alloc_taken *taken);
KYMO_API __attribute__((cold)) void kymo_alloc_end(const struct kymo_alloc_taken *taken);
KYMO_API __attribute__((cold)) void kymo_alloc_put_back(const struct kymo_alloc_taken *taken);

/* An allocation is about to be freed: before anybody can get the same address. */
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
