/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Events in plain numbers against the same events as values. */
#include "../../lib/cmocka_all.h"
#include "../../lib/prng.h"

#include <kymo/base.h>
#include <stdlib.h>
#include <string.h>
#include <wire/trc_dec.h>
#include <wire/trc_enc.h>

static struct ky_buf out;
static struct ky_trc_enc enc;
static struct ky_trc_dec *hot_dec, *next_dec;

static int open_all(void **state)
{
	(void)state;
	ky_buf_init(&out, 0);
	return ky_trc_enc_init(&enc, &out) || ky_trc_dec_open(&hot_dec, NULL) ||
	       ky_trc_dec_open(&next_dec, NULL);
}

static int close_all(void **state)
{
	(void)state;
	ky_trc_dec_close(hot_dec);
	ky_trc_dec_close(next_dec);
	ky_trc_enc_release(&enc);
	ky_buf_release(&out);
	return 0;
}

static void add_event(struct test_prng *prng, uint64_t time_ns)
{
	switch (test_below(prng, 4)) {
	case 0:
		ky_trc_enc_event(&enc, KY_EV_POLL_START, time_ns);
		ky_trc_enc_varint(&enc, test_random_length(prng));
		ky_trc_enc_u8(&enc, (uint8_t)test_random(prng));
		ky_trc_enc_varint(&enc, test_random_length(prng));
		ky_trc_enc_u32(&enc, (uint32_t)test_random(prng));
		break;
	case 1:
		ky_trc_enc_event(&enc, KY_EV_POLL_END, time_ns);
		ky_trc_enc_varint(&enc, test_random_length(prng));
		break;
	case 2:
		ky_trc_enc_event(&enc, KY_EV_WAKE, time_ns);
		ky_trc_enc_varint(&enc, test_random_length(prng));
		ky_trc_enc_varint(&enc, test_random_length(prng));
		ky_trc_enc_u8(&enc, (uint8_t)test_random(prng));
		ky_trc_enc_u8(&enc, (uint8_t)test_random(prng));
		ky_trc_enc_u32(&enc, (uint32_t)test_random(prng));
		ky_trc_enc_varint(&enc, test_random_length(prng) & UINT32_MAX);
		break;
	default:
		ky_trc_enc_event(&enc, KY_EV_TASK_TERMINATE, time_ns);
		ky_trc_enc_varint(&enc, test_random_length(prng));
		ky_trc_enc_u8(&enc, 1);
		break;
	}
}

static void check_same(const struct ky_hot_event *event, const struct ky_frame *frame)
{
	assert_int_equal(frame->kind, KY_FRAME_EVENT);
	assert_int_equal(event->schema->serial, frame->schema->serial);
	assert_true(event->timestamp_ns == frame->timestamp_ns);
	switch (frame->schema->event) {
	case KY_EV_POLL_START:
		assert_true(event->worker_id ==
			    ky_frame_number(frame, KY_F_POLL_START_worker_id, 0));
		assert_true(event->task_id == ky_frame_number(frame, KY_F_POLL_START_task_id, 0));
		assert_int_equal(event->spawn_loc_id,
				 ky_frame_field(frame, KY_F_POLL_START_spawn_loc)->pool_id);
		break;
	case KY_EV_POLL_END:
		assert_true(event->worker_id == ky_frame_number(frame, KY_F_POLL_END_worker_id, 0));
		break;
	default:
		assert_int_equal(frame->schema->event, KY_EV_WAKE);
		assert_true(event->waker_id == ky_frame_number(frame, KY_F_WAKE_waker_task_id, 0));
		assert_true(event->task_id == ky_frame_number(frame, KY_F_WAKE_woken_task_id, 0));
		assert_true(event->worker_id == ky_frame_number(frame, KY_F_WAKE_target_worker, 0));
		assert_int_equal(event->origin, ky_frame_number(frame, KY_F_WAKE_origin, 0));
		assert_int_equal(event->stack_id,
				 ky_frame_field(frame, KY_F_WAKE_callchain)->pool_id);
		assert_int_equal(event->tid, ky_frame_number(frame, KY_F_WAKE_tid, 0));
		break;
	}
}

/* Reads count bytes with both decoders, in step; returns how many events came in plain numbers. */
static uint32_t check_all(const uint8_t *bytes, size_t count)
{
	struct ky_hot_event events[7];
	struct ky_frame frame;
	uint32_t i, found, total = 0;
	size_t at = 0, next_at = 0, used;
	int64_t took = 1, next_took;

	while (took > 0) {
		while ((found = ky_trc_dec_hot(hot_dec, bytes + at, count - at, events, 7, &used)) >
		       0) {
			at += used;
			total += found;
			for (i = 0; i < found; i++) {
				next_took = ky_trc_dec_next(next_dec, bytes + next_at,
							    count - next_at, &frame);
				assert_true(next_took > 0);
				next_at += (size_t)next_took;
				check_same(&events[i], &frame);
			}
		}
		assert_int_equal(used, 0);
		assert_int_equal(at, next_at);
		assert_true(ky_trc_dec_offset(hot_dec) == ky_trc_dec_offset(next_dec));
		took = ky_trc_dec_next(hot_dec, bytes + at, count - at, &frame);
		assert_true(took ==
			    ky_trc_dec_next(next_dec, bytes + next_at, count - next_at, &frame));
		at = next_at += took > 0 ? (size_t)took : 0;
	}
	return total;
}

static void hot__numbers_are_those_of_the_values(void **state)
{
	struct test_prng prng = {7};
	uint64_t time_ns = 1000;
	uint32_t i;

	(void)state;
	ky_trc_enc_begin(&enc);
	for (i = 0; i < 20000; i++) {
		time_ns += test_random_length(&prng) >> 36;
		add_event(&prng, time_ns);
	}
	assert_int_equal(out.failed, 0);
	assert_true(check_all(out.bytes, out.used) > 12000);
}

static void hot__takes_nothing_that_the_window_cuts(void **state)
{
	struct test_prng prng = {8};
	size_t count;
	uint32_t i;

	(void)state;
	ky_trc_enc_begin(&enc);
	for (i = 0; i < 12; i++)
		add_event(&prng, 1000 + i);
	for (count = 0; count <= out.used; count++) {
		uint8_t *window = malloc(count + 1); /* exact but for the empty one */

		assert_non_null(window);
		memmove(window + 1, out.bytes, count);
		ky_trc_dec_resync(hot_dec, 0);
		ky_trc_dec_resync(next_dec, 0);
		check_all(window + 1, count);
		free(window);
	}
}

/* One PollEndEvent by a schema of its own and 64 bytes of room after it. */
static uint32_t count_hot(const struct ky_trc_field_def *fields, uint32_t field_count,
			  bool has_timestamp)
{
	static const uint8_t room[64];

	ky_buf_clear(&out);
	ky_trc_enc_begin(&enc);
	ky_trc_enc_schema(&enc, 5, "PollEndEvent", 12, has_timestamp, fields, field_count);
	ky_trc_enc_raw_event(&enc, 5, has_timestamp, 1000);
	ky_buf_append(&out, room, sizeof(room));
	ky_trc_dec_resync(hot_dec, 0);
	ky_trc_dec_resync(next_dec, 0);
	return check_all(out.bytes, out.used);
}

static void hot__is_only_the_schema_of_our_encoder(void **state)
{
	static const struct ky_trc_field_def ours[] = {{"worker_id", 9, KY_TYPE_VARINT},
						       {"more", 4, KY_TYPE_U8}};
	static const struct ky_trc_field_def maybe = {"worker_id", 9, KY_TYPE_OPT_VARINT};
	static const struct ky_trc_field_def fixed = {"worker_id", 9, KY_TYPE_U8};
	static const struct ky_trc_field_def other = {"worker", 6, KY_TYPE_VARINT};

	(void)state;
	assert_int_equal(count_hot(ours, 1, true), 1);
	assert_int_equal(count_hot(ours, 2, true), 0);
	assert_int_equal(count_hot(ours, 0, true), 0);
	assert_int_equal(count_hot(ours, 1, false), 0);
	assert_int_equal(count_hot(&maybe, 1, true), 0);
	assert_int_equal(count_hot(&fixed, 1, true), 0);
	assert_int_equal(count_hot(&other, 1, true), 0);
}

static void hot__leaves_what_is_wrong_to_the_general_path(void **state)
{
	static const uint8_t endless[64] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					    0xff, 0xff, 0xff, 0xff, 0xff};
	static const uint8_t room[64];

	(void)state;
	ky_trc_enc_begin(&enc);
	ky_trc_enc_poll_end(&enc, 1000, 1);
	ky_trc_enc_event(&enc, KY_EV_POLL_END, 1001);
	ky_buf_append(&out, endless, sizeof(endless));
	assert_int_equal(check_all(out.bytes, out.used), 1);
	assert_string_equal(ky_trc_dec_error(hot_dec, NULL), "a number does not fit 64 bits");

	ky_buf_clear(&out);
	ky_trc_enc_begin(&enc);
	ky_trc_enc_poll_end(&enc, UINT64_MAX - 1, 1);
	out.bytes[out.used - 4] = 9; /* the delta: beyond 64 bits */
	ky_buf_append(&out, room, sizeof(room));
	ky_trc_dec_resync(hot_dec, 0);
	ky_trc_dec_resync(next_dec, 0);
	assert_int_equal(check_all(out.bytes, out.used), 0);
	assert_string_equal(ky_trc_dec_error(hot_dec, NULL), "a time stamp does not fit 64 bits");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(hot__numbers_are_those_of_the_values),
		TEST(hot__takes_nothing_that_the_window_cuts),
		TEST(hot__is_only_the_schema_of_our_encoder),
		TEST(hot__leaves_what_is_wrong_to_the_general_path),
	};

	return cmocka_run_group_tests_name("trc_hot", tests, NULL, NULL);
}
