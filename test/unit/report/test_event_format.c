/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../../lib/event_case.h"

#include <report/event_format.h>
#include <base/out_text.h>
#include <math.h>
#include <string.h>
#include <wire/trc_enc.h>

#define JSON_TAIL                                                                                  \
	"\"bool\":true,\"string\":\"a,\\\"b\\\"\\u000a\",\"bytes\":\"00ff\","                      \
	"\"pooled_stack\":[\"0x10\",\"0x20\"],\"pooled_string\":\"pooled\","                       \
	"\"stack\":[\"0x10\",\"0x20\"],\"varint\":18446744073709551615,"                           \
	"\"map\":{\"key\":\"value\"},\"u8\":8,\"u16\":16,\"u32\":32,"                              \
	"\"list\":[\"pooled\",[1,[[\"k\",[\"0x10\",\"0x20\"]]]]],"                                 \
	"\"tree\":[[5,\"pooled\"],[\"after\",true]],\"maybe\":"

enum kind {
	TEXT,
	JSON,
	CSV
};

static void print_trace(enum kind kind, const struct ky_buf *trace, struct ky_buf *out)
{
	struct ky_event_stream_options options = {.is_stored_order = true};
	const struct ky_event_clock clock = {.start_ns = 1500};
	struct ky_csv_columns columns;
	struct ky_event_stream *stream;
	const struct ky_event *event;
	struct ky_catalog catalog;
	struct ky_byte_source source;

	ky_buf_init(out, 0);
	assert_int_equal(ky_byte_source_memory(&source, trace->bytes, trace->used, "memory"), 0);
	assert_int_equal(ky_catalog_init(&catalog), 0);
	assert_int_equal(ky_catalog_read(&catalog, &source, 1), 0);
	assert_int_equal(ky_csv_columns_make(&columns, &catalog, NULL), 0);
	assert_int_equal(ky_event_stream_open(&stream, &source, 1, &options), 0);
	if (kind == CSV)
		ky_csv_header(out, &columns);
	while (ky_event_stream_next(stream, &event) == 1) {
		uint32_t shape = ky_catalog_find(&catalog, event->source, event->schema);

		if (kind == TEXT)
			ky_event_text(out, stream, event, &catalog.shapes[shape], &clock, NULL);
		else if (kind == JSON)
			ky_event_json(out, stream, event, &catalog.shapes[shape], &clock, NULL);
		else
			ky_event_csv(out, &columns, shape, stream, event);
	}
	(void)ky_buf_append(out, "", 1);
	assert_int_equal(out->failed, 0);
	ky_event_stream_close(stream);
	ky_csv_columns_release(&columns);
	ky_catalog_release(&catalog);
	source.close(source.ctx);
}

static void print(enum kind kind, struct ky_buf *out)
{
	struct ky_buf trace;

	ky_buf_init(&trace, 0);
	event_case_write(&trace);
	print_trace(kind, &trace, out);
	ky_buf_release(&trace);
}

static void event_format__json_has_every_type_of_value(void **state)
{
	struct ky_buf out;

	(void)state;
	print(JSON, &out);
	assert_non_null(strstr((const char *)out.bytes, JSON_TAIL "77}}\n"));
	assert_non_null(strstr((const char *)out.bytes, JSON_TAIL "null}}\n"));
	assert_non_null(strstr((const char *)out.bytes, "{\"timestamp_ns\":null,\"event\":"
							"\"Timeless\",\"fields\":{\"undefined\":"
							"{\"undefined_pool_id\":12345}}}\n"));
	ky_buf_release(&out);
}

static void event_format__text_is_relative_and_leaves_out_what_is_absent(void **state)
{
	struct ky_buf out;
	const char *text;

	(void)state;
	print(TEXT, &out);
	text = (const char *)out.bytes;
	assert_memory_equal(text, "     0.000000500  Odd, \"event\"  i64=-5 f64=0.1 bool=true ",
			    57);
	assert_non_null(strstr(text, "maybe=77\n    -0.000000500  Odd"));
	assert_non_null(strstr(text, "[\"after\",true]]\n               -  Timeless  "
				     "undefined=<undefined #12345>\n"));
	assert_non_null(strstr(text, "string=\"a,\\\"b\\\"\\x0a\" bytes=\"00ff\" "
				     "pooled_stack=[0x10,0x20]"));
	ky_buf_release(&out);
}

static void event_format__csv_quotes_and_leaves_cells_empty(void **state)
{
	struct ky_buf out;
	const char *text;

	(void)state;
	print(CSV, &out);
	text = (const char *)out.bytes;
	assert_memory_equal(text, "timestamp_ns,event,i64,f64,bool,string,bytes,", 45);
	assert_non_null(strstr(text, ",maybe,undefined\n2000,\"Odd, \"\"event\"\"\",-5,0.1,true,"
				     "\"a,\"\"b\"\"\n\",00ff,\"[\"\"0x10\"\",\"\"0x20\"\"]\","
				     "pooled,"));
	assert_non_null(strstr(text, "\n,Timeless,,,,,,,,,,,,,,,,,"));
	ky_buf_release(&out);
}

static void event_format__csv_cells_follow_rfc_4180(void **state)
{
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 0);
	ky_csv_cell(&out, "plain", 5);
	ky_csv_cell(&out, "", 0);
	ky_csv_cell(&out, "a\"b", 3);
	ky_csv_cell(&out, " lead", 5);
	ky_csv_cell(&out, "x\r", 2);
	(void)ky_buf_append(&out, "", 1);
	assert_string_equal((const char *)out.bytes, "plain\"a\"\"b\"\" lead\"\"x\r\"");
	ky_buf_release(&out);
}

static void event_format__csv_cells_hold_no_control_bytes(void **state)
{
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 0);
	ky_csv_cell(&out, "\x1b[31m\0\t", 7);
	ky_out_text(&out, ";");
	ky_csv_cell(&out, "\x7f\"\x01\r\n\xc2\x9b,\xff", 9);
	ky_out_text(&out, ";");
	ky_csv_cell(&out, "\xc3\xa4\xe2\x82\xac", 5);
	(void)ky_buf_append(&out, "", 1);
	assert_string_equal((const char *)out.bytes,
			    "\\x1b[31m\\x00\\x09;\"\\x7f\"\"\\x01\r\n\\xc2\\x9b,\\xff\";"
			    "\xc3\xa4\xe2\x82\xac");
	ky_buf_release(&out);
}

/* One event "E" with a text and three numbers that are none, in each of the formats. */
static void print_oddities(enum kind kind, struct ky_buf *out)
{
	static const struct ky_trc_field_def fields[] = {{"s", 1, KY_TYPE_STRING},
							 {"nan", 3, KY_TYPE_F64},
							 {"more", 4, KY_TYPE_F64},
							 {"less", 4, KY_TYPE_F64}};
	static const double numbers[] = {-(double)NAN, (double)INFINITY, -(double)INFINITY};
	struct ky_trc_enc enc;
	struct ky_buf trace;

	ky_buf_init(&trace, 0);
	assert_int_equal(ky_trc_enc_init(&enc, &trace), 0);
	ky_trc_enc_begin(&enc);
	ky_trc_enc_schema(&enc, 1, "E", 1, true, fields, 4);
	ky_trc_enc_raw_event(&enc, 1, true, 2000);
	ky_trc_enc_bytes(&enc, "\"\\\t\\n", 5);
	for (int i = 0; i < 3; i++)
		ky_buf_append(&trace, &numbers[i], 8);
	print_trace(kind, &trace, out);
	ky_trc_enc_release(&enc);
	ky_buf_release(&trace);
}

static void event_format__text_escapes_quotes_and_what_escapes(void **state)
{
	struct ky_buf out;

	(void)state;
	print_oddities(TEXT, &out);
	assert_non_null(strstr((const char *)out.bytes,
			       "  E  s=\"\\\"\\\\\\x09\\\\n\" nan=nan more=inf less=-inf\n"));
	ky_buf_release(&out);
}

static void event_format__no_number_is_null_in_json_and_csv(void **state)
{
	struct ky_buf out;

	(void)state;
	print_oddities(JSON, &out);
	assert_non_null(
		strstr((const char *)out.bytes, ",\"nan\":null,\"more\":null,\"less\":null}}\n"));
	ky_buf_release(&out);
	print_oddities(CSV, &out);
	assert_non_null(strstr((const char *)out.bytes, ",null,null,null\n"));
	ky_buf_release(&out);
}

/* Names that repeat, that are alike in JSON, and that stand where a number would go. */
static void event_format__no_two_keys_of_an_object_are_equal(void **state)
{
	static const struct ky_trc_field_def fields[] = {
		{"n", 1, KY_TYPE_U8},        {"n#2", 3, KY_TYPE_U8}, {"n", 1, KY_TYPE_U8},
		{"n", 1, KY_TYPE_U8},        {"", 0, KY_TYPE_U8},    {"", 0, KY_TYPE_U8},
		{"m", 1, KY_TYPE_STRING_MAP}};
	static const char *const map_keys[] = {"k", "\xff", "k", "\xfe"};
	struct ky_trc_enc enc;
	struct ky_buf trace, out;

	(void)state;
	ky_buf_init(&trace, 0);
	assert_int_equal(ky_trc_enc_init(&enc, &trace), 0);
	ky_trc_enc_begin(&enc);
	ky_trc_enc_schema(&enc, 1, "E", 1, true, fields, sizeof(fields) / sizeof(fields[0]));
	ky_trc_enc_raw_event(&enc, 1, true, 2000);
	for (uint8_t i = 0; i < 6; i++)
		ky_trc_enc_u8(&enc, i);
	ky_trc_enc_count(&enc, 4);
	for (int i = 0; i < 4; i++) {
		ky_trc_enc_bytes(&enc, map_keys[i], 1);
		ky_trc_enc_bytes(&enc, "v", 1);
	}
	print_trace(JSON, &trace, &out);
	assert_non_null(strstr((const char *)out.bytes,
			       "{\"n\":0,\"n#2\":1,\"n#3\":2,\"n#4\":3,\"\":4,\"#2\":5,\"m\":{"
			       "\"k\":\"v\",\"\xef\xbf\xbd\":\"v\",\"k#2\":\"v\","
			       "\"\xef\xbf\xbd#2\":\"v\"}}}\n"));
	ky_buf_release(&out);
	print_trace(CSV, &trace, &out);
	assert_non_null(
		strstr((const char *)out.bytes, ",n,n#2,n#3,n#4,,#2,m\n2000,E,0,1,2,3,4,5,"));
	ky_buf_release(&out);
	print_trace(TEXT, &trace, &out);
	assert_non_null(strstr((const char *)out.bytes, "  n=0 n#2=1 n#3=2 n#4=3 =4 #2=5 m={"));
	ky_buf_release(&out);
	ky_trc_enc_release(&enc);
	ky_buf_release(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_format__json_has_every_type_of_value),
		cmocka_unit_test(event_format__text_is_relative_and_leaves_out_what_is_absent),
		cmocka_unit_test(event_format__csv_quotes_and_leaves_cells_empty),
		cmocka_unit_test(event_format__csv_cells_follow_rfc_4180),
		cmocka_unit_test(event_format__csv_cells_hold_no_control_bytes),
		cmocka_unit_test(event_format__text_escapes_quotes_and_what_escapes),
		cmocka_unit_test(event_format__no_number_is_null_in_json_and_csv),
		cmocka_unit_test(event_format__no_two_keys_of_an_object_are_equal),
	};

	return cmocka_run_group_tests_name("event_format", tests, NULL, NULL);
}
