/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/buf.h>
#include <bucket/object_key.h>
#include <send/layout.h>
#include <string.h>

static const struct kymo_segment segment = {
	.size = sizeof(segment),
	.fd = -1,
	.service = "a/b w\xc3\xa4",
	.run = "2026-05-18T12-30-00-0123abcd-42-777",
	.name = "000007.trc.zst",
	.boot = "0123abcd-42-777",
	.host = "host-1.example",
	.number = 7,
	.start_unix_ns = UINT64_C(1779107405250000000),
	.end_unix_ns = UINT64_C(1779107465000000000),
	.dump_id = "",
};

static void read_back(struct ky_object_key *out, enum ky_layout layout, const char *prefix)
{
	struct ky_buf key;

	ky_buf_init(&key, 0);
	assert_int_equal(ky_layout_key(&key, layout, prefix, &segment), 0);
	assert_true(ky_object_key_read(out, (const char *)key.bytes));
	ky_buf_release(&key);
}

static void a_key_of_ours__says_what_the_layout_put_in(void **state)
{
	struct ky_object_key key;

	(void)state;
	read_back(&key, KY_LAYOUT_KYMO, "prod/eu=west");
	assert_int_equal(key.form, KY_OBJECT_KYMO);
	assert_string_equal(key.service, segment.service);
	assert_string_equal(key.host, "host-1.example");
	assert_string_equal(key.run, "0123abcd-42-777");
	assert_int_equal(key.number, 7);
	assert_int_equal(key.start_unix_ns, segment.start_unix_ns);
	/* Cut to milliseconds: never before the last event. */
	assert_true(key.end_unix_ns >= segment.end_unix_ns);
	assert_true(key.end_unix_ns < segment.end_unix_ns + 5000000);
}

static void a_key_of_dial9__says_what_the_layout_put_in(void **state)
{
	struct ky_object_key key;

	(void)state;
	read_back(&key, KY_LAYOUT_DIAL9, "");
	assert_int_equal(key.form, KY_OBJECT_DIAL9);
	assert_string_equal(key.service, segment.service);
	assert_string_equal(key.host, "host-1.example");
	assert_string_equal(key.run, "0123abcd-42-777");
	assert_int_equal(key.number, 7);
	assert_int_equal(key.start_unix_ns, UINT64_C(1779107405000000000));
	assert_int_equal(key.end_unix_ns, 0);
}

static void another_name__is_a_trace_by_its_ending_alone(void **state)
{
	static const char *const plain[] = {
		"night.trc.zst",
		"a/b/000000.bin.gz",
		"k1/raw/service=web/date=2026-05-18/hour=12/host=h/x-1-b-1.trc.zst",
		"k1/raw/service=web/date=2026-05-18/hour=12/host=h/1-1-000001.trc.zst",
		"k1/raw/service=w%00b/date=2026-05-18/hour=12/host=h/1-1-b-1.trc.zst",
		"k1/raw/service=w%2/date=2026-05-18/hour=12/host=h/1-1-b-1.trc.zst",
		"k1/raw/service=w/date=2026-05-18/hour=12/host=h/99999999999999999999-1-b-1.trc",
		"version=1/date=d/service=s/time=1200/instance=i/boot=b/99999999999999-1.bin.gz",
	};
	static const char *const none[] = {"",      "/", "readme.txt", "a/.trc", "dumps/01J.json",
					   "a.trc/"};
	struct ky_object_key key;

	(void)state;
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		assert_true(ky_object_key_read(&key, plain[i]));
		assert_int_equal(key.form, KY_OBJECT_PLAIN);
		assert_string_equal(key.service, "");
		assert_int_equal(key.start_unix_ns, 0);
	}
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_false(ky_object_key_read(&key, none[i]));
}

static void a_service__ends_at_the_slash(void **state)
{
	char service[KY_OBJECT_SERVICE_BYTES];

	(void)state;
	assert_true(ky_object_service_read(service, "a%2Fb/date=1/"));
	assert_string_equal(service, "a/b");
	assert_false(ky_object_service_read(service, "a%zz/"));
	assert_false(ky_object_service_read(
		service, "0123456789012345678901234567890123456789012345678901234567890123/"));
}

static void a_long_one__says_what_the_layout_put_in(void **state)
{
	static const char *const none[] = {
		"k1/long/service=web/date=2026-05-18/hour=24/lasts=4",
		"k1/long/service=web/date=2026-05-18/hour=12/lasts=1",
		"k1/long/service=web/date=2026-05-18/hour=12/lasts=65537",
		"k1/long/service=web/date=2026-05-18/hour=+2/lasts=4",
		"k1/long/service=web/date=2026-05-18x/hour=12/lasts=4",
		"k1/long/service=web/date=9999-05-18/hour=12/lasts=4",
		"k1/long/service=web/hour=12/lasts=4",
		"lasts=4",
		"",
	};
	struct kymo_segment slow = segment;
	struct ky_object_long found;
	struct ky_buf key;

	(void)state;
	ky_buf_init(&key, 0);
	slow.end_unix_ns = slow.start_unix_ns + UINT64_C(3600000000000);
	assert_int_equal(ky_layout_long_key(&key, "p", &slow), 0);
	assert_int_equal(key.used, 0);
	slow.end_unix_ns += UINT64_C(4 * 3600000000000);
	assert_int_equal(ky_layout_long_key(&key, "p", &slow), 0);
	assert_true(ky_object_long_read(&found, (const char *)key.bytes));
	assert_string_equal(found.service, segment.service);
	assert_int_equal(found.hours, 8);
	assert_int_equal(found.hour_unix_ns,
			 segment.start_unix_ns / UINT64_C(3600000000000) * UINT64_C(3600000000000));
	ky_buf_clear(&key);
	slow.dump_id = "01M8F2MNR8YP6GF58SCM83K0YC";
	assert_int_equal(ky_layout_long_key(&key, "p", &slow), 0);
	assert_int_equal(key.used, 0);
	ky_buf_release(&key);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_false(ky_object_long_read(&found, none[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_of_ours__says_what_the_layout_put_in),
		cmocka_unit_test(a_key_of_dial9__says_what_the_layout_put_in),
		cmocka_unit_test(another_name__is_a_trace_by_its_ending_alone),
		cmocka_unit_test(a_service__ends_at_the_slash),
		cmocka_unit_test(a_long_one__says_what_the_layout_put_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
