/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/alloc.h>
#include <bucket/segment_map.h>
#include <kymo/base.h>
#include <ship/compressor.h>
#include <string.h>
#include <wire/segment_index.h>
#include <wire/trc_enc.h>

#define CHUNKS 3u
#define SECOND UINT64_C(1000000000)

static struct ky_buf segment; /* as it lies on a disk */

static int put(void *ctx, const uint8_t *bytes, size_t count)
{
	return ky_buf_append(ctx, bytes, count);
}

/* A chunk of `count` wake events, a second long. */
static void make_chunk(struct ky_buf *out, uint32_t number, uint32_t count)
{
	struct ky_trc_enc enc;

	ky_buf_init(out, 0);
	assert_int_equal(ky_trc_enc_init(&enc, out), 0);
	ky_trc_enc_begin(&enc);
	ky_trc_enc_event(&enc, KY_EV_CLOCK_SYNC, number * SECOND);
	ky_trc_enc_varint(&enc, (1000 + number) * SECOND);
	for (uint32_t i = 0; i < count; i++) {
		ky_trc_enc_event(&enc, KY_EV_CLOCK_SYNC, number * SECOND + i);
		ky_trc_enc_varint(&enc, (1000 + number) * SECOND + i);
	}
	ky_trc_enc_release(&enc);
}

struct wrong {
	uint32_t offset_of; /* raw_offset of chunk 1 is off by so many */
	uint32_t rows;      /* that the index has more than there are chunks */
	uint32_t workers;   /* that row 0 says it has */
};

static void make_index(struct ky_buf *out, const struct ky_buf *chunks, const struct wrong *wrong)
{
	struct ky_index_head head = {KY_INDEX_VERSION, CHUNKS + wrong->rows};
	struct ky_index_tail tail = {0, KY_INDEX_MAGIC};
	uint64_t offset = 0;

	ky_buf_init(out, 0);
	ky_buf_append(out, &head, sizeof(head));
	for (uint32_t i = 0; i < CHUNKS; i++) {
		struct ky_index_chunk row = {
			.raw_offset = offset + (i == 1 ? wrong->offset_of : 0),
			.first_ns = i * SECOND,
			.last_ns = i * SECOND + 999,
			.lost_count = i,
			.raw_bytes = (uint32_t)chunks[i].used,
			.event_count = 10 + i,
			.loss_count = i != 0,
			.worker_count = i == 0 && wrong->workers ? wrong->workers : i,
		};

		offset += chunks[i].used;
		ky_buf_append(out, &row, sizeof(row));
		for (uint32_t w = 0; w < i; w++) {
			struct ky_index_worker worker = {.busy_ns = 100,
							 .longest_start_ns = i * SECOND + w,
							 .longest_ns = 50 + w,
							 .longest_task = 7 + w,
							 .worker_id = w,
							 .poll_count = 5};

			ky_buf_append(out, &worker, sizeof(worker));
		}
	}
	tail.index_bytes = (uint32_t)(out->used + sizeof(tail));
	ky_buf_append(out, &tail, sizeof(tail));
}

static void make_last(struct ky_buf *out, const struct ky_buf *index)
{
	struct ky_trc_enc enc;

	ky_buf_init(out, 0);
	assert_int_equal(ky_trc_enc_init(&enc, out), 0);
	ky_trc_enc_begin(&enc);
	ky_trc_enc_event(&enc, KY_EV_CLOCK_SYNC, CHUNKS * SECOND);
	ky_trc_enc_varint(&enc, (1000 + CHUNKS) * SECOND);
	ky_trc_enc_event(&enc, KY_EV_SEGMENT_METADATA, CHUNKS * SECOND);
	ky_trc_enc_count(&enc, 2);
	ky_trc_enc_text(&enc, "service", 7);
	ky_trc_enc_text(&enc, "web", 3);
	ky_trc_enc_text(&enc, "pid", 3);
	ky_trc_enc_text(&enc, "42", 2);
	ky_trc_enc_event(&enc, KY_EV_SEGMENT_INDEX, CHUNKS * SECOND);
	ky_trc_enc_bytes(&enc, index->bytes, index->used);
	ky_trc_enc_release(&enc);
}

static void make_segment(const struct wrong *wrong)
{
	struct ky_buf chunks[CHUNKS + 1], index;
	struct ky_compressor_factory factory;
	struct ky_compressor compressor;

	for (uint32_t i = 0; i < CHUNKS; i++)
		make_chunk(&chunks[i], i, 20 * (i + 1));
	make_index(&index, chunks, wrong);
	make_last(&chunks[CHUNKS], &index);
	ky_buf_release(&segment);
	ky_buf_init(&segment, 0);
	ky_compressor_zstd(&factory, 1);
	assert_int_equal(factory.open(&factory, &compressor), 0);
	for (uint32_t i = 0; i <= CHUNKS; i++) {
		assert_int_equal(compressor.write(compressor.self, chunks[i].bytes, chunks[i].used,
						  put, &segment),
				 0);
		ky_buf_release(&chunks[i]);
	}
	assert_int_equal(compressor.finish(compressor.self, put, &segment), 0);
	compressor.close(compressor.self);
	ky_buf_release(&index);
}

static int64_t read_tail(struct ky_segment_map *map, size_t tail_bytes)
{
	return ky_segment_map_read(map, segment.bytes + segment.used - tail_bytes, tail_bytes,
				   segment.used);
}

static void a_sealed_segment__is_known_by_its_end(void **state)
{
	static const struct wrong none;
	struct ky_segment_map map;

	(void)state;
	make_segment(&none);
	assert_int_equal(read_tail(&map, segment.used), 0);
	assert_int_equal(map.count, CHUNKS + 1);
	assert_string_equal(map.service, "web");
	assert_string_equal(map.pid, "42");
	assert_string_equal(map.host, "");
	assert_int_equal(ky_segment_map_unix_ns(&map, 5), 1000 * SECOND + 5);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		assert_int_equal(map.chunks[i].first_ns, i * SECOND);
		assert_int_equal(map.chunks[i].event_count, 10 + i);
		assert_int_equal(map.chunks[i].lost_count, i);
		assert_int_equal(map.chunks[i].poll_count, 5 * i);
		assert_int_equal(map.chunks[i].busy_ns, 100 * i);
	}
	assert_int_equal(map.chunks[2].longest_ns, 51);
	assert_int_equal(map.chunks[2].longest_worker, 1);
	assert_int_equal(map.chunks[2].longest_task, 8);
	/* Where it says that a chunk is, a frame begins. */
	for (uint32_t i = 0; i <= CHUNKS; i++)
		assert_memory_equal(segment.bytes + map.chunks[i].stored_at, "\x28\xb5\x2f\xfd", 4);
	ky_segment_map_release(&map);
}

/* With as much as it asks for the next try succeeds. */
static void too_short_a_tail__says_how_long_it_has_to_be(void **state)
{
	static const struct wrong none;
	struct ky_segment_map map;
	uint32_t tries = 0;
	int64_t wanted = 1, result;

	(void)state;
	make_segment(&none);
	while ((result = read_tail(&map, (size_t)wanted)) > 0) {
		assert_true(result > wanted && (uint64_t)result <= segment.used);
		ky_segment_map_release(&map);
		wanted = result;
		tries++;
	}
	assert_int_equal(result, 0);
	assert_int_equal(tries, 3); /* the foot, the table, the last chunk */
	assert_true((uint64_t)wanted < segment.used);
	ky_segment_map_release(&map);
}

static void what_does_not_agree__has_no_map(void **state)
{
	static const struct wrong wrongs[] = {
		{.offset_of = 1}, {.rows = 1}, {.workers = UINT32_MAX}};
	static const struct wrong none;
	struct ky_segment_map map;

	(void)state;
	for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
		make_segment(&wrongs[i]);
		assert_int_equal(read_tail(&map, segment.used), KYMO_E_UNSUPPORTED);
		ky_segment_map_release(&map);
	}
	make_segment(&none); /* a file that something was put before */
	assert_int_equal(ky_segment_map_read(&map, segment.bytes, segment.used, segment.used + 1),
			 KYMO_E_UNSUPPORTED);
	ky_segment_map_release(&map);
}

/* A byte that is wrong anywhere: a map as it was, or none, and nothing beyond the bytes. */
static void damage__is_no_more_than_no_map(void **state)
{
	static const struct wrong none;
	uint32_t refused = 0;

	(void)state;
	make_segment(&none);
	for (size_t at = 0; at < segment.used; at++) {
		struct ky_segment_map map;

		segment.bytes[at] ^= 0x55;
		refused += read_tail(&map, segment.used) != 0;
		ky_segment_map_release(&map);
		segment.bytes[at] ^= 0x55;
	}
	assert_true(refused > 0);
	for (size_t bytes = 0; bytes <= segment.used; bytes++) {
		struct ky_segment_map map;

		(void)read_tail(&map, bytes);
		ky_segment_map_release(&map);
	}
	ky_buf_release(&segment);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sealed_segment__is_known_by_its_end),
		cmocka_unit_test(too_short_a_tail__says_how_long_it_has_to_be),
		cmocka_unit_test(what_does_not_agree__has_no_map),
		cmocka_unit_test(damage__is_no_more_than_no_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
