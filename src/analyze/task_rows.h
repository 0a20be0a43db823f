/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_rows.h - the polls of each task in the order of time, of a range.
 *
 * Memory:      16 bytes a poll of the range, 5 a task.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_TASK_ROWS_H
#define KY_ANALYZE_TASK_ROWS_H

#include <read/trace.h>

struct ky_task_row {
	uint64_t start_ns;
	uint64_t place; /* row << 20 | index of the worker */
};

struct ky_task_rows {
	const struct ky_trace *trace;
	struct ky_task_row *rows;
	uint32_t *firsts;   /* by task; one more at the end */
	uint8_t *is_sorted; /* by task */
};

/* Of polls that begin in [from, to), and those that are open at its begin. Returns 0, -ENOMEM. */
int ky_task_rows_make(struct ky_task_rows *out, const struct ky_trace *trace, uint64_t from_ns,
		      uint64_t to_ns);
void ky_task_rows_release(struct ky_task_rows *rows);

/* Those of the task, in order. Returns how many. */
uint32_t ky_task_rows_of(struct ky_task_rows *rows, uint32_t task, const struct ky_task_row **out);
void ky_task_rows_poll(const struct ky_task_rows *rows, const struct ky_task_row *row,
		       struct ky_poll *out);

/* How many of the task began before this moment; *out: all, in order. */
uint32_t ky_task_rows_until(struct ky_task_rows *rows, uint32_t task, uint64_t ns,
			    const struct ky_task_row **out);
/* The last poll of the task that began before this moment. Returns false where there is none. */
bool ky_task_rows_before(struct ky_task_rows *rows, uint32_t task, uint64_t ns,
			 struct ky_poll *out);

#endif
