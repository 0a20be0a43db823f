/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/utf8.h>
#include <string.h>

static void check_clean(const char *in, const char *expected)
{
	uint8_t text[64];
	size_t count = strlen(in);

	memcpy(text, in, count);
	ky_utf8_clean(text, count);
	assert_memory_equal(text, expected, count);
}

static void utf8__well_formed_text_stays(void **state)
{
	(void)state;
	check_clean("plain", "plain");
	check_clean("\xc2\x80\xdf\xbf", "\xc2\x80\xdf\xbf");
	check_clean("\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf", "\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf");
	check_clean("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf");
}

static void utf8__broken_bytes_become_question_marks(void **state)
{
	(void)state;
	check_clean("a\x80z", "a?z");                  /* stray continuation */
	check_clean("\xc0\xaf\xc1\xbf", "????");       /* overlong, two bytes */
	check_clean("\xe0\x9f\xbf", "???");            /* overlong, three bytes */
	check_clean("\xf0\x8f\xbf\xbf", "????");       /* overlong, four bytes */
	check_clean("\xed\xa0\x80", "???");            /* surrogate */
	check_clean("\xf4\x90\x80\x80", "????");       /* above U+10FFFF */
	check_clean("\xf5\xff", "??");                 /* never a first byte */
	check_clean("\xe2\x82", "??");                 /* cut off */
	check_clean("\xe2\x82\xc3\xa9", "??\xc3\xa9"); /* cut off by the next one */
	check_clean("\xe2\x28\xa1", "?(?");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8__well_formed_text_stays),
		cmocka_unit_test(utf8__broken_bytes_become_question_marks),
	};

	return cmocka_run_group_tests_name("utf8", tests, NULL, NULL);
}
