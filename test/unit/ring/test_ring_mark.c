/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <ring/ring_mark.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ky_ring_side *side;
static struct ky_mark marks[KY_MARKS];

static int open_side(void **state)
{
	(void)state;
	side = aligned_alloc(64, (sizeof(*side) + 63) / 64 * 64);
	if (side != NULL)
		memset(side, 0, sizeof(*side));
	return side == NULL;
}

static int close_side(void **state)
{
	(void)state;
	free(side);
	return 0;
}

static void ring_mark__text_is_one_line_of_utf8(void **state)
{
	char longest[KY_MARK_TEXT_BYTES + 2], why[KY_FOUND_WHY_BYTES];

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[KY_MARK_TEXT_BYTES + 1] = '\0';
	assert_int_equal(ky_mark_check("deploy 7", why), 0);
	assert_int_equal(ky_mark_check("h\xc3\xa4lt \xf0\x9f\x9a\x80", why), 0);
	assert_int_equal(ky_mark_check("", why), -EINVAL);
	assert_int_equal(ky_mark_check(longest, why), -EINVAL);
	assert_non_null(strstr(why, "105 bytes"));
	longest[KY_MARK_TEXT_BYTES] = '\0';
	assert_int_equal(ky_mark_check(longest, why), 0);
	assert_int_equal(ky_mark_check("ab\xc3", why), -EINVAL);
	assert_non_null(strstr(why, "byte 2"));
	assert_int_equal(ky_mark_check("\xed\xa0\x80", why), -EINVAL);
	assert_int_equal(ky_mark_check("two\nlines", why), -EINVAL);
	assert_int_equal(ky_mark_check("\x1b[31m", why), -EINVAL);
}

static void ring_mark__marks_are_read_oldest_first(void **state)
{
	char text[16];
	uint32_t i;

	(void)state;
	assert_int_equal(ky_mark_read(side, marks), 0);
	for (i = 0; i < KY_MARKS + 5; i++) {
		snprintf(text, sizeof(text), "mark %u", i);
		ky_mark_put(side, text, 1000 + i);
	}
	assert_int_equal(ky_mark_read(side, marks), KY_MARKS);
	assert_int_equal(marks[0].number, 5);
	assert_string_equal(marks[0].text, "mark 5");
	assert_int_equal(marks[KY_MARKS - 1].monotonic_ns, 1000 + KY_MARKS + 4);
	assert_int_equal(marks[KY_MARKS - 1].pid, (uint32_t)getpid());
}

static void ring_mark__unfinished_and_damaged_marks_are_left_out(void **state)
{
	(void)state;
	ky_mark_put(side, "a longer one", 1);
	ky_mark_put(side, "b", 2);
	ky_mark_put(side, "c", 3);
	atomic_store(&side->marks[1].serial, 0);
	side->marks[2].text_bytes = KY_MARK_TEXT_BYTES + 1;
	assert_int_equal(ky_mark_read(side, marks), 1);
	assert_string_equal(marks[0].text, "a longer one");
	memcpy(side->marks[0].text, "\xff", 1);
	assert_int_equal(ky_mark_read(side, marks), 1);
	assert_string_equal(marks[0].text, "? longer one");
	atomic_store(&side->mark_claim_index, UINT64_MAX);
	assert_int_equal(ky_mark_read(side, marks), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_side, close_side)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ring_mark__text_is_one_line_of_utf8),
		TEST(ring_mark__marks_are_read_oldest_first),
		TEST(ring_mark__unfinished_and_damaged_marks_are_left_out),
	};

	return cmocka_run_group_tests_name("ring_mark", tests, NULL, NULL);
}
