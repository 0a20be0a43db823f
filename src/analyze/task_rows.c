/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/task_rows.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

#define WORKER_BITS 20

/* Where the polls of the range begin in this worker's column. */
static uint64_t first_row(const struct ky_column *polls, uint64_t from_ns)
{
	uint64_t row = ky_column_find(polls, from_ns);

	return row ? row - 1 : 0; /* it may be open then */
}

/* counts: how many of each task; or, with rows, where its next one goes. */
static void visit(const struct ky_task_rows *out, uint64_t from_ns, uint64_t to_ns,
		  uint32_t *counts, struct ky_task_row *rows)
{
	for (uint32_t worker = 0; worker < out->trace->worker_count; worker++) {
		const struct ky_column *polls = &out->trace->workers[worker].polls;
		struct ky_cursor at;

		if (!ky_cursor_begin(&at, polls, first_row(polls, from_ns)))
			continue;
		do {
			const struct ky_poll_row *row = (const void *)at.at;

			if (at.time_ns >= to_ns)
				break;
			if (rows)
				rows[counts[row->task]] = (struct ky_task_row){
					at.time_ns, at.row << WORKER_BITS | worker};
			counts[row->task]++;
		} while (ky_cursor_next(&at));
	}
}

int ky_task_rows_make(struct ky_task_rows *out, const struct ky_trace *trace, uint64_t from_ns,
		      uint64_t to_ns)
{
	size_t tasks = trace->task_count + (size_t)1;
	uint32_t sum = 0;

	*out = (struct ky_task_rows){.trace = trace,
				     .firsts = ky_alloc(tasks * sizeof(*out->firsts)),
				     .is_sorted = ky_alloc(tasks)};
	if (!out->firsts || !out->is_sorted || trace->worker_count >> WORKER_BITS)
		goto failed;
	visit(out, from_ns, to_ns, out->firsts, NULL);
	for (uint32_t i = 0; i <= trace->task_count; i++) {
		uint32_t count = out->firsts[i];

		out->firsts[i] = sum;
		sum += i < trace->task_count ? count : 0;
	}
	out->rows = ky_alloc((sum + (size_t)1) * sizeof(*out->rows));
	if (!out->rows)
		goto failed;
	visit(out, from_ns, to_ns, out->firsts, out->rows);
	/* Each begins where the one before ends now. */
	memmove(out->firsts + 1, out->firsts, trace->task_count * sizeof(*out->firsts));
	out->firsts[0] = 0;
	return 0;
failed:
	ky_task_rows_release(out);
	return -ENOMEM;
}

void ky_task_rows_release(struct ky_task_rows *rows)
{
	ky_free(rows->rows);
	ky_free(rows->firsts);
	ky_free(rows->is_sorted);
	*rows = (struct ky_task_rows){0};
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_task_row *one = a, *other = b;

	(void)ctx;
	return one->start_ns != other->start_ns ? one->start_ns < other->start_ns :
						  one->place < other->place;
}

uint32_t ky_task_rows_of(struct ky_task_rows *rows, uint32_t task, const struct ky_task_row **out)
{
	struct ky_task_row *first = rows->rows + rows->firsts[task];
	uint32_t count = rows->firsts[task + 1] - rows->firsts[task];

	if (!rows->is_sorted[task]) {
		ky_sort(first, count, sizeof(*first), is_before, NULL);
		rows->is_sorted[task] = 1;
	}
	*out = first;
	return count;
}

void ky_task_rows_poll(const struct ky_task_rows *rows, const struct ky_task_row *row,
		       struct ky_poll *out)
{
	ky_trace_poll_began(rows->trace, (uint32_t)(row->place & ((1u << WORKER_BITS) - 1)),
			    row->place >> WORKER_BITS, row->start_ns, out);
}

uint32_t ky_task_rows_until(struct ky_task_rows *rows, uint32_t task, uint64_t ns,
			    const struct ky_task_row **out)
{
	uint32_t low = 0, high = ky_task_rows_of(rows, task, out);
	const struct ky_task_row *list = *out;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (list[middle].start_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool ky_task_rows_before(struct ky_task_rows *rows, uint32_t task, uint64_t ns, struct ky_poll *out)
{
	const struct ky_task_row *list;
	uint32_t count = ky_task_rows_until(rows, task, ns, &list);

	if (count)
		ky_task_rows_poll(rows, &list[count - 1], out);
	return count != 0;
}
