/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <send/s3_body.h>
#include <send/sigv4.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static char top[64];

static int set_up(void **state)
{
	(void)state;
	return temp_tree_make(top, sizeof(top));
}

static int tear_down(void **state)
{
	(void)state;
	return temp_tree_remove(top);
}

static void crc32c__is_castagnolis(void **state)
{
	uint8_t zeros[32] = {0};

	(void)state;
	assert_int_equal(ky_crc32c(0, "123456789", 9), 0xe3069283u);
	assert_int_equal(ky_crc32c(0, zeros, sizeof(zeros)), 0x8a9136aau);
	assert_int_equal(ky_crc32c(ky_crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}

static struct kymo_segment write_segment(const char *path, const void *bytes, size_t count)
{
	struct kymo_segment segment = {
		.size = sizeof(segment), .path = path, .directory = top, .name = "0.trc.zst"};

	segment.fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(segment.fd >= 0);
	assert_int_equal(write(segment.fd, bytes, count), count);
	return segment;
}

static void make__digests_the_file_as_it_is(void **state)
{
	char path[96], sha[KY_SHA256_HEX_BYTES];
	struct kymo_segment segment;
	struct ky_s3_body body;

	(void)state;
	snprintf(path, sizeof(path), "%s/a", top);
	segment = write_segment(path, "123456789", 9);
	assert_int_equal(ky_s3_body_make(&body, &segment, false), 0);
	ky_sigv4_sha256(sha, "123456789", 9);
	assert_string_equal(body.sha256, sha);
	assert_string_equal(body.crc32c, "4waSgw==");
	assert_int_equal(body.bytes, 9);
	assert_int_equal(body.fd, segment.fd);
	ky_s3_body_release(&body);
	close(segment.fd);
}

/* One member, of the bytes that were packed, in a file that no directory has. */
static void make__packs_anew_for_a_reader_of_gzip(void **state)
{
	static const uint8_t raw[] = "TRC\0\1 what follows it, what follows it, what follows it";
	uint8_t packed[256], got[256];
	char path[96];
	struct kymo_segment segment;
	struct ky_s3_body body;
	struct stat about;
	z_stream zlib = {.next_out = got, .avail_out = sizeof(got)};
	size_t count = ZSTD_compress(packed, sizeof(packed), raw, sizeof(raw), 1);

	(void)state;
	snprintf(path, sizeof(path), "%s/b", top);
	segment = write_segment(path, packed, count);
	assert_int_equal(ky_s3_body_make(&body, &segment, true), 0);
	assert_int_equal(fstat(body.fd, &about), 0);
	assert_int_equal(about.st_nlink, 0);
	assert_int_equal(about.st_size, body.bytes);
	zlib.next_in = packed;
	zlib.avail_in = (uInt)pread(body.fd, packed, sizeof(packed), 0);
	assert_int_equal(inflateInit2(&zlib, 16 + MAX_WBITS), Z_OK);
	assert_int_equal(inflate(&zlib, Z_FINISH), Z_STREAM_END);
	assert_int_equal(zlib.avail_in, 0);
	assert_int_equal(zlib.total_out, sizeof(raw));
	assert_memory_equal(got, raw, sizeof(raw));
	inflateEnd(&zlib);
	ky_s3_body_release(&body);
	close(segment.fd);
}

static void make__refuses_what_is_no_trace(void **state)
{
	char path[96];
	struct kymo_segment segment;
	struct ky_s3_body body;

	(void)state;
	snprintf(path, sizeof(path), "%s/c", top);
	segment = write_segment(path, "plain text", 10);
	assert_int_equal(ky_s3_body_make(&body, &segment, true), KYMO_E_NOT_TRACE);
	assert_int_equal(body.fd, -1);
	close(segment.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc32c__is_castagnolis),
		cmocka_unit_test(make__digests_the_file_as_it_is),
		cmocka_unit_test(make__packs_anew_for_a_reader_of_gzip),
		cmocka_unit_test(make__refuses_what_is_no_trace),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
