/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* alloc_table.h - the part of the ring file that says which of the allocations that were reported
 * are alive, and whose they are. Plain layouts.
 *
 * Area:   page 0                    struct ky_alloc_head
 *         KY_ALLOC_WORDS_OFFSET     addresses, one for each entry: 0 free
 *         KY_ALLOC_ENTRIES_OFFSET     what lies there: struct ky_alloc_entry
 *         KY_ALLOC_STACKS_OFFSET    stacks, each kept once: struct ky_place_stack, by hash
 *         KY_ALLOC_UNITS_OFFSET     their frames, 6 bytes each as in sample_area.h
 *
 * An address lies in one of the KY_ALLOC_PROBES words from its hash on. A word is claimed by one
 * atomic exchange of 0 for KY_ALLOC_BUSY, published by storing the address (release), and taken by
 * an exchange of the address for KY_ALLOC_BUSY.
 *
 * Writers:     the thread that has claimed the word. No lock.
 * Readers:     any process, at any moment; they trust nothing. An entry is whole when its word was
 *              the same address, and its stamp the same, before and after it was copied.
 * Memory:      sparse. Head, addresses and the stacks' index exist once ky_ring_header.alloc_ready
 *              is set (release); the page of an entry before its address is published; that of a
 *              stack's frames before the stack is.
 */
#ifndef KY_WIRE_ALLOC_TABLE_H
#define KY_WIRE_ALLOC_TABLE_H

#include <kymo/alloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <wire/place_table.h>

#define KY_ALLOC_PAGE_BYTES 4096u
#define KY_ALLOC_ENTRIES KYMO_ALLOCS_MAX
#define KY_ALLOC_PROBES 32u
#define KY_ALLOC_STACKS 4096u
#define KY_ALLOC_UNITS 14336u
#define KY_ALLOC_FRAMES_MAX 128u
#define KY_ALLOC_NO_STACK 0xffffu
#define KY_ALLOC_BUSY UINT64_C(1)

/* Who reports allocations. */
enum ky_alloc_hooks {
	KY_ALLOC_BY_PROGRAM = 1u << 0, /* the C functions */
	KY_ALLOC_BY_SLOTS = 1u << 1    /* malloc and its kin, taken over by the preload */
};

struct ky_alloc_head {
	_Atomic uint64_t mean_bytes;     /* as the last sample had it */
	_Atomic uint64_t kept_count;     /* allocations reported */
	_Atomic uint64_t ended_count;    /* of them freed */
	_Atomic uint64_t refused_count;  /* that found no entry: lost */
	_Atomic uint64_t stacks_refused; /* stacks that found no room */
	_Atomic uint64_t units_used;     /* may exceed KY_ALLOC_UNITS */
	_Atomic uint64_t nested_count;   /* lost: made in the middle of another sample */
};

/* Written before its first use by the process that makes its page exist. */
struct ky_alloc_entry {
	_Atomic uint64_t stamp; /* of the ring's clock */
	_Atomic uint64_t bytes;
	_Atomic uint64_t weight; /* 1 / inclusion probability, parts of 2^32 */
	_Atomic uint64_t about;  /* tid << 32 | KY_ALLOC_TRUNCATED | number of its stack */
};
#define KY_ALLOC_TRUNCATED (UINT64_C(1) << 16)

#define KY_ALLOC_WORDS_OFFSET KY_ALLOC_PAGE_BYTES
#define KY_ALLOC_ENTRIES_OFFSET (KY_ALLOC_WORDS_OFFSET + KY_ALLOC_ENTRIES * sizeof(uint64_t))
#define KY_ALLOC_STACKS_OFFSET                                                                     \
	(KY_ALLOC_ENTRIES_OFFSET + KY_ALLOC_ENTRIES * sizeof(struct ky_alloc_entry))
#define KY_ALLOC_UNITS_OFFSET                                                                      \
	(KY_ALLOC_STACKS_OFFSET + KY_ALLOC_STACKS * sizeof(struct ky_place_stack))
#define KY_ALLOC_AREA_BYTES (KY_ALLOC_UNITS_OFFSET + KY_ALLOC_UNITS * KY_PLACE_UNIT_BYTES)

_Static_assert(sizeof(struct ky_alloc_entry) == 32, "two a line");
_Static_assert(KY_ALLOC_AREA_BYTES % KY_ALLOC_PAGE_BYTES == 0, "whole pages");
_Static_assert(KY_ALLOC_UNITS <= 65536, "a unit's number has 16 bits");
_Static_assert(KY_ALLOC_STACKS < KY_ALLOC_NO_STACK, "a stack's number has 16 bits");

/* Where the address's probes begin: other bits than the filter's. */
static inline uint32_t ky_alloc_home(uint64_t address)
{
	return (uint32_t)((address >> 4) * UINT64_C(0xbf58476d1ce4e5b9) >> 40) % KY_ALLOC_ENTRIES;
}

#endif
