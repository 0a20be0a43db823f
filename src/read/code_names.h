/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* code_names.h - what texts need to know of the code of a trace: names of addresses, and the stacks
 * of crashes, which are in no event.
 * Threads: owner.
 */
#ifndef KY_READ_CODE_NAMES_H
#define KY_READ_CODE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#define KY_CRASH_FRAMES_MAX 128u

struct ky_symbol_table;

struct ky_crash_stack {
	uint64_t frames[KY_CRASH_FRAMES_MAX]; /* the innermost first; callers: inside the call */
	uint32_t count;                       /* at least 1 where the pc is known */
	bool is_whole;                        /* up to the thread's first function */
};

struct ky_code_names {
	struct ky_symbol_table *table; /* NULL: addresses stay numbers */
	/* The stack of the crash at that time; count 0: it is not known. NULL: of no crash. */
	void (*crash)(void *ctx, uint64_t time_ns, struct ky_crash_stack *out);
	void *ctx;
};

/* The stack of a crash, its pc alone where that is all that is known. */
static inline void ky_code_names_crash(const struct ky_code_names *names, uint64_t time_ns,
				       uint64_t pc, struct ky_crash_stack *out)
{
	out->count = 0;
	out->is_whole = false;
	if (names->crash)
		names->crash(names->ctx, time_ns, out);
	if (!out->count && pc)
		out->frames[out->count++] = pc;
}

#endif
