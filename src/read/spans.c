/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Spans by their begins and ends, whichever of them the trace has. */
#include <read/load.h>

static uint64_t number(const struct ky_frame *frame, uint32_t field)
{
	return ky_frame_number(frame, field, 0);
}

/* The span of this id, or a new one. UINT32_MAX with pages.failed set. */
static uint32_t span_at(struct ky_load *load, uint64_t id, uint64_t start_ns, uint32_t name)
{
	struct ky_trace *trace = load->trace;
	uint32_t *slot = ky_id_map_slot(&load->private->spans, id);

	if (!slot)
		return UINT32_MAX;
	if (*slot)
		return *slot - 1;
	if (!ky_pages_array(&trace->pages, &trace->spans, &trace->span_capacity,
			    trace->span_count + 1, sizeof(*trace->spans)))
		return UINT32_MAX;
	trace->spans[trace->span_count] = (struct ky_trace_span){
		.start_ns = start_ns, .name = name, .is_open = true};
	*slot = ++trace->span_count;
	return trace->span_count - 1;
}

static bool load_enter(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t name = ky_load_text(load, frame, KY_F_SPAN_ENTER_span_name);

	return !load->trace->pages.failed && span_at(load, number(frame, KY_F_SPAN_ENTER_span_id),
						     frame->timestamp_ns, name) != UINT32_MAX;
}

/* It may have begun before the trace. */
static bool load_exit(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t name = ky_load_text(load, frame, KY_F_SPAN_EXIT_span_name);
	uint64_t start_ns = ky_frame_number(frame, KY_F_SPAN_EXIT_start_ns, frame->timestamp_ns);
	uint32_t at;
	struct ky_trace_span *span;

	if (load->trace->pages.failed)
		return false;
	at = span_at(load, number(frame, KY_F_SPAN_EXIT_span_id), start_ns, name);
	if (at == UINT32_MAX)
		return false;
	span = &load->trace->spans[at];
	span->is_open = false;
	span->duration_ns = frame->timestamp_ns > start_ns ? frame->timestamp_ns - start_ns : 0;
	return true;
}

static bool load_open(struct ky_load *load, const struct ky_frame *frame)
{
	uint32_t name = ky_load_text(load, frame, KY_F_OPEN_SPAN_span_name);

	return !load->trace->pages.failed &&
	       span_at(load, number(frame, KY_F_OPEN_SPAN_span_id),
		       number(frame, KY_F_OPEN_SPAN_start_ns), name) != UINT32_MAX;
}

bool ky_load_span(struct ky_load *load, const struct ky_frame *frame)
{
	switch (frame->schema->event) {
	case KY_EV_SPAN_ENTER:
		return load_enter(load, frame);
	case KY_EV_SPAN_EXIT:
		return load_exit(load, frame);
	default:
		return load_open(load, frame);
	}
}
