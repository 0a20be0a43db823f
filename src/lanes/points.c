/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/points.h>

#include <base/alloc.h>
#include <errno.h>
#include <lanes/facts_json.h>
#include <read/ascending.h>
#include <read/custom.h>
#include <read/labels.h>
#include <read/queues.h>
#include <string.h>

/* ---- made ---- */

static void add(struct ky_points *points, uint64_t time_ns, double value, uint32_t row)
{
	if (points->times_ns) {
		points->times_ns[points->count] = time_ns;
		points->values[points->count] = value;
		points->rows[points->count] = row;
	}
	points->count++;
}

/* Returns false: it is no number. */
static bool as_number(const struct ky_custom_value *value, double *out)
{
	switch (value->kind) {
	case KY_CUSTOM_NUMBER:
	case KY_CUSTOM_FLAG:
		*out = (double)value->as.number;
		return true;
	case KY_CUSTOM_SIGNED:
		*out = (double)value->as.i64;
		return true;
	case KY_CUSTOM_REAL:
		*out = value->as.f64;
		return value->as.f64 - value->as.f64 == 0; /* neither infinite nor NaN */
	default:
		return false;
	}
}

static void add_events(struct ky_points *points, const struct ky_trace *trace)
{
	struct ky_custom_value value;
	double number = 0;

	for (uint32_t i = 0; i < trace->custom_row_count; i++) {
		const struct ky_custom_row *row = &trace->custom_rows[i];

		if (row->type != points->index || !row->time_ns)
			continue;
		if (points->kind == KY_POINTS_FIELD) {
			ky_custom_value(trace, row, points->field, &value);
			if (!as_number(&value, &number))
				continue;
		}
		add(points, row->time_ns, number, i);
	}
}

static void add_queue(struct ky_points *points, const struct ky_trace *trace)
{
	const struct ky_trace_queue *queue = &trace->queues[points->index];
	struct ky_queue_sample sample;

	for (uint64_t row = 0; row < queue->rows.row_count && row < UINT32_MAX; row++) {
		ky_queue_sample(queue, row, &sample);
		add(points, sample.time_ns, sample.depth, (uint32_t)row);
	}
}

static void add_all(struct ky_points *points, const struct ky_trace *trace)
{
	points->count = 0;
	switch (points->kind) {
	case KY_POINTS_EVENTS:
	case KY_POINTS_FIELD:
		add_events(points, trace);
		break;
	case KY_POINTS_COUNTER:
		for (uint32_t i = 0; i < trace->counter_count; i++)
			if (trace->counters[i].name == points->index)
				add(points, trace->counters[i].time_ns,
				    (double)trace->counters[i].value, i);
		break;
	case KY_POINTS_NOTES:
		for (uint32_t i = 0; i < trace->annotation_count; i++)
			add(points, trace->annotations[i].time_ns, 0, i);
		break;
	default:
		add_queue(points, trace);
	}
}

int ky_points_make(struct ky_points *out, const struct ky_trace *trace, uint32_t kind,
		   uint32_t index, uint32_t field)
{
	*out = (struct ky_points){.kind = kind, .index = index, .field = field};
	if (kind >= KY_POINTS_KINDS ||
	    (kind <= KY_POINTS_FIELD && index >= trace->custom_type_count) ||
	    (kind == KY_POINTS_QUEUE && index >= trace->queue_count))
		return -EINVAL;
	out->has_values = kind != KY_POINTS_EVENTS && kind != KY_POINTS_NOTES;
	add_all(out, trace);
	out->times_ns = ky_alloc((out->count + 1) * sizeof(*out->times_ns));
	out->values = ky_alloc((out->count + 1) * sizeof(*out->values));
	out->rows = ky_alloc((out->count + 1) * sizeof(*out->rows));
	if (!out->times_ns || !out->values || !out->rows) {
		ky_points_release(out);
		return -ENOMEM;
	}
	add_all(out, trace);
	return 0;
}

void ky_points_release(struct ky_points *points)
{
	ky_free(points->times_ns);
	ky_free(points->values);
	ky_free(points->rows);
	*points = (struct ky_points){0};
}

/* ---- pixels ---- */

void ky_points_pixels(struct ky_points_pixel *out, const struct ky_points *points,
		      const struct ky_view *view)
{
	const double none = __builtin_nan("");
	uint32_t at = ky_ascending_below(points->times_ns, points->count, ky_view_edge(view, 0));

	for (uint32_t i = 0; i < view->pixels; i++) {
		uint64_t end_ns = ky_view_edge(view, i + 1);
		double last = at ? points->values[at - 1] : none;
		struct ky_points_pixel pixel = {last, last, last, 0, UINT32_MAX};

		for (; at < points->count && points->times_ns[at] < end_ns; at++) {
			double value = points->values[at];

			if (!pixel.count++)
				pixel.row = points->rows[at];
			if (!(pixel.low <= value))
				pixel.low = value;
			if (!(pixel.high >= value))
				pixel.high = value;
			pixel.last = value;
		}
		out[i] = pixel;
	}
}

/* ---- as JSON ---- */

static void open(struct ky_buf *out, const char *kind, uint32_t index)
{
	ky_json_open(out, NULL, "{");
	ky_json_text(out, "kind", kind);
	ky_json_number(out, "index", index);
}

static void put_type(struct ky_buf *out, const struct ky_trace *trace, uint32_t index)
{
	const struct ky_custom_type *type = &trace->custom_types[index];

	open(out, "events", index);
	ky_facts_name(out, "name", trace, type->name);
	ky_json_number(out, "count", type->count);
	ky_json_number(out, "left_out", type->left_out);
	ky_json_open(out, "fields", "[");
	for (uint32_t i = 0; i < type->field_count; i++) {
		const struct ky_custom_field *field = &trace->custom_fields[type->field_at + i];
		uint8_t kind = field->type;

		ky_json_open(out, NULL, "{");
		ky_facts_name(out, "name", trace, field->name);
		ky_facts_name(out, "unit", trace, field->unit);
		ky_json_flag(out, "is_number",
			     kind == KY_TYPE_I64 || kind == KY_TYPE_F64 || kind == KY_TYPE_BOOL ||
				     kind == KY_TYPE_VARINT || kind == KY_TYPE_U8 ||
				     kind == KY_TYPE_U16 || kind == KY_TYPE_U32);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_close(out, "}");
}

/* Each name once: where it comes first. */
static void put_counters(struct ky_buf *out, const struct ky_trace *trace)
{
	uint32_t names = ky_trace_name_count(trace);
	uint32_t *counts = ky_alloc((names + 1) * sizeof(*counts));

	if (!counts) {
		out->failed = -ENOMEM;
		return;
	}
	for (uint32_t i = 0; i < trace->counter_count; i++)
		if (trace->counters[i].name < names)
			counts[trace->counters[i].name]++;
	for (uint32_t name = 0; name < names; name++) {
		if (!counts[name])
			continue;
		open(out, "counter", name);
		ky_facts_name(out, "name", trace, name);
		ky_json_number(out, "count", counts[name]);
		ky_json_close(out, "}");
	}
	ky_free(counts);
}

void ky_points_list_json(struct ky_buf *out, const struct ky_trace *trace)
{
	ky_json_open(out, NULL, "[");
	for (uint32_t i = 0; i < trace->custom_type_count; i++)
		put_type(out, trace, i);
	put_counters(out, trace);
	if (trace->annotation_count) {
		open(out, "notes", 0);
		ky_json_number(out, "count", trace->annotation_count);
		ky_json_close(out, "}");
	}
	for (uint32_t i = 0; i < trace->queue_count; i++) {
		const struct ky_trace_queue *queue = &trace->queues[i];

		if (!queue->rows.row_count)
			continue;
		open(out, "queue", i);
		ky_facts_name(out, "name", trace, queue->runtime);
		ky_json_number_or_null(out, "worker", queue->depths != NULL, queue->worker_id);
		ky_json_number(out, "count", queue->sample_count);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void put_value(struct ky_buf *out, const char *key, const struct ky_trace *trace,
		      const struct ky_custom_value *value)
{
	switch (value->kind) {
	case KY_CUSTOM_NUMBER:
		ky_json_number_text(out, key, value->as.number);
		break;
	case KY_CUSTOM_SIGNED:
		ky_json_signed(out, key, value->as.i64);
		break;
	case KY_CUSTOM_REAL: /* the page makes the number */
		ky_json_number_text(out, "bits", value->as.number);
		break;
	case KY_CUSTOM_FLAG:
		ky_json_flag(out, key, value->as.number != 0);
		break;
	case KY_CUSTOM_TEXT:
		ky_facts_name(out, key, trace, value->text);
		break;
	default:
		ky_json_null(out, key);
	}
}

static void put_event(struct ky_buf *out, const struct ky_trace *trace, uint32_t index)
{
	const struct ky_custom_row *row = &trace->custom_rows[index];
	const struct ky_custom_type *type = &trace->custom_types[row->type];
	struct ky_custom_value value;

	ky_facts_name(out, "name", trace, type->name);
	ky_facts_moment(out, "start_ns", trace, row->time_ns);
	ky_json_open(out, "fields", "[");
	for (uint32_t i = 0; i < type->field_count; i++) {
		const struct ky_custom_field *field = &trace->custom_fields[type->field_at + i];

		ky_custom_value(trace, row, i, &value);
		if (value.kind == KY_CUSTOM_ABSENT)
			continue;
		ky_json_open(out, NULL, "{");
		ky_facts_name(out, "key", trace, field->name);
		ky_facts_name(out, "unit", trace, field->unit);
		put_value(out, "value", trace, &value);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

/* The members of one point; its row exists. */
static void put_point(struct ky_buf *out, const struct ky_trace *trace, uint32_t kind,
		      uint32_t index, uint32_t row)
{
	struct ky_queue_sample sample;

	if (kind <= KY_POINTS_FIELD) {
		put_event(out, trace, row);
	} else if (kind == KY_POINTS_NOTES) {
		ky_facts_name(out, "name", trace, trace->annotations[row].label);
		ky_facts_moment(out, "start_ns", trace, trace->annotations[row].time_ns);
	} else if (kind == KY_POINTS_COUNTER) {
		ky_facts_name(out, "name", trace, trace->counters[row].name);
		ky_facts_moment(out, "start_ns", trace, trace->counters[row].time_ns);
		ky_json_signed(out, "value", trace->counters[row].value);
	} else {
		ky_queue_sample(&trace->queues[index], row, &sample);
		ky_facts_name(out, "name", trace, trace->queues[index].runtime);
		ky_facts_moment(out, "start_ns", trace, sample.time_ns);
		ky_json_number(out, "value", sample.depth);
	}
}

bool ky_points_facts_json(struct ky_buf *out, const struct ky_trace *trace, uint32_t kind,
			  uint32_t index, uint32_t row)
{
	if ((kind <= KY_POINTS_FIELD && row >= trace->custom_row_count) ||
	    (kind == KY_POINTS_COUNTER && row >= trace->counter_count) ||
	    (kind == KY_POINTS_NOTES && row >= trace->annotation_count) ||
	    (kind == KY_POINTS_QUEUE &&
	     (index >= trace->queue_count || row >= trace->queues[index].rows.row_count)) ||
	    kind >= KY_POINTS_KINDS)
		return false;
	ky_json_open(out, NULL, "{");
	put_point(out, trace, kind, index, row);
	ky_json_close(out, "}");
	return true;
}

void ky_points_within_json(struct ky_buf *out, const struct ky_trace *trace,
			   const struct ky_points *points, uint64_t from_ns, uint64_t to_ns,
			   uint32_t limit)
{
	uint32_t from = ky_ascending_below(points->times_ns, points->count, from_ns);
	uint32_t to = to_ns < UINT64_MAX ?
			      ky_ascending_below(points->times_ns, points->count, to_ns + 1) :
			      points->count;
	uint32_t count = to > from ? to - from : 0;

	ky_json_open(out, NULL, "{");
	ky_json_number(out, "count", count);
	ky_json_open(out, "points", "[");
	for (uint32_t i = 0; i < count && i < limit; i++) {
		uint32_t row = points->rows[from + i];

		ky_json_open(out, NULL, "{");
		ky_json_number(out, "row", row);
		put_point(out, trace, points->kind, points->index, row);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_close(out, "}");
}
