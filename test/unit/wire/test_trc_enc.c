/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/trace_dump.h"

#include <errno.h>
#include <kymo/base.h>
#include <string.h>
#include <wire/trc_enc.h>

static struct ky_buf out;
static struct ky_trc_enc enc;

static int open_encoder(void **state)
{
	(void)state;
	ky_buf_init(&out, 0);
	return ky_trc_enc_init(&enc, &out);
}

static int close_encoder(void **state)
{
	(void)state;
	ky_trc_enc_release(&enc);
	ky_buf_release(&out);
	return 0;
}

static void check_dump(const char *expected)
{
	struct ky_buf text;

	ky_buf_init(&text, 0);
	assert_int_equal(out.failed, 0);
	assert_int_equal(test_trace_dump(&text, out.bytes, out.used, 0), 0);
	assert_string_equal((const char *)text.bytes, expected);
	ky_buf_release(&text);
}

static void enc__schema_comes_once_per_stream(void **state)
{
	(void)state;
	ky_trc_enc_begin(&enc);
	ky_trc_enc_poll_end(&enc, 10, 1);
	ky_trc_enc_poll_end(&enc, 11, 2);
	assert_int_equal(enc.event_count, 2);
	ky_trc_enc_begin(&enc);
	assert_int_equal(enc.event_count, 0);
	ky_trc_enc_poll_end(&enc, 12, 3);
	check_dump("header 1\n"
		   "schema 2 PollEndEvent timestamp worker_id:varint\n"
		   "event 2 PollEndEvent 10 worker_id=1\n"
		   "event 2 PollEndEvent 11 worker_id=2\n"
		   "header 1\n"
		   "schema 2 PollEndEvent timestamp worker_id:varint\n"
		   "event 2 PollEndEvent 12 worker_id=3\n"
		   "end\n");
}

static void enc__time_stamp_that_goes_back_gets_a_reset(void **state)
{
	(void)state;
	ky_trc_enc_begin(&enc);
	ky_trc_enc_poll_end(&enc, KY_TRC_DELTA_MAX, 1);
	ky_trc_enc_poll_end(&enc, 2 * KY_TRC_DELTA_MAX + 1, 1);
	ky_trc_enc_poll_end(&enc, 5, 1);
	check_dump("header 1\n"
		   "schema 2 PollEndEvent timestamp worker_id:varint\n"
		   "event 2 PollEndEvent 16777215 worker_id=1\n"
		   "reset 33554431\n"
		   "event 2 PollEndEvent 33554431 worker_id=1\n"
		   "reset 5\n"
		   "event 2 PollEndEvent 5 worker_id=1\n"
		   "end\n");
}

/* A difference modulo 2^64 would look small. */
static void enc__step_back_over_all_64_bits_gets_a_reset(void **state)
{
	(void)state;
	ky_trc_enc_begin(&enc);
	ky_trc_enc_poll_end(&enc, UINT64_MAX, 1);
	ky_trc_enc_poll_end(&enc, 5, 1);
	check_dump("header 1\n"
		   "schema 2 PollEndEvent timestamp worker_id:varint\n"
		   "reset 18446744073709551615\n"
		   "event 2 PollEndEvent 18446744073709551615 worker_id=1\n"
		   "reset 5\n"
		   "event 2 PollEndEvent 5 worker_id=1\n"
		   "end\n");
}

static void enc__strings_and_stacks_have_numbers_of_their_own(void **state)
{
	const uint64_t frames[2] = {1, 2};

	(void)state;
	ky_trc_enc_begin(&enc);
	assert_int_equal(ky_trc_enc_string(&enc, 0, "a", 1), 0);
	assert_int_equal(ky_trc_enc_string(&enc, 5, "b", 1), 1);
	assert_int_equal(ky_trc_enc_string(&enc, 5, NULL, 0), 1);
	assert_int_equal(ky_trc_enc_string(&enc, 6, "a", 1), 0);
	assert_int_equal(ky_trc_enc_stack(&enc, frames, 2), 0);
	assert_int_equal(ky_trc_enc_stack(&enc, frames, 0), 1);
	assert_int_equal(ky_trc_enc_stack(&enc, frames, 2), 0);
	check_dump("header 1\nstrings 0=\"a\"\nstrings 1=\"b\"\n"
		   "stacks 0=[0x1 0x2]\nstacks 1=[]\nend\n");
	ky_trc_enc_begin(&enc);
	assert_int_equal(ky_trc_enc_string(&enc, 5, "b", 1), 0);
}

static void enc__text_that_is_not_utf8_is_mended(void **state)
{
	(void)state;
	ky_trc_enc_begin(&enc);
	ky_trc_enc_string(&enc, 0, "cut\xe2\x82", 5);
	ky_trc_enc_event(&enc, KY_EV_SEGMENT_METADATA, 0);
	ky_trc_enc_count(&enc, 1);
	ky_trc_enc_text(&enc, "\xff", 1);
	ky_trc_enc_text(&enc, "\xc3\xa9", 2);
	check_dump("header 1\nstrings 0=\"cut??\"\n"
		   "schema 18 SegmentMetadataEvent timestamp entries:string_map\n"
		   "event 18 SegmentMetadataEvent 0 entries={\"?\"=\"\\xc3\\xa9\"}\nend\n");
}

static void enc__annotations_stand_after_their_schema(void **state)
{
	(void)state;
	ky_trc_enc_begin(&enc);
	ky_trc_enc_event(&enc, KY_EV_CLOCK_SYNC, 1);
	ky_trc_enc_varint(&enc, 300);
	ky_trc_enc_annotation(&enc, enc.type_id[KY_EV_CLOCK_SYNC], 0, "kind", 4, "gauge", 5);
	check_dump("header 1\n"
		   "schema 19 ClockSyncEvent timestamp realtime_ns:varint\n"
		   "annotations 19 0.unit=\"ns\"\n"
		   "event 19 ClockSyncEvent 1 realtime_ns=300\n"
		   "annotations 19 0.unit=\"ns\" 0.kind=\"gauge\"\n"
		   "end\n");
}

static void write_in_one_go(uint64_t at, uint64_t n, uint32_t worker)
{
	ky_trc_enc_poll_start(&enc, at, worker, 3, n, 9);
	ky_trc_enc_poll_end(&enc, at + 1, worker);
	ky_trc_enc_wake(&enc, at + 2, n, n + 1, 4, 130, 8, worker);
	ky_trc_enc_park(&enc, at + 3, worker, n, 77, 2, worker % 2 ? UINT32_MAX : worker);
	ky_trc_enc_unpark(&enc, at + 4, worker, n, 77, worker, worker % 2 ? UINT32_MAX : worker);
	ky_trc_enc_driver_turn(&enc, at + 5, worker, n, worker, UINT32_MAX);
}

static void write_field_by_field(uint64_t at, uint64_t n, uint32_t worker)
{
	ky_trc_enc_event(&enc, KY_EV_POLL_START, at);
	ky_trc_enc_varint(&enc, worker);
	ky_trc_enc_u8(&enc, 3);
	ky_trc_enc_varint(&enc, n);
	ky_trc_enc_u32(&enc, 9);
	ky_trc_enc_event(&enc, KY_EV_POLL_END, at + 1);
	ky_trc_enc_varint(&enc, worker);
	ky_trc_enc_event(&enc, KY_EV_WAKE, at + 2);
	ky_trc_enc_varint(&enc, n);
	ky_trc_enc_varint(&enc, n + 1);
	ky_trc_enc_u8(&enc, 4);
	ky_trc_enc_u8(&enc, 130);
	ky_trc_enc_u32(&enc, 8);
	ky_trc_enc_varint(&enc, worker);
	ky_trc_enc_event(&enc, KY_EV_WORKER_PARK, at + 3);
	ky_trc_enc_varint(&enc, worker);
	ky_trc_enc_u8(&enc, 0);
	ky_trc_enc_varint(&enc, n);
	ky_trc_enc_u32(&enc, 77);
	ky_trc_enc_u8(&enc, 2);
	ky_trc_enc_opt_varint(&enc, worker % 2 == 0, worker);
	ky_trc_enc_event(&enc, KY_EV_WORKER_UNPARK, at + 4);
	ky_trc_enc_varint(&enc, worker);
	ky_trc_enc_u8(&enc, 0);
	ky_trc_enc_varint(&enc, n);
	ky_trc_enc_opt_varint(&enc, false, 0);
	ky_trc_enc_u32(&enc, 77);
	ky_trc_enc_varint(&enc, worker);
	ky_trc_enc_opt_varint(&enc, worker % 2 == 0, worker);
	ky_trc_enc_event(&enc, KY_EV_DRIVER_TURN, at + 5);
	ky_trc_enc_varint(&enc, worker);
	ky_trc_enc_varint(&enc, n);
	ky_trc_enc_varint(&enc, worker);
	ky_trc_enc_opt_varint(&enc, false, 0);
}

static void enc__frequent_events_have_the_bytes_of_their_fields(void **state)
{
	static uint8_t bytes[4096];
	uint64_t at = 1000;
	size_t used;

	(void)state;
	/* Every length of a number, and steps back in time and over 24 bits of it. */
	for (uint32_t bit = 0; bit < 64; bit++) {
		uint64_t n = (UINT64_C(1) << bit) - (bit & 1);

		ky_buf_clear(&out);
		ky_trc_enc_begin(&enc);
		write_in_one_go(at, n, bit * 5);
		write_in_one_go(at - 500, n + 1, bit << 26);
		assert_int_equal(out.failed, 0);
		used = out.used;
		assert_true(used <= sizeof(bytes));
		memcpy(bytes, out.bytes, used);
		ky_buf_clear(&out);
		ky_trc_enc_begin(&enc);
		write_field_by_field(at, n, bit * 5);
		write_field_by_field(at - 500, n + 1, bit << 26);
		assert_int_equal(out.used, used);
		assert_memory_equal(out.bytes, bytes, used);
		at += (UINT64_C(1) << 24) - 500 + bit * 16;
	}
}

/* Everything that can grow, in one go. */
static void write_everything(void)
{
	char text[32] = {0};
	uint64_t frames[4] = {0};

	ky_trc_enc_begin(&enc);
	for (uint64_t i = 1; i <= 300; i++) {
		memcpy(text, &i, sizeof(i));
		frames[0] = i;
		ky_trc_enc_string(&enc, i, text, sizeof(text));
		ky_trc_enc_stack(&enc, frames, 4);
		ky_trc_enc_poll_start(&enc, i, 1, 0, i, 0);
		ky_trc_enc_event(&enc, KY_EV_SEGMENT_METADATA, i);
		ky_trc_enc_count(&enc, 1);
		ky_trc_enc_text(&enc, text, sizeof(text));
		ky_trc_enc_text(&enc, text, sizeof(text));
	}
}

static void enc__every_failed_allocation_is_reported_and_survived(void **state)
{
	uint64_t n;
	int err = -1;

	(void)state;
	for (n = 0; err; n++) {
		ky_buf_init(&out, 0);
		test_alloc_fail_at(n);
		err = ky_trc_enc_init(&enc, &out);
		if (!err) {
			write_everything();
			err = out.failed;
			if (err) {
				/* As the header says: cut back and begin anew. */
				test_alloc_fail_at(UINT64_MAX);
				ky_buf_clear(&out);
				write_everything();
				assert_int_equal(out.failed, 0);
			}
			ky_trc_enc_release(&enc);
		}
		test_alloc_normal();
		if (err)
			assert_int_equal(err, -ENOMEM);
		ky_buf_release(&out);
	}
	assert_true(n > 10);
}

static void enc__what_does_not_fit_its_length_field_is_a_limit(void **state)
{
	static char name[70000];
	struct ky_trc_field_def field = {name, sizeof(name), KY_TYPE_U8};

	(void)state;
	ky_trc_enc_begin(&enc);
	ky_trc_enc_schema(&enc, 1, name, sizeof(name), true, NULL, 0);
	assert_int_equal(out.failed, KYMO_E_LIMIT);
	ky_buf_clear(&out);
	ky_trc_enc_schema(&enc, 1, name, 1, true, &field, 1);
	assert_int_equal(out.failed, KYMO_E_LIMIT);
	ky_buf_clear(&out);
	ky_trc_enc_annotation(&enc, 1, 0, name, sizeof(name), "", 0);
	assert_int_equal(out.failed, KYMO_E_LIMIT);
	ky_buf_clear(&out);
	ky_trc_enc_string(&enc, 0, name, (size_t)UINT32_MAX + 1);
	assert_int_equal(out.failed, KYMO_E_LIMIT);
	ky_buf_clear(&out);
	ky_trc_enc_bytes(&enc, name, (size_t)UINT32_MAX + 1);
	assert_int_equal(out.failed, KYMO_E_LIMIT);
	ky_buf_clear(&out);
	ky_trc_enc_frames(&enc, NULL, (size_t)UINT32_MAX + 1);
	assert_int_equal(out.failed, KYMO_E_LIMIT);
	assert_int_equal(out.used, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_encoder, close_encoder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(enc__schema_comes_once_per_stream),
		TEST(enc__time_stamp_that_goes_back_gets_a_reset),
		TEST(enc__step_back_over_all_64_bits_gets_a_reset),
		TEST(enc__strings_and_stacks_have_numbers_of_their_own),
		TEST(enc__text_that_is_not_utf8_is_mended),
		TEST(enc__annotations_stand_after_their_schema),
		TEST(enc__frequent_events_have_the_bytes_of_their_fields),
		TEST(enc__what_does_not_fit_its_length_field_is_a_limit),
		cmocka_unit_test(enc__every_failed_allocation_is_reported_and_survived),
	};

	return cmocka_run_group_tests_name("trc_enc", tests, NULL, NULL);
}
