/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_image.h - the part of the ring file that says who called whom: for every place in the code
 * of a process how its frame is left. Plain layouts.
 *
 * Area:   struct ky_unwind_head, then, appended, for each file that was ever mapped its blocks,
 *         rows and wide rules. A module names those of its file; several may name the same.
 *         Offsets count from the start of the area.
 *
 * Writer:      one at a time, outside the threads that read: `kymo`, or the library's own thread.
 *              What a module names is written before the module is, the module before the index.
 * Readers:     any thread and signal handler of the process, any other process. They trust nothing:
 *              a damaged table gives a short stack. They touch only bytes below used_bytes; pages
 *              above do not exist.
 * Rows:        sorted by pc; each holds from its pc up to the next one's. Block n says which row is
 *              the last one that begins at or before its first byte, so that a lookup searches
 *              some dozen rows.
 */
#ifndef KY_WIRE_UNWIND_IMAGE_H
#define KY_WIRE_UNWIND_IMAGE_H

#include <stdatomic.h>
#include <stdint.h>

/* 110 MB of Rust code take 9 MB. */
#define KY_UNWIND_AREA_BYTES ((uint64_t)32 << 20)
#define KY_UNWIND_MODULES_MAX 512u
#define KY_UNWIND_BLOCK_BYTES 512u
/* A rule of 28 bits would not hold it: an entry of the module's wide rules. */
#define KY_UNWIND_WIDE_MAX (1u << 20)

/* How the canonical frame address (CFA: the stack pointer before the call) is found. The caller's
 * pc lies right below it on x86-64; on aarch64 where `second` says. */
enum ky_unwind_kind {
	KY_UNWIND_NO_CODE = 0,   /* no function that we know of */
	KY_UNWIND_BEYOND = 1,    /* a function whose rule is beyond what we follow */
	KY_UNWIND_FIRST = 2,     /* the thread began here */
	KY_UNWIND_SIGNAL = 3,    /* the kernel's frame: registers lie at sp */
	KY_UNWIND_BY_SP = 4,     /* sp + offset */
	KY_UNWIND_BY_FP = 5,     /* fp + offset */
	KY_UNWIND_BY_SECOND = 6, /* x86-64: rbx + offset */
	KY_UNWIND_PLT = 7,       /* sp + 8, and 8 more where pc % 16 >= offset / 8 */
	KY_UNWIND_WIDE = 8       /* the upper 28 bits: which wide rule */
};

/* Where a register of the caller lies. */
enum ky_unwind_saved {
	KY_UNWIND_SAME = 0, /* in the register */
	KY_UNWIND_LOST = 1  /* nowhere; n >= 2: at CFA - 8 n */
};

/* A rule's 32 bits: kind, offset / 8, fp, second. */
#define KY_UNWIND_KIND_BITS 4
#define KY_UNWIND_OFFSET_BITS 14
#define KY_UNWIND_SAVED_BITS 7
#define KY_UNWIND_OFFSET_MAX ((1u << KY_UNWIND_OFFSET_BITS) - 1)
#define KY_UNWIND_SAVED_MAX ((1u << KY_UNWIND_SAVED_BITS) - 1)

struct ky_unwind_row {
	uint32_t pc; /* from the module's base */
	uint32_t rule;
};

/* CFA = base + offset, or, is_indirect, the word there + further. Where base is not sp, fp or
 * second it is known in the innermost frame alone. */
struct ky_unwind_wide {
	uint8_t base; /* DWARF number */
	uint8_t is_indirect;
	uint8_t fp_from_base; /* 1: `fp` counts from base, not from the CFA */
	uint8_t reserved;
	int32_t offset;
	int32_t further;
	int16_t fp, second; /* / 8, from the CFA; 0: in the register; INT16_MAX: lost */
};
#define KY_UNWIND_WIDE_LOST INT16_MAX

/* Code of the process in [start, end). generation is odd while it is written; a reader copies the
 * rest and reads it again. */
struct ky_unwind_module {
	_Atomic uint32_t generation;
	uint32_t wide_count;
	uint64_t start, end;
	uint64_t base; /* address = base + pc of a row */
	uint64_t blocks_offset, rows_offset, wide_offset;
	uint32_t block_count, row_count;
};

struct ky_unwind_head {
	/* How often the index was changed << 32 | modules in it (release). Index n & 1 is the valid
	 * one; the other is written next. */
	_Atomic uint64_t index_word;
	_Atomic uint64_t used_bytes;    /* of the area; what is below exists */
	_Atomic uint64_t refused_count; /* modules that found no room or could not be read */
	_Atomic uint64_t built_count;   /* files read */
	uint64_t reserved[4];
	uint16_t index[2][KY_UNWIND_MODULES_MAX]; /* modules, by start */
	struct ky_unwind_module modules[KY_UNWIND_MODULES_MAX];
};

_Static_assert(sizeof(struct ky_unwind_row) == 8, "rows are counted by millions");
_Static_assert(sizeof(struct ky_unwind_wide) == 16, "no holes");
_Static_assert(sizeof(struct ky_unwind_module) == 64, "one line of the cache");

#endif
