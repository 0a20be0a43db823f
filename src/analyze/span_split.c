/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/span_split.h>

#include <analyze/own_parts.h>
#include <analyze/task_rows.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <errno.h>
#include <read/ascending.h>
#include <read/requests.h>

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

/* Rows below `at` that begin before this moment, which is not far from the last of them. */
static uint32_t rows_until(const struct ky_task_row *list, uint32_t at, uint64_t ns)
{
	while (at && list[at - 1].start_ns >= ns)
		at--;
	return at;
}

static void split_span(struct ky_span_split *split, struct ky_task_rows *rows,
		       const struct ky_trace_span *span)
{
	uint64_t begin_ns = span->start_ns, ns = begin_ns + span->duration_ns;
	const struct ky_task_row *list = NULL;
	uint32_t at = 0, at_before;
	struct ky_poll poll, before;

	if (span->task != KY_NONE)
		at = ky_task_rows_until(rows, span->task, ns, &list);
	while (ns > begin_ns) {
		uint64_t end_ns, gap_ns;

		at = rows_until(list, at, ns);
		if (!at) {
			split->unknown_ns += ns - begin_ns;
			return;
		}
		ky_task_rows_poll(rows, &list[at - 1], &poll);
		end_ns = poll.start_ns + poll.duration_ns;
		if (end_ns < ns) { /* it ended while its task was not polled */
			gap_ns = ns - ky_later(end_ns, begin_ns);
			split->unknown_ns += gap_ns;
			ns -= gap_ns;
			if (ns == begin_ns)
				return;
		}
		add_poll(split, rows->trace, &poll, ky_later(poll.start_ns, begin_ns), ns);
		if (poll.start_ns <= begin_ns)
			return;
		end_ns = begin_ns;
		at_before = rows_until(list, at - 1, poll.start_ns);
		if (at_before) {
			ky_task_rows_poll(rows, &list[at_before - 1], &before);
			end_ns = ky_later(before.start_ns + before.duration_ns, begin_ns);
		}
		if (end_ns > poll.start_ns)
			end_ns = poll.start_ns;
		add_gap(split, &poll, end_ns);
		ns = end_ns;
	}
}

/* ---- many spans of one task with many polls ---- */

#define STEPS_MAX (UINT64_C(1) << 20) /* polls times spans of a task: below, each is walked */

/* Of a task's polls up to each one: sums of the polls, and of the gaps before them. */
struct split_sums {
	struct ky_span_split *polls, *gaps; /* one more than polls */
	uint64_t *starts, *ends;
	uint32_t count;
};

static void release(struct split_sums *sums)
{
	ky_free(sums->polls);
	ky_free(sums->gaps);
	ky_free(sums->starts);
	ky_free(sums->ends);
	*sums = (struct split_sums){0};
}

/* *is_plain: no poll overlaps the next one. Returns whether memory was enough. */
static bool make_sums(struct split_sums *out, struct ky_task_rows *rows, uint32_t task,
		      bool *is_plain)
{
	const struct ky_task_row *list;
	size_t count = ky_task_rows_of(rows, task, &list);

	*out = (struct split_sums){.polls = ky_alloc((count + 1) * sizeof(*out->polls)),
				   .gaps = ky_alloc((count + 1) * sizeof(*out->gaps)),
				   .starts = ky_alloc((count + 1) * sizeof(*out->starts)),
				   .ends = ky_alloc((count + 1) * sizeof(*out->ends)),
				   .count = (uint32_t)count};
	if (!out->polls || !out->gaps || !out->starts || !out->ends)
		return false;
	*is_plain = true;
	for (size_t i = 0; i < count; i++) {
		struct ky_poll poll;

		ky_task_rows_poll(rows, &list[i], &poll);
		out->starts[i] = poll.start_ns;
		out->ends[i] = poll.start_ns + poll.duration_ns;
		*is_plain &= !i || out->ends[i - 1] <= poll.start_ns;
		out->polls[i + 1] = out->polls[i];
		add_poll(&out->polls[i + 1], rows->trace, &poll, poll.start_ns, out->ends[i]);
		out->gaps[i + 1] = out->gaps[i];
		if (i && *is_plain)
			add_gap(&out->gaps[i + 1], &poll, out->ends[i - 1]);
	}
	return true;
}

static void add_range(struct ky_span_split *split, const struct ky_span_split *list, uint32_t from,
		      uint32_t to)
{
	const struct ky_span_split *a = &list[from], *b = &list[to];

	split->cpu_ns += b->cpu_ns - a->cpu_ns;
	split->off_cpu_ns += b->off_cpu_ns - a->off_cpu_ns;
	split->polled_ns += b->polled_ns - a->polled_ns;
	split->ready_ns += b->ready_ns - a->ready_ns;
	split->waiting_ns += b->waiting_ns - a->waiting_ns;
	split->unknown_ns += b->unknown_ns - a->unknown_ns;
	split->polls += b->polls - a->polls;
}

/* Polls [first, end) lie in the span as a whole: all but the first of them and the gaps before them
 * at once, the rest as ever. */
static void split_by_sums(struct ky_span_split *split, struct ky_task_rows *rows,
			  const struct ky_trace_span *span, const struct split_sums *sums)
{
	uint64_t end_ns = span->start_ns + span->duration_ns;
	uint32_t first = ky_ascending_below(sums->starts, sums->count, span->start_ns);
	uint32_t end = ky_ascending_up_to(sums->ends, sums->count, end_ns);
	struct ky_trace_span head = *span, tail = *span;

	if (end < first + 2) {
		split_span(split, rows, span);
		return;
	}
	head.duration_ns = sums->ends[first] - span->start_ns;
	split_span(split, rows, &head);
	add_range(split, sums->polls, first + 1, end);
	add_range(split, sums->gaps, first + 1, end);
	tail.start_ns = sums->ends[end - 1];
	tail.duration_ns = end_ns - tail.start_ns;
	split_span(split, rows, &tail);
}

/* What a request's task waited for while there was nothing to read, and then something. sums: NULL:
 * none. */
static void split_client(struct ky_span_split *split, struct ky_task_rows *rows,
			 const struct ky_trace_span *span, const struct split_sums *sums)
{
	uint64_t begin_ns = span->start_ns, end_ns = begin_ns + span->duration_ns;

	for (uint32_t i = 0; i < span->wait_count; i++) {
		const struct ky_request_wait *wait = &rows->trace->request_waits[span->wait_at + i];
		uint64_t from_ns = ky_later(wait->from_ns, begin_ns);
		uint64_t to_ns = ky_earlier(wait->to_ns, end_ns);
		struct ky_trace_span part = *span;
		struct ky_span_split waited = {0};

		if (from_ns >= to_ns)
			continue;
		part.start_ns = from_ns;
		part.duration_ns = to_ns - from_ns;
		if (sums)
			split_by_sums(&waited, rows, &part, sums);
		else
			split_span(&waited, rows, &part);
		if (waited.waiting_ns > split->waiting_ns)
			waited.waiting_ns = split->waiting_ns;
		split->waiting_ns -= waited.waiting_ns;
		split->client_ns += waited.waiting_ns;
	}
}

/* Spans of one task. Returns whether memory was enough. */
static bool split_task(struct ky_span_split *splits, struct ky_task_rows *rows,
		       const uint32_t *order, uint32_t count)
{
	const struct ky_trace *trace = rows->trace;
	uint32_t task = trace->spans[order[0]].task;
	bool is_plain = false, is_made = true;
	const struct ky_task_row *list;
	struct split_sums sums = {0};

	if (task != KY_NONE && (uint64_t)ky_task_rows_of(rows, task, &list) * count > STEPS_MAX)
		is_made = make_sums(&sums, rows, task, &is_plain);
	for (uint32_t i = 0; i < count && is_made; i++) {
		const struct ky_trace_span *span = &trace->spans[order[i]];

		if (span->is_open)
			continue;
		if (is_plain)
			split_by_sums(&splits[order[i]], rows, span, &sums);
		else
			split_span(&splits[order[i]], rows, span);
		if (span->wait_count)
			split_client(&splits[order[i]], rows, span, is_plain ? &sums : NULL);
	}
	release(&sums);
	return is_made;
}

static uint32_t place_of(const struct ky_trace *trace, uint32_t span)
{
	uint32_t task = trace->spans[span].task;

	return task < trace->task_count ? task : trace->task_count;
}

static bool split_all(struct ky_span_split *splits, struct ky_task_rows *rows)
{
	const struct ky_trace *trace = rows->trace;
	uint32_t *order = ky_alloc((trace->span_count + (size_t)1) * sizeof(*order));
	uint32_t *ends = ky_alloc((trace->task_count + (size_t)2) * sizeof(*ends)), first = 0;
	bool is_made = order && ends;

	/* Those of one task together; of a task in their order. */
	for (uint32_t i = 0; is_made && i < trace->span_count; i++)
		ends[place_of(trace, i) + 1]++;
	for (uint32_t i = 1; is_made && i <= trace->task_count; i++)
		ends[i] += ends[i - 1];
	for (uint32_t i = 0; is_made && i < trace->span_count; i++)
		order[ends[place_of(trace, i)]++] = i;
	for (uint32_t i = 0; is_made && i <= trace->task_count; i++) {
		if (ends[i] > first)
			is_made = split_task(splits, rows, order + first, ends[i] - first);
		first = ends[i];
	}
	ky_free(ends);
	ky_free(order);
	return is_made;
}

int ky_span_splits(const struct ky_trace *trace, struct ky_span_split **out)
{
	struct ky_task_rows rows = {0};
	bool is_made;

	*out = ky_alloc((trace->span_count + (size_t)1) * sizeof(**out));
	is_made = *out && ky_task_rows_make(&rows, trace, 0, UINT64_MAX) == 0;
	if (is_made)
		is_made = split_all(*out, &rows);
	ky_task_rows_release(&rows);
	if (is_made)
		return 0;
	ky_free(*out);
	*out = NULL;
	return -ENOMEM;
}

void ky_span_split_add(struct ky_span_split *sum, const struct ky_span_split *one)
{
	sum->cpu_ns += one->cpu_ns;
	sum->off_cpu_ns += one->off_cpu_ns;
	sum->polled_ns += one->polled_ns;
	sum->ready_ns += one->ready_ns;
	sum->waiting_ns += one->waiting_ns;
	sum->client_ns += one->client_ns;
	sum->unknown_ns += one->unknown_ns;
	sum->polls += one->polls;
}
