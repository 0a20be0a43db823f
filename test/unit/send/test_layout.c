/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <kymo/base.h>
#include <send/layout.h>
#include <string.h>

static const struct kymo_segment segment = {
	.size = sizeof(segment),
	.fd = -1,
	.service = "web",
	.run = "2026-05-18T12-30-00-0123abcd-42-777",
	.name = "000007.trc.zst",
	.boot = "0123abcd-42-777",
	.host = "host-1.example",
	.number = 7,
	.start_unix_ns = UINT64_C(1779107405250000000),
	.end_unix_ns = UINT64_C(1779107465000000000),
};

static int key(char *out, size_t out_bytes, enum ky_layout layout, const char *prefix,
	       const struct kymo_segment *of)
{
	struct ky_buf buf;
	int err;

	ky_buf_init(&buf, 0);
	err = ky_layout_key(&buf, layout, prefix, of);
	assert_true(buf.used <= out_bytes);
	memcpy(out, buf.bytes, buf.used);
	ky_buf_release(&buf);
	return err;
}

static void key__is_what_dial9_lists(void **state)
{
	char out[1200];

	(void)state;
	assert_int_equal(key(out, sizeof(out), KY_LAYOUT_DIAL9, "prod/eu", &segment), 0);
	assert_string_equal(out, "prod/eu/version=1/date=2026-05-18/service=web/time=1230/"
				 "instance=host-1.example/boot=0123abcd-42-777/"
				 "1779107405-7.bin.gz");
	assert_string_equal(ky_layout_type(KY_LAYOUT_DIAL9, &segment), "application/gzip");
}

static void key__has_its_times_in_its_name(void **state)
{
	char out[1200];

	(void)state;
	assert_int_equal(key(out, sizeof(out), KY_LAYOUT_KYMO, "", &segment), 0);
	assert_string_equal(out, "k1/raw/service=web/date=2026-05-18/hour=12/host=host-1.example/"
				 "1779107405250-59750-0123abcd-42-777-000007.trc.zst");
	assert_string_equal(ky_layout_type(KY_LAYOUT_KYMO, &segment), "application/zstd");
}

/* Neither a path nor a terminal's escape. */
static void key__has_nothing_of_its_values_but_names(void **state)
{
	struct kymo_segment odd = segment;
	char out[2048], host[400];

	(void)state;
	odd.service = "../a/b\n";
	odd.host = "\x1b[2J=";
	assert_int_equal(key(out, sizeof(out), KY_LAYOUT_DIAL9, "", &odd), 0);
	assert_non_null(strstr(out, "/service=%2E.%2Fa%2Fb%0A/"));
	assert_non_null(strstr(out, "/instance=%1B%5B2J%3D/"));
	odd.host = "";
	assert_int_equal(key(out, sizeof(out), KY_LAYOUT_DIAL9, "", &odd), 0);
	assert_non_null(strstr(out, "/instance=unknown/"));
	memset(host, '=', sizeof(host) - 1);
	host[sizeof(host) - 1] = '\0';
	odd.host = host;
	assert_int_equal(key(out, sizeof(out), KY_LAYOUT_DIAL9, "", &odd), KYMO_E_LIMIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key__is_what_dial9_lists),
		cmocka_unit_test(key__has_its_times_in_its_name),
		cmocka_unit_test(key__has_nothing_of_its_values_but_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
