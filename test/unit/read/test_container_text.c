/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Lists and maps of events as JSON. */
#include "read_case.h"

#include <read/container_text.h>
#include <read/custom.h>
#include <read/left_out.h>

#define TYPE 900

static struct read_case c;

static int setup(void **state)
{
	(void)state;
	case_begin(&c);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	case_finish(&c);
	return 0;
}

/* Begins an event with one field; what follows is its value. */
static void begin(uint8_t type)
{
	const struct ky_trc_field_def field = {"value", 5, type};

	ky_trc_enc_schema(&c.enc, TYPE, "Event", 5, true, &field, 1);
	ky_trc_enc_raw_event(&c.enc, TYPE, true, 1000);
}

static const char *text(void)
{
	struct ky_custom_value value;

	assert_int_equal(case_try_open(&c, c.buf.used, NULL), 0);
	ky_custom_value(c.trace, &c.trace->custom_rows[0], 0, &value);
	assert_int_equal(value.kind, KY_CUSTOM_TEXT);
	return value.text == KY_NONE ? NULL : ky_trace_name(c.trace, value.text);
}

static void put_text(const char *value)
{
	ky_trc_enc_u8(&c.enc, KY_TYPE_STRING);
	ky_trc_enc_text(&c.enc, value, strlen(value));
}

static void list__has_each_type_of_element(void **state)
{
	uint32_t pooled;

	(void)state;
	pooled = case_text(&c, "from the pool");
	begin(KY_TYPE_LIST);
	ky_trc_enc_count(&c.enc, 7);
	ky_trc_enc_u8(&c.enc, KY_TYPE_VARINT);
	ky_trc_enc_varint(&c.enc, UINT64_MAX);
	ky_trc_enc_u8(&c.enc, KY_TYPE_I64);
	ky_trc_enc_i64(&c.enc, INT64_MIN);
	ky_trc_enc_u8(&c.enc, KY_TYPE_BOOL);
	ky_trc_enc_u8(&c.enc, 1);
	put_text("say \"hi\"");
	ky_trc_enc_u8(&c.enc, KY_TYPE_POOLED_STRING);
	ky_trc_enc_u32(&c.enc, pooled);
	ky_trc_enc_u8(&c.enc, KY_TYPE_BYTES);
	ky_trc_enc_bytes(&c.enc, "ab", 2);
	ky_trc_enc_u8(&c.enc, KY_TYPE_LIST);
	ky_trc_enc_count(&c.enc, 0);
	assert_string_equal(text(), "[18446744073709551615,-9223372036854775808,true,"
				    "\"say \\\"hi\\\"\",\"from the pool\",null,[]]");
}

static void map__is_pairs_and_a_string_map_an_object(void **state)
{
	(void)state;
	begin(KY_TYPE_MAP);
	ky_trc_enc_count(&c.enc, 2);
	ky_trc_enc_u8(&c.enc, KY_TYPE_VARINT);
	ky_trc_enc_varint(&c.enc, 7);
	ky_trc_enc_u8(&c.enc, KY_TYPE_STRING_MAP);
	ky_trc_enc_count(&c.enc, 1);
	ky_trc_enc_text(&c.enc, "key", 3);
	ky_trc_enc_text(&c.enc, "value", 5);
	put_text("list");
	ky_trc_enc_u8(&c.enc, KY_TYPE_LIST);
	ky_trc_enc_count(&c.enc, 2);
	put_text("a");
	put_text("b");
	assert_string_equal(text(), "[[7,{\"key\":\"value\"}],[\"list\",[\"a\",\"b\"]]]");
}

static void numbers__have_fifteen_digits(void **state)
{
	static const double values[] = {0.0,
					-0.25,
					1.0,
					10.0,
					123456.789,
					0.1 + 0.2,
					9.9999999999999999,
					1e-4,
					2.5e-7,
					1e300,
					5e-324,
					123456789012345.0,
					1234567890123456.0,
					1.0 / 0.0,
					0.0 / 0.0};

	(void)state;
	begin(KY_TYPE_LIST);
	ky_trc_enc_count(&c.enc, sizeof(values) / sizeof(values[0]));
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		ky_trc_enc_u8(&c.enc, KY_TYPE_F64);
		ky_trc_enc_f64(&c.enc, values[i]);
	}
	assert_string_equal(text(), "[0,-0.25,1,10,123456.789,0.3,10,0.0001,2.5e-7,1e300,"
				    "4.94065645841247e-324,123456789012345,1.23456789012346e15,"
				    "null,null]");
}

static void list__that_is_too_long_is_left_out_and_counted(void **state)
{
	(void)state;
	begin(KY_TYPE_LIST);
	ky_trc_enc_count(&c.enc, KY_CONTAINER_TEXT_BYTES_MAX);
	for (uint32_t i = 0; i < KY_CONTAINER_TEXT_BYTES_MAX; i++) {
		ky_trc_enc_u8(&c.enc, KY_TYPE_VARINT);
		ky_trc_enc_varint(&c.enc, 1);
	}
	assert_null(text());
	assert_int_equal(c.trace->left_out_count, 1);
	assert_int_equal(c.trace->left_outs[0].kind, KY_LEFT_CUSTOM_TEXTS);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(list__has_each_type_of_element),
		CASE(map__is_pairs_and_a_string_map_an_object),
		CASE(numbers__have_fifteen_digits),
		CASE(list__that_is_too_long_is_left_out_and_counted),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
