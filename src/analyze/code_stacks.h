/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* code_stacks.h - the stacks of a trace as lines of code: what reports and exports show of them.
 *
 * Invariants:  every distinct place of code is asked for once; a line is one function, inlined ones
 *              before the one they are in. Equal names are one function, whatever their address.
 *              Deterministic: the same trace and the same names give the same numbers.
 * Memory:      one number a frame, one element a distinct place; of what is inlined at one place
 *              KY_CODE_INLINES_MAX lines are kept.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_ANALYZE_CODE_STACKS_H
#define KY_ANALYZE_CODE_STACKS_H

#include <read/symbol_table.h>
#include <read/trace.h>

#define KY_CODE_INLINES_MAX 64u

struct ky_code_line {
	const char *name, *file; /* of the symbol table, which has to live as long; never NULL */
	uint32_t line;
	uint32_t function; /* number of the name, from 0 */
	uint32_t why;      /* enum ky_symbol_why */
	bool is_system;    /* the kernel, libc, the loader, or the recorder itself */
	bool is_recorder;  /* all of its functions are one, named "kymo" */
};

struct ky_code_spot {
	uint64_t address;
	uint32_t first, count; /* of its lines, innermost first */
	uint32_t number;       /* what the table calls the innermost: distinguishes spots */
	uint32_t module;       /* number in the code map; KY_NONE */
};

struct ky_code_stacks {
	const struct ky_trace *trace;
	uint32_t *frame_spots; /* as trace->samples.frames */
	uint32_t *sites;       /* by stack: the first one with the same own and leaf lines */
	bool *is_place;        /* by stack: a task waits there */
	struct ky_code_spot *spots;
	uint32_t spot_count;
	struct ky_code_line *lines;
	uint32_t line_count;
	uint32_t *function_lines; /* by function: a line that has it */
	uint32_t function_count;
	uint32_t nameless_count; /* spots without a name */
};

/* symbols: asked for every address. Returns 0, -ENOMEM. */
int ky_code_stacks_make(struct ky_code_stacks *out, const struct ky_trace *trace,
			struct ky_symbol_table *symbols);
void ky_code_stacks_release(struct ky_code_stacks *stacks);

/* Walks the lines of a stack, the leaf's innermost first. */
struct ky_code_walk {
	const struct ky_code_stacks *stacks;
	uint32_t frame, frame_end, line, line_end;
};
void ky_code_walk_begin(struct ky_code_walk *walk, const struct ky_code_stacks *stacks,
			uint32_t stack);
/* NULL after the last. */
const struct ky_code_line *ky_code_walk_next(struct ky_code_walk *walk);

/* Tokio's own frame around a poll: what is further out called the runtime, on a runtime of one
 * thread the program's block_on(), too. Further in it may stand for a JoinHandle. */
bool ky_code_polls_task(const struct ky_code_line *line);
/* False for the language's library, the runtime, dependencies and inline functions of ours, as
 * names and files report. */
bool ky_code_is_own(const struct ky_code_line *line);

/* The line to show when there is room for one: the innermost of the program's own code; else, of a
 * task that waits, the outermost that is neither the language's nor the runtime's: what the task
 * is; else the innermost that is neither: a dependency's; else the innermost with a name; else the
 * leaf. NULL: there is no stack. */
const struct ky_code_line *ky_code_own_line(const struct ky_code_stacks *stacks, uint32_t stack);

/* The line to show beside it: the leaf; of a task that waits what the other line awaits. NULL:
 * there is none. */
const struct ky_code_line *ky_code_leaf_line(const struct ky_code_stacks *stacks, uint32_t stack);

#endif
