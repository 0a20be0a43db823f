/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Names of dumps, and the ids made of them. */
#include "../../lib/cmocka_all.h"

#include <send/dump_name.h>
#include <stdio.h>
#include <string.h>

static void parse__takes_a_name_apart_from_its_end(void **state)
{
	struct ky_dump_name name;

	(void)state;
	assert_true(ky_dump_name_parse(&name, "my-web.trc-1-14640-20261127T180021Z-3.trc.zst"));
	assert_string_equal(name.service, "my-web.trc-1");
	assert_int_equal(name.pid, 14640);
	assert_int_equal(name.n, 3);
	assert_true(name.unix_ns == UINT64_C(1795802421000000000));
	assert_true(ky_dump_name_parse(&name, "a-1-20260518T123000Z-1.trc"));
	assert_true(ky_dump_name_parse(&name, "a-7-20260518T123000Z.trc.zst"));
	assert_int_equal(name.pid, 7);
	assert_int_equal(name.n, 0);
	assert_true(ky_dump_name_parse(&name, "a-1-20260518T123000Z-1.trc.gz"));
}

static void parse__refuses_what_is_no_dump(void **state)
{
	static const char *const names[] = {
		"",
		".trc",
		"000000.trc.zst",
		"20260518T123000Z.trc",
		"1-20260518T123000Z.trc",
		"a-1-20260518T123000Z-1-1.trc",
		"a-1-20260518T123000Z-1.trc.active",
		"a-1-20260518T123000Z-1.trc.zst.77.tmp",
		"a-1-20260518T123000-1.trc",
		"-1-20260518T123000Z-1.trc",
		"1-20260518T123000Z-1.trc",
		"a-x-20260518T123000Z-1.trc",
		"a-1-20260518T123000Z-.trc",
		"a-1-20260518T123000Z-99999999999.trc",
		"a-1-00000000T000000Z-1.trc",
		".send-key",
	};
	struct ky_dump_name name;
	char text[128];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (ky_dump_name_parse(&name, names[i]))
			fail_msg("'%s' is taken for a dump", names[i]);
	memset(text, 'a', 65);
	(void)snprintf(text + 65, sizeof(text) - 65, "-1-20260518T123000Z-1.trc");
	assert_false(ky_dump_name_parse(&name, text));
}

static void number__is_above_those_of_streams_and_differs(void **state)
{
	struct ky_dump_name one = {.unix_ns = UINT64_C(1795802421000000000), .n = 1}, other = one;

	(void)state;
	assert_true(ky_dump_name_number(&one) >= UINT64_C(1) << 31);
	assert_true(ky_dump_name_number(&one) <= UINT32_MAX);
	other.n = 2;
	assert_true(ky_dump_name_number(&one) != ky_dump_name_number(&other));
	other = one;
	other.unix_ns += 1000000000u;
	assert_true(ky_dump_name_number(&one) != ky_dump_name_number(&other));
}

static void id__is_a_ulid_that_stays_the_same(void **state)
{
	struct ky_dump_name name = {.unix_ns = UINT64_C(1469918176385000000), .n = 1};
	char one[KY_DUMP_ID_BYTES], other[KY_DUMP_ID_BYTES];

	(void)state;
	ky_dump_id_make(one, &name, "0123abcd-42-777");
	/* The time of the ULID specification's own example. */
	assert_memory_equal(one, "01ARYZ6S41", 10);
	assert_int_equal(strlen(one), 26);
	assert_int_equal(strspn(one, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"), 26);
	ky_dump_id_make(other, &name, "0123abcd-42-777");
	assert_string_equal(one, other);
	ky_dump_id_make(other, &name, "0123abcd-42-778");
	assert_string_not_equal(one, other);
	name.n = 2;
	ky_dump_id_make(other, &name, "0123abcd-42-777");
	assert_string_not_equal(one, other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse__takes_a_name_apart_from_its_end),
		cmocka_unit_test(parse__refuses_what_is_no_dump),
		cmocka_unit_test(number__is_above_those_of_streams_and_differs),
		cmocka_unit_test(id__is_a_ulid_that_stays_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
