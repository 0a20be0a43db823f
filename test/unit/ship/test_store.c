/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Segments on disk: names, rotation, the bound and what it must never touch, trouble with the
 * disk. */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <base/buf.h>

#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <ship/retention.h>
#include <ship/store.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define RUN "0123abcd-42-777"
#define SECOND UINT64_C(1000000000)
#define CHUNK_BYTES 1000u

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

static struct ky_store *open_store(const char *run, uint64_t total)
{
	struct ky_store_options options = {.directory = top,
					   .service = "svc",
					   .run = run,
					   .segment_bytes_max = 10000,
					   .total_bytes_max = total};
	struct ky_store *store;

	assert_int_equal(ky_store_open(&store, &options), 0);
	return store;
}

/* A chunk of CHUNK_BYTES that begins as ours do. */
static int put(struct ky_store *store, uint64_t ns, bool is_start, bool is_end)
{
	static uint8_t bytes[CHUNK_BYTES] = {'T', 'R', 'C', 0, 1};
	struct ky_chunk chunk = {.bytes = bytes,
				 .byte_count = sizeof(bytes),
				 .event_count = 10,
				 .first_ns = ns,
				 .last_ns = ns,
				 .is_segment_start = is_start,
				 .is_segment_end = is_end};

	return ky_store_chunk(store, &chunk);
}

static bool exists(const char *name)
{
	char path[600];
	struct stat about;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	return lstat(path, &about) == 0;
}

static bool exists_in_service(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "svc/%s", name);
	return exists(path);
}

static void make_file(const char *name, const char *text)
{
	char path[600];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void store__segment_gets_its_name_when_it_is_whole(void **state)
{
	struct ky_store *store = open_store(RUN, 0);
	struct ky_store_stats stats;

	(void)state;
	assert_int_equal(put(store, SECOND, true, false), 0);
	assert_true(exists("svc/" RUN "/000000.trc.active"));
	assert_false(exists("svc/" RUN "/000000.trc"));
	assert_int_equal(put(store, SECOND, false, true), 0);
	assert_false(exists("svc/" RUN "/000000.trc.active"));
	assert_true(exists("svc/" RUN "/000000.trc"));
	assert_int_equal(put(store, 2 * SECOND, true, false), 0);
	assert_int_equal(put(store, 2 * SECOND, true, false), 0); /* a start seals what is open */
	ky_store_stats(store, &stats);
	assert_int_equal(stats.segments_sealed, 2);
	assert_int_equal(stats.bytes_raw, 4 * CHUNK_BYTES);
	ky_store_close(store);
	assert_true(exists("svc/" RUN "/000002.trc"));
}

/* ---- a program that closes all descriptors ---- */

#define FDS_MAX 256

/* Descriptors of this process that are not in `before`; -1 ends the list. */
static void list_fds(int *out)
{
	for (int fd = 0; fd < FDS_MAX; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			*out++ = fd;
	*out = -1;
}

static bool has_fd(const int *list, int fd)
{
	for (; *list >= 0; list++)
		if (*list == fd)
			return true;
	return false;
}

/* As one that becomes a daemon does: each number that is not in `before` is another file's then.
 * Returns how many they were. */
static uint32_t take_numbers(const int *before, int mine)
{
	int now[FDS_MAX + 1];
	uint32_t count = 0;

	list_fds(now);
	for (int *fd = now; *fd >= 0; fd++) {
		if (has_fd(before, *fd) || *fd == mine)
			continue;
		assert_int_equal(dup2(mine, *fd), *fd);
		count++;
	}
	return count;
}

static void assert_untouched(int mine, uint32_t links)
{
	struct stat about, of_copy;
	uint32_t copies = 0;

	assert_int_equal(fstat(mine, &about), 0);
	assert_int_equal(about.st_size, 4);
	for (int fd = 0; fd < FDS_MAX; fd++)
		copies += fd != mine && fstat(fd, &of_copy) == 0 &&
			  of_copy.st_ino == about.st_ino && of_copy.st_dev == about.st_dev;
	assert_int_equal(copies, links);
}

static int open_mine(void)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/mine", top);
	fd = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "mine", 4), 4);
	return fd;
}

static void close_copies(const int *before, int mine)
{
	for (int fd = 0; fd < FDS_MAX; fd++)
		if (!has_fd(before, fd) && fd != mine)
			close(fd);
	close(mine);
}

static void daemon__has_its_files_left_alone_by_a_store(void **state)
{
	int before[FDS_MAX + 1], mine = open_mine();
	struct ky_store *store;
	struct ky_store_stats stats;
	uint32_t count;

	(void)state;
	list_fds(before);
	store = open_store(RUN, 0);
	assert_int_equal(put(store, SECOND, true, false), 0);
	count = take_numbers(before, mine);
	assert_true(count >= 4); /* the segment, its lock, two directories */
	assert_int_equal(put(store, SECOND, false, false), -ENOENT);
	assert_untouched(mine, count);
	/* After a while it continues, in a new segment. */
	assert_int_equal(put(store, 4 * SECOND, true, false), 0);
	assert_untouched(mine, count);
	assert_true(exists("svc/" RUN "/000000.trc.active"));
	assert_true(exists("svc/" RUN "/000001.trc.active"));
	(void)take_numbers(before, mine);
	ky_store_stats(store, &stats);
	ky_store_close(store);
	assert_int_equal(stats.segments_sealed, 0);
	assert_true(exists("svc/" RUN "/000001.trc.active"));
	assert_int_equal(lseek(mine, 0, SEEK_END), 4);
	close_copies(before, mine);
}

static void daemon__has_its_files_left_alone_by_a_trace_file(void **state)
{
	int before[FDS_MAX + 1], mine = open_mine();
	char path[600];
	const struct ky_store_options options = {
		.file = path, .directory = top, .service = "svc", .run = RUN};
	struct ky_store *store;
	uint32_t count;

	(void)state;
	snprintf(path, sizeof(path), "%s/one.trc", top);
	list_fds(before);
	assert_int_equal(ky_store_open(&store, &options), 0);
	assert_int_equal(put(store, SECOND, true, false), 0);
	count = take_numbers(before, mine);
	assert_int_equal(count, 1);
	ky_store_close(store);
	assert_untouched(mine, count);
	close_copies(before, mine);
}

static struct ky_store *open_dated(const char *run, uint64_t started_s)
{
	struct ky_store_options options = {.directory = top,
					   .service = "svc",
					   .run = run,
					   .started_unix_ns = started_s * SECOND};
	struct ky_store *store;

	assert_int_equal(ky_store_open(&store, &options), 0);
	return store;
}

static void assert_latest(const char *run)
{
	char path[600], target[100] = "";

	snprintf(path, sizeof(path), "%s/svc/latest", top);
	assert_int_equal(readlink(path, target, sizeof(target) - 1), strlen(run));
	assert_string_equal(target, run);
}

static int latest_error(const struct ky_store *store)
{
	struct ky_store_stats stats;

	ky_store_stats(store, &stats);
	return stats.latest_error;
}

static void store__run_has_a_date_and_a_process_one_run(void **state)
{
	struct ky_store *store = open_dated(RUN, 1768480200);
	struct ky_store_stats stats;
	char path[600];

	(void)state;
	ky_store_stats(store, &stats);
	snprintf(path, sizeof(path), "%s/svc/2026-01-15T12-30-00-" RUN, top);
	assert_string_equal(stats.run_directory, path);
	ky_store_close(store);
	store = open_dated(RUN, 1768480201); /* of the same process, later */
	ky_store_stats(store, &stats);
	assert_string_equal(stats.run_directory, path);
	ky_store_close(store);
}

static void latest__leads_to_the_run_that_began_last(void **state)
{
	struct ky_store *one = open_dated(RUN, 1768480200), *two;

	(void)state;
	assert_latest("2026-01-15T12-30-00-" RUN);
	two = open_dated("0123abcd-43-778", 1768480260);
	assert_latest("2026-01-15T12-31-00-0123abcd-43-778");
	assert_int_equal(latest_error(two), 0);
	put(one, SECOND, true, true);
	assert_true(exists("svc/latest/.kymo-run"));
	assert_false(exists("svc/latest/000000.trc"));
	ky_store_close(one);
	ky_store_close(two);
}

static void latest__leaves_alone_what_is_not_its_own(void **state)
{
	struct ky_store *store = open_store(RUN, 0);
	char path[600], target[20] = "";

	(void)state;
	ky_store_close(store);
	snprintf(path, sizeof(path), "%s/svc/latest", top);
	assert_int_equal(unlink(path), 0);
	make_file("svc/latest", "mine");
	store = open_store(RUN, 0);
	assert_int_equal(latest_error(store), -EEXIST);
	assert_int_equal(put(store, SECOND, true, true), 0);
	ky_store_close(store);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("elsewhere", path), 0);
	store = open_store(RUN, 0);
	assert_int_equal(latest_error(store), -EEXIST);
	ky_store_close(store);
	assert_int_equal(readlink(path, target, sizeof(target) - 1), 9);
	assert_string_equal(target, "elsewhere");
}

/* A run that began later and ended: its link moves on to the run whose recorder removed it. */
static void latest__never_leads_to_a_run_that_retention_removed(void **state)
{
	struct ky_store *one = open_store(RUN, 1500), *two = open_store("0123abcd-43-778", 1500);

	(void)state;
	put(two, SECOND, true, true);
	ky_store_close(two);
	assert_latest("0123abcd-43-778");
	put(one, 2 * SECOND, true, true);
	assert_false(exists("svc/0123abcd-43-778"));
	assert_latest(RUN);
	ky_store_close(one);
}

static void store__asks_for_a_seal_by_size_and_by_age(void **state)
{
	struct ky_store *store = open_store(RUN, 0);

	(void)state;
	assert_false(ky_store_is_over(store, CHUNK_BYTES, SECOND, 60 * SECOND));
	assert_true(ky_store_is_over(store, CHUNK_BYTES, SECOND, 61 * SECOND));
	assert_false(ky_store_is_over(store, 9 * CHUNK_BYTES, SECOND, SECOND));
	assert_true(ky_store_is_over(store, 10 * CHUNK_BYTES, SECOND, SECOND));
	ky_store_close(store);
}

static void store__bound_deletes_the_oldest_first_across_runs(void **state)
{
	struct ky_store *old = open_store("0123abcd-41-700", 0), *store;
	struct ky_store_stats stats;

	(void)state;
	for (int i = 0; i < 3; i++)
		put(old, SECOND, true, true);
	ky_store_close(old);
	store = open_store(RUN, 4 * CHUNK_BYTES);
	for (int i = 0; i < 3; i++)
		put(store, SECOND, true, true);
	ky_store_stats(store, &stats);
	assert_int_equal(stats.segments_deleted, 2);
	assert_int_equal(stats.bytes_deleted, 2 * CHUNK_BYTES);
	assert_false(exists("svc/0123abcd-41-700/000001.trc"));
	assert_true(exists("svc/0123abcd-41-700/000002.trc"));
	for (int i = 0; i < 3; i++)
		put(store, SECOND, true, true);
	assert_false(exists("svc/0123abcd-41-700")); /* empty: nothing but our own two files */
	assert_false(exists("svc/" RUN "/000001.trc"));
	assert_true(exists("svc/" RUN "/000002.trc"));
	ky_store_close(store);
}

static void set_time(const char *name, time_t seconds)
{
	const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
	char path[600];

	snprintf(path, sizeof(path), "%s/svc/%s", top, name);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

/* By times and numbers together each of the three would be older than the next: 0 of the first run
 * by its number, 1 of it by its time, 0 of the second run by its time. */
static void deletes_in_one_order(const char *first, const char *second, bool is_swapped)
{
	const char *const made[2] = {is_swapped ? second : first, is_swapped ? first : second};
	char oldest[64], middle[64], youngest[64];
	struct ky_store *store;

	for (int i = 0; i < 2; i++) {
		store = open_store(made[i], 0);
		put(store, SECOND, true, true);
		if (made[i] == first)
			put(store, SECOND, true, true);
		ky_store_close(store);
	}
	snprintf(oldest, sizeof(oldest), "%s/000000.trc", first);
	snprintf(middle, sizeof(middle), "%s/000001.trc", first);
	snprintf(youngest, sizeof(youngest), "%s/000000.trc", second);
	set_time(oldest, 3000);
	set_time(middle, 1000);
	set_time(youngest, 2000);
	store = open_store(RUN, 3 * CHUNK_BYTES);
	put(store, SECOND, true, true);
	assert_false(exists_in_service(oldest));
	assert_true(exists_in_service(middle) && exists_in_service(youngest));
	put(store, SECOND, true, true);
	assert_false(exists_in_service(middle));
	assert_true(exists_in_service(youngest));
	ky_store_close(store);
	temp_tree_remove(top);
	assert_int_equal(mkdir(top, 0700), 0);
}

static void store__order_of_deletion_holds_where_times_step_back(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++)
		deletes_in_one_order(i < 2 ? "0123abcd-41-700" : "0123abcd-40-600",
				     i < 2 ? "0123abcd-40-600" : "0123abcd-41-700", i % 2 == 1);
}

static void store__bound_counts_the_segment_being_written(void **state)
{
	struct ky_store *store = open_store(RUN, 4 * CHUNK_BYTES);

	(void)state;
	put(store, SECOND, true, true);
	put(store, SECOND, true, true);
	put(store, SECOND, true, false);
	put(store, SECOND, false, false);
	assert_true(exists("svc/" RUN "/000000.trc"));
	put(store, SECOND, false, false);
	assert_false(exists("svc/" RUN "/000000.trc"));
	assert_true(exists("svc/" RUN "/000001.trc")); /* the newest stays */
	ky_store_close(store);
}

static void store__never_deletes_what_is_not_ours(void **state)
{
	static const char *const foreign[] = {
		"svc/notes.txt",                  /* not in a run */
		"svc/0123abcd-41-700/readme",     /* not a segment's name */
		"svc/0123abcd-41-700/000001.trc", /* not our bytes */
		"svc/0123abcd-41-700/000002.trc.bak",
		"svc/0123abcd-41-700/12.trc",
		"svc/deadbeef-1-1/000000.trc", /* no marker */
		"svc/other/000000.trc",        /* not a run's name */
		"outside/000000.trc",          /* reached by a link only */
	};
	struct ky_store *store = open_store("0123abcd-41-700", 0);
	char target[128], link[128];

	(void)state;
	put(store, SECOND, true, true);
	ky_store_close(store);
	snprintf(target, sizeof(target), "%s/svc/deadbeef-1-1", top);
	mkdir(target, 0700);
	snprintf(target, sizeof(target), "%s/svc/other", top);
	mkdir(target, 0700);
	snprintf(target, sizeof(target), "%s/outside", top);
	mkdir(target, 0700);
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		make_file(foreign[i], strstr(foreign[i], "000001") ? "hello, I am yours" : "TRC");
	make_file("outside/" KY_RUN_MARKER, KY_RUN_MARKER_TEXT);
	snprintf(link, sizeof(link), "%s/svc/deadbeef-2-2", top);
	assert_int_equal(symlink(target, link), 0);
	snprintf(target, sizeof(target), "%s/outside/000000.trc", top);
	snprintf(link, sizeof(link), "%s/svc/0123abcd-41-700/000003.trc", top);
	assert_int_equal(symlink(target, link), 0);
	store = open_store(RUN, 1);
	put(store, SECOND, true, true);
	put(store, SECOND, true, true);
	ky_store_close(store);
	assert_false(exists("svc/0123abcd-41-700/000000.trc"));
	for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
		assert_true(exists(foreign[i]));
	assert_true(exists("svc/deadbeef-2-2"));
	assert_true(exists("svc/0123abcd-41-700/000003.trc"));
	assert_true(exists("svc/0123abcd-41-700/" KY_RUN_MARKER));
}

static void store__leftovers_of_a_crash_age_as_segments_do(void **state)
{
	struct ky_store *store = open_store("0123abcd-41-700", 0), *other;
	struct ky_store_stats stats;
	char from[128], to[160];

	(void)state;
	put(store, SECOND, true, true);
	ky_store_close(store);
	snprintf(from, sizeof(from), "%s/svc/0123abcd-41-700/000000.trc", top);
	snprintf(to, sizeof(to), "%s.active", from);
	assert_int_equal(rename(from, to), 0);
	/* The same run again (recovered, restarted): no name is used twice. */
	store = open_store("0123abcd-41-700", 0);
	put(store, SECOND, true, true);
	ky_store_close(store);
	assert_true(exists("svc/0123abcd-41-700/000000.trc.active"));
	assert_true(exists("svc/0123abcd-41-700/000001.trc"));
	/* What a living recorder writes stays. */
	other = open_store("0123abcd-40-600", 0);
	put(other, SECOND, true, false);
	store = open_store(RUN, 2 * CHUNK_BYTES);
	put(store, SECOND, true, true);
	ky_store_stats(store, &stats);
	assert_int_equal(stats.segments_deleted, 2);
	assert_false(exists("svc/0123abcd-41-700"));
	assert_true(exists("svc/0123abcd-40-600/000000.trc.active"));
	ky_store_close(other);
	ky_store_close(store);
}

static void store__one_recorder_per_run(void **state)
{
	struct ky_store *store = open_store(RUN, 0), *second;
	char errbuf[256] = "";
	struct ky_store_options options = {.directory = top,
					   .service = "svc",
					   .run = RUN,
					   .errbuf = errbuf,
					   .errbuf_bytes = sizeof(errbuf)};

	(void)state;
	assert_int_equal(ky_store_open(&second, &options), -EBUSY);
	assert_null(second);
	assert_non_null(strstr(errbuf, "another recorder"));
	ky_store_close(store);
	options.run = "../../etc";
	assert_int_equal(ky_store_open(&second, &options), -EINVAL);
	options.run = RUN;
	options.service = "../..";
	assert_int_equal(ky_store_open(&second, &options), 0);
	ky_store_close(second);
	assert_true(exists("_._.."));
}

static void store__recovers_when_the_directory_vanished(void **state)
{
	struct ky_store *store = open_store(RUN, 0);

	(void)state;
	put(store, SECOND, true, false);
	assert_int_equal(temp_tree_remove(top), 0);
	assert_int_equal(put(store, 2 * SECOND, false, false), -ENOENT);
	/* Not again within a second, then by itself. */
	assert_int_equal(put(store, 2 * SECOND + 1, true, false), -ENOENT);
	assert_int_equal(put(store, 3 * SECOND, true, false), 0);
	ky_store_close(store);
	assert_true(exists("svc/" RUN "/000001.trc"));
}

static void store__full_disk_refuses_and_continues(void **state)
{
	struct ky_store_stats stats;
	struct ky_store *store;
	char large[128];
	uint64_t ns = SECOND;
	int err = 0;

	(void)state;
	if (geteuid() != 0 || mount("none", top, "tmpfs", 0, "size=64k") != 0) {
		print_message("# a small tmpfs needs the right to mount\n");
		skip();
	}
	store = open_store(RUN, 0);
	for (int i = 0; i < 200 && !err; i++)
		err = put(store, ns, i == 0, false);
	assert_int_equal(err, -ENOSPC);
	assert_true(exists("svc/" RUN "/000000.trc")); /* sealed as far as it got */
	ky_store_stats(store, &stats);
	assert_int_equal(stats.bytes_stored % CHUNK_BYTES, 0);
	assert_int_equal(stats.last_error, -ENOSPC);
	assert_int_equal(put(store, ns + 1, true, false), -ENOSPC);
	snprintf(large, sizeof(large), "%s/svc/" RUN "/000000.trc", top);
	unlink(large);
	assert_int_equal(put(store, ns + SECOND, true, true), 0);
	ky_store_close(store);
	umount(top);
}

static void store__read_only_directory_is_reported(void **state)
{
	char errbuf[256] = "";
	struct ky_store_options options = {.directory = top,
					   .service = "svc",
					   .run = RUN,
					   .errbuf = errbuf,
					   .errbuf_bytes = sizeof(errbuf)};
	struct ky_store *store;

	(void)state;
	if (geteuid() != 0 || mount("none", top, "tmpfs", MS_RDONLY, NULL) != 0) {
		print_message("# root ignores modes, so this needs the right to mount\n");
		skip();
	}
	assert_int_equal(ky_store_open(&store, &options), -EROFS);
	assert_null(store);
	assert_non_null(strstr(errbuf, "svc"));
	umount(top);
}

static int collect(void *ctx, const uint8_t *bytes, size_t count)
{
	return ky_buf_append(ctx, bytes, count);
}

static void fill_noise(uint8_t *bytes, size_t count)
{
	uint32_t state = 1;

	for (size_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)((state = state * 1664525u + 1013904223u) >> 28);
}

static void compressor__zstd_has_a_frame_per_chunk_and_a_seek_table(void **state)
{
	static uint8_t in[200000], back[600000];
	struct ky_compressor_factory factory;
	struct ky_compressor compressor;
	struct ky_buf out;
	uint32_t magic, frames;
	size_t count, at = 0;

	(void)state;
	fill_noise(in, sizeof(in));
	ky_buf_init(&out, 0);
	ky_compressor_zstd(&factory, 0);
	assert_string_equal(factory.suffix, ".zst");
	assert_int_equal(factory.open(&factory, &compressor), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(compressor.write(compressor.self, in, sizeof(in), collect, &out),
				 0);
	for (int i = 0; i < 3; i++)
		at += ZSTD_findFrameCompressedSize(out.bytes + at, out.used - at);
	assert_int_equal(at, out.used);
	assert_int_equal(compressor.finish(compressor.self, collect, &out), 0);
	memcpy(&magic, out.bytes + out.used - 4, 4);
	memcpy(&frames, out.bytes + out.used - 9, 4);
	assert_int_equal(magic, 0x8f92eab1u);
	assert_int_equal(frames, 3);
	count = ZSTD_decompress(back, sizeof(back), out.bytes, out.used);
	assert_int_equal(count, 3 * sizeof(in));
	assert_memory_equal(back + 2 * sizeof(in), in, sizeof(in));
	compressor.close(compressor.self);
	ky_buf_release(&out);
}

static void compressor__gzip_is_one_member_whole_at_every_chunk(void **state)
{
	static uint8_t in[200000], back[700000];
	struct ky_compressor_factory factory;
	struct ky_compressor compressor;
	struct ky_buf out;
	z_stream stream;
	size_t cut;

	(void)state;
	fill_noise(in, sizeof(in));
	ky_buf_init(&out, 0);
	ky_compressor_gzip(&factory, 0);
	assert_int_equal(factory.open(&factory, &compressor), 0);
	assert_int_equal(compressor.write(compressor.self, in, sizeof(in), collect, &out), 0);
	cut = out.used;
	assert_int_equal(compressor.write(compressor.self, in, sizeof(in), collect, &out), 0);
	assert_int_equal(compressor.finish(compressor.self, collect, &out), 0);
	for (int whole = 0; whole < 2; whole++) {
		memset(&stream, 0, sizeof(stream));
		assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
		stream.next_in = out.bytes;
		stream.avail_in = (uInt)(whole ? out.used : cut);
		stream.next_out = back;
		stream.avail_out = sizeof(back);
		assert_int_equal(inflate(&stream, Z_SYNC_FLUSH), whole ? Z_STREAM_END : Z_OK);
		assert_int_equal(stream.total_out, (whole ? 2 : 1) * sizeof(in));
		inflateEnd(&stream);
	}
	compressor.close(compressor.self);
	ky_buf_release(&out);
}

static void store__nth_allocation_fails_cleanly(void **state)
{
	struct ky_store_options options = {.directory = top, .service = "svc", .run = RUN};
	struct ky_compressor_factory zstd;
	struct ky_store *store;
	int err = -ENOMEM;

	(void)state;
	ky_compressor_zstd(&zstd, 1);
	options.compressor = &zstd;
	for (uint64_t n = 0; n < 50 && err; n++) {
		test_alloc_fail_at(n);
		err = ky_store_open(&store, &options);
		if (!err) {
			err = put(store, SECOND, true, true);
			ky_store_close(store);
		}
		test_alloc_normal();
		assert_true(err == 0 || err == -ENOMEM);
	}
	assert_int_equal(err, 0);
}

static void retention__names_have_one_shape(void **state)
{
	static const char *const runs[] = {"0123abcd-1-2", "2026-05-18T12-30-00-0123abcd-1-2",
					   "ffffffff-4294967295-18446744073709551615"};
	static const char *const others[] = {
		"",
		"0123abcd",
		"0123abcd-",
		"0123abcd-1-",
		"0123abcg-1-2",
		"0123abcd-1-2x",
		"0123ABCD-1-2",
		"..",
		"0123abcd--2",
		"latest",
		"2026-05-18-0123abcd-1-2",
		"2026-05-18T12:30:00-0123abcd-1-2",
		"2026-05-18T12-30-00-",
		"2026-05-18T12-30-00-2026-05-18T12-30-00-0123abcd-1-2"};
	uint64_t number;
	bool is_active;

	(void)state;
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		assert_true(ky_retention_is_run_name(runs[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_false(ky_retention_is_run_name(others[i]));
	assert_true(ky_retention_is_segment_name("000017.trc.zst", &number, &is_active));
	assert_int_equal(number, 17);
	assert_false(is_active);
	assert_true(ky_retention_is_segment_name("1000000.trc.gz.active", &number, &is_active));
	assert_true(is_active);
	assert_false(ky_retention_is_segment_name("00001.trc", &number, &is_active));
	assert_false(ky_retention_is_segment_name("000001.trc.xz", &number, &is_active));
	assert_false(ky_retention_is_segment_name("000001.trc~", &number, &is_active));
}

#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(store__segment_gets_its_name_when_it_is_whole),
		STORE_TEST(daemon__has_its_files_left_alone_by_a_store),
		STORE_TEST(daemon__has_its_files_left_alone_by_a_trace_file),
		STORE_TEST(store__asks_for_a_seal_by_size_and_by_age),
		STORE_TEST(store__bound_deletes_the_oldest_first_across_runs),
		STORE_TEST(store__order_of_deletion_holds_where_times_step_back),
		STORE_TEST(store__bound_counts_the_segment_being_written),
		STORE_TEST(store__never_deletes_what_is_not_ours),
		STORE_TEST(store__leftovers_of_a_crash_age_as_segments_do),
		STORE_TEST(store__one_recorder_per_run),
		STORE_TEST(store__recovers_when_the_directory_vanished),
		STORE_TEST(store__full_disk_refuses_and_continues),
		STORE_TEST(store__read_only_directory_is_reported),
		cmocka_unit_test(compressor__zstd_has_a_frame_per_chunk_and_a_seek_table),
		cmocka_unit_test(compressor__gzip_is_one_member_whole_at_every_chunk),
		STORE_TEST(store__nth_allocation_fails_cleanly),
		cmocka_unit_test(retention__names_have_one_shape),
		STORE_TEST(store__run_has_a_date_and_a_process_one_run),
		STORE_TEST(latest__leads_to_the_run_that_began_last),
		STORE_TEST(latest__leaves_alone_what_is_not_its_own),
		STORE_TEST(latest__never_leads_to_a_run_that_retention_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
