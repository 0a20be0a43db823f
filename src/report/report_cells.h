/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* report_cells.h - what the parts of the report for people share: what they print of and where to,
 * and cells of their tables.
 * Threads: any.
 */
#ifndef KY_REPORT_REPORT_CELLS_H
#define KY_REPORT_REPORT_CELLS_H

#include <analyze/stack_profile.h>
#include <base/out_text.h>
#include <read/code_names.h>
#include <analyze/short_name.h>

#define KY_REPORT_NAME_BYTES KY_SHORT_NAME_BYTES

struct ky_report_view {
	struct ky_buf *out;
	const struct ky_trace *trace;
	const struct ky_report *report;
	const struct ky_stack_profile *profile;
	bool is_coloured;
	uint32_t worst_count;
	const struct ky_code_names *names;
	bool is_wall;                      /* moments are those of the wall clock */
	const struct ky_code_stacks *code; /* NULL: no stack has names */
};

/* Fills `cell` (KY_REPORT_NAME_BYTES) and returns it. Shortened by short_name.h, but never so far
 * that two kinds of task, or of blocking runs, read alike. */
const char *ky_report_name(char *cell, const struct ky_report_view *view, uint32_t name);
void ky_report_name_cell(struct ky_table *table, const struct ky_report_view *view, uint32_t name);
uint32_t ky_report_poll_name(const struct ky_trace *trace, const struct ky_poll *poll);

void ky_report_moment_cell(
	struct ky_table *table, const struct ky_report_view *view,
	uint64_t time_ns); /* +1.234 after the start, or the date and time in UTC */
/* Rounded; 0 of nothing. */
uint64_t ky_report_permille(uint64_t part, uint64_t whole);
void ky_report_permille_cell(struct ky_table *table, uint64_t permille); /* UINT64_MAX: - */
/* The part of the whole; - of nothing. */
void ky_report_share_cell(struct ky_table *table, uint64_t part, uint64_t whole);
void ky_report_worker_cell(struct ky_table *table, const struct ky_trace *trace, uint32_t worker);
void ky_report_task_cell(struct ky_table *table, const struct ky_trace *trace, uint32_t task);

/* "task 3 (svc::accept)", "root 1 (block_on)". */
void ky_report_put_task(struct ky_buf *out, const struct ky_trace *trace, uint32_t task);

/* Its name, or its kind; "-": not known. */
const char *ky_report_runtime(const struct ky_trace *trace, uint32_t worker);
/* "4242 tokio-runtime-w". */
void ky_report_thread_cell(struct ky_table *table, const struct ky_trace *trace, uint32_t tid);

#endif
