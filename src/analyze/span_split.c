/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/span_split.h>

#include <analyze/own_parts.h>
#include <analyze/task_rows.h>
#include <base/alloc.h>
#include <errno.h>

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void add_poll(struct ky_span_split *split, const struct ky_trace *trace,
		     const struct ky_poll *poll, uint64_t from_ns, uint64_t to_ns)
{
	struct ky_own_poll own;

	split->polls++;
	if (from_ns != poll->start_ns || to_ns != poll->start_ns + poll->duration_ns) {
		split->polled_ns += to_ns - from_ns;
		return;
	}
	ky_own_split(&own, trace, poll);
	split->cpu_ns += own.sums[KY_OWN_CPU];
	split->off_cpu_ns += own.sums[KY_OWN_BLOCKED] + own.sums[KY_OWN_RUNNABLE];
	split->unknown_ns += own.sums[KY_OWN_GAP] + own.sums[KY_OWN_STOPPED];
	split->polled_ns += own.sums[KY_OWN_NESTED] + own.sums[KY_OWN_UNSPLIT];
}

/* Before the poll, back to `from_ns`: it was ready for as long as is known, and waited before. */
static void add_gap(struct ky_span_split *split, const struct ky_poll *poll, uint64_t from_ns)
{
	uint64_t gap_ns = poll->start_ns - from_ns;
	uint64_t ready_ns = poll->delay_state ? 0 : poll->delay_ns;

	if (poll->delay_state) {
		split->unknown_ns += gap_ns;
		return;
	}
	if (ready_ns > gap_ns)
		ready_ns = gap_ns;
	split->ready_ns += ready_ns;
	split->waiting_ns += gap_ns - ready_ns;
}

static void split_span(struct ky_span_split *split, struct ky_task_rows *rows,
		       const struct ky_trace_span *span)
{
	uint64_t begin_ns = span->start_ns, ns = begin_ns + span->duration_ns;
	struct ky_poll poll, before;

	while (ns > begin_ns) {
		uint64_t end_ns, gap_ns;

		if (span->task == KY_NONE || !ky_task_rows_before(rows, span->task, ns, &poll)) {
			split->unknown_ns += ns - begin_ns;
			return;
		}
		end_ns = poll.start_ns + poll.duration_ns;
		if (end_ns < ns) { /* it ended while its task was not polled */
			gap_ns = ns - later(end_ns, begin_ns);
			split->unknown_ns += gap_ns;
			ns -= gap_ns;
			if (ns == begin_ns)
				return;
		}
		add_poll(split, rows->trace, &poll, later(poll.start_ns, begin_ns), ns);
		if (poll.start_ns <= begin_ns)
			return;
		end_ns = begin_ns;
		if (ky_task_rows_before(rows, span->task, poll.start_ns, &before))
			end_ns = later(before.start_ns + before.duration_ns, begin_ns);
		if (end_ns > poll.start_ns)
			end_ns = poll.start_ns;
		add_gap(split, &poll, end_ns);
		ns = end_ns;
	}
}

int ky_span_splits(const struct ky_trace *trace, struct ky_span_split **out)
{
	struct ky_task_rows rows;
	int result;

	*out = ky_alloc((trace->span_count + (size_t)1) * sizeof(**out));
	if (!*out)
		return -ENOMEM;
	result = ky_task_rows_make(&rows, trace, 0, UINT64_MAX);
	if (result) {
		ky_free(*out);
		*out = NULL;
		return result;
	}
	for (uint32_t i = 0; i < trace->span_count; i++)
		if (!trace->spans[i].is_open)
			split_span(&(*out)[i], &rows, &trace->spans[i]);
	ky_task_rows_release(&rows);
	return 0;
}

void ky_span_split_add(struct ky_span_split *sum, const struct ky_span_split *one)
{
	sum->cpu_ns += one->cpu_ns;
	sum->off_cpu_ns += one->off_cpu_ns;
	sum->polled_ns += one->polled_ns;
	sum->ready_ns += one->ready_ns;
	sum->waiting_ns += one->waiting_ns;
	sum->unknown_ns += one->unknown_ns;
	sum->polls += one->polls;
}
