/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Answers of receivers, written out by hand. */
#include "../../lib/cmocka_all.h"

#include <send/push_answer.h>
#include <string.h>

#define REJECTED(text) ky_push_answer_rejected((const uint8_t *)(text), sizeof(text) - 1)

static void rejected__is_the_count_of_a_partial_success(void **state)
{
	(void)state;
	assert_int_equal(REJECTED(""), 0);
	assert_int_equal(REJECTED("\x0a\x00"), 0);
	assert_int_equal(REJECTED("\x0a\x02\x08\x07"), 7);
	assert_int_equal(REJECTED("\x0a\x07\x12\x02no\x08\xac\x02"), 300);
	/* Fields of another version before it and beside it. */
	assert_int_equal(REJECTED("\x10\x05\x1d"
				  "abcd"
				  "\x21"
				  "abcdefgh"
				  "\x0a\x04\x18\x01\x08\x07"),
			 7);
	assert_int_equal(REJECTED("{\"partialSuccess\":{}}"), 0);
}

static void rejected__is_nothing_where_the_answer_is_damaged(void **state)
{
	static const char whole[] = "\x0a\x07\x12\x02no\x08\xac\x02";

	(void)state;
	for (size_t count = 0; count < sizeof(whole) - 1; count++)
		assert_int_equal(ky_push_answer_rejected((const uint8_t *)whole, count), 0);
	assert_int_equal(REJECTED("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x08\x07"), 0);
	assert_int_equal(REJECTED("\x0b\x08\x07"), 0); /* groups are over */
	/* A count below zero. */
	assert_int_equal(REJECTED("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0);
}

static void text__is_the_longest_piece_that_can_be_read(void **state)
{
	char out[12];

	(void)state;
	ky_push_answer_text((const uint8_t *)"\x08\x03\x12\x05wrong\n\x01", 11, out, sizeof(out));
	assert_string_equal(out, "wrong");
	ky_push_answer_text((const uint8_t *)"ab\x1b[31mabc", 10, out, sizeof(out));
	assert_string_equal(out, "[31mabc");
	ky_push_answer_text((const uint8_t *)"0123456789abcdef", 16, out, sizeof(out));
	assert_string_equal(out, "0123456789a");
	ky_push_answer_text((const uint8_t *)"abc", 3, out, sizeof(out));
	assert_string_equal(out, "");
	ky_push_answer_text(NULL, 0, out, sizeof(out));
	assert_string_equal(out, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rejected__is_the_count_of_a_partial_success),
		cmocka_unit_test(rejected__is_nothing_where_the_answer_is_damaged),
		cmocka_unit_test(text__is_the_longest_piece_that_can_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
