/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/gnu.h>

#include <base/buf.h>
#include <edit/ring_tail.h>
#include <edit/trace_end.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wire/trc_enc.h>
#include <zstd.h>

#define EVENTS 30000u /* more bytes than a block of zstd holds */
#define FIRST_NS UINT64_C(1000000)
#define FIRST_LAST_NS (FIRST_NS + EVENTS - 1)
#define SECOND_NS UINT64_C(2000000)
#define SECOND_LAST_NS (SECOND_NS + EVENTS - 1)
#define FIRST_TICKS UINT64_C(5000000)

static struct {
	char path[64];
	uint64_t first_bytes, bytes; /* of one chunk, of both */
	struct ky_ring_tail tail;
} c;

static uint64_t put_chunk(int fd, uint64_t first_ns)
{
	static uint8_t packed[1u << 20];
	ZSTD_CCtx *context = ZSTD_createCCtx();
	struct ky_trc_enc enc;
	struct ky_buf out;
	size_t bytes;

	ky_buf_init(&out, 0);
	assert_int_equal(ky_trc_enc_init(&enc, &out), 0);
	ky_trc_enc_begin(&enc);
	for (uint64_t ns = first_ns; ns < first_ns + EVENTS; ns++) {
		ky_trc_enc_event(&enc, KY_EV_CLOCK_SYNC, ns);
		ky_trc_enc_varint(&enc, ns * ns);
	}
	assert_true(out.used > 200000);
	assert_non_null(context);
	/* As compressor zstd does: the last four bytes of a frame. */
	assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)));
	bytes = ZSTD_compress2(context, packed, sizeof(packed), out.bytes, out.used);
	ZSTD_freeCCtx(context);
	assert_false(ZSTD_isError(bytes));
	assert_int_equal(write(fd, packed, bytes), (ssize_t)bytes);
	ky_trc_enc_release(&enc);
	ky_buf_release(&out);
	return bytes;
}

/* Two chunks on disk, and what their writer noted of them before. */
static int make_trace(void **state)
{
	int fd;

	(void)state;
	memset(&c, 0, sizeof(c));
	snprintf(c.path, sizeof(c.path), "/tmp/kymo-tail-XXXXXX");
	fd = mkstemp(c.path);
	c.first_bytes = put_chunk(fd, FIRST_NS);
	c.bytes = c.first_bytes + put_chunk(fd, SECOND_NS);
	snprintf(c.tail.path, sizeof(c.tail.path), "%s", c.path);
	c.tail.note_count = 2;
	c.tail.notes[0] = (struct ky_drained_note){FIRST_LAST_NS, FIRST_TICKS, 3};
	c.tail.notes[1] = (struct ky_drained_note){SECOND_LAST_NS, 2 * FIRST_TICKS, 4};
	return close(fd);
}

static int remove_trace(void **state)
{
	(void)state;
	(void)unlink(c.path);
	return 0;
}

/* One tail for all: it is too large for a frame. */
static const struct ky_ring_tail *settle(uint64_t bytes, uint64_t horizon_ticks)
{
	static struct ky_ring_tail tail;

	tail = c.tail;
	tail.horizon_ticks = horizon_ticks;
	assert_int_equal(truncate(c.path, (off_t)bytes), 0);
	ky_ring_tail_settle(&tail);
	return &tail;
}

static uint64_t size(void)
{
	struct stat about;

	assert_int_equal(stat(c.path, &about), 0);
	return (uint64_t)about.st_size;
}

static void after_whole_chunks_it_continues_by_their_notes(void **state)
{
	const struct ky_ring_tail *tail = settle(c.bytes, 0);

	(void)state;
	assert_int_equal(tail->from_ticks, 2 * FIRST_TICKS);
	assert_int_equal(tail->from_ties, 4);
	assert_int_equal(ky_ring_tail_trim(tail), 0);
	assert_int_equal(size(), c.bytes);
	tail = settle(c.first_bytes, 0);
	assert_int_equal(tail->from_ticks, FIRST_TICKS);
	assert_int_equal(tail->from_ties, 3);
	assert_int_equal(ky_ring_tail_trim(tail), 0);
	assert_int_equal(size(), c.first_bytes);
}

static void a_torn_chunk_counts_as_not_there(void **state)
{
	const struct ky_ring_tail *tail = settle(c.bytes - 100, 0);

	(void)state;
	assert_true(tail->from_ns > SECOND_NS); /* a part of it can be read */
	assert_int_equal(tail->from_ticks, FIRST_TICKS);
	assert_int_equal(tail->from_ties, 3);
	assert_int_equal(size(), c.bytes - 100);
	assert_int_equal(ky_ring_tail_trim(tail), 0);
	assert_int_equal(size(), c.first_bytes);
}

/* All its events can be read, and yet it is going to be cut off. */
static void a_chunk_that_lacks_the_end_of_its_frame_is_torn_too(void **state)
{
	(void)state;
	for (uint64_t missing = 1; missing <= 4; missing++) {
		const struct ky_ring_tail *tail = settle(c.bytes - missing, 0);

		assert_int_equal(tail->from_ticks, FIRST_TICKS);
		assert_string_equal(tail->torn_path, c.path);
	}
}

static void a_ring_that_came_round_long_before_counts_as_whole(void **state)
{
	const struct ky_ring_tail *tail = settle(c.bytes - 100, FIRST_TICKS);

	(void)state;
	assert_int_equal(tail->from_ticks, FIRST_TICKS);
	assert_string_equal(tail->torn_path, c.path);
}

static void after_a_torn_first_chunk_nothing_is_on_disk(void **state)
{
	const struct ky_ring_tail *tail;

	(void)state;
	c.tail.note_count = 1;
	for (uint64_t missing = 1; missing < c.first_bytes / 2; missing += 997) {
		tail = settle(c.first_bytes - missing, 0);
		assert_true(tail->from_ticks == 0 && tail->from_ns == 0);
		assert_string_equal(tail->path, "");
	}
	assert_int_equal(ky_ring_tail_trim(tail), 0);
	assert_int_equal(access(c.path, F_OK), -1);
}

/* The table after the chunks of a sealed segment. */
static void a_torn_table_leaves_all_chunks(void **state)
{
	static const uint8_t table[] = {0x5e, 0x2a, 0x4d, 0x18, 100, 0, 0, 0, 1, 2, 3};
	const struct ky_ring_tail *tail;
	int fd = open(c.path, O_WRONLY | O_APPEND | O_CLOEXEC);

	(void)state;
	assert_int_equal(write(fd, table, sizeof(table)), (ssize_t)sizeof(table));
	close(fd);
	for (uint64_t bytes = sizeof(table); bytes > 0; bytes--) {
		tail = settle(c.bytes + bytes, 0);
		assert_int_equal(tail->from_ticks, 2 * FIRST_TICKS);
		assert_string_equal(tail->torn_path, "");
	}
}

static void where_the_ring_came_round_the_part_is_kept(void **state)
{
	const struct ky_ring_tail *tail = settle(c.bytes - 100, FIRST_TICKS + 1);

	(void)state;
	assert_true(tail->from_ticks > FIRST_TICKS && tail->from_ticks <= 2 * FIRST_TICKS);
	assert_int_equal(ky_ring_tail_trim(tail), 0);
	assert_int_equal(size(), c.bytes - 100);
}

/* A segment may begin with more tasks than one chunk lists: all such chunks end at the time of the
 * first record, and only the last of them holds it. */
static void of_chunks_of_one_moment_those_on_disk_count(void **state)
{
	const struct ky_ring_tail *tail;
	int fd = open(c.path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	uint64_t bytes[4] = {0};

	(void)state;
	c.tail.note_count = 4;
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t first_ns = i == 0 ? FIRST_NS : SECOND_NS;

		bytes[i] = (i ? bytes[i - 1] : 0) + put_chunk(fd, first_ns);
		/* In no order: they lie in a circle. */
		c.tail.notes[(i + 2) % 4] = (struct ky_drained_note){first_ns + EVENTS - 1,
								     FIRST_TICKS + i, i};
	}
	close(fd);
	for (uint32_t i = 3; i > 0; i--) {
		tail = settle(bytes[i], 0);
		assert_int_equal(tail->from_ticks, FIRST_TICKS + i);
		assert_int_equal(tail->from_ties, i);
		assert_string_equal(tail->torn_path, "");
		tail = settle(bytes[i] - 3, 0);
		assert_int_equal(tail->from_ticks, FIRST_TICKS + i - 1);
		assert_int_equal(tail->from_ties, i - 1);
		assert_int_equal(tail->torn_from_bytes, bytes[i - 1]);
	}
}

/* The writer was killed in the first chunk of a new segment, before a block of it was whole. */
static void a_segment_that_was_only_begun_goes(void **state)
{
	char folder[] = "/tmp/kymo-tail-XXXXXX", whole[64], begun[64];
	static struct ky_ring_tail tail;
	static uint8_t bytes[8192];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(whole, sizeof(whole), "%s/000000.trc.zst", folder);
	snprintf(begun, sizeof(begun), "%s/000001.trc.zst.active", folder);
	fd = open(c.path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, bytes, sizeof(bytes), (off_t)c.first_bytes), sizeof(bytes));
	close(fd);
	assert_int_equal(truncate(c.path, (off_t)c.first_bytes), 0);
	assert_int_equal(rename(c.path, whole), 0);
	fd = open(begun, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	close(fd);
	tail = c.tail;
	snprintf(tail.path, sizeof(tail.path), "%s", folder);
	ky_ring_tail_settle(&tail);
	assert_int_equal(tail.from_ticks, FIRST_TICKS);
	assert_string_equal(tail.begun_path, begun);
	assert_int_equal(access(begun, F_OK), 0); /* until the ring's part is on disk */
	assert_int_equal(ky_ring_tail_trim(&tail), 0);
	assert_int_equal(access(begun, F_OK), -1);
	assert_int_equal(unlink(whole), 0);
	assert_int_equal(rmdir(folder), 0);
}

static void every_cut_is_seen_as_one(void **state)
{
	uint64_t bytes, whole;
	bool is_chunk;

	(void)state;
	for (bytes = c.bytes; bytes > c.first_bytes; bytes -= bytes < c.first_bytes + 64 ? 1 : 37) {
		assert_int_equal(truncate(c.path, (off_t)bytes), 0);
		assert_int_equal(ky_trace_is_torn(c.path, &whole, &is_chunk), bytes < c.bytes);
		assert_int_equal(whole, bytes < c.bytes ? c.first_bytes : c.bytes);
		assert_int_equal(is_chunk, bytes < c.bytes && bytes >= c.first_bytes + 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(after_whole_chunks_it_continues_by_their_notes,
						make_trace, remove_trace),
		cmocka_unit_test_setup_teardown(a_torn_chunk_counts_as_not_there, make_trace,
						remove_trace),
		cmocka_unit_test_setup_teardown(where_the_ring_came_round_the_part_is_kept,
						make_trace, remove_trace),
		cmocka_unit_test_setup_teardown(a_chunk_that_lacks_the_end_of_its_frame_is_torn_too,
						make_trace, remove_trace),
		cmocka_unit_test_setup_teardown(a_ring_that_came_round_long_before_counts_as_whole,
						make_trace, remove_trace),
		cmocka_unit_test_setup_teardown(after_a_torn_first_chunk_nothing_is_on_disk,
						make_trace, remove_trace),
		cmocka_unit_test_setup_teardown(a_segment_that_was_only_begun_goes, make_trace,
						remove_trace),
		cmocka_unit_test_setup_teardown(a_torn_table_leaves_all_chunks, make_trace,
						remove_trace),
		cmocka_unit_test_setup_teardown(of_chunks_of_one_moment_those_on_disk_count,
						make_trace, remove_trace),
		cmocka_unit_test_setup_teardown(every_cut_is_seen_as_one, make_trace, remove_trace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
