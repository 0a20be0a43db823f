/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/span_times.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

static bool is_named(const char *span, const char *name)
{
	size_t bytes = strlen(span), wanted = strlen(name);

	if (bytes < wanted || memcmp(span + bytes - wanted, name, wanted) != 0)
		return false;
	return bytes == wanted ||
	       (bytes > wanted + 1 && memcmp(span + bytes - wanted - 2, "::", 2) == 0);
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_span_time *one = a, *other = b;

	(void)ctx;
	if (one->task != other->task)
		return one->task < other->task;
	return one->from_ns != other->from_ns ? one->from_ns < other->from_ns :
						one->to_ns < other->to_ns;
}

int ky_span_times_make(struct ky_span_times *out, const struct ky_trace *trace, const char *name)
{
	*out = (struct ky_span_times){
		.list = ky_alloc((trace->span_count + (size_t)1) * sizeof(*out->list))};
	if (!out->list)
		return -ENOMEM;
	for (uint32_t i = 0; i < trace->span_count; i++) {
		const struct ky_trace_span *span = &trace->spans[i];

		if (span->task != KY_NONE && is_named(ky_trace_name(trace, span->name), name))
			out->list[out->count++] = (struct ky_span_time){
				span->start_ns,
				span->is_open ? trace->last_ns : span->start_ns + span->duration_ns,
				span->task};
	}
	ky_sort(out->list, out->count, sizeof(*out->list), is_before, NULL);
	for (uint32_t i = 1; i < out->count; i++)
		if (out->list[i].task == out->list[i - 1].task &&
		    out->list[i].to_ns < out->list[i - 1].to_ns)
			out->list[i].to_ns = out->list[i - 1].to_ns;
	return 0;
}

void ky_span_times_release(struct ky_span_times *times)
{
	ky_free(times->list);
	*times = (struct ky_span_times){0};
}

bool ky_span_times_cover(const struct ky_span_times *times, uint32_t task, uint64_t from_ns,
			 uint64_t to_ns)
{
	uint32_t low = 0, high = times->count;

	while (low < high) { /* the first that begins after it, or is of a later task */
		uint32_t middle = low + (high - low) / 2;
		const struct ky_span_time *one = &times->list[middle];

		if (one->task < task || (one->task == task && one->from_ns <= to_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low && times->list[low - 1].task == task && times->list[low - 1].to_ns >= from_ns;
}

uint32_t ky_span_longest(const struct ky_trace *trace, const char *name, uint64_t from_ns,
			 uint64_t to_ns)
{
	uint32_t longest = KY_NONE;

	for (uint32_t i = 0; i < trace->span_count; i++) {
		const struct ky_trace_span *span = &trace->spans[i];

		if (span->is_open || span->task == KY_NONE || span->start_ns < from_ns ||
		    (to_ns && span->start_ns >= to_ns) ||
		    (longest != KY_NONE &&
		     span->duration_ns <= trace->spans[longest].duration_ns) ||
		    !ky_trace_is_task(&trace->tasks[span->task]) ||
		    !is_named(ky_trace_name(trace, span->name), name))
			continue;
		longest = i;
	}
	return longest;
}
