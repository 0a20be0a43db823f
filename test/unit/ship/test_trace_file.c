/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One trace in one file: its name and what stood there before, the bound, trouble with the disk. */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <errno.h>
#include <kymo/base.h>
#include <ship/trace_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define CHUNK_BYTES 20000u
#define PLAIN_BYTES_MAX (8u << 20)

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

static const char *path_of(const char *name)
{
	static char path[600];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	return path;
}

static struct ky_compressor_factory compressor_of(const char *name)
{
	struct ky_compressor_factory compressor = ky_compressor_none;

	if (strcmp(ky_trace_file_suffix(name), ".zst") == 0)
		ky_compressor_zstd(&compressor, 1);
	else if (strcmp(ky_trace_file_suffix(name), ".gz") == 0)
		ky_compressor_gzip(&compressor, 1);
	return compressor;
}

static int try_open(struct ky_trace_file **out, const char *name, uint32_t pid, uint64_t bytes_max)
{
	struct ky_compressor_factory compressor = compressor_of(name);
	struct ky_trace_file_options options = {path_of(name), pid, &compressor, bytes_max};

	return ky_trace_file_open(out, &options);
}

static struct ky_trace_file *must_open(const char *name, uint32_t pid, uint64_t bytes_max)
{
	struct ky_trace_file *file;

	assert_int_equal(try_open(&file, name, pid, bytes_max), 0);
	return file;
}

/* Chunks are distinguished by their first byte; the rest is noise, which does not compress. */
static int put(struct ky_trace_file *file, uint8_t first, bool is_start, bool is_end)
{
	static uint8_t bytes[CHUNK_BYTES];
	static uint32_t random = 1;
	struct ky_chunk chunk = {.bytes = bytes,
				 .byte_count = is_start && is_end ? 1000 : CHUNK_BYTES,
				 .is_segment_start = is_start,
				 .is_segment_end = is_end};

	for (size_t i = 0; i < sizeof(bytes); i++) {
		random = random * 1664525 + 1013904223;
		bytes[i] = (uint8_t)(random >> 24);
	}
	bytes[0] = first;
	memcpy(bytes + 1, "RC", 3); /* with first 'T' it is a trace's beginning */
	return ky_trace_file_chunk(file, &chunk);
}

static off_t size_of(const char *name)
{
	struct stat about;

	return lstat(path_of(name), &about) == 0 ? about.st_size : -1;
}

static void write_text(const char *name, const char *text)
{
	FILE *file = fopen(path_of(name), "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static size_t unpack_gzip(const uint8_t *in, size_t count, uint8_t *out)
{
	size_t done = 0;

	while (count) {
		z_stream stream = {.next_in = (z_const Bytef *)(uintptr_t)in,
				   .avail_in = (uInt)count,
				   .next_out = out + done,
				   .avail_out = (uInt)(PLAIN_BYTES_MAX - done)};

		assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
		assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
		done += stream.total_out;
		in += stream.total_in;
		count -= stream.total_in;
		inflateEnd(&stream);
	}
	return done;
}

/* All of it, to the last byte, or the test fails. Returns the plain bytes; the caller frees. */
static uint8_t *read_whole(const char *name, size_t *count)
{
	off_t size = size_of(name);
	uint8_t *stored, *plain = malloc(PLAIN_BYTES_MAX);
	FILE *file = fopen(path_of(name), "r");

	assert_non_null(file);
	stored = malloc((size_t)size + 1);
	assert_int_equal(fread(stored, 1, (size_t)size, file), size);
	fclose(file);
	if (strcmp(ky_trace_file_suffix(name), ".zst") == 0) {
		*count = ZSTD_decompress(plain, PLAIN_BYTES_MAX, stored, (size_t)size);
		assert_false(ZSTD_isError(*count));
	} else if (strcmp(ky_trace_file_suffix(name), ".gz") == 0) {
		*count = unpack_gzip(stored, (size_t)size, plain);
	} else {
		*count = (size_t)size;
		memcpy(plain, stored, *count);
	}
	free(stored);
	return plain;
}

static void trace_file__names_say_the_compression(void **state)
{
	(void)state;
	assert_string_equal(ky_trace_file_suffix("a.trc"), "");
	assert_string_equal(ky_trace_file_suffix("d.d/a.trc.zst"), ".zst");
	assert_string_equal(ky_trace_file_suffix("a.trc.gz"), ".gz");
	assert_string_equal(ky_trace_file_suffix("a.bin.gz"), ".gz");
	assert_string_equal(ky_trace_file_suffix("a.zst"), ".zst");
	assert_null(ky_trace_file_suffix("traces"));
	assert_null(ky_trace_file_suffix("a.trc/traces"));
	assert_null(ky_trace_file_suffix("a.trc.old"));
	assert_null(ky_trace_file_suffix(".trc"));
}

static void trace_file__names_of_other_packings_are_no_directories(void **state)
{
	static const char *const foreign[] = {"a.trc.xz",   "d/a.trc.bz2", "a.trc.lz4",
					      "a.trc.zstd", "a.bin.gzip",  "a.xz",
					      "a.trc.old"};
	static const char *const others[] = {"a.trc",    "a.trc.zst", "a.bin.gz", "traces",
					     "a.trc.d/", "v1.2",      ".xz",      "x.xz/traces"};

	(void)state;
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		assert_true(ky_trace_file_is_foreign(foreign[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(ky_trace_file_is_foreign(others[i]));
}

static void trace_file__grows_under_its_own_name(void **state)
{
	struct ky_trace_file *file = must_open("new/below/a.trc", 0, 0);

	(void)state;
	assert_int_equal(put(file, 1, true, false), 0);
	assert_int_equal(size_of("new/below/a.trc"), CHUNK_BYTES);
	assert_int_equal(put(file, 2, false, true), 0);
	assert_int_equal(put(file, 3, true, false), 0); /* segments continue in the same file */
	assert_int_equal(ky_trace_file_close(file), 0);
	assert_int_equal(size_of("new/below/a.trc"), 3 * CHUNK_BYTES);
}

static void trace_file__nothing_recorded_leaves_nothing(void **state)
{
	(void)state;
	assert_int_equal(ky_trace_file_close(must_open("a.trc", 0, 0)), 0);
	assert_int_equal(size_of("a.trc"), -1);
}

static void trace_file__what_stood_there_is_kept_once(void **state)
{
	(void)state;
	for (uint8_t run = 1; run <= 3; run++) {
		struct ky_trace_file *file = must_open("a.trc", 0, 0);

		for (uint8_t i = 0; i < run; i++)
			assert_int_equal(put(file, i ? i : 'T', i == 0, false), 0);
		ky_trace_file_close(file);
	}
	assert_int_equal(size_of("a.trc"), 3 * CHUNK_BYTES);
	assert_int_equal(size_of("a.trc.old"), 2 * CHUNK_BYTES);
	assert_int_equal(size_of("a.trc.old.old"), -1);
}

static void trace_file__an_empty_file_is_filled(void **state)
{
	struct ky_trace_file *file;

	(void)state;
	write_text("a.trc", "");
	assert_int_equal(chmod(path_of("a.trc"), 0640), 0);
	file = must_open("a.trc", 0, 0);
	assert_int_equal(put(file, 1, true, true), 0);
	ky_trace_file_close(file);
	assert_int_equal(size_of("a.trc"), 1000);
	assert_int_equal(size_of("a.trc.old"), -1);
}

static void trace_file__only_regular_files_are_replaced(void **state)
{
	struct ky_trace_file *file;
	char link[600];

	(void)state;
	assert_int_equal(mkfifo(path_of("fifo.trc"), 0600), 0);
	assert_int_equal(try_open(&file, "fifo.trc", 0, 0), -EINVAL);
	assert_int_equal(mkdir(path_of("dir.trc"), 0700), 0);
	assert_int_equal(try_open(&file, "dir.trc", 0, 0), -EISDIR);
	snprintf(link, sizeof(link), "%s", path_of("link.trc"));
	assert_int_equal(symlink("/dev/null", link), 0);
	assert_int_equal(try_open(&file, "link.trc", 0, 0), -EINVAL);
	assert_int_equal(ky_trace_file_check(link), -EINVAL);
	/* A link to a file: the link steps aside, the file stays as it is. */
	write_text("precious", "TRC");
	assert_int_equal(unlink(link), 0);
	assert_int_equal(symlink("precious", link), 0);
	assert_int_equal(try_open(&file, "link.trc", 0, 0), KYMO_E_NOT_TRACE); /* lacks a byte */
	assert_int_equal(truncate(path_of("precious"), 4), 0);
	file = must_open("link.trc", 0, 0);
	assert_int_equal(put(file, 1, true, true), 0);
	ky_trace_file_close(file);
	assert_int_equal(size_of("precious"), 4);
	assert_int_equal(size_of("link.trc"), 1000);
}

/* A file under our name is not ours for that. */
static void trace_file__what_is_no_trace_stays(void **state)
{
	struct ky_trace_file *file;

	(void)state;
	write_text("a.trc", "a letter");
	assert_int_equal(ky_trace_file_check(path_of("a.trc")), KYMO_E_NOT_TRACE);
	assert_int_equal(try_open(&file, "a.trc", 0, 0), KYMO_E_NOT_TRACE);
	assert_int_equal(size_of("a.trc"), 8);
	assert_int_equal(size_of("a.trc.old"), -1);
	assert_int_equal(unlink(path_of("a.trc")), 0);
	file = must_open("a.trc", 0, 0);
	assert_int_equal(put(file, 'T', true, true), 0);
	ky_trace_file_close(file);
	write_text("a.trc.old", "an old letter");
	assert_int_equal(try_open(&file, "a.trc", 0, 0), KYMO_E_NOT_TRACE);
	assert_int_equal(size_of("a.trc"), 1000);
	assert_int_equal(size_of("a.trc.old"), 13);
}

static void trace_file__one_recorder_per_file(void **state)
{
	struct ky_trace_file *first = must_open("a.trc", 0, 0), *second;

	(void)state;
	assert_int_equal(try_open(&second, "a.trc", 0, 0), -EBUSY);
	assert_int_equal(put(first, 'T', true, false), 0);
	assert_int_equal(try_open(&second, "a.trc", 0, 0), -EBUSY);
	assert_int_equal(ky_trace_file_check(path_of("a.trc")), -EBUSY);
	ky_trace_file_close(first);
	assert_int_equal(ky_trace_file_check(path_of("a.trc")), 0);
}

static void trace_file__further_processes_replace_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct ky_trace_file *file = must_open("a.b.trc.gz", 42, 0);

		assert_int_equal(put(file, 1, true, false), 0);
		ky_trace_file_close(file);
	}
	assert_true(size_of("a.b.42.trc.gz") > 0);
	assert_true(size_of("a.b.42.2.trc.gz") > 0);
	assert_true(size_of("a.b.42.3.trc.gz") > 0);
	assert_int_equal(size_of("a.b.trc.gz"), -1);
	assert_int_equal(size_of("a.b.42.trc.gz.old"), -1);
}

static void trace_file__bound_holds_and_the_last_word_fits(void **state)
{
	static const char *const names[] = {"a.trc", "a.trc.zst", "a.trc.gz"};

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		struct ky_trace_file *file = must_open(names[k], 0, KY_TRACE_FILE_BYTES_MIN);
		struct ky_trace_file_stats stats;
		size_t count, chunks = 0;
		uint8_t *plain;

		while (put(file, (uint8_t)chunks, chunks == 0, false) == 0)
			chunks++;
		assert_int_equal(put(file, 200, true, false), KYMO_E_LIMIT);
		assert_int_equal(put(file, 201, false, true), KYMO_E_LIMIT);
		assert_int_equal(put(file, 250, true, true), 0);
		ky_trace_file_stats(file, &stats);
		assert_true(stats.is_full);
		assert_int_equal(stats.bytes_raw, chunks * CHUNK_BYTES + 1000);
		assert_int_equal(ky_trace_file_close(file), 0);
		assert_true(size_of(names[k]) <= (off_t)KY_TRACE_FILE_BYTES_MIN);
		assert_true(chunks > 40);
		plain = read_whole(names[k], &count);
		assert_int_equal(count, chunks * CHUNK_BYTES + 1000);
		assert_int_equal(plain[count - 1000], 250);
		free(plain);
	}
}

/* A full disk gets room again: what is in the file then reads to its end, without what was
 * refused. */
static void trace_file__full_disk_refuses_and_continues(void **state)
{
	static const char *const names[] = {"a.trc", "a.trc.zst", "a.trc.gz"};

	(void)state;
	if (geteuid() != 0 || mount("none", top, "tmpfs", 0, "size=512k") != 0) {
		print_message("# a small tmpfs needs the right to mount\n");
		skip();
	}
	for (size_t k = 0; k < 3; k++) {
		struct ky_trace_file *file = must_open(names[k], 0, 0);
		static uint8_t ballast[200000];
		FILE *other = fopen(path_of("ballast"), "w");
		size_t count, chunks = 0;
		uint8_t *plain;

		assert_int_equal(fwrite(ballast, sizeof(ballast), 1, other), 1);
		fclose(other);
		while (put(file, (uint8_t)chunks, chunks == 0, false) == 0)
			chunks++;
		assert_true(chunks > 5);
		assert_int_equal(put(file, 200, true, false), -ENOSPC);
		unlink(path_of("ballast"));
		assert_int_equal(put(file, 250, true, false), 0);
		assert_int_equal(put(file, 251, false, false), 0);
		assert_int_equal(ky_trace_file_close(file), 0);
		plain = read_whole(names[k], &count);
		assert_int_equal(count, (chunks + 2) * CHUNK_BYTES);
		for (size_t i = 0; i < chunks + 2; i++)
			assert_int_equal(plain[i * CHUNK_BYTES], i < chunks ? i : 250 + i - chunks);
		free(plain);
		unlink(path_of(names[k]));
	}
	umount(top);
}

static void trace_file__deleted_while_open_is_made_anew(void **state)
{
	struct ky_trace_file *file = must_open("a.trc", 0, 0);

	(void)state;
	assert_int_equal(put(file, 1, true, false), 0);
	unlink(path_of("a.trc"));
	assert_int_equal(put(file, 2, false, false), -ENOENT);
	assert_int_equal(put(file, 3, true, false), 0);
	ky_trace_file_close(file);
	assert_int_equal(size_of("a.trc"), CHUNK_BYTES);
}

static void trace_file__renamed_file_continues(void **state)
{
	struct ky_trace_file *file = must_open("a.trc", 0, 0);
	char from[600];

	(void)state;
	assert_int_equal(put(file, 1, true, false), 0);
	snprintf(from, sizeof(from), "%s", path_of("a.trc"));
	assert_int_equal(rename(from, path_of("kept.trc")), 0);
	assert_int_equal(put(file, 2, false, false), 0);
	ky_trace_file_close(file);
	assert_int_equal(size_of("kept.trc"), 2 * CHUNK_BYTES);
	assert_int_equal(size_of("a.trc"), -1);
}

static void trace_file__read_only_directory_is_reported(void **state)
{
	struct ky_trace_file *file;
	int err;

	(void)state;
	if (geteuid() == 0 && mount("none", top, "tmpfs", MS_RDONLY, "") != 0) {
		print_message("# root ignores modes, so this needs the right to mount\n");
		skip();
	}
	if (geteuid() != 0)
		assert_int_equal(chmod(top, 0500), 0);
	err = try_open(&file, "a.trc", 0, 0);
	if (geteuid() == 0)
		umount(top);
	else
		assert_int_equal(chmod(top, 0700), 0);
	assert_int_equal(err, geteuid() == 0 ? -EROFS : -EACCES);
	assert_null(file);
}

static void trace_file__nth_allocation_fails_cleanly(void **state)
{
	struct ky_trace_file *file;
	int err = -ENOMEM;

	(void)state;
	for (uint64_t n = 0; n < 50 && err; n++) {
		test_alloc_fail_at(n);
		err = try_open(&file, "a.trc.zst", 0, 0);
		if (!err) {
			err = put(file, 1, true, true);
			ky_trace_file_close(file);
		}
		test_alloc_normal();
		assert_true(err == 0 || err == -ENOMEM);
	}
	assert_int_equal(err, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_file__names_say_the_compression),
		CASE(trace_file__names_of_other_packings_are_no_directories),
		CASE(trace_file__grows_under_its_own_name),
		CASE(trace_file__nothing_recorded_leaves_nothing),
		CASE(trace_file__what_stood_there_is_kept_once),
		CASE(trace_file__an_empty_file_is_filled),
		CASE(trace_file__only_regular_files_are_replaced),
		CASE(trace_file__what_is_no_trace_stays),
		CASE(trace_file__one_recorder_per_file),
		CASE(trace_file__further_processes_replace_nothing),
		CASE(trace_file__bound_holds_and_the_last_word_fits),
		CASE(trace_file__full_disk_refuses_and_continues),
		CASE(trace_file__deleted_while_open_is_made_anew),
		CASE(trace_file__renamed_file_continues),
		CASE(trace_file__read_only_directory_is_reported),
		CASE(trace_file__nth_allocation_fails_cleanly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
