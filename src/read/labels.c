/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/labels.h>

#include <read/load.h>

#define COUNTERS_MAX (1u << 22)
#define ANNOTATIONS_MAX (1u << 20)

bool ky_load_counter(struct ky_load *load, const struct ky_frame *frame)
{
	const struct ky_value *value = ky_frame_field(frame, KY_F_COUNTER_value);
	struct ky_trace *trace = load->trace;
	uint32_t count = trace->counter_count;
	struct ky_trace_counter row = {.time_ns = frame->timestamp_ns, .serial = count};

	if (!value)
		return true;
	if (count >= ky_list_max(load, COUNTERS_MAX))
		return ky_leave_out(load->private, KY_LEFT_COUNTERS);
	row.name = ky_load_text(load, frame, KY_F_COUNTER_name);
	row.value = value->as.i64;
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->counters, &trace->counter_capacity, count + 1,
			    sizeof(row)))
		return false;
	trace->counters[trace->counter_count++] = row;
	return true;
}

bool ky_load_annotation(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	uint32_t count = trace->annotation_count;
	struct ky_trace_annotation row = {.time_ns = frame->timestamp_ns, .serial = count};

	if (count >= ky_list_max(load, ANNOTATIONS_MAX))
		return ky_leave_out(load->private, KY_LEFT_ANNOTATIONS);
	row.label = ky_load_text(load, frame, KY_F_ANNOTATION_label);
	row.tid = ky_frame_tid(frame, KY_F_ANNOTATION_tid);
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->annotations, &trace->annotation_capacity,
			    count + 1, sizeof(row)))
		return false;
	trace->annotations[trace->annotation_count++] = row;
	return true;
}

static bool is_counter_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace_counter *one = a, *other = b;

	(void)ctx;
	return one->time_ns != other->time_ns ? one->time_ns < other->time_ns :
						one->serial < other->serial;
}

static bool is_annotation_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace_annotation *one = a, *other = b;

	(void)ctx;
	return one->time_ns != other->time_ns ? one->time_ns < other->time_ns :
						one->serial < other->serial;
}

void ky_labels_finish(struct ky_trace *trace)
{
	ky_sort(trace->counters, trace->counter_count, sizeof(*trace->counters), is_counter_before,
		NULL);
	ky_sort(trace->annotations, trace->annotation_count, sizeof(*trace->annotations),
		is_annotation_before, NULL);
}
