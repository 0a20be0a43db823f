/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Content is pseudo-random bytes after a TRC header: inflate reads no more than that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../../lib/alloc_fail.h"

#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <ship/inflate.h>
#include <ship/trace_paths.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static char directory[] = "/tmp/kymo-inflate-XXXXXX";
static char path[128];
static char error[512];

static void write_file(const void *bytes, size_t count)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, count, file), count);
	assert_int_equal(fclose(file), 0);
}

static void fill(uint8_t *bytes, size_t count)
{
	uint32_t state = 1;

	for (size_t i = 0; i < count; i++) {
		state = state * 1664525u + 1013904223u;
		bytes[i] = (uint8_t)((state >> 24) & 0x3f);
	}
	memcpy(bytes, "TRC\0\1", 5);
}

static size_t gzip(const uint8_t *bytes, size_t count, uint8_t *out, size_t capacity)
{
	z_stream z = {0};
	size_t used;

	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	z.next_in = (uint8_t *)(uintptr_t)bytes;
	z.avail_in = (uInt)count;
	z.next_out = out;
	z.avail_out = (uInt)capacity;
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	used = capacity - z.avail_out;
	assert_int_equal(deflateEnd(&z), Z_OK);
	return used;
}

static size_t zstd(const uint8_t *bytes, size_t count, uint8_t *out, size_t capacity)
{
	size_t used = ZSTD_compress(out, capacity, bytes, count, 3);

	assert_false(ZSTD_isError(used));
	return used;
}

/* Everything the source gives; *end is 0 or the error that ended it. */
static size_t read_all(struct ky_byte_source *source, uint8_t *out, size_t capacity, int *end)
{
	size_t used = 0;

	for (;;) {
		int64_t count = source->read(source->ctx, out + used,
					     capacity - used < 777 ? capacity - used : 777);

		*end = (int)(count < 0 ? count : 0);
		if (count <= 0)
			return used;
		used += (size_t)count;
		assert_true(used < capacity);
	}
}

static uint8_t plain[20000], packed[3 * 20000 + 1000], unpacked[3 * 20000 + 1000];

static void expect_whole(const char *container, const uint8_t *want, size_t count)
{
	struct ky_byte_source source;
	int end;

	assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)), 0);
	assert_string_equal(source.container, container);
	assert_string_equal(source.name, path);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(read_all(&source, unpacked, sizeof(unpacked), &end), count);
		assert_int_equal(end, 0);
		assert_memory_equal(unpacked, want, count);
		assert_int_equal(source.seek(source.ctx, 0), 0);
	}
	assert_int_equal(source.seek(source.ctx, 1234), 0);
	assert_int_equal(read_all(&source, unpacked, sizeof(unpacked), &end), count - 1234);
	assert_memory_equal(unpacked, want + 1234, count - 1234);
	source.close(source.ctx);
}

static void inflate__gives_raw_gzip_and_zstd_back_and_rewinds(void **state)
{
	(void)state;
	write_file(plain, sizeof(plain));
	expect_whole("raw", plain, sizeof(plain));
	write_file(packed, gzip(plain, sizeof(plain), packed, sizeof(packed)));
	expect_whole("gzip", plain, sizeof(plain));
	write_file(packed, zstd(plain, sizeof(plain), packed, sizeof(packed)));
	expect_whole("zstd", plain, sizeof(plain));
}

static void inflate__reads_on_through_members_frames_and_skippable_frames(void **state)
{
	static const uint8_t skippable[] = {0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
	size_t used = 0;

	(void)state;
	memcpy(packed, skippable, sizeof(skippable));
	used = sizeof(skippable);
	used += zstd(plain, 9000, packed + used, sizeof(packed) - used);
	memcpy(packed + used, skippable, sizeof(skippable));
	used += sizeof(skippable);
	used += zstd(plain + 9000, 1000, packed + used, sizeof(packed) - used);
	used += gzip(plain + 10000, 5000, packed + used, sizeof(packed) - used);
	used += gzip(plain + 15000, 5000, packed + used, sizeof(packed) - used);
	memset(packed + used, 0, 700); /* tape padding after gzip */
	write_file(packed, used + 700);
	expect_whole("zstd", plain, sizeof(plain));
}

static void check_torn(const uint8_t *whole, size_t count, size_t content, bool is_raw)
{
	for (size_t cut = 0; cut < count; cut++) {
		struct ky_byte_source source;
		size_t got;
		int result, end;

		write_file(whole, cut);
		error[0] = '\0';
		result = ky_inflate_open(&source, path, NULL, error, sizeof(error));
		if (result) {
			assert_int_equal(result, cut ? KYMO_E_TRUNCATED : KYMO_E_NOT_TRACE);
			assert_non_null(strstr(error, path));
			continue;
		}
		got = read_all(&source, unpacked, sizeof(unpacked), &end);
		assert_int_equal(end, is_raw ? 0 : KYMO_E_TRUNCATED);
		assert_true(got <= content);
		if (is_raw)
			assert_int_equal(got, cut);
		assert_memory_equal(unpacked, plain, got);
		if (!is_raw)
			assert_non_null(strstr(error, "ends early"));
		source.close(source.ctx);
	}
}

static void inflate__gives_what_is_before_the_tear_at_every_offset(void **state)
{
	uint8_t whole[2000];
	size_t count;

	(void)state;
	check_torn(plain, 300, 300, true);
	count = gzip(plain, 600, whole, sizeof(whole));
	check_torn(whole, count, 600, false);
	count = zstd(plain, 600, whole, sizeof(whole));
	check_torn(whole, count, 600, false);
}

/* A tear in the second frame must not cost the first. */
static void inflate__keeps_whole_frames_before_a_tear(void **state)
{
	struct ky_byte_source source;
	size_t first = zstd(plain, 5000, packed, sizeof(packed));
	size_t second = zstd(plain + 5000, 5000, packed + first, sizeof(packed) - first);
	int end;

	(void)state;
	write_file(packed, first + second - 3);
	assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)), 0);
	assert_true(read_all(&source, unpacked, sizeof(unpacked), &end) >= 5000);
	assert_int_equal(end, KYMO_E_TRUNCATED);
	source.close(source.ctx);
}

static void inflate__says_how_much_of_the_file_a_tear_costs(void **state)
{
	struct ky_byte_source source;
	size_t first = zstd(plain, 5000, packed, sizeof(packed));
	size_t second = zstd(plain + 5000, 5000, packed + first, sizeof(packed) - first);
	size_t cut = first + second / 2;
	char want[96];
	int end;

	(void)state;
	write_file(packed, cut);
	assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)), 0);
	assert_int_equal(read_all(&source, unpacked, sizeof(unpacked), &end), 5000);
	assert_int_equal(end, KYMO_E_TRUNCATED);
	snprintf(want, sizeof(want), "at byte %zu; its last %zu bytes, from byte %zu on", cut,
		 cut - first, first);
	assert_non_null(strstr(error, want));
	source.close(source.ctx);
}

static void inflate__gives_what_is_before_damage_then_says_where(void **state)
{
	struct ky_byte_source source;
	size_t count;
	int end;

	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		size_t first = kind ? zstd(plain, 5000, packed, sizeof(packed)) :
				      gzip(plain, 5000, packed, sizeof(packed));

		memset(packed + first, 0xee, 100);
		write_file(packed, first + 100);
		assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)), 0);
		count = read_all(&source, unpacked, sizeof(unpacked), &end);
		assert_int_equal(count, 5000);
		assert_int_equal(end, KYMO_E_CORRUPT);
		assert_non_null(strstr(error, "byte "));
		/* The error stays, it is not forgotten by the next read. */
		assert_int_equal(source.read(source.ctx, unpacked, 10), KYMO_E_CORRUPT);
		source.close(source.ctx);
	}
}

/* As our recorder packs a chunk: one frame with its checksum at the end. */
static size_t checked_zstd(const uint8_t *bytes, size_t count, uint8_t *out, size_t capacity,
			   bool has_size)
{
	ZSTD_CCtx *ctx = ZSTD_createCCtx();
	size_t used;

	(void)ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, 1);
	(void)ZSTD_CCtx_setParameter(ctx, ZSTD_c_contentSizeFlag, has_size);
	used = ZSTD_compress2(ctx, out, capacity, bytes, count);
	assert_false(ZSTD_isError(used));
	(void)ZSTD_freeCCtx(ctx);
	return used;
}

/* What a frame holds is not given unless its checksum is right; its neighbours are. */
static void inflate__gives_no_byte_of_a_frame_whose_checksum_is_wrong(void **state)
{
	struct ky_byte_source source;
	int end;

	(void)state;
	for (int has_size = 0; has_size < 2; has_size++) {
		size_t first = checked_zstd(plain, 5000, packed, sizeof(packed), has_size);
		size_t second = checked_zstd(plain + 5000, 9000, packed + first,
					     sizeof(packed) - first, has_size);
		size_t third = checked_zstd(plain + 14000, 6000, packed + first + second,
					    sizeof(packed) - first - second, has_size);

		packed[first + second - 1] ^= 1; /* of the checksum alone */
		write_file(packed, first + second + third);
		assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)), 0);
		assert_int_equal(read_all(&source, unpacked, sizeof(unpacked), &end), 5000);
		assert_memory_equal(unpacked, plain, 5000);
		assert_int_equal(end, KYMO_E_CORRUPT);
		assert_non_null(strstr(error, "checksum"));
		assert_non_null(strstr(error, "this frame is left out"));
		assert_int_equal(read_all(&source, unpacked, sizeof(unpacked), &end), 6000);
		assert_memory_equal(unpacked, plain + 14000, 6000);
		assert_int_equal(end, 0);
		source.close(source.ctx);
	}
}

/* What is larger than memory cannot be held back: the error says how much is in doubt. */
static void inflate__says_how_much_of_a_large_frame_is_in_doubt(void **state)
{
	const size_t count = 3u << 20;
	uint8_t *bytes = malloc(count), *out = malloc(count), *back = malloc(count + 1);
	struct ky_byte_source source;
	char said[80];
	size_t used;
	int end;

	(void)state;
	assert_non_null(bytes);
	assert_non_null(out);
	assert_non_null(back);
	fill(bytes, count);
	for (int kind = 0; kind < 3; kind++) {
		used = kind == 0 ? gzip(bytes, count, out, count) :
				   checked_zstd(bytes, count, out, count, kind == 1);
		out[used - (kind == 0 ? 5 : 1)] ^= 1; /* of the checksum alone */
		write_file(out, used);
		assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)), 0);
		used = read_all(&source, back, count + 1, &end);
		assert_true(used <= count && used > count - 777); /* perhaps not the last read */
		assert_int_equal(end, KYMO_E_CORRUPT);
		(void)snprintf(said, sizeof(said), "the %zu bytes unpacked before it may be wrong",
			       used);
		assert_non_null(strstr(error, said));
		source.close(source.ctx);
	}
	free(bytes);
	free(out);
	free(back);
}

static void inflate__refuses_what_is_no_trace(void **state)
{
	struct ky_byte_source source;
	size_t count;

	(void)state;
	write_file("#!/bin/sh\necho hello\n", 21);
	assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)),
			 KYMO_E_NOT_TRACE);
	assert_non_null(strstr(error, "not a trace"));
	write_file("", 0);
	assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)),
			 KYMO_E_NOT_TRACE);
	count = gzip((const uint8_t *)"hello, hello", 12, packed, sizeof(packed));
	write_file(packed, count);
	assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)),
			 KYMO_E_NOT_TRACE);
	write_file("TRC\0\2abc", 8);
	assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)),
			 KYMO_E_VERSION);
	assert_int_equal(ky_inflate_open(&source, directory, NULL, error, sizeof(error)), -EISDIR);
	assert_int_equal(ky_inflate_open(&source, "/proc/nonexistent/x", NULL, error,
					 sizeof(error)),
			 -ENOENT);
	assert_non_null(strstr(error, "/proc/nonexistent/x"));
}

/* 200 MiB of zeros after the header, packed to a few kilobytes. */
static size_t make_bomb(bool is_zstd)
{
	size_t count = 200u << 20;
	size_t capacity = 1u << 20, used;
	uint8_t *zeros = calloc(1, count);
	uint8_t *small = malloc(capacity);

	assert_non_null(zeros);
	assert_non_null(small);
	memcpy(zeros, "TRC\0\1", 5);
	used = is_zstd ? zstd(zeros, count, small, capacity) : gzip(zeros, count, small, capacity);
	write_file(small, used);
	free(small);
	free(zeros);
	return used;
}

static uint64_t drain(struct ky_byte_source *source, int *end)
{
	static uint8_t sink[1u << 16];
	uint64_t total = 0;
	int64_t count;

	while ((count = source->read(source->ctx, sink, sizeof(sink))) > 0)
		total += (uint64_t)count;
	*end = (int)count;
	return total;
}

static void inflate__stops_a_bomb_at_the_stated_ratio(void **state)
{
	struct ky_inflate_options open_handed = {.ratio_max = UINT32_MAX};
	struct ky_inflate_options strict = {.unpacked_bytes_max = 1u << 20};
	struct ky_byte_source source;
	int end;

	(void)state;
	(void)make_bomb(true);
	assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)), 0);
	assert_true(drain(&source, &end) <= KY_INFLATE_FREE_BYTES + (1u << 20));
	assert_int_equal(end, KYMO_E_LIMIT);
	assert_non_null(strstr(error, "--max-ratio"));
	source.close(source.ctx);

	assert_int_equal(ky_inflate_open(&source, path, &open_handed, error, sizeof(error)), 0);
	assert_int_equal(drain(&source, &end), 200u << 20);
	assert_int_equal(end, 0);
	source.close(source.ctx);

	assert_int_equal(ky_inflate_open(&source, path, &strict, error, sizeof(error)), 0);
	assert_true(drain(&source, &end) <= 1u << 20);
	assert_int_equal(end, KYMO_E_LIMIT);
	assert_non_null(strstr(error, "--max-bytes"));
	source.close(source.ctx);
}

static void inflate__refuses_a_zstd_window_above_the_limit(void **state)
{
	struct ky_inflate_options small = {.window_bytes_max = 1u << 16};
	struct ky_byte_source source;
	size_t count = 1u << 20;
	uint8_t *bytes = calloc(1, count);
	uint8_t *out = malloc(count);
	ZSTD_CCtx *ctx = ZSTD_createCCtx();
	size_t used;

	(void)state;
	assert_non_null(bytes);
	assert_non_null(out);
	memcpy(bytes, "TRC\0\1", 5);
	(void)ZSTD_CCtx_setParameter(ctx, ZSTD_c_contentSizeFlag, 0);
	(void)ZSTD_CCtx_setParameter(ctx, ZSTD_c_windowLog, 20);
	used = ZSTD_compress2(ctx, out, count, bytes, count);
	assert_false(ZSTD_isError(used));
	write_file(out, used);
	assert_int_equal(ky_inflate_open(&source, path, &small, error, sizeof(error)),
			 KYMO_E_LIMIT);
	assert_int_equal(ky_inflate_open(&source, path, NULL, error, sizeof(error)), 0);
	source.close(source.ctx);
	(void)ZSTD_freeCCtx(ctx);
	free(out);
	free(bytes);
}

static void put(const char *name, const void *bytes, size_t count)
{
	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	write_file(bytes, count);
}

static void remove_named(const char *name)
{
	char full[160];

	(void)snprintf(full, sizeof(full), "%s/%s", directory, name);
	(void)remove(full);
}

static void trace_paths__takes_traces_in_natural_order_and_counts_the_rest(void **state)
{
	static const char *const names[] = {"d/10.trc", "d/9.trc", "d/notes.txt", "d/.hidden.trc",
					    "d/s"};
	struct ky_trace_paths list = {0};
	char root[128];

	(void)state;
	(void)snprintf(root, sizeof(root), "%s/d", directory);
	assert_int_equal(mkdir(root, 0700), 0);
	assert_int_equal(ky_trace_paths_add(&list, root, NULL, error, sizeof(error)),
			 KYMO_E_NOT_TRACE);
	assert_non_null(strstr(error, "no trace below"));
	put("d/10.trc", plain, 100);
	put("d/9.trc", plain, 100);
	put("d/.hidden.trc", plain, 100);
	put("d/notes.txt", "hello", 5);
	(void)snprintf(path, sizeof(path), "%s/d/s", directory);
	assert_int_equal(symlink(".", path), 0); /* a cycle ends */
	assert_int_equal(ky_trace_paths_add(&list, root, NULL, error, sizeof(error)), 0);
	assert_true(list.count == 2);
	assert_non_null(strstr(list.paths[0], "/9.trc"));
	assert_non_null(strstr(list.paths[1], "/10.trc"));
	assert_true(list.foreign_count == 1);
	assert_non_null(strstr(list.foreign_first, "notes.txt"));
	assert_int_equal(ky_trace_paths_add(&list, "/proc/nonexistent", NULL, error, sizeof(error)),
			 -ENOENT);
	ky_trace_paths_release(&list);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		remove_named(names[i]);
	remove_named("d");
	(void)snprintf(path, sizeof(path), "%s/file", directory);
}

/* Whatever allocation fails: an error, nothing leaked, nothing half made. */
static void inflate__survives_the_failure_of_any_allocation(void **state)
{
	size_t count = gzip(plain, sizeof(plain), packed, sizeof(packed));
	int result = -ENOMEM;

	(void)state;
	write_file(packed, count);
	for (uint64_t n = 0; result && n < 100; n++) {
		struct ky_trace_paths list = {0};
		struct ky_byte_source source;
		int end = 0;

		test_alloc_fail_at(n);
		result = ky_trace_paths_add(&list, directory, NULL, error, sizeof(error));
		if (!result)
			result = ky_inflate_open(&source, list.paths[0], NULL, error,
						 sizeof(error));
		if (!result) {
			(void)read_all(&source, unpacked, sizeof(unpacked), &end);
			source.close(source.ctx);
			result = end;
		}
		test_alloc_normal();
		ky_trace_paths_release(&list);
		assert_true(result == 0 || result == -ENOMEM);
	}
	assert_int_equal(result, 0);
}

static int set_up(void **state)
{
	(void)state;
	fill(plain, sizeof(plain));
	if (!mkdtemp(directory))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/file", directory);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	(void)remove(path);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inflate__gives_raw_gzip_and_zstd_back_and_rewinds),
		cmocka_unit_test(inflate__reads_on_through_members_frames_and_skippable_frames),
		cmocka_unit_test(inflate__gives_what_is_before_the_tear_at_every_offset),
		cmocka_unit_test(inflate__keeps_whole_frames_before_a_tear),
		cmocka_unit_test(inflate__says_how_much_of_the_file_a_tear_costs),
		cmocka_unit_test(inflate__gives_what_is_before_damage_then_says_where),
		cmocka_unit_test(inflate__gives_no_byte_of_a_frame_whose_checksum_is_wrong),
		cmocka_unit_test(inflate__says_how_much_of_a_large_frame_is_in_doubt),
		cmocka_unit_test(inflate__refuses_what_is_no_trace),
		cmocka_unit_test(inflate__stops_a_bomb_at_the_stated_ratio),
		cmocka_unit_test(inflate__refuses_a_zstd_window_above_the_limit),
		cmocka_unit_test(inflate__survives_the_failure_of_any_allocation),
		cmocka_unit_test(trace_paths__takes_traces_in_natural_order_and_counts_the_rest),
	};

	return cmocka_run_group_tests_name("inflate", tests, set_up, tear_down);
}
