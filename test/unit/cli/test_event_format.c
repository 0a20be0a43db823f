/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "event_case.h"

#include <cli/event_format.h>
#include <string.h>

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

static void print(enum kind kind, struct ky_buf *out)
{
	struct ky_event_stream_options options = {.is_stored_order = true};
	struct ky_csv_columns columns;
	struct ky_event_stream *stream;
	const struct ky_event *event;
	struct ky_catalog catalog;
	struct ky_byte_source source;
	struct ky_buf trace;

	ky_buf_init(&trace, 0);
	ky_buf_init(out, 0);
	event_case_write(&trace);
	assert_int_equal(ky_byte_source_memory(&source, trace.bytes, trace.used, "memory"), 0);
	assert_int_equal(ky_catalog_init(&catalog), 0);
	assert_int_equal(ky_catalog_read(&catalog, &source, 1), 0);
	assert_int_equal(ky_csv_columns_make(&columns, &catalog, NULL), 0);
	assert_int_equal(ky_event_stream_open(&stream, &source, 1, &options), 0);
	if (kind == CSV)
		ky_csv_header(out, &columns);
	while (ky_event_stream_next(stream, &event) == 1) {
		uint32_t shape = ky_catalog_find(&catalog, event->source, event->schema);

		if (kind == TEXT)
			ky_event_text(out, stream, event, 1500);
		else if (kind == JSON)
			ky_event_json(out, stream, event);
		else
			ky_event_csv(out, &columns, shape, stream, event);
	}
	(void)ky_buf_append(out, "", 1);
	assert_int_equal(out->failed, 0);
	ky_event_stream_close(stream);
	ky_csv_columns_release(&columns);
	ky_catalog_release(&catalog);
	source.close(source.ctx);
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
	assert_non_null(strstr(text, "string=\"a,\"b\"\\x0a\" bytes=\"00ff\" "
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_format__json_has_every_type_of_value),
		cmocka_unit_test(event_format__text_is_relative_and_leaves_out_what_is_absent),
		cmocka_unit_test(event_format__csv_quotes_and_leaves_cells_empty),
		cmocka_unit_test(event_format__csv_cells_follow_rfc_4180),
	};

	return cmocka_run_group_tests_name("event_format", tests, NULL, NULL);
}
