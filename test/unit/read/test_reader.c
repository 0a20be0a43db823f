/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The public reader and the event stream under it. */
#include "read_case.h"

#include "dial9_case.h"
#include <kymo/reader.h>
#include <stdio.h>

static bool is_text(const struct kymo_field *field, const char *text)
{
	return field && field->type == KYMO_FIELD_TEXT && field->byte_count == strlen(text) &&
	       memcmp(field->bytes, text, field->byte_count) == 0;
}

static bool is_type(const struct kymo_event *event, const char *type)
{
	return event->type_bytes == strlen(type) &&
	       memcmp(event->type, type, event->type_bytes) == 0;
}

/* An event that is unknown here, with one field of each kind. */
static void write_order(struct read_case *c, uint64_t ns)
{
	static const struct ky_trc_field_def fields[] = {
		{"amount", 6, KY_TYPE_I64},       {"ratio", 5, KY_TYPE_F64},
		{"note", 4, KY_TYPE_STRING},      {"stack", 5, KY_TYPE_STACK},
		{"tags", 4, KY_TYPE_STRING_MAP},  {"parts", 5, KY_TYPE_LIST},
		{"maybe", 5, KY_TYPE_OPT_VARINT},
	};
	static const uint64_t frames[] = {0x1000, UINT64_MAX};

	ky_trc_enc_schema(&c->enc, 400, "OrderPlaced", 11, true, fields, 7);
	ky_trc_enc_annotation(&c->enc, 400, 0, "unit", 4, "bytes", 5);
	ky_trc_enc_raw_event(&c->enc, 400, true, ns);
	ky_trc_enc_i64(&c->enc, -5);
	ky_trc_enc_f64(&c->enc, 0.5);
	ky_trc_enc_bytes(&c->enc, "hello", 5);
	ky_trc_enc_frames(&c->enc, frames, 2);
	ky_trc_enc_count(&c->enc, 1);
	ky_trc_enc_bytes(&c->enc, "k", 1);
	ky_trc_enc_bytes(&c->enc, "v", 1);
	ky_trc_enc_count(&c->enc, 2);
	ky_trc_enc_u8(&c->enc, KY_TYPE_U8);
	ky_trc_enc_u8(&c->enc, 200);
	ky_trc_enc_u8(&c->enc, KY_TYPE_STRING);
	ky_trc_enc_bytes(&c->enc, "x", 1);
	ky_trc_enc_opt_varint(&c->enc, false, 0);
}

static void check_order(struct kymo_reader *reader, const struct kymo_event *event)
{
	const struct kymo_field *field = kymo_event_field(event, "amount");
	struct kymo_field key, value;
	uint64_t cursor = 0;

	assert_int_equal(field->type, KYMO_FIELD_INT);
	assert_int_equal(field->as_int, -5);
	assert_int_equal(field->unit_bytes, 5);
	assert_memory_equal(field->unit, "bytes", 5);
	assert_true(kymo_event_field(event, "ratio")->as_double == 0.5);
	assert_true(is_text(kymo_event_field(event, "note"), "hello"));
	field = kymo_event_field(event, "stack");
	assert_int_equal(field->frame_count, 2);
	assert_int_equal(kymo_field_frame(field, 0), 0x1000);
	assert_int_equal(kymo_field_frame(field, 1), UINT64_MAX);
	assert_int_equal(kymo_field_frame(field, 2), 0);
	field = kymo_event_field(event, "tags");
	assert_int_equal(field->type, KYMO_FIELD_PAIRS);
	assert_int_equal(kymo_field_item(reader, field, &cursor, &key, &value), 1);
	assert_true(is_text(&key, "k") && is_text(&value, "v"));
	assert_int_equal(kymo_field_item(reader, field, &cursor, &key, &value), 0);
	field = kymo_event_field(event, "parts");
	cursor = 0;
	assert_int_equal(kymo_field_item(reader, field, &cursor, NULL, &value), 1);
	assert_int_equal(value.as_uint, 200);
	assert_int_equal(kymo_field_item(reader, field, &cursor, NULL, &value), 1);
	assert_true(is_text(&value, "x"));
	assert_int_equal(kymo_field_item(reader, field, &cursor, NULL, &value), 0);
	assert_int_equal(kymo_event_field(event, "maybe")->type, KYMO_FIELD_ABSENT);
	assert_null(kymo_event_field(event, "nothing"));
}

static void reader__gives_unknown_events_with_all_their_fields(void **state)
{
	struct kymo_reader_options options = KYMO_READER_OPTIONS_INIT;
	const struct kymo_event *event;
	struct kymo_reader *reader;
	struct read_case c;
	int pass;

	(void)state;
	case_begin(&c);
	case_poll(&c, 5000, 5100, 0, 7);
	write_order(&c, 1000);
	for (pass = 0; pass < 2; pass++) {
		options.flags = pass ? KYMO_READER_STORED_ORDER : 0;
		assert_int_equal(
			kymo_reader_open_memory(&reader, c.buf.bytes, c.buf.used, &options), 0);
		assert_int_equal(kymo_reader_next(reader, &event), 1);
		assert_int_equal(is_type(event, "OrderPlaced"), !pass);
		if (!pass) {
			assert_int_equal(event->time_ns, 1000);
			check_order(reader, event);
		}
		assert_int_equal(kymo_reader_next(reader, &event), 1);
		assert_int_equal(kymo_reader_next(reader, &event), 1);
		if (pass)
			check_order(reader, event);
		assert_int_equal(kymo_reader_next(reader, &event), 0);
		assert_null(kymo_reader_notice(reader, 0));
		kymo_reader_close(reader);
	}
	case_finish(&c);
}

static void reader__sorts_dial9_and_loses_nothing(void **state)
{
	static const char *const names[] = {DIAL9_057, DIAL9_2026};
	static const uint64_t counts[] = {572815, 210639};
	const struct kymo_event *event;
	struct kymo_reader *reader;
	size_t i, bytes_count;
	int result;

	(void)state;
	for (i = 0; i < 2; i++) {
		uint8_t *bytes = dial9_bytes(names[i], &bytes_count);
		uint64_t count = 0, last_ns = 0;

		assert_non_null(bytes);
		assert_int_equal(kymo_reader_open_memory(&reader, bytes, bytes_count, NULL), 0);
		while ((result = kymo_reader_next(reader, &event)) == 1) {
			count++;
			if (event->time_ns == 0)
				continue;
			assert_true(event->time_ns >= last_ns);
			last_ns = event->time_ns;
		}
		assert_int_equal(result, 0);
		assert_int_equal(count, counts[i]);
		kymo_reader_close(reader);
		free(bytes);
	}
}

static void reader__never_resolves_an_element_by_another_streams_pool(void **state)
{
	static const struct ky_trc_field_def fields[] = {{"parts", 5, KY_TYPE_LIST}};
	const struct kymo_event *event;
	struct kymo_field value;
	struct kymo_reader *reader;
	struct read_case c;
	uint64_t cursor = 0;
	uint32_t i;

	(void)state;
	case_begin(&c);
	for (i = 0; i < 2; i++) { /* the earlier event comes second: the later one is held */
		uint32_t id = case_text(&c, i ? "early" : "late");

		ky_trc_enc_schema(&c.enc, 400, "Listed", 6, true, fields, 1);
		ky_trc_enc_raw_event(&c.enc, 400, true, i ? 1000 : 9000);
		ky_trc_enc_count(&c.enc, 1);
		ky_trc_enc_u8(&c.enc, KY_TYPE_POOLED_STRING);
		ky_trc_enc_u32(&c.enc, id);
		if (i == 0)
			ky_trc_enc_begin(&c.enc);
	}
	assert_int_equal(kymo_reader_open_memory(&reader, c.buf.bytes, c.buf.used, NULL), 0);
	assert_int_equal(kymo_reader_next(reader, &event), 1);
	assert_int_equal(kymo_field_item(reader, event->fields, &cursor, NULL, &value), 1);
	assert_true(is_text(&value, "early"));
	assert_int_equal(kymo_reader_next(reader, &event), 1);
	cursor = 0;
	assert_int_equal(kymo_field_item(reader, event->fields, &cursor, NULL, &value), 1);
	assert_int_equal(value.byte_count, 0);
	kymo_reader_close(reader);
	case_finish(&c);
}

struct memory {
	const uint8_t *bytes;
	size_t count, at;
};

static int64_t read_memory(void *ctx, uint8_t *out, size_t out_bytes)
{
	struct memory *memory = ctx;
	size_t left = memory->count - memory->at;

	if (left > out_bytes)
		left = out_bytes;
	if (left > 7)
		left = 7; /* in small pieces */
	memcpy(out, memory->bytes + memory->at, left);
	memory->at += left;
	return (int64_t)left;
}

static int seek_memory(void *ctx, uint64_t offset)
{
	((struct memory *)ctx)->at = (size_t)offset;
	return 0;
}

static void reader__merges_sources_by_time(void **state)
{
	struct kymo_source sources[2] = {0};
	struct memory memories[2];
	const struct kymo_event *event;
	struct kymo_reader *reader;
	struct read_case a, b;
	uint64_t i, last_ns = 0;

	(void)state;
	case_begin(&a);
	case_begin(&b);
	for (i = 0; i < 50; i++) {
		case_poll(i % 3 ? &a : &b, 1000 + i * 100, 1050 + i * 100, 0, 7);
		case_poll(&a, 900 + i * 100, 950 + i * 100, 1, 8); /* steps back */
	}
	memories[0] = (struct memory){a.buf.bytes, a.buf.used, 0};
	memories[1] = (struct memory){b.buf.bytes, b.buf.used - 3, 0};
	for (i = 0; i < 2; i++) {
		sources[i].size = sizeof(sources[i]);
		sources[i].read = read_memory;
		sources[i].seek = seek_memory;
		sources[i].ctx = &memories[i];
	}
	assert_int_equal(kymo_reader_open(&reader, sources, 2, NULL), 0);
	for (i = 0; kymo_reader_next(reader, &event) == 1; i++) {
		assert_true(event->time_ns >= last_ns);
		last_ns = event->time_ns;
	}
	assert_int_equal(i, 199);
	assert_non_null(strstr(kymo_reader_notice(reader, 0), "source 1: byte "));
	assert_null(kymo_reader_notice(reader, 1));
	kymo_reader_close(reader);
	sources[1].seek = NULL; /* read once, from where it stands */
	memories[1].at = 0;
	assert_int_equal(kymo_reader_open(&reader, sources, 2, NULL), 0);
	for (i = 0; kymo_reader_next(reader, &event) == 1; i++)
		;
	assert_int_equal(i, 199);
	kymo_reader_close(reader);
	case_finish(&a);
	case_finish(&b);
}

static void reader__returns_all_events_when_the_reorder_buffer_is_full(void **state)
{
	struct kymo_reader_options options = KYMO_READER_OPTIONS_INIT;
	const struct kymo_event *event;
	struct kymo_reader *reader;
	struct read_case c;
	uint64_t i, count = 0;

	(void)state;
	case_begin(&c);
	for (i = 0; i < 3000; i++)
		case_end(&c, 100000 + i, 0);
	case_end(&c, 5, 0);
	options.reorder_bytes_max = 65536;
	assert_int_equal(kymo_reader_open_memory(&reader, c.buf.bytes, c.buf.used, &options), 0);
	while (kymo_reader_next(reader, &event) == 1)
		count++;
	assert_int_equal(count, 3001);
	kymo_reader_close(reader);
	case_finish(&c);
}

static void reader__refuses_what_is_no_trace_and_bad_options(void **state)
{
	struct kymo_reader_options options = KYMO_READER_OPTIONS_INIT;
	struct {
		struct kymo_reader_options known;
		uint64_t newer;
	} longer = {KYMO_READER_OPTIONS_INIT, 1};
	struct kymo_reader *reader;
	char error[100];

	(void)state;
	options.errbuf = error;
	options.errbuf_bytes = sizeof(error);
	assert_int_equal(kymo_reader_open_memory(&reader, "PK34", 4, &options), KYMO_E_NOT_TRACE);
	assert_null(reader);
	assert_string_equal(error, "not a trace");
	assert_int_equal(kymo_reader_open_memory(&reader, "TRC\0\2", 5, NULL), KYMO_E_VERSION);
	longer.known.size = sizeof(longer);
	assert_int_equal(kymo_reader_open_memory(&reader, "TRC\0\1", 5, &longer.known), -E2BIG);
	longer.newer = 0;
	assert_int_equal(kymo_reader_open_memory(&reader, "TRC\0\1", 5, &longer.known), 0);
	kymo_reader_close(reader);
	options.flags = 0x80;
	assert_int_equal(kymo_reader_open_memory(&reader, "TRC\0\1", 5, &options), -EINVAL);
	assert_int_equal(kymo_reader_open(&reader, NULL, 0, NULL), -EINVAL);
	kymo_reader_close(NULL);
}

static void reader__survives_each_failing_allocation(void **state)
{
	const struct kymo_event *event;
	struct kymo_reader *reader;
	struct read_case c;
	int result = -ENOMEM;
	uint64_t n;

	(void)state;
	case_begin(&c);
	case_poll(&c, 5000, 5100, 0, 7);
	write_order(&c, 1000);
	for (n = 0; result != 0; n++) {
		test_alloc_fail_at(n);
		result = kymo_reader_open_memory(&reader, c.buf.bytes, c.buf.used - 1, NULL);
		if (result != 0)
			assert_null(reader);
		else
			while ((result = kymo_reader_next(reader, &event)) == 1)
				;
		assert_true(result == 0 || result == -ENOMEM);
		kymo_reader_close(reader);
	}
	test_alloc_normal();
	assert_true(n > 15);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reader__gives_unknown_events_with_all_their_fields),
		cmocka_unit_test(reader__sorts_dial9_and_loses_nothing),
		cmocka_unit_test(reader__never_resolves_an_element_by_another_streams_pool),
		cmocka_unit_test(reader__merges_sources_by_time),
		cmocka_unit_test(reader__returns_all_events_when_the_reorder_buffer_is_full),
		cmocka_unit_test(reader__refuses_what_is_no_trace_and_bad_options),
		cmocka_unit_test(reader__survives_each_failing_allocation),
	};

	return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
