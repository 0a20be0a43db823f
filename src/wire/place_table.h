/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* place_table.h - the part of the ring file that says where each task waits. Plain layouts.
 *
 * Area:   page 0                    struct ky_place_head
 *         KY_PLACE_SETS_OFFSET      tasks, and the points of each: struct kymo_place_set
 *                                   (kymo/place.h)
 *         KY_PLACE_POINTS_OFFSET    points: words of up to three stacks, each word kept once
 *         KY_PLACE_STACKS_OFFSET    stacks, each kept once: struct ky_place_stack, by hash
 *         KY_PLACE_UNITS_OFFSET     their frames, 6 bytes each as in sample_area.h
 *
 * A task has an entry in one way of its set or, where that was full once (KY_PLACE_SPILLED), of the
 * set beside it. It is claimed by one atomic exchange of 0 for the task's number, freed by
 * storing 0.
 *
 * Writers:     the thread that polls the task, up to a moment after its poll's end. No lock.
 * Readers:     any process, at any moment; they trust nothing. A row is one poll's where `polled`
 *              is the same before and after the others were copied.
 * Memory:      sparse. All but the units exist once ky_ring_header.place_ready is set (release);
 *              the page of a stack's frames before the stack is published.
 */
#ifndef KY_WIRE_PLACE_TABLE_H
#define KY_WIRE_PLACE_TABLE_H

#include <kymo/place.h>
#include <stdatomic.h>
#include <stdint.h>

#define KY_PLACE_PAGE_BYTES 4096u
#define KY_PLACE_ENTRIES (KYMO_PLACE_SETS * KYMO_PLACE_WAYS)
#define KY_PLACE_STACKS 2048u
#define KY_PLACE_UNIT_BYTES 64u
#define KY_PLACE_UNITS 3520u
#define KY_PLACE_NO_STACK 0xffffu

/* In the first way's task of a set: entries of it lie in the set beside it (set ^ 1). */
#define KY_PLACE_SPILLED (UINT64_C(1) << 63)
/* In a way's task: how many tasks lie elsewhere that would lie here by their hash. Of the recording
 * side alone. */
#define KY_PLACE_AWAY_ONE (UINT64_C(1) << KYMO_TASK_BITS)
#define KY_PLACE_AWAY_MASK (KY_PLACE_SPILLED - KY_PLACE_AWAY_ONE)
#define KY_PLACE_TASK_MASK ((UINT64_C(1) << KYMO_TASK_BITS) - 1)

struct ky_place_head {
	_Atomic uint64_t walked_count;   /* chains that were walked in full */
	_Atomic uint64_t refused_count;  /* tasks that found no way free */
	_Atomic uint64_t stacks_refused; /* stacks, or sets of them, that found no room */
	_Atomic uint64_t units_used;     /* may exceed KY_PLACE_UNITS */
	_Atomic uint64_t unremembered;   /* of the walks: chains that can not be remembered */
};

/* A word of the points: KYMO_PLACE_STACKS_MAX numbers of stacks, 16 bits each, absent ones
 * KY_PLACE_NO_STACK; above them these. 0: a free entry; number 0 is none. */
#define KY_PLACE_POINTS 4096u
#define KY_PLACE_OLDER(i) (UINT64_C(1) << (48 + (i)))     /* cloned in an earlier poll */
#define KY_PLACE_TRUNCATED(i) (UINT64_C(1) << (51 + (i))) /* does not reach the poll */
#define KY_PLACE_UNSURE (UINT64_C(1) << 54)               /* it waits at some of them */
#define KY_PLACE_ONE (UINT64_C(1) << 55)                  /* two bits: how many they are */
#define KY_PLACE_ONE_NEW (UINT64_C(1) << 57)              /* two bits: how many are not older */
#define KY_PLACE_IS_WORD (UINT64_C(1) << 63)

static inline uint32_t ky_points_stack(uint64_t word, uint32_t i)
{
	return (uint32_t)(word >> 16 * i) & 0xffffu;
}

struct ky_place_stack {
	_Atomic uint64_t hash; /* 0: free; never changes again */
	/* Its first unit | frames << 16 | KY_PLACE_PUBLISHED (release); 0: not yet, or never */
	_Atomic uint64_t place;
};
#define KY_PLACE_PUBLISHED (UINT64_C(1) << 63)

#define KY_PLACE_SETS_OFFSET KY_PLACE_PAGE_BYTES
#define KY_PLACE_POINTS_OFFSET                                                                     \
	(KY_PLACE_SETS_OFFSET + KYMO_PLACE_SETS * sizeof(struct kymo_place_set))
#define KY_PLACE_STACKS_OFFSET (KY_PLACE_POINTS_OFFSET + KY_PLACE_POINTS * sizeof(uint64_t))
#define KY_PLACE_UNITS_OFFSET                                                                      \
	(KY_PLACE_STACKS_OFFSET + KY_PLACE_STACKS * sizeof(struct ky_place_stack))
#define KY_PLACE_AREA_BYTES (KY_PLACE_UNITS_OFFSET + KY_PLACE_UNITS * KY_PLACE_UNIT_BYTES)

_Static_assert(sizeof(struct kymo_place_row) == 32, "two in a line");
_Static_assert(KY_PLACE_ENTRIES == 1u << KYMO_PLACE_ROW_BITS, "a row of tasks fills it");
_Static_assert(KYMO_PLACE_STACKS_MAX == 3, "so many numbers in a word of points");
_Static_assert(KY_PLACE_POINTS <= 1u << (16 - KYMO_POLL_POINTS_SHIFT), "POLL_END names one");
_Static_assert(KY_PLACE_POINTS <= 1u << KYMO_PLACE_LOW_BITS, "a row names one");
_Static_assert(KY_PLACE_AREA_BYTES <= 1u << 20, "1 MiB at most");
_Static_assert(KY_PLACE_AREA_BYTES % KY_PLACE_PAGE_BYTES == 0, "whole pages");
_Static_assert(KY_PLACE_UNITS <= 65536, "a unit's number has 16 bits");

#endif
