/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Values of the program's own events, of annotations, queues, and of what is left out. */
#include <query/query_calls.h>

#include <base/out_text.h>
#include <query/query_put.h>
#include <read/custom.h>
#include <read/labels.h>
#include <read/left_out.h>

/* ---- events of the program ---- */

KY_CALL(custom_fields)
{
	const struct ky_custom_type *type = row;
	const struct ky_trace *trace = source->trace;

	ky_buf_clear(source->scratch);
	for (uint32_t i = 0; i < type->field_count; i++) {
		const struct ky_custom_field *field = &trace->custom_fields[type->field_at + i];

		ky_out_format(source->scratch, "%s%s %s%s%s%s", i ? ", " : "",
			      ky_trace_name(trace, field->name), ky_custom_type_name(field->type),
			      field->is_optional ? "?" : "", field->unit == KY_NONE ? "" : " in ",
			      ky_trace_name(trace, field->unit));
	}
	ky_query_put_scratch(source, out);
}

static const struct ky_custom_row *row_at(const struct ky_query_source *source,
					  const struct ky_inner_line *line)
{
	return &source->trace->custom_rows[line->outer];
}

static const struct ky_custom_type *type_at(const struct ky_query_source *source,
					    const struct ky_inner_line *line)
{
	return &source->trace->custom_types[row_at(source, line)->type];
}

static const struct ky_custom_field *field_at(const struct ky_query_source *source,
					      const struct ky_inner_line *line)
{
	return &source->trace->custom_fields[type_at(source, line)->field_at + line->inner];
}

KY_CALL(custom_time)
{
	uint64_t ns = row_at(source, row)->time_ns;

	if (ns)
		ky_query_put(out, ns);
}

KY_CALL(custom_event)
{
	ky_query_put_name(out, source->trace, type_at(source, row)->name);
}

KY_CALL(custom_field)
{
	ky_query_put_name(out, source->trace, field_at(source, row)->name);
}

KY_CALL(custom_type)
{
	ky_query_put_text(out, ky_custom_type_name(field_at(source, row)->type));
}

KY_CALL(custom_unit)
{
	ky_query_put_name(out, source->trace, field_at(source, row)->unit);
}

KY_CALL(custom_value)
{
	const struct ky_inner_line *line = row;
	struct ky_custom_value value;

	ky_custom_value(source->trace, row_at(source, line), (uint32_t)line->inner, &value);
	switch (value.kind) {
	case KY_CUSTOM_NUMBER:
	case KY_CUSTOM_FLAG:
		ky_query_put(out, value.as.number);
		break;
	case KY_CUSTOM_SIGNED:
		out->type = KY_VALUE_NUMBER;
		out->number = value.as.i64;
		break;
	case KY_CUSTOM_REAL:
		out->type = KY_VALUE_REAL;
		out->real = value.as.f64;
		break;
	case KY_CUSTOM_TEXT:
		ky_query_put_name(out, source->trace, value.text);
		break;
	default:
		break;
	}
}

KY_CALL(annotation_thread)
{
	const struct ky_trace_annotation *annotation = row;

	if (annotation->tid)
		ky_query_put_name(out, source->trace,
				  ky_trace_thread_name(source->trace, annotation->tid));
}

/* ---- queues ---- */

KY_CALL(queue_kind)
{
	const struct ky_queue_fill *use = row;

	(void)source;
	ky_query_put_text(out, use->is_worker ? "worker" : "runtime");
}

KY_CALL(queue_worker)
{
	const struct ky_queue_fill *use = row;

	(void)source;
	if (use->is_worker)
		ky_query_put(out, use->worker_id);
}

static const struct ky_trace_queue *queue_at(const struct ky_query_source *source,
					     const struct ky_inner_line *line)
{
	return &source->trace->queues[line->outer];
}

static struct ky_queue_sample sample_at(const struct ky_query_source *source,
					const struct ky_inner_line *line)
{
	struct ky_queue_sample sample;

	ky_queue_sample(queue_at(source, line), line->inner, &sample);
	return sample;
}

KY_CALL(sample_time)
{
	ky_query_put(out, sample_at(source, row).time_ns);
}

KY_CALL(sample_kind)
{
	ky_query_put_text(out, queue_at(source, row)->depths ? "worker" : "runtime");
}

KY_CALL(sample_runtime)
{
	ky_query_put_name(out, source->trace, queue_at(source, row)->runtime);
}

KY_CALL(sample_worker)
{
	const struct ky_trace_queue *queue = queue_at(source, row);

	if (queue->depths)
		ky_query_put(out, queue->worker_id);
}

KY_CALL(sample_depth)
{
	ky_query_put(out, sample_at(source, row).depth);
}

KY_CALL(sample_alive)
{
	uint32_t alive = sample_at(source, row).alive_tasks;

	if (alive != UINT32_MAX)
		ky_query_put(out, alive);
}

/* ---- what is left out ---- */

KY_CALL(left_key)
{
	const struct ky_left_out *left = row;

	(void)source;
	ky_query_put_text(out, ky_left_out_key(left->kind));
}

KY_CALL(left_effect)
{
	const struct ky_left_out *left = row;

	(void)source;
	ky_query_put_text(out, ky_left_out_effect(left->kind));
}
