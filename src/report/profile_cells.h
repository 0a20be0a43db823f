/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* profile_cells.h - what samples show, in words: cells of the tables of `kymo report`.
 *
 * Invariants:  a `cell` has KY_PROFILE_CELL_BYTES and is what is returned.
 * Threads:     owner.
 */
#ifndef KY_REPORT_PROFILE_CELLS_H
#define KY_REPORT_PROFILE_CELLS_H

#include <analyze/stack_profile.h>
#include <base/out_text.h>

#define KY_PROFILE_CELL_BYTES 256u

/* Of a task or a function: short_name.h. */
const char *ky_profile_short_name(char *cell, const char *name);
/* "demo-service/src/main.rs:57": the last parts of a path are enough to find a file by; "" where
 * none is known. */
const char *ky_profile_place(char *cell, const struct ky_code_line *line);
/* "one sample", "2,000 samples". */
const char *ky_profile_samples(char *cell, uint64_t count);
void ky_profile_name_cell(struct ky_table *table, const char *name);
/* Two cells: the program's own line of a stack, and its file. */
void ky_profile_where_cells(struct ky_table *table, const struct ky_stack_profile *profile,
			    uint32_t stack);
/* "-" where it is that very line. */
void ky_profile_leaf_cell(struct ky_table *table, const struct ky_stack_profile *profile,
			  uint32_t stack);
/* Blocked, or ready to run and without a CPU: parts that are less than a hundredth of it are
 * passed over. */
void ky_profile_state_cell(struct ky_table *table, const struct ky_off_cpu_parts *of, double all);

#endif
