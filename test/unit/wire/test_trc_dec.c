/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Bytes that cannot be trusted: cut anywhere, contradicting the format, or without end. */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"
#include "../../lib/trace_dump.h"

#include <base/bytes.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wire/trc_dec.h>

#define HEADER "TRC\0\1"
/* type 1 "E", time stamp, one field "f" of the given type */
#define SCHEMA(type) "\1\1\0\1\0E\1\1\0\1\0f" type

struct hostile {
	const char *bytes;
	size_t count;
	int expected;
	uint64_t offset;
	const char *words;
};
#define BYTES(text) (text), sizeof(text) - 1

static void read_golden(struct ky_buf *out, const char *name)
{
	char path[512];
	char bytes[2048];
	size_t count;
	FILE *file;

	snprintf(path, sizeof(path), "%s/test/golden/traces/%s", getenv("MESON_SOURCE_ROOT"), name);
	ky_buf_init(out, 0);
	file = fopen(path, "rb");
	assert_non_null(file);
	while ((count = fread(bytes, 1, sizeof(bytes), file)) > 0)
		ky_buf_append(out, bytes, count);
	fclose(file);
}

/* Decodes to the end or the error, from an exact copy, so that a sanitizer sees every byte too far.
 * */
static int decode(struct ky_trc_dec *dec, const void *bytes, size_t count, uint64_t *frames)
{
	struct ky_frame frame;
	int64_t used = 1;
	size_t at = 0;

	*frames = 0;
	while (used > 0) {
		uint8_t *copy = malloc(count - at ? count - at : 1);

		assert_non_null(copy);
		memcpy(copy, (const uint8_t *)bytes + at, count - at);
		used = ky_trc_dec_next(dec, copy, count - at, &frame);
		free(copy);
		if (used > 0) {
			at += (size_t)used;
			++*frames;
		}
	}
	assert_int_equal(used ? at : count, ky_trc_dec_offset(dec));
	return (int)used;
}

static void dec__contradictions_get_a_sentence_and_a_place(void **state)
{
	static const struct hostile cases[] = {
		{BYTES("\x1f\x8b"), KYMO_E_NOT_TRACE, 0, "not a trace"},
		{BYTES("TRX\0\1"), KYMO_E_NOT_TRACE, 0, "not a trace"},
		{BYTES("\2\1\0"), KYMO_E_NOT_TRACE, 0, "not a trace"},
		{BYTES("TRC\0\2"), KYMO_E_VERSION, 4, "version 2"},
		{BYTES(HEADER "TRC\0\0"), KYMO_E_VERSION, 9, "version 0"},
		{BYTES(HEADER "TRD\0\1"), KYMO_E_CORRUPT, 5, "header"},
		{BYTES(HEADER "\7"), KYMO_E_CORRUPT, 5, "7 is not the tag"},
		{BYTES(HEADER "\0"), KYMO_E_CORRUPT, 5, "0 is not the tag"},
		{BYTES(HEADER "\2\5\1"), KYMO_E_CORRUPT, 5, "type 261"},
		{BYTES(HEADER SCHEMA("\x10")), KYMO_E_CORRUPT, 17, "type 16"},
		{BYTES(HEADER SCHEMA("\0")), KYMO_E_CORRUPT, 17, "type 0"},
		{BYTES(HEADER SCHEMA("\x90")), KYMO_E_CORRUPT, 17, "type 144"},
		{BYTES(HEADER SCHEMA("\x0b") SCHEMA("\x0c")), KYMO_E_CORRUPT, 31, "type 1"},
		{BYTES(HEADER SCHEMA("\x0b") HEADER "\2\1\0\0\0\0\0"), KYMO_E_CORRUPT, 23,
		 "type 1"},
		{BYTES(HEADER SCHEMA("\x09") "\2\1\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\2"),
		 KYMO_E_CORRUPT, 24, "64 bits"},
		{BYTES(HEADER SCHEMA("\x09") "\5\xff\xff\xff\xff\xff\xff\xff\xff\2\1\0\1\0\0\0"),
		 KYMO_E_CORRUPT, 30, "time stamp"},
		{BYTES(HEADER SCHEMA("\x8b") "\2\1\0\0\0\0\2\0"), KYMO_E_CORRUPT, 24,
		 "begins with 2"},
		{BYTES(HEADER SCHEMA("\x8b") "\2\1\0\0\0\0\2\0........"), KYMO_E_CORRUPT, 24,
		 "begins with 2"},
		{BYTES(HEADER SCHEMA("\4") "\2\1\0\0\0\0\xff\xff\xff\xff"), KYMO_E_LIMIT, 28,
		 "limit"},
		{BYTES(HEADER SCHEMA("\10") "\2\1\0\0\0\0\xff\xff\xff\xff"), KYMO_E_LIMIT, 28,
		 "limit"},
		{BYTES(HEADER SCHEMA("\12") "\2\1\0\0\0\0\x41\x42\x0f\0"), KYMO_E_LIMIT, 24,
		 "1000001"},
		{BYTES(HEADER SCHEMA("\16") "\2\1\0\0\0\0\xff\xff\xff\xff"), KYMO_E_LIMIT, 24,
		 "elements"},
		{BYTES(HEADER SCHEMA("\16") "\2\1\0\0\0\0\1\0\0\0\x12"), KYMO_E_CORRUPT, 28,
		 "type 18"},
		{BYTES(HEADER "\3\xff\xff\xff\xff"), KYMO_E_LIMIT, 5, "limit"},
		{BYTES(HEADER "\4\1\0\0\0\0\0\0\0\xff\xff\xff\xff"), KYMO_E_LIMIT, 18, "limit"},
		{BYTES(HEADER "\6\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), KYMO_E_CORRUPT, 6,
		 "64 bits"},
		{BYTES(HEADER "\6\1\1\0\0\0\1\0k\xff\xff\xff\xff"), KYMO_E_LIMIT, 18, "limit"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ky_trc_dec *dec;
		struct ky_frame frame;
		uint64_t frames, offset;
		int err;

		assert_int_equal(ky_trc_dec_open(&dec, NULL), 0);
		err = decode(dec, cases[i].bytes, cases[i].count, &frames);
		if (err != cases[i].expected ||
		    !strstr(ky_trc_dec_error(dec, &offset), cases[i].words))
			fail_msg("case %zu: %d, %s", i, err, ky_trc_dec_error(dec, NULL));
		ky_trc_dec_error(dec, &offset);
		if (offset != cases[i].offset)
			fail_msg("case %zu: at byte %d", i, (int)offset);
		/* The error stays until resync. */
		assert_int_equal(ky_trc_dec_next(dec, (const uint8_t *)HEADER, 5, &frame), err);
		ky_trc_dec_resync(dec, 1000);
		assert_int_equal(ky_trc_dec_offset(dec), 1000);
		ky_trc_dec_close(dec);
	}
}

static void dec__resync_starts_over_at_a_header(void **state)
{
	static const char good[] = HEADER SCHEMA("\x0b") "\2\1\0\5\0\0\7";
	struct ky_trc_dec *dec;
	struct ky_frame frame;
	size_t at = 0;

	(void)state;
	assert_int_equal(ky_trc_dec_open(&dec, NULL), 0);
	assert_int_equal(ky_trc_dec_next(dec, (const uint8_t *)"junk", 4, &frame),
			 KYMO_E_NOT_TRACE);
	ky_trc_dec_resync(dec, 4);
	while (at < sizeof(good) - 1) {
		int64_t used = ky_trc_dec_next(dec, (const uint8_t *)good + at,
					       sizeof(good) - 1 - at, &frame);

		assert_true(used > 0);
		at += (size_t)used;
	}
	assert_int_equal(frame.kind, KY_FRAME_EVENT);
	assert_int_equal(frame.timestamp_ns, 5);
	assert_int_equal(frame.values[0].as.number, 7);
	assert_int_equal(ky_trc_dec_offset(dec), 4 + sizeof(good) - 1);
	ky_trc_dec_close(dec);
}

/* Method: dump of the first n bytes = the same lines as of all bytes, then "truncated". */
static void check_every_cut(const char *name)
{
	struct ky_buf bytes, whole, cut;

	read_golden(&bytes, name);
	ky_buf_init(&whole, 0);
	ky_buf_init(&cut, 0);
	assert_int_equal(test_trace_dump(&whole, bytes.bytes, bytes.used, 0), 0);
	for (size_t n = 0; n < bytes.used; n++) {
		uint8_t *copy = malloc(n ? n : 1);
		char *last;
		int err;

		assert_non_null(copy);
		memcpy(copy, bytes.bytes, n);
		ky_buf_clear(&cut);
		err = test_trace_dump(&cut, copy, n, 0);
		free(copy);
		assert_true(err == 0 || err == KYMO_E_TRUNCATED);
		last = strstr((char *)cut.bytes, err ? "error 4098 at byte" : "end\n");
		assert_non_null(last);
		assert_memory_equal(cut.bytes, whole.bytes, (size_t)(last - (char *)cut.bytes));
	}
	ky_buf_release(&bytes);
	ky_buf_release(&whole);
	ky_buf_release(&cut);
}

static void dec__torn_at_every_byte_gives_everything_before(void **state)
{
	(void)state;
	check_every_cut("all_frames.trc");
	check_every_cut("PollStartEvent.trc");
	check_every_cut("SegmentMetadataEvent.trc");
	check_every_cut("OffCpuEvent.trc");
	check_every_cut("ProcessResourceUsageEvent.trc");
}

/* Method: every frame is first offered cut short at every length, then whole. */
static void dec__frame_cut_by_the_window_can_be_tried_again(void **state)
{
	struct ky_trc_dec *torn, *whole;
	struct ky_frame frame, same;
	struct ky_buf bytes;
	size_t at = 0;

	(void)state;
	read_golden(&bytes, "all_frames.trc");
	assert_int_equal(ky_trc_dec_open(&torn, NULL), 0);
	assert_int_equal(ky_trc_dec_open(&whole, NULL), 0);
	while (at < bytes.used) {
		const uint8_t *window = bytes.bytes + at;
		int64_t used = ky_trc_dec_next(whole, window, bytes.used - at, &frame);

		assert_true(used > 0);
		for (int64_t n = 1; n < used; n++)
			assert_int_equal(ky_trc_dec_next(torn, window, (size_t)n, &same),
					 KYMO_E_TRUNCATED);
		assert_int_equal(ky_trc_dec_next(torn, window, (size_t)used, &same), used);
		assert_int_equal(same.kind, frame.kind);
		assert_true(same.timestamp_ns == frame.timestamp_ns);
		for (uint32_t i = 0; frame.values && i < frame.schema->field_count; i++)
			assert_true(same.values[i].as.number == frame.values[i].as.number &&
				    same.values[i].is_resolved == frame.values[i].is_resolved);
		at += (size_t)used;
	}
	ky_trc_dec_close(torn);
	ky_trc_dec_close(whole);
	ky_buf_release(&bytes);
}

static void dec__endless_pools_end_at_the_limit(void **state)
{
	struct ky_trc_limits limits = {.pool_bytes_max = 1u << 20};
	uint8_t pool[13 + 1000] = {0};
	struct ky_trc_dec *dec;
	struct ky_frame frame;
	int64_t used;

	(void)state;
	ky_put_u32(pool + 1, 1);
	ky_put_u32(pool + 9, 1000);
	for (uint8_t tag = KY_TAG_STRING_POOL; tag <= KY_TAG_STACK_POOL; tag++) {
		uint32_t unit = tag == KY_TAG_STRING_POOL ? 1 : 8, count = 0;

		pool[0] = tag;
		ky_put_u32(pool + 9, 1000 / unit);
		assert_int_equal(ky_trc_dec_open(&dec, &limits), 0);
		assert_int_equal(ky_trc_dec_next(dec, (const uint8_t *)HEADER, 5, &frame), 5);
		test_alloc_fail_at(UINT64_MAX);
		do {
			ky_put_u32(pool + 5, count++ * 7);
			used = ky_trc_dec_next(dec, pool, sizeof(pool), &frame);
		} while (used > 0 && count < 100000);
		test_alloc_normal();
		assert_int_equal(used, KYMO_E_LIMIT);
		assert_non_null(strstr(ky_trc_dec_error(dec, NULL), "1048576"));
		assert_true(test_alloc_bytes < 3u << 20);
		ky_trc_dec_close(dec);
	}
}

static void dec__million_reset_frames_are_a_limit(void **state)
{
	static const char reset[] = "\5\1\2\3\4\5\6\7\10";
	struct ky_trc_dec *dec;
	struct ky_frame frame;
	int64_t used;
	uint32_t count = 0;

	(void)state;
	assert_int_equal(ky_trc_dec_open(&dec, NULL), 0);
	assert_int_equal(ky_trc_dec_next(dec, (const uint8_t *)HEADER, 5, &frame), 5);
	while ((used = ky_trc_dec_next(dec, (const uint8_t *)reset, 9, &frame)) > 0)
		count++;
	assert_int_equal(used, KYMO_E_LIMIT);
	assert_int_equal(count, (1 << 20) - 1);
	ky_trc_dec_close(dec);
}

static void dec__event_in_between_keeps_empty_frames_legal(void **state)
{
	static const char event[] = "\2\1\0\1\0\0\7";
	static const char reset[] = "\5\1\2\3\4\5\6\7\10";
	struct ky_trc_limits limits = {.empty_frames_max = 10};
	struct ky_trc_dec *dec;
	struct ky_frame frame;
	uint64_t frames;

	(void)state;
	assert_int_equal(ky_trc_dec_open(&dec, &limits), 0);
	assert_int_equal(decode(dec, BYTES(HEADER SCHEMA("\x0b")), &frames), 0);
	for (int i = 0; i < 100; i++) {
		for (int k = 0; k < 8; k++)
			assert_int_equal(ky_trc_dec_next(dec, (const uint8_t *)reset, 9, &frame),
					 9);
		assert_int_equal(ky_trc_dec_next(dec, (const uint8_t *)event, 7, &frame), 7);
	}
	ky_trc_dec_close(dec);
}

static void dec__empty_pools_and_headers_count_as_empty(void **state)
{
	struct ky_trc_limits limits = {.empty_frames_max = 100};
	static const char *const frames_of[] = {HEADER, "\3\0\0\0\0", "\4\0\0\0\0"};
	struct ky_trc_dec *dec;
	struct ky_frame frame;

	(void)state;
	for (int i = 0; i < 3; i++) {
		int64_t used = 5;
		int count = 0;

		assert_int_equal(ky_trc_dec_open(&dec, &limits), 0);
		assert_int_equal(ky_trc_dec_next(dec, (const uint8_t *)HEADER, 5, &frame), 5);
		for (; used == 5; count++)
			used = ky_trc_dec_next(dec, (const uint8_t *)frames_of[i], 5, &frame);
		assert_int_equal(used, KYMO_E_LIMIT);
		assert_int_equal(count, 100);
		ky_trc_dec_close(dec);
	}
}

static void dec__frame_beyond_the_limit_is_refused_even_when_it_is_all_there(void **state)
{
	struct ky_trc_limits limits = {.frame_bytes_max = 100};
	static uint8_t bytes[300] = "\3\1\0\0\0\0\0\0\0\xfa";
	struct ky_trc_dec *dec;
	struct ky_frame frame;

	(void)state;
	assert_int_equal(ky_trc_dec_open(&dec, &limits), 0);
	assert_int_equal(ky_trc_dec_next(dec, (const uint8_t *)HEADER, 5, &frame), 5);
	assert_int_equal(ky_trc_dec_next(dec, bytes, 12, &frame), KYMO_E_TRUNCATED);
	assert_int_equal(ky_trc_dec_next(dec, bytes, 99, &frame), KYMO_E_LIMIT);
	ky_trc_dec_close(dec);
	assert_int_equal(ky_trc_dec_open(&dec, &limits), 0);
	assert_int_equal(ky_trc_dec_next(dec, (const uint8_t *)HEADER, 5, &frame), 5);
	assert_int_equal(ky_trc_dec_next(dec, bytes, sizeof(bytes), &frame), KYMO_E_LIMIT);
	ky_trc_dec_close(dec);
}

static void dec__every_failed_allocation_is_reported(void **state)
{
	struct ky_buf bytes;
	int err = -1;
	uint64_t n;

	(void)state;
	read_golden(&bytes, "all_frames.trc");
	for (n = 0; err; n++) {
		struct ky_trc_dec *dec;
		uint64_t frames;

		test_alloc_fail_at(n);
		err = ky_trc_dec_open(&dec, NULL);
		if (err)
			assert_null(dec);
		else
			err = decode(dec, bytes.bytes, bytes.used, &frames);
		test_alloc_normal();
		if (err)
			assert_int_equal(err, -ENOMEM);
		ky_trc_dec_close(dec);
	}
	assert_true(n > 8);
	ky_buf_release(&bytes);
}

/* Method: one bit of every byte of a real stream changes, then several at random; nothing may be
 * read beyond the end, and the same bytes give the same end. */
static void dec__changed_bytes_never_read_beyond_the_end(void **state)
{
	struct test_prng prng = {11};
	struct ky_buf bytes, text, again;

	(void)state;
	read_golden(&bytes, "all_frames.trc");
	ky_buf_init(&text, 0);
	ky_buf_init(&again, 0);
	for (size_t i = 0; i < bytes.used + 800; i++) {
		uint8_t *copy = malloc(bytes.used);
		int err;

		assert_non_null(copy);
		memcpy(copy, bytes.bytes, bytes.used);
		if (i < bytes.used)
			copy[i] ^= (uint8_t)(1u << test_below(&prng, 8));
		else
			for (int k = 0; k < 5; k++)
				copy[test_below(&prng, (uint32_t)bytes.used)] = (uint8_t)
					test_random(&prng);
		ky_buf_clear(&text);
		ky_buf_clear(&again);
		err = test_trace_dump(&text, copy, bytes.used, 0);
		assert_int_equal(test_trace_dump(&again, copy, bytes.used, 3), err);
		assert_string_equal((char *)text.bytes, (char *)again.bytes);
		free(copy);
	}
	ky_buf_release(&bytes);
	ky_buf_release(&text);
	ky_buf_release(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dec__contradictions_get_a_sentence_and_a_place),
		cmocka_unit_test(dec__resync_starts_over_at_a_header),
		cmocka_unit_test(dec__torn_at_every_byte_gives_everything_before),
		cmocka_unit_test(dec__frame_cut_by_the_window_can_be_tried_again),
		cmocka_unit_test(dec__endless_pools_end_at_the_limit),
		cmocka_unit_test(dec__million_reset_frames_are_a_limit),
		cmocka_unit_test(dec__event_in_between_keeps_empty_frames_legal),
		cmocka_unit_test(dec__empty_pools_and_headers_count_as_empty),
		cmocka_unit_test(dec__frame_beyond_the_limit_is_refused_even_when_it_is_all_there),
		cmocka_unit_test(dec__every_failed_allocation_is_reported),
		cmocka_unit_test(dec__changed_bytes_never_read_beyond_the_end),
	};

	return cmocka_run_group_tests_name("trc_dec", tests, NULL, NULL);
}
