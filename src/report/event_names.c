/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/report.h>
#include <analyze/code_addresses.h>
#include <report/event_names.h>

#include <base/json_write.h>
#include <base/out_text.h>
#include <inttypes.h>
#include <string.h>

static bool is_stack(const struct ky_value *value)
{
	return value->type == KY_TYPE_STACK || value->type == KY_TYPE_POOLED_STACK;
}

static uint64_t time_of(const struct ky_event *event)
{
	return event->has_timestamp ? event->timestamp_ns : 0;
}

static uint64_t frame_at(const struct ky_value *value, uint32_t index)
{
	uint64_t frame;

	memcpy(&frame, value->frames + 8 * (size_t)index, sizeof(frame));
	return frame;
}

/* Is there code in the field, and can it be named? */
static bool is_code(const struct ky_event *event, uint16_t field)
{
	const struct ky_value *value = &event->values[field];

	return value->is_present && ky_code_field_is(event->schema, field) &&
	       (value->type != KY_TYPE_POOLED_STACK || value->is_resolved);
}

static void put_names(struct ky_buf *out, struct ky_symbol_table *symbols, uint64_t address,
		      uint64_t time_ns)
{
	const struct ky_symbol_frame *frames;
	uint32_t count = ky_symbol_table_find(symbols, address, time_ns, &frames);

	for (uint32_t i = 0; i < count; i++) {
		ky_out_text(out, i ? ",\"" : "\"");
		ky_out_safe(out, frames[i].name, strlen(frames[i].name));
		ky_out_text(out, "\"");
	}
}

bool ky_event_names_text(struct ky_buf *out, struct ky_symbol_table *symbols,
			 const struct ky_event *event, uint16_t field)
{
	const struct ky_value *value = &event->values[field];

	if (!is_code(event, field))
		return false;
	if (!is_stack(value)) {
		ky_out_format(out, "%" PRIu64, value->as.number);
		if (value->as.number) {
			ky_out_text(out, " (");
			put_names(out, symbols, value->as.number, time_of(event));
			ky_out_text(out, ")");
		}
		return true;
	}
	ky_out_text(out, "[");
	for (uint32_t i = 0; i < value->frame_count; i++) {
		ky_out_text(out, i ? "," : "");
		put_names(out, symbols, frame_at(value, i), time_of(event));
	}
	ky_out_text(out, "]");
	return true;
}

static void put_json(struct ky_buf *out, struct ky_symbol_table *symbols, uint64_t address,
		     uint64_t time_ns)
{
	const struct ky_symbol_frame *frames;
	uint32_t count = ky_symbol_table_find(symbols, address, time_ns, &frames);

	ky_out_format(out, "\"0x%" PRIx64 "\":[", address);
	for (uint32_t i = 0; i < count; i++) {
		ky_out_text(out, i ? ",{\"name\":" : "{\"name\":");
		ky_json_string(out, frames[i].name, strlen(frames[i].name));
		if (frames[i].file[0]) {
			ky_out_text(out, ",\"file\":");
			ky_json_string(out, frames[i].file, strlen(frames[i].file));
		}
		if (frames[i].line)
			ky_out_format(out, ",\"line\":%u", frames[i].line);
		ky_out_text(out, "}");
	}
	ky_out_text(out, "]");
}

/* A recursive function stands in a stack several times: no object gets a key twice. */
static bool is_repeated(const struct ky_value *value, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++)
		if (frame_at(value, i) == frame_at(value, index))
			return true;
	return false;
}

void ky_event_names_json(struct ky_buf *out, struct ky_symbol_table *symbols,
			 const struct ky_event *event)
{
	for (uint16_t i = 0; i < event->schema->field_count; i++) {
		const struct ky_value *value = &event->values[i];
		bool is_first = true;

		if (!is_code(event, i))
			continue;
		ky_out_text(out, ",\"symbols\":{");
		for (uint32_t j = 0; is_stack(value) && j < value->frame_count; j++) {
			if (is_repeated(value, j))
				continue;
			ky_out_text(out, is_first ? "" : ",");
			is_first = false;
			put_json(out, symbols, frame_at(value, j), time_of(event));
		}
		if (!is_stack(value))
			put_json(out, symbols, value->as.number, time_of(event));
		ky_out_text(out, "}");
		return; /* no event has two such fields */
	}
}
