/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A trace is written anew and printed: it must print as before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../../lib/event_case.h"

#include <report/event_format.h>
#include <edit/rechunk.h>
#include <kymo/base.h>
#include <string.h>

struct sink {
	struct ky_buf bytes;
	uint32_t chunks;
	size_t largest;
	uint64_t events_max;
	int answer;
};

static int take(void *ctx, const struct ky_chunk *chunk)
{
	struct sink *sink = ctx;

	sink->chunks++;
	sink->largest = chunk->byte_count > sink->largest ? chunk->byte_count : sink->largest;
	if (chunk->event_count > sink->events_max)
		sink->events_max = chunk->event_count;
	assert_memory_equal(chunk->bytes, "TRC\0\1", 5);
	return sink->answer ? sink->answer :
			      ky_buf_append(&sink->bytes, chunk->bytes, chunk->byte_count);
}

/* Returns the first error of the rewriting. */
static int rewrite(const struct ky_buf *from, struct sink *sink, struct ky_buf *json,
		   struct ky_catalog *catalog)
{
	struct ky_event_stream_options options = {.is_stored_order = false};
	struct ky_byte_source source;
	struct ky_event_stream *stream;
	const struct ky_event *event;
	struct ky_rechunk rechunk;
	int result;

	assert_int_equal(ky_byte_source_memory(&source, from->bytes, from->used, "memory"), 0);
	assert_int_equal(ky_catalog_init(catalog), 0);
	assert_int_equal(ky_catalog_read(catalog, &source, 1), 0);
	assert_int_equal(ky_event_stream_open(&stream, &source, 1, &options), 0);
	assert_int_equal(ky_rechunk_init(&rechunk, catalog, take, sink), 0);
	while ((result = ky_event_stream_next(stream, &event)) == 1) {
		uint32_t shape = ky_catalog_find(catalog, event->source, event->schema);

		assert_true(shape < catalog->count);
		if (json)
			ky_event_json(json, stream, event, &catalog->shapes[shape],
				      &(struct ky_event_clock){.start_ns = 0}, NULL);
		result = ky_rechunk_event(&rechunk, stream, event, shape);
		if (result)
			break;
	}
	if (!result)
		result = ky_rechunk_flush(&rechunk);
	ky_rechunk_release(&rechunk);
	ky_event_stream_close(stream);
	source.close(source.ctx);
	return result;
}

static void same_annotations(const struct ky_catalog *left, const struct ky_catalog *right)
{
	assert_int_equal(left->count, right->count);
	for (uint32_t i = 0; i < left->count; i++) {
		const struct ky_shape *want = &left->shapes[i];
		uint32_t j = 0;

		while (j < right->count && strcmp(right->shapes[j].name, want->name) != 0)
			j++;
		assert_true(j < right->count);
		assert_int_equal(right->shapes[j].annotation_count, want->annotation_count);
		assert_int_equal(right->shapes[j].annotations.used, want->annotations.used);
		if (want->annotations.used)
			assert_memory_equal(right->shapes[j].annotations.bytes,
					    want->annotations.bytes, want->annotations.used);
	}
}

static void rechunk__keeps_every_value_and_annotation(void **state)
{
	struct ky_catalog first, second;
	struct sink once = {.chunks = 0}, twice = {.chunks = 0};
	struct ky_buf trace, json, again;
	const char *undefined;
	size_t common;

	(void)state;
	ky_buf_init(&trace, 0);
	ky_buf_init(&json, 0);
	ky_buf_init(&again, 0);
	ky_buf_init(&once.bytes, 0);
	ky_buf_init(&twice.bytes, 0);
	event_case_write(&trace);
	assert_int_equal(trace.failed, 0);
	assert_int_equal(rewrite(&trace, &once, &json, &first), 0);
	assert_int_equal(rewrite(&once.bytes, &twice, &again, &second), 0);
	assert_true(first.event_count == 3);
	(void)ky_buf_append(&json, "", 1);
	(void)ky_buf_append(&again, "", 1);
	/* An undefined id stays undefined, though under another number. */
	undefined = strstr((const char *)json.bytes, ":12345");
	assert_non_null(undefined);
	common = (size_t)(undefined - (const char *)json.bytes);
	assert_memory_equal(json.bytes, again.bytes, common);
	assert_memory_equal(again.bytes + common, ":4294967295", 11);
	assert_string_equal((const char *)again.bytes + common + 11, undefined + 6);
	assert_int_equal(first.shapes[0].annotation_count, 3);
	same_annotations(&first, &second);
	ky_catalog_release(&first);
	ky_catalog_release(&second);
	ky_buf_release(&trace);
	ky_buf_release(&json);
	ky_buf_release(&again);
	ky_buf_release(&once.bytes);
	ky_buf_release(&twice.bytes);
}

static void write_many(struct ky_buf *out, uint32_t count, size_t text_bytes, uint64_t step_ns)
{
	static const struct ky_trc_field_def fields[] = {{"text", 4, KY_TYPE_STRING}};
	static char text[60000];
	struct ky_trc_enc enc;

	memset(text, 'x', sizeof(text));
	assert_int_equal(ky_trc_enc_init(&enc, out), 0);
	ky_trc_enc_begin(&enc);
	ky_trc_enc_schema(&enc, 1, "Text", 4, true, fields, 1);
	for (uint32_t i = 0; i < count; i++) {
		ky_trc_enc_raw_event(&enc, 1, true, 1000 + i * step_ns);
		ky_trc_enc_bytes(&enc, text, text_bytes);
	}
	ky_trc_enc_release(&enc);
}

static void chunks_of(uint32_t count, size_t text_bytes, uint64_t step_ns, struct sink *sink)
{
	struct ky_catalog catalog;
	struct ky_buf trace;

	memset(sink, 0, sizeof(*sink));
	ky_buf_init(&trace, 0);
	ky_buf_init(&sink->bytes, 0);
	write_many(&trace, count, text_bytes, step_ns);
	assert_int_equal(rewrite(&trace, sink, NULL, &catalog), 0);
	ky_catalog_release(&catalog);
	ky_buf_release(&trace);
	ky_buf_release(&sink->bytes);
}

static void rechunk__bounds_chunks_by_bytes_events_and_time(void **state)
{
	struct sink sink;

	(void)state;
	chunks_of(20, 50000, 1, &sink);
	assert_true(sink.chunks >= 4);
	assert_true(sink.largest <= KY_CHUNK_BYTES_MAX);
	chunks_of(40000, 1, 1, &sink);
	assert_int_equal(sink.chunks, 3);
	assert_true(sink.events_max == KY_CHUNK_EVENTS_MAX);
	chunks_of(5, 1, KY_CHUNK_SPAN_MAX_NS + 1, &sink);
	assert_int_equal(sink.chunks, 5);
}

static void rechunk__stops_at_what_the_sink_refuses(void **state)
{
	struct ky_catalog catalog;
	struct sink sink = {.answer = -5};
	struct ky_buf trace;

	(void)state;
	ky_buf_init(&trace, 0);
	ky_buf_init(&sink.bytes, 0);
	event_case_write(&trace);
	assert_int_equal(rewrite(&trace, &sink, NULL, &catalog), -5);
	ky_catalog_release(&catalog);
	ky_buf_release(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rechunk__keeps_every_value_and_annotation),
		cmocka_unit_test(rechunk__bounds_chunks_by_bytes_events_and_time),
		cmocka_unit_test(rechunk__stops_at_what_the_sink_refuses),
	};

	return cmocka_run_group_tests_name("rechunk", tests, NULL, NULL);
}
