/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/span_samples.h>

#include <base/alloc.h>
#include <base/earlier.h>
#include <errno.h>

static bool is_counted(const struct ky_trace *trace, const struct ky_stack_row *row)
{
	return (row->kind == KY_STACK_CPU || row->kind == KY_STACK_OFF_CPU) &&
	       row->stack != KY_NONE && row->task < trace->task_count;
}

int ky_span_samples_make(struct ky_span_samples *out, const struct ky_trace *trace,
			 const struct ky_code_stacks *code)
{
	const struct ky_samples *samples = &trace->samples;

	*out = (struct ky_span_samples){.trace = trace, .code = code};
	if (!code)
		return 0;
	out->order = ky_alloc((samples->row_count + (size_t)1) * sizeof(*out->order));
	out->firsts = ky_alloc((trace->task_count + (size_t)2) * sizeof(*out->firsts));
	out->functions = ky_alloc((samples->stack_count + (size_t)1) * sizeof(*out->functions));
	if (!out->order || !out->firsts || !out->functions) {
		ky_span_samples_release(out);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < samples->row_count; i++)
		if (is_counted(trace, &samples->rows[i]))
			out->firsts[samples->rows[i].task + 2]++;
	for (uint32_t i = 2; i < trace->task_count + 2; i++)
		out->firsts[i] += out->firsts[i - 1];
	for (uint32_t i = 0; i < samples->row_count; i++)
		if (is_counted(trace, &samples->rows[i]))
			out->order[out->firsts[samples->rows[i].task + 1]++] = i;
	return 0;
}

void ky_span_samples_release(struct ky_span_samples *samples)
{
	ky_free(samples->order);
	ky_free(samples->firsts);
	ky_free(samples->functions);
	*samples = (struct ky_span_samples){0};
}

static const struct ky_stack_row *row_at(const struct ky_span_samples *samples, uint32_t at)
{
	return &samples->trace->samples.rows[samples->order[at]];
}

void ky_span_walk_begin(struct ky_span_walk *walk, const struct ky_span_samples *samples,
			const struct ky_trace_span *span)
{
	uint32_t low = 0, high = 0, first;

	*walk = (struct ky_span_walk){span->start_ns, span->start_ns + span->duration_ns, 0, 0};
	if (!samples->code || span->task >= samples->trace->task_count)
		return;
	first = low = samples->firsts[span->task];
	walk->end = high = samples->firsts[span->task + 1];
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (row_at(samples, middle)->time_ns < walk->from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	walk->at = low - (low > first); /* a time off CPU that began before it may reach into it */
}

/* UINT32_MAX: none. */
static uint32_t function_of(struct ky_span_samples *samples, uint32_t stack)
{
	uint32_t *function = &samples->functions[stack];

	if (!*function) {
		const struct ky_code_line *line = ky_code_own_line(samples->code, stack);

		*function = line ? line->function + 1 : UINT32_MAX;
	}
	return *function == UINT32_MAX ? UINT32_MAX : *function - 1;
}

/* What the row stands for, of the span alone. */
static uint64_t ns_of(const struct ky_span_walk *walk, const struct ky_stack_row *row)
{
	double ns = (double)row->value;

	if (row->kind == KY_STACK_OFF_CPU) {
		uint64_t from_ns = ky_later(row->time_ns, walk->from_ns);
		uint64_t to_ns = row->value < walk->to_ns - row->time_ns ?
					 row->time_ns + row->value :
					 walk->to_ns;

		ns = (double)(to_ns - from_ns);
	}
	ns *= row->weight;
	return ns < 9e18 ? (uint64_t)ns : INT64_MAX;
}

bool ky_span_walk_next(struct ky_span_walk *walk, struct ky_span_samples *samples,
		       struct ky_span_sample *out)
{
	while (walk->at < walk->end) {
		const struct ky_stack_row *row = row_at(samples, walk->at++);
		bool is_off_cpu = row->kind == KY_STACK_OFF_CPU;

		if (row->time_ns >= walk->to_ns)
			break;
		if (row->time_ns < walk->from_ns &&
		    (!is_off_cpu || row->value <= walk->from_ns - row->time_ns))
			continue;
		*out = (struct ky_span_sample){ns_of(walk, row), function_of(samples, row->stack),
					       is_off_cpu};
		return true;
	}
	return false;
}
