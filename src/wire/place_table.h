/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* place_table.h - the part of the ring file that says where each task waits. Plain layouts.
 *
 * Area:   page 0                    struct ky_place_head
 *         KY_PLACE_SETS_OFFSET      which tasks: struct kymo_place_set (kymo/place.h)
 *         KY_PLACE_SLOTS_OFFSET     where they wait: struct ky_place_slot, one for each way
 *         KY_PLACE_STACKS_OFFSET    stacks, each kept once: struct ky_place_stack, by hash
 *         KY_PLACE_UNITS_OFFSET     their frames, 6 bytes each as in sample_area.h
 *
 * A task has an entry in one way of its set or, where that was full once (KY_PLACE_SPILLED), of the
 * set beside it. It is claimed by one atomic exchange of 0 for the task's number, freed by
 * storing 0.
 *
 * Writers:     the thread that polls the task, up to a moment after its poll's end: one that finds
 *              the sequence odd gives up. No lock.
 * Readers:     any process, at any moment; they trust nothing. A slot is whole when its sequence is
 *              even and the same after it was copied; it is the task's when its task word says so.
 * Memory:      sparse. Head, sets and the stacks' index exist once ky_ring_header.place_ready is
 *              set (release); the page of a slot from its claim on; that of a stack's frames
 *              before the stack is published.
 */
#ifndef KY_WIRE_PLACE_TABLE_H
#define KY_WIRE_PLACE_TABLE_H

#include <kymo/place.h>
#include <stdatomic.h>
#include <stdint.h>

#define KY_PLACE_PAGE_BYTES 4096u
#define KY_PLACE_SLOTS (KYMO_PLACE_SETS * KYMO_PLACE_WAYS)
#define KY_PLACE_STACKS 2048u
#define KY_PLACE_UNIT_BYTES 64u
#define KY_PLACE_UNITS 3520u
#define KY_PLACE_NO_STACK 0xffffu

/* In the first way's word of a set: entries of it lie in the set beside it (set ^ 1). */
#define KY_PLACE_SPILLED (UINT64_C(1) << 63)
/* In a way's word: how many tasks lie elsewhere that would lie here by their hash. Of the recording
 * side alone. */
#define KY_PLACE_AWAY_ONE (UINT64_C(1) << KYMO_TASK_BITS)
#define KY_PLACE_AWAY_MASK (KY_PLACE_SPILLED - KY_PLACE_AWAY_ONE)
#define KY_PLACE_TASK_MASK ((UINT64_C(1) << KYMO_TASK_BITS) - 1)

struct ky_place_head {
	_Atomic uint64_t put_count;      /* stacks taken */
	_Atomic uint64_t refused_count;  /* tasks that found no way free */
	_Atomic uint64_t stacks_refused; /* stacks that found no room */
	_Atomic uint64_t units_used;     /* may exceed KY_PLACE_UNITS */
	uint64_t threshold_ns;           /* idle so long: always taken */
	uint32_t one_in;                 /* of the others */
	uint32_t budget_hz;              /* of a thread, before it comes to that */
};

enum ky_place_flags {
	KY_PLACE_TRUNCATED = 1u << 0 /* one of its stacks does not reach the poll */
};

struct ky_place_slot {
	_Atomic uint32_t sequence; /* odd: being written */
	_Atomic uint32_t one_in;
	_Atomic uint64_t task_word;
	_Atomic uint64_t since_ticks; /* taken there for the first time, and nowhere else since */
	_Atomic uint64_t taken_ticks; /* and for the last time */
	/* Begin of a poll that kept a waker somewhere and was not taken; > taken_ticks: it may wait
	 * elsewhere by now. Written without the sequence. */
	_Atomic uint64_t moved_ticks;
	/* KYMO_PLACE_STACKS_MAX numbers of stacks, 16 bits each, then flags; absent ones:
	 * KY_PLACE_NO_STACK. */
	_Atomic uint64_t stacks;
	uint64_t reserved;
	uint64_t scratch; /* of the process that makes the page exist */
};

struct ky_place_stack {
	_Atomic uint64_t hash; /* 0: free; never changes again */
	/* Its first unit | frames << 16 | KY_PLACE_PUBLISHED (release); 0: not yet, or never */
	_Atomic uint64_t place;
};
#define KY_PLACE_PUBLISHED (UINT64_C(1) << 63)

#define KY_PLACE_SETS_OFFSET KY_PLACE_PAGE_BYTES
#define KY_PLACE_SLOTS_OFFSET                                                                      \
	(KY_PLACE_SETS_OFFSET + KYMO_PLACE_SETS * sizeof(struct kymo_place_set))
#define KY_PLACE_STACKS_OFFSET                                                                     \
	(KY_PLACE_SLOTS_OFFSET + KY_PLACE_SLOTS * sizeof(struct ky_place_slot))
#define KY_PLACE_UNITS_OFFSET                                                                      \
	(KY_PLACE_STACKS_OFFSET + KY_PLACE_STACKS * sizeof(struct ky_place_stack))
#define KY_PLACE_AREA_BYTES (KY_PLACE_UNITS_OFFSET + KY_PLACE_UNITS * KY_PLACE_UNIT_BYTES)

_Static_assert(sizeof(struct kymo_place_set) == 128, "two lines");
_Static_assert(KY_PLACE_SLOTS == 1u << KYMO_PLACE_ROW_BITS, "a row of tasks fills it");
_Static_assert(sizeof(struct ky_place_slot) == 64, "one line");
_Static_assert(KY_PLACE_AREA_BYTES <= 3u << 19, "1.5 MiB at most");
_Static_assert(KY_PLACE_AREA_BYTES % KY_PLACE_PAGE_BYTES == 0, "whole pages");
_Static_assert(KY_PLACE_UNITS <= 65536, "a unit's number has 16 bits");

#endif
