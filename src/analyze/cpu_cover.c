/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/cpu_cover.h>

#include <analyze/share.h>
#include <string.h>

/* Of the kernel's counts, which go by ticks where the process is read from outside. */
#define COUNT_NS UINT64_C(10000000)
#define MISSING_SHARE 20u /* less than one in so many is next to nothing */

static bool is_sampled(const char *source)
{
	return source && strcmp(source, "off") != 0 && strcmp(source, "none") != 0;
}

static const struct ky_stack_row *first_sample(const struct ky_trace *trace)
{
	for (uint32_t i = 0; i < trace->samples.row_count; i++)
		if (trace->samples.rows[i].kind == KY_STACK_CPU)
			return &trace->samples.rows[i];
	return NULL;
}

static bool is_look(const struct ky_trace_resource *row)
{
	return row->kind == KY_RESOURCE_USAGE && row->values[KY_USAGE_USER_NS] <= INT64_MAX &&
	       row->values[KY_USAGE_SYSTEM_NS] <= INT64_MAX;
}

static uint64_t used(const struct ky_trace_resource *row, bool is_user_only)
{
	return row->values[KY_USAGE_USER_NS] + (is_user_only ? 0 : row->values[KY_USAGE_SYSTEM_NS]);
}

/* Returns false: a sample has no weight. */
static bool add_samples(struct ky_cpu_cover *out, const struct ky_trace *trace)
{
	double sum = 0.0, variance = 4.0 * (double)COUNT_NS * (double)COUNT_NS;

	for (uint32_t i = 0; i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];

		if (row->kind != KY_STACK_CPU || row->time_ns < out->from_ns ||
		    row->time_ns >= out->to_ns)
			continue;
		if (!row->value)
			return false;
		sum += (double)row->value;
		variance += (double)row->value * (double)row->value;
	}
	/* What is of the program and what of the kernel is distinguished at ticks. */
	if (out->is_user_only)
		variance += (double)out->used_ns * (double)COUNT_NS;
	out->sampled_ns = ky_whole(sum);
	out->margin_ns = ky_whole(1.96 * ky_square_root(variance));
	return true;
}

void ky_cpu_cover_find(struct ky_cpu_cover *out, const struct ky_trace *trace, uint64_t from_ns,
		       uint64_t to_ns)
{
	const char *kernel = ky_trace_metadata(trace, "sampling.cpu.kernel");
	const struct ky_stack_row *sample = first_sample(trace);
	const struct ky_trace_resource *first = NULL, *last = NULL;

	memset(out, 0, sizeof(*out));
	if (!is_sampled(ky_trace_metadata(trace, "sampling.cpu")) || trace->has_processes ||
	    trace->unrecorded_count)
		return;
	if (sample && sample->time_ns > from_ns)
		from_ns = sample->time_ns;
	for (uint32_t i = 0; i < trace->resource_count; i++) {
		const struct ky_trace_resource *row = &trace->resources[i];

		if (!is_look(row) || row->time_ns < from_ns || (to_ns && row->time_ns > to_ns))
			continue;
		first = first ? first : row;
		last = row;
	}
	out->is_user_only = kernel && strcmp(kernel, "not sampled") == 0;
	if (!first || first == last ||
	    used(last, out->is_user_only) < used(first, out->is_user_only))
		return;
	out->from_ns = first->time_ns;
	out->to_ns = last->time_ns;
	out->used_ns = used(last, out->is_user_only) - used(first, out->is_user_only);
	if (!add_samples(out, trace))
		out->to_ns = 0;
}

uint64_t ky_cpu_cover_missing_ns(const struct ky_cpu_cover *cover)
{
	uint64_t missing_ns;

	if (!cover->to_ns || cover->used_ns <= cover->sampled_ns)
		return 0;
	missing_ns = cover->used_ns - cover->sampled_ns;
	return missing_ns > cover->margin_ns && missing_ns >= cover->used_ns / MISSING_SHARE ?
		       missing_ns :
		       0;
}
