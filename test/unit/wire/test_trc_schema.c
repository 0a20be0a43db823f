/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <kymo/base.h>
#include <stdio.h>
#include <string.h>
#include <wire/trc_dec.h>
#include <wire/trc_enc.h>

static struct ky_buf out;
static struct ky_trc_enc enc;
static struct ky_trc_dec *dec;

static int open_both(void **state)
{
	(void)state;
	ky_buf_init(&out, 0);
	return ky_trc_enc_init(&enc, &out) || ky_trc_dec_open(&dec, NULL);
}

static int close_both(void **state)
{
	(void)state;
	ky_trc_dec_close(dec);
	ky_trc_enc_release(&enc);
	ky_buf_release(&out);
	return 0;
}

static void put_schema(uint16_t type_id, const char *name, const char *field, uint8_t type)
{
	struct ky_trc_field_def def = {field, strlen(field), type};

	ky_trc_enc_schema(&enc, type_id, name, strlen(name), true, &def, 1);
}

/* Decodes what was written since the last call; the last frame, or the error. */
static int decode(struct ky_frame *frame)
{
	int64_t used = 0;

	for (size_t at = 0; at < out.used; at += (size_t)used) {
		used = ky_trc_dec_next(dec, out.bytes + at, out.used - at, frame);
		if (used < 0)
			break;
	}
	ky_buf_clear(&out);
	return used < 0 ? (int)used : 0;
}

static void schema__serial_belongs_to_name_and_fields_not_to_the_id(void **state)
{
	struct ky_frame frame;
	uint32_t serial;

	(void)state;
	ky_trc_enc_begin(&enc);
	put_schema(1, "A", "x", KY_TYPE_U8);
	assert_int_equal(decode(&frame), 0);
	serial = frame.schema->serial;
	put_schema(2, "A", "x", KY_TYPE_U8);
	assert_int_equal(decode(&frame), 0);
	assert_int_equal(frame.schema->serial, serial);
	assert_int_equal(frame.schema->type_id, 2);
	put_schema(3, "A", "x", KY_TYPE_U16);
	assert_int_equal(decode(&frame), 0);
	assert_int_not_equal(frame.schema->serial, serial);
	/* In a later stream the ids mean something else; the serials do not. */
	ky_trc_enc_begin(&enc);
	put_schema(3, "A", "x", KY_TYPE_U8);
	assert_int_equal(decode(&frame), 0);
	assert_int_equal(frame.schema->serial, serial);
	assert_int_equal(frame.schema->type_id, 3);
}

static void schema__one_body_under_two_ids_keeps_its_ids_apart(void **state)
{
	struct ky_frame frame;
	const struct ky_schema *first;

	(void)state;
	for (int stream = 0; stream < 3; stream++) {
		ky_trc_enc_begin(&enc);
		put_schema(1, "A", "x", KY_TYPE_U8);
		assert_int_equal(decode(&frame), 0);
		first = frame.schema;
		put_schema(2, "A", "x", KY_TYPE_U8);
		put_schema(3, "A", "x", KY_TYPE_U8);
		ky_trc_enc_annotation(&enc, 2, 0, "unit", 4, "ns", 2);
		assert_int_equal(decode(&frame), 0);
		assert_int_equal(frame.schema->type_id, 2);
		assert_int_equal(frame.schema->fields[0].unit.count, 2);
		assert_int_equal(first->type_id, 1);
		assert_int_equal(first->fields[0].unit.count, 0);
	}
}

static void schema__annotations_end_with_their_stream(void **state)
{
	struct ky_frame frame;

	(void)state;
	ky_trc_enc_begin(&enc);
	put_schema(1, "A", "x", KY_TYPE_U8);
	ky_trc_enc_annotation(&enc, 1, 0, "unit", 4, "ns", 2);
	ky_trc_enc_annotation(&enc, 1, 0, "dial9.role", 10, "thread_id", 9);
	ky_trc_enc_annotation(&enc, 1, 1, "unit", 4, "us", 2);
	assert_int_equal(decode(&frame), 0);
	assert_memory_equal(frame.schema->fields[0].unit.bytes, "ns", 2);
	assert_memory_equal(frame.schema->fields[0].role.bytes, "thread_id", 9);
	ky_trc_enc_begin(&enc);
	put_schema(1, "A", "x", KY_TYPE_U8);
	assert_int_equal(decode(&frame), 0);
	assert_null(frame.schema->fields[0].unit.bytes);
	assert_null(frame.schema->fields[0].role.bytes);
}

static void schema__known_field_may_have_any_integer_type(void **state)
{
	static const uint8_t integers[] = {KY_TYPE_VARINT, KY_TYPE_U8,  KY_TYPE_U16,
					   KY_TYPE_U32,    KY_TYPE_I64, KY_TYPE_BOOL,
					   KY_TYPE_OPT_U16};
	struct ky_frame frame;

	(void)state;
	for (size_t i = 0; i < sizeof(integers); i++) {
		ky_trc_enc_begin(&enc);
		put_schema(9, "PollEndEvent", "worker_id", integers[i]);
		ky_trc_enc_raw_event(&enc, 9, true, 1);
		if (integers[i] & KY_TYPE_OPTIONAL)
			ky_trc_enc_u8(&enc, 1);
		ky_trc_enc_u8(&enc, 1);
		if (integers[i] == KY_TYPE_I64)
			ky_trc_enc_u32(&enc, 0);
		if (integers[i] == KY_TYPE_U32 || integers[i] == KY_TYPE_I64)
			ky_trc_enc_u16(&enc, 0);
		if (integers[i] != KY_TYPE_U8 && integers[i] != KY_TYPE_VARINT &&
		    integers[i] != KY_TYPE_BOOL)
			ky_trc_enc_u8(&enc, 0);
		assert_int_equal(decode(&frame), 0);
		assert_int_equal(frame.schema->event, KY_EV_POLL_END);
		assert_int_equal(ky_frame_number(&frame, KY_F_POLL_END_worker_id, 77), 1);
	}
}

static void schema__known_field_of_another_kind_counts_as_absent(void **state)
{
	struct ky_frame frame;

	(void)state;
	ky_trc_enc_begin(&enc);
	put_schema(9, "PollEndEvent", "worker_id", KY_TYPE_F64);
	ky_trc_enc_raw_event(&enc, 9, true, 1);
	ky_trc_enc_f64(&enc, 3.0);
	assert_int_equal(decode(&frame), 0);
	assert_int_equal(frame.schema->fields[0].known, 0xff);
	assert_null(ky_frame_field(&frame, KY_F_POLL_END_worker_id));
	assert_int_equal(ky_frame_number(&frame, KY_F_POLL_END_worker_id, 77), 77);
}

static void schema__more_types_than_the_limit_are_refused(void **state)
{
	struct ky_trc_limits limits = {.schemas_max = 50};
	struct ky_frame frame;
	char name[16];

	(void)state;
	ky_trc_dec_close(dec);
	assert_int_equal(ky_trc_dec_open(&dec, &limits), 0);
	for (int round = 0; round < 3; round++) {
		/* The same 50 in every stream are 50, not 150. */
		ky_trc_enc_begin(&enc);
		for (uint16_t i = 0; i < 50; i++) {
			snprintf(name, sizeof(name), "N%u", i);
			put_schema(i, name, "x", KY_TYPE_U8);
		}
		assert_int_equal(decode(&frame), 0);
	}
	ky_trc_enc_begin(&enc);
	put_schema(0, "one more", "x", KY_TYPE_U8);
	assert_int_equal(decode(&frame), KYMO_E_LIMIT);
	assert_non_null(strstr(ky_trc_dec_error(dec, NULL), "50"));
}

static void schema__largest_legal_one_is_read(void **state)
{
	static struct ky_trc_field_def fields[65535];
	static char name[65535];
	struct ky_frame frame;

	(void)state;
	for (size_t i = 0; i < 65535; i++)
		fields[i] = (struct ky_trc_field_def){"", 0, KY_TYPE_U8};
	memset(name, 'n', sizeof(name));
	ky_trc_enc_begin(&enc);
	ky_trc_enc_schema(&enc, 65535, name, sizeof(name), true, fields, 65535);
	ky_trc_enc_raw_event(&enc, 65535, true, 1);
	for (size_t i = 0; i < 65535; i++)
		ky_trc_enc_u8(&enc, (uint8_t)i);
	assert_int_equal(decode(&frame), 0);
	assert_int_equal(frame.schema->field_count, 65535);
	assert_int_equal(frame.values[65534].as.number, 65534 & 0xff);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(schema__serial_belongs_to_name_and_fields_not_to_the_id),
		TEST(schema__one_body_under_two_ids_keeps_its_ids_apart),
		TEST(schema__annotations_end_with_their_stream),
		TEST(schema__known_field_may_have_any_integer_type),
		TEST(schema__known_field_of_another_kind_counts_as_absent),
		TEST(schema__more_types_than_the_limit_are_refused),
		TEST(schema__largest_legal_one_is_read),
	};

	return cmocka_run_group_tests_name("trc_schema", tests, NULL, NULL);
}
