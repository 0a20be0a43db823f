/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "event_list.h"

#include "cmocka_all.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wire/trc_dec.h>

static void clear_events(struct test_sink *sink)
{
	for (size_t i = 0; i < sink->event_count; i++) {
		for (size_t f = 0; f < TEST_FIELDS_MAX; f++)
			free(sink->events[i].text[f]);
	}
	free(sink->events);
	sink->events = NULL;
	sink->event_count = 0;
}

void test_sink_open(struct test_sink *sink)
{
	memset(sink, 0, sizeof(*sink));
	ky_buf_init(&sink->bytes, 0);
}

void test_sink_close(struct test_sink *sink)
{
	clear_events(sink);
	free(sink->chunks);
	ky_buf_release(&sink->bytes);
}

int test_sink_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct test_sink *sink = ctx;
	size_t n = sink->seen++;

	if (n >= sink->refuse_from && n < sink->refuse_from + sink->refuse_count)
		return -ENOSPC;
	sink->chunks = realloc(sink->chunks, (sink->chunk_count + 1) * sizeof(*sink->chunks));
	sink->chunks[sink->chunk_count++] = (struct test_chunk){
		sink->bytes.used, chunk->byte_count,       chunk->event_count,   chunk->first_ns,
		chunk->last_ns,   chunk->is_segment_start, chunk->is_segment_end};
	return ky_buf_append(&sink->bytes, chunk->bytes, chunk->byte_count);
}

static void copy_event(struct test_event *to, const struct ky_frame *frame)
{
	to->event = frame->schema->event;
	to->ns = frame->timestamp_ns;
	for (uint32_t i = 0; i < frame->schema->field_count; i++) {
		const struct ky_value *value = &frame->values[i];
		uint8_t known = frame->schema->fields[i].known;

		if (known >= TEST_FIELDS_MAX || !value->is_present)
			continue;
		to->is_present[known] = true;
		to->number[known] = value->as.number;
		to->frame_count[known] = value->frames ? value->frame_count : 0;
		if (to->frame_count[known])
			memcpy(&to->leaf[known], value->frames, sizeof(uint64_t));
		if (!value->text.bytes)
			continue;
		to->text[known] = calloc(1, value->text.count + 1);
		memcpy(to->text[known], value->text.bytes, value->text.count);
		to->text_bytes[known] = value->text.count;
	}
}

/* Who finds a chunk on disk knows it by the time of its last event alone. */
static void check_end(const struct test_sink *sink, size_t from, size_t to, uint64_t last_ns)
{
	for (size_t i = sink->chunk_count; i-- > 0;) {
		const struct test_chunk *chunk = &sink->chunks[i];

		if (chunk->offset == from && chunk->bytes == to - from) {
			assert_int_equal(chunk->last_ns, last_ns);
			break;
		}
	}
}

size_t test_sink_decode(struct test_sink *sink)
{
	struct ky_trc_dec *dec;
	struct ky_frame frame;
	size_t at = 0, capacity = 0, from = 0;
	uint64_t headers = 0, last_ns = 0, offset;

	clear_events(sink);
	assert_int_equal(ky_trc_dec_open(&dec, NULL), 0);
	while (at < sink->bytes.used) {
		int64_t took = ky_trc_dec_next(dec, sink->bytes.bytes + at, sink->bytes.used - at,
					       &frame);

		if (took <= 0) {
			fprintf(stderr, "decoder at %zu: %s\n", at, ky_trc_dec_error(dec, &offset));
			fail();
		}
		if (frame.kind == KY_FRAME_HEADER) {
			check_end(sink, from, at, last_ns);
			from = at;
			last_ns = 0;
			headers++;
		}
		at += (size_t)took;
		if (frame.kind != KY_FRAME_EVENT)
			continue;
		if (frame.timestamp_ns > last_ns)
			last_ns = frame.timestamp_ns;
		if (sink->event_count == capacity) {
			capacity = capacity ? capacity * 2 : 256;
			sink->events = realloc(sink->events, capacity * sizeof(*sink->events));
		}
		memset(&sink->events[sink->event_count], 0, sizeof(*sink->events));
		copy_event(&sink->events[sink->event_count], &frame);
		sink->events[sink->event_count++].chunk = headers - 1;
	}
	check_end(sink, from, at, last_ns);
	ky_trc_dec_close(dec);
	return sink->event_count;
}

size_t test_sink_count(const struct test_sink *sink, uint32_t event)
{
	size_t count = 0;

	for (size_t i = 0; i < sink->event_count; i++)
		count += sink->events[i].event == event;
	return count;
}

const struct test_event *test_sink_find(const struct test_sink *sink, uint32_t event, size_t n)
{
	for (size_t i = 0; i < sink->event_count; i++) {
		if (sink->events[i].event == event && n-- == 0)
			return &sink->events[i];
	}
	return NULL;
}
