/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The fast and the careful way of reading values, against each other; containers to their limits.
 * */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <kymo/base.h>
#include <stdlib.h>
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

static void begin(uint8_t type, uint32_t field_count)
{
	struct ky_trc_field_def fields[16];

	for (uint32_t i = 0; i < field_count; i++)
		fields[i] = (struct ky_trc_field_def){"f", 1, type};
	ky_trc_enc_begin(&enc);
	ky_trc_enc_schema(&enc, 1, "E", 1, true, fields, field_count);
}

static int decode(struct ky_frame *frame, size_t *event_at)
{
	int64_t used = 0;

	for (size_t at = 0; at < out.used; at += (size_t)used) {
		*event_at = at;
		used = ky_trc_dec_next(dec, out.bytes + at, out.used - at, frame);
		if (used < 0)
			return (int)used;
	}
	return 0;
}

/* Method: the last event is decoded once with an exact window (careful) and once with room (fast).
 *         */
static void check_both_ways(const uint64_t *numbers, uint32_t count)
{
	struct ky_frame frame;
	uint8_t *roomy;
	size_t at = 0;

	assert_int_equal(decode(&frame, &at), 0);
	for (uint32_t i = 0; i < count; i++)
		assert_true(frame.values[i].as.number == numbers[i]);
	roomy = malloc(frame.bytes + 1000);
	assert_non_null(roomy);
	memset(roomy, 0xff, frame.bytes + 1000);
	memcpy(roomy, out.bytes + at, frame.bytes);
	assert_int_equal(ky_trc_dec_next(dec, roomy, frame.bytes + 1000, &frame), out.used - at);
	for (uint32_t i = 0; i < count; i++)
		assert_true(frame.values[i].as.number == numbers[i]);
	free(roomy);
}

static void value__varints_of_every_length_read_the_same_both_ways(void **state)
{
	struct test_prng prng = {21};
	uint64_t numbers[16];

	(void)state;
	for (int round = 0; round < 2000; round++) {
		ky_buf_clear(&out);
		begin(KY_TYPE_VARINT, 16);
		ky_trc_enc_raw_event(&enc, 1, true, 1);
		for (uint32_t i = 0; i < 16; i++) {
			numbers[i] = round < 64 ? (UINT64_C(1) << round) - (i & 1) :
						  test_random_length(&prng);
			ky_trc_enc_varint(&enc, numbers[i]);
		}
		check_both_ways(numbers, 16);
	}
}

static void value__overlong_varints_are_numbers_too(void **state)
{
	static const uint8_t overlong[] = {0x85, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0};
	const uint64_t number = 5;

	(void)state;
	for (size_t count = 2; count <= sizeof(overlong); count++) {
		ky_buf_clear(&out);
		begin(KY_TYPE_VARINT, 1);
		ky_trc_enc_raw_event(&enc, 1, true, 1);
		ky_buf_append(&out, overlong, count - 1);
		ky_trc_enc_u8(&enc, 0);
		check_both_ways(&number, 1);
	}
}

static void value__absent_optional_has_no_trace_of_the_one_before(void **state)
{
	struct ky_frame frame;
	size_t at = 0;

	(void)state;
	begin(KY_TYPE_OPT_POOLED_STRING, 1);
	ky_trc_enc_string(&enc, 0, "text", 4);
	ky_trc_enc_raw_event(&enc, 1, true, 1);
	ky_trc_enc_u8(&enc, 1);
	ky_trc_enc_u32(&enc, 0);
	assert_int_equal(decode(&frame, &at), 0);
	assert_int_equal(frame.values[0].text.count, 4);
	ky_buf_clear(&out);
	ky_trc_enc_raw_event(&enc, 1, true, 1);
	ky_trc_enc_u8(&enc, 0);
	assert_int_equal(decode(&frame, &at), 0);
	assert_int_equal(frame.values[0].is_present, 0);
	assert_int_equal(frame.values[0].text.count, 0);
}

/* depth containers around an empty one */
static void put_nested(uint32_t depth)
{
	for (uint32_t i = 0; i < depth; i++) {
		ky_trc_enc_count(&enc, 1);
		ky_trc_enc_u8(&enc, KY_TYPE_LIST);
	}
	ky_trc_enc_count(&enc, 0);
}

static void value__containers_nest_to_the_stated_depth_and_no_deeper(void **state)
{
	struct ky_frame frame;
	size_t at = 0;

	(void)state;
	begin(KY_TYPE_LIST, 1);
	ky_trc_enc_raw_event(&enc, 1, true, 1);
	put_nested(KY_TRC_CONTAINER_DEPTH_MAX);
	assert_int_equal(decode(&frame, &at), 0);
	ky_buf_clear(&out);
	ky_trc_enc_raw_event(&enc, 1, true, 1);
	put_nested(KY_TRC_CONTAINER_DEPTH_MAX + 1);
	assert_int_equal(decode(&frame, &at), KYMO_E_LIMIT);
	assert_non_null(strstr(ky_trc_dec_error(dec, NULL), "deeper than 32"));
}

static void value__million_levels_cost_neither_stack_nor_time(void **state)
{
	struct ky_frame frame;
	size_t at = 0;

	(void)state;
	begin(KY_TYPE_MAP, 1);
	ky_trc_enc_raw_event(&enc, 1, true, 1);
	for (int i = 0; i < 1000000; i++) {
		ky_trc_enc_count(&enc, 1);
		ky_trc_enc_u8(&enc, KY_TYPE_MAP);
	}
	assert_int_equal(decode(&frame, &at), KYMO_E_LIMIT);
}

static void value__walk_gives_pairs_in_order_and_ends(void **state)
{
	struct ky_value key, value;
	struct ky_frame frame;
	struct ky_trc_walk walk;
	size_t at = 0;

	(void)state;
	begin(KY_TYPE_MAP, 1);
	ky_trc_enc_raw_event(&enc, 1, true, 1);
	ky_trc_enc_count(&enc, 2);
	ky_trc_enc_u8(&enc, KY_TYPE_STRING);
	ky_trc_enc_bytes(&enc, "k", 1);
	ky_trc_enc_u8(&enc, KY_TYPE_OPT_VARINT); /* the bit means nothing here */
	ky_trc_enc_varint(&enc, 300);
	ky_trc_enc_u8(&enc, KY_TYPE_U8);
	ky_trc_enc_u8(&enc, 1);
	ky_trc_enc_u8(&enc, KY_TYPE_LIST);
	ky_trc_enc_count(&enc, 0);
	assert_int_equal(decode(&frame, &at), 0);
	ky_trc_walk_begin(&walk, &frame.values[0]);
	assert_int_equal(ky_trc_walk_next(dec, &walk, &key, &value), 1);
	assert_int_equal(key.text.count, 1);
	assert_int_equal(value.type, KY_TYPE_VARINT);
	assert_int_equal(value.as.number, 300);
	assert_int_equal(ky_trc_walk_next(dec, &walk, &key, &value), 1);
	assert_int_equal(key.as.number, 1);
	assert_int_equal(value.type, KY_TYPE_LIST);
	assert_int_equal(ky_trc_walk_next(dec, &walk, &key, &value), 0);
	/* A walk over something that is no checked container fails and harms nothing. */
	ky_trc_walk_begin(&walk, &frame.values[0]);
	walk.end = walk.at + 3;
	assert_int_equal(ky_trc_walk_next(dec, &walk, &key, &value), KYMO_E_CORRUPT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(value__varints_of_every_length_read_the_same_both_ways),
		TEST(value__overlong_varints_are_numbers_too),
		TEST(value__absent_optional_has_no_trace_of_the_one_before),
		TEST(value__containers_nest_to_the_stated_depth_and_no_deeper),
		TEST(value__million_levels_cost_neither_stack_nor_time),
		TEST(value__walk_gives_pairs_in_order_and_ends),
	};

	return cmocka_run_group_tests_name("trc_value", tests, NULL, NULL);
}
