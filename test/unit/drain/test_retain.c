/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a retention policy writes, counts and says about itself. Rings are built record by record;
 * the drain's output is decoded with the real decoder. */
#include "../../lib/drain_case.h"

#include <base/bytes.h>
#include <base/log_buckets.h>
#include <errno.h>
#include <stdlib.h>

#define US UINT64_C(1000)

static struct ky_retain_policy slow_polls(uint64_t poll_ns, uint64_t wake_ns)
{
	struct ky_retain_policy policy = {0};

	policy.rules[KY_RETAIN_POLL].threshold_ns = poll_ns;
	policy.rules[KY_RETAIN_WAKE].threshold_ns = wake_ns;
	return policy;
}

static void case_retain(struct drain_case *c, struct test_writer *w,
			const struct ky_retain_policy *policy)
{
	case_open(c, 64);
	c->options.retain = policy;
	case_start(c);
	test_writer_open(w, &c->ring, 501, T0);
	test_worker(w, T0, 3, 0x1000, 0x2000);
}

static void wake(struct test_writer *w, uint64_t ns, uint64_t task)
{
	test_emit(w, ns, KYMO_RECORD_WAKE, 0, 1, kymo_task_word(task, 0), 0, 0);
}

static void poll(struct test_writer *w, uint64_t ns, uint64_t task, uint32_t name,
		 uint64_t length_ns)
{
	test_poll(w, ns, task, name);
	test_poll_end(w, ns + length_ns, 0);
}

/* Sum of a field over all histograms of this kind. */
static uint64_t total(const struct drain_case *c, const char *kind, uint32_t field)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < COUNT(c, HISTOGRAM); i++)
		if (strcmp(TEXT(EVENT(c, HISTOGRAM, i), HISTOGRAM, kind), kind) == 0)
			sum += EVENT(c, HISTOGRAM, i)->number[field];
	return sum;
}

static uint64_t sums(const struct drain_case *c, uint32_t field)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < COUNT(c, WORKER_SUMS); i++)
		sum += EVENT(c, WORKER_SUMS, i)->number[field];
	return sum;
}

#define TOTAL(c, kind, field) total(c, kind, KY_F_HISTOGRAM_##field)
#define SUMS(c, field) sums(c, KY_F_WORKER_SUMS_##field)

static void retain__short_polls_are_counted_and_long_ones_written(void **state)
{
	struct ky_retain_policy policy = slow_polls(MS, 0);
	struct drain_case c;
	struct test_writer w;
	uint32_t name;

	(void)state;
	case_retain(&c, &w, &policy);
	name = test_ring_name(&c.ring, "app::render", 0, 0);
	for (uint64_t i = 0; i < 100; i++)
		poll(&w, T0 + i * MS, 7, name, 10 * US);
	poll(&w, T0 + 200 * MS, 7, name, 3 * MS);
	poll(&w, T0 + 210 * MS, 8, 0, 20 * US);
	case_finish(&c, T0 + 300 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 1);
	assert_int_equal(COUNT(&c, POLL_END), 1);
	assert_int_equal(COUNT(&c, HISTOGRAM), 2); /* one a name */
	assert_int_equal(TOTAL(&c, "poll", value_count), 101);
	assert_in_range(TOTAL(&c, "poll", value_sum), 1018 * US, 1022 * US);
	assert_in_range(SUMS(&c, busy_ns), 1018 * US, 1022 * US);
	assert_int_equal(SUMS(&c, poll_count), 101);
	assert_string_equal(TEXT(EVENT(&c, HISTOGRAM, 1), HISTOGRAM, name), "app::render");
	assert_int_equal(COUNT(&c, TASK_FIRST_SEEN), 2); /* tasks are always written */
	assert_int_equal(COUNT(&c, LOSS), 0);
	case_close(&c);
}

static void retain__buckets_hold_every_value_in_its_place(void **state)
{
	static const uint64_t lengths[] = {10 * US, 10 * US, 40 * US, 800 * US};
	struct ky_retain_policy policy = slow_polls(MS, 0);
	uint32_t next = 0, found = 0;
	struct drain_case c;
	struct test_writer w;
	const uint8_t *at, *end;
	const struct test_event *reported;

	(void)state;
	case_retain(&c, &w, &policy);
	for (uint64_t i = 0; i < 4; i++)
		poll(&w, T0 + 2 * i * MS, 7, 0, lengths[i]);
	case_finish(&c, T0 + 300 * MS);
	assert_int_equal(COUNT(&c, HISTOGRAM), 1);
	reported = EVENT(&c, HISTOGRAM, 0);
	at = (const uint8_t *)TEXT(reported, HISTOGRAM, buckets);
	end = at + reported->text_bytes[KY_F_HISTOGRAM_buckets];
	while (at < end) {
		uint64_t gap, count, from, to;

		at += ky_varint_get(at, (size_t)(end - at), &gap);
		at += ky_varint_get(at, (size_t)(end - at), &count);
		ky_bucket_bounds(next + (uint32_t)gap, &from, &to);
		next += (uint32_t)gap + 1;
		/* Stamps lose three bits of 2.5 ticks per ns. */
		for (uint32_t i = 0; i < 4; i++)
			found += from <= lengths[i] + 8 && to + 8 >= lengths[i] ? 1 : 0;
		assert_in_range(count, 1, 2);
	}
	assert_ptr_equal(at, end);
	assert_int_equal(found, 4);
	assert_in_range(NUMBER(reported, HISTOGRAM, value_min), 10 * US - 8, 10 * US + 8);
	assert_in_range(NUMBER(reported, HISTOGRAM, value_max), 800 * US - 8, 800 * US + 8);
	case_close(&c);
}

static void retain__poll_without_a_queued_end_is_written(void **state)
{
	struct ky_retain_policy policy = slow_polls(MS, 0);
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	test_poll(&w, T0 + 10 * MS, 7, 0);
	case_step(&c, T0 + 50 * MS);
	test_poll_end(&w, T0 + 10 * MS + 10 * US, 0);
	poll(&w, T0 + 60 * MS, 7, 0, 10 * US);
	case_finish(&c, T0 + 100 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 1);
	assert_int_equal(COUNT(&c, POLL_END), 1);
	assert_int_equal(TOTAL(&c, "poll", value_count), 1);
	case_close(&c);
}

static void retain__poll_open_at_the_end_is_written_as_open(void **state)
{
	struct ky_retain_policy policy = slow_polls(MS, 0);
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	test_poll(&w, T0 + 10 * MS, 7, 0);
	case_finish(&c, T0 + 10 * MS + 5 * US);
	assert_int_equal(COUNT(&c, POLL_START), 1);
	assert_int_equal(COUNT(&c, OPEN_POLL), 1);
	assert_int_equal(NUMBER(EVENT(&c, OPEN_POLL, 0), OPEN_POLL, is_at_exit), 1);
	case_close(&c);
}

static void retain__late_wake_comes_with_its_poll_and_the_others_are_counted(void **state)
{
	struct ky_retain_policy policy = slow_polls(MS, 5 * MS);
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	for (uint64_t i = 0; i < 10; i++) {
		wake(&w, T0 + i * MS, 7);
		wake(&w, T0 + i * MS + 5 * US, 7); /* redundant */
		poll(&w, T0 + i * MS + 100 * US, 7, 0, 10 * US);
	}
	wake(&w, T0 + 20 * MS, 7);
	poll(&w, T0 + 29 * MS, 7, 0, 10 * US); /* short, but late */
	wake(&w, T0 + 40 * MS, 7);
	poll(&w, T0 + 41 * MS, 7, 0, 2 * MS); /* long, not late */
	case_finish(&c, T0 + 100 * MS);
	assert_int_equal(COUNT(&c, WAKE), 0);
	assert_int_equal(COUNT(&c, LATE_WAKE), 1);
	assert_in_range(NUMBER(EVENT(&c, LATE_WAKE, 0), LATE_WAKE, woken_ns), T0 + 20 * MS - 8,
			T0 + 20 * MS + 8);
	assert_int_equal(NUMBER(EVENT(&c, LATE_WAKE, 0), LATE_WAKE, woken_task_id), 7);
	assert_int_equal(COUNT(&c, POLL_START), 2);
	assert_int_equal(COUNT(&c, POLL_DELAY), 1);
	assert_in_range(NUMBER(EVENT(&c, POLL_DELAY, 0), POLL_DELAY, ready_ns), T0 + 20 * MS - 8,
			T0 + 20 * MS + 8);
	assert_int_equal(TOTAL(&c, "poll", value_count), 10);
	assert_int_equal(TOTAL(&c, "delay", value_count), 11);
	assert_in_range(TOTAL(&c, "delay", value_sum), 2 * MS - 300, 2 * MS + 300);
	assert_int_equal(SUMS(&c, wake_count), 21);
	case_close(&c);
}

static void retain__wake_in_its_own_poll_waits_from_that_polls_end(void **state)
{
	struct ky_retain_policy policy = slow_polls(10 * MS, 20 * MS);
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	test_poll(&w, T0 + 10 * MS, 7, 0);
	wake(&w, T0 + 11 * MS, 7);
	test_poll_end(&w, T0 + 14 * MS, 0);
	poll(&w, T0 + 17 * MS, 7, 0, MS);
	case_finish(&c, T0 + 100 * MS);
	assert_int_equal(TOTAL(&c, "delay", value_count), 1);
	assert_in_range(TOTAL(&c, "delay", value_sum), 3 * MS - 16, 3 * MS + 16);
	case_close(&c);
}

static void retain__late_wakes_without_a_poll_are_written_at_the_end(void **state)
{
	struct ky_retain_policy policy = slow_polls(MS, 5 * MS);
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	wake(&w, T0 + 10 * MS, 7);  /* never polled: late by now */
	wake(&w, T0 + 10 * MS, 9);  /* its task ends at once */
	wake(&w, T0 + 10 * MS, 11); /* its task ends late */
	test_emit(&w, T0 + 11 * MS, KYMO_RECORD_TASK_END, 0, 1, kymo_task_word(9, 0), 0, 0);
	test_emit(&w, T0 + 50 * MS, KYMO_RECORD_TASK_END, 0, 1, kymo_task_word(11, 0), 0, 0);
	wake(&w, T0 + 59 * MS, 8); /* never polled, but it has not waited long */
	case_finish(&c, T0 + 60 * MS);
	assert_int_equal(COUNT(&c, LATE_WAKE), 2);
	assert_int_equal(NUMBER(EVENT(&c, LATE_WAKE, 0), LATE_WAKE, woken_task_id), 11);
	assert_int_equal(NUMBER(EVENT(&c, LATE_WAKE, 1), LATE_WAKE, woken_task_id), 7);
	assert_int_equal(SUMS(&c, wake_count), 2);
	case_close(&c);
}

static void retain__counted_poll_is_no_open_poll_of_the_next_chunk(void **state)
{
	struct ky_retain_policy policy = slow_polls(3000 * MS, 0);
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	/* Each chunk ends within a second, so one begins inside the poll. */
	test_poll(&w, T0 + 10 * MS, 7, 0);
	test_emit(&w, T0 + 1500 * MS, KYMO_RECORD_DRIVER_TURN, 3, 1, 2500, 0, 0);
	test_emit(&w, T0 + 1600 * MS, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(9, 0), 0, 0);
	test_poll_end(&w, T0 + 2000 * MS, 0);
	case_finish(&c, T0 + 2500 * MS);
	assert_true(c.sink.chunk_count > 1);
	assert_int_equal(COUNT(&c, POLL_START), 0);
	assert_int_equal(TOTAL(&c, "poll", value_count), 1);
	for (size_t i = 0; i < COUNT(&c, OPEN_POLL); i++)
		assert_int_equal(NUMBER(EVENT(&c, OPEN_POLL, i), OPEN_POLL, task_id), 9);
	case_close(&c);
}

static void retain__nested_polls_count_beside_their_outer_one(void **state)
{
	struct ky_retain_policy policy = slow_polls(MS, 0);
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	test_poll(&w, T0 + 10 * MS, 7, 0);
	poll(&w, T0 + 10 * MS + 20 * US, 8, 0, 30 * US);
	test_poll_end(&w, T0 + 10 * MS + 100 * US, 0);
	test_poll(&w, T0 + 20 * MS, 7, 0);
	poll(&w, T0 + 21 * MS, 8, 0, 30 * US);
	test_poll_end(&w, T0 + 22 * MS, 0);
	case_finish(&c, T0 + 60 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 1);
	assert_int_equal(COUNT(&c, POLL_END), 1);
	assert_int_equal(COUNT(&c, NESTED_POLL_START), 0);
	assert_int_equal(TOTAL(&c, "poll", value_count), 3);
	assert_int_equal(SUMS(&c, poll_count), 1);
	assert_int_equal(SUMS(&c, nested_count), 2);
	assert_in_range(SUMS(&c, busy_ns), 100 * US - 16, 100 * US + 16);
	case_close(&c);
}

static void span(struct test_writer *w, uint64_t ns, uint64_t id, uint64_t parent,
		 uint64_t length_ns)
{
	test_emit(w, ns, KYMO_RECORD_SPAN_BEGIN, 0, 2, kymo_task_word(id, 0), parent, 0);
	if (length_ns)
		test_emit(w, ns + length_ns, KYMO_RECORD_SPAN_END, 0, 2, kymo_task_word(id, 0),
			  test_ticks(ns), 0);
}

static void retain__short_spans_are_counted_and_long_ones_written_as_ends(void **state)
{
	struct ky_retain_policy policy = {0};
	struct drain_case c;
	struct test_writer w;

	(void)state;
	policy.rules[KY_RETAIN_SPAN].threshold_ns = MS;
	case_retain(&c, &w, &policy);
	for (uint64_t i = 0; i < 20; i++)
		span(&w, T0 + (10 + i) * MS, 100 + i, 0, 300 * US);
	span(&w, T0 + 40 * MS, 200, 100, 2 * MS);
	c.ring.side->spans[7].begin_ticks = test_ticks(T0 + 45 * MS);
	c.ring.side->spans[7].word = kymo_task_word(201, 0);
	span(&w, T0 + 45 * MS, 201, 0, 0); /* stays open */
	case_finish(&c, T0 + 60 * MS);
	assert_int_equal(COUNT(&c, SPAN_ENTER), 0);
	assert_int_equal(COUNT(&c, SPAN_EXIT), 1);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_EXIT, 0), SPAN_EXIT, span_id), 200);
	assert_int_equal(NUMBER(EVENT(&c, SPAN_EXIT, 0), SPAN_EXIT, parent_span_id), 100);
	assert_int_equal(TOTAL(&c, "span", value_count), 20);
	assert_in_range(TOTAL(&c, "span", value_sum), 20 * 300 * US - 100, 20 * 300 * US + 100);
	assert_int_equal(COUNT(&c, OPEN_SPAN), 1);
	assert_int_equal(NUMBER(EVENT(&c, OPEN_SPAN, 0), OPEN_SPAN, span_id), 201);
	case_close(&c);
}

static void retain__spans_from_before_a_policy_get_their_ends(void **state)
{
	struct ky_retain_policy policy = {0};
	struct ky_ring_settings *settings;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	settings = &c.ring.control->settings;
	test_emit(&w, T0 + 10 * MS, KYMO_RECORD_SPAN_BEGIN, 0, 2, kymo_task_word(1, 0), 0, 0);
	case_step(&c, T0 + 20 * MS);
	atomic_store(&settings->generation, 1);
	atomic_store(&settings->span_threshold_ns, 100 * MS);
	atomic_store(&settings->generation, 2);
	case_step(&c, T0 + 21 * MS);
	test_emit(&w, T0 + 22 * MS, KYMO_RECORD_SPAN_END, 0, 2, kymo_task_word(1, 0),
		  test_ticks(T0 + 10 * MS), 0);
	span(&w, T0 + 30 * MS, 2, 0, MS);
	case_finish(&c, T0 + 60 * MS);
	assert_int_equal(COUNT(&c, SPAN_ENTER), 1);
	assert_int_equal(COUNT(&c, SPAN_EXIT), 1);
	assert_int_equal(TOTAL(&c, "span", value_count), 1);
	case_close(&c);
}

static void retain__short_blocking_runs_are_counted(void **state)
{
	struct ky_retain_policy policy = {0};
	struct drain_case c;
	struct test_writer w;

	(void)state;
	policy.rules[KY_RETAIN_BLOCKING].threshold_ns = MS;
	case_retain(&c, &w, &policy);
	for (uint64_t i = 0; i < 3; i++) {
		uint64_t ns = T0 + 10 * i * MS;

		test_emit(&w, ns, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(9 + i, 0), 0, 0);
		test_emit(&w, ns + (i == 2 ? 4 * MS : 50 * US), KYMO_RECORD_BLOCKING_END,
			  KYMO_POLL_READY, 0, 0, 0, 0);
	}
	case_finish(&c, T0 + 60 * MS);
	assert_int_equal(COUNT(&c, BLOCKING_START), 1);
	assert_int_equal(COUNT(&c, BLOCKING_END), 1);
	assert_int_equal(TOTAL(&c, "blocking", value_count), 2);
	assert_int_equal(COUNT(&c, POLL_DELAY), 0);
	case_close(&c);
}

static void retain__throttle_writes_its_rate_and_counts_the_rest(void **state)
{
	struct ky_retain_policy policy = {0};
	struct drain_case c;
	struct test_writer w;

	(void)state;
	policy.rules[KY_RETAIN_POLL].throttle = 5;
	policy.rules[KY_RETAIN_PARK].throttle = 1;
	policy.rules[KY_RETAIN_DRIVER].throttle = 2;
	case_retain(&c, &w, &policy);
	for (uint64_t i = 0; i < 40; i++) { /* 20 in each of two seconds */
		uint64_t ns = T0 + i * 50 * MS + MS;

		poll(&w, ns, 7, 0, 2 * MS);
		test_emit(&w, ns + 10 * MS, KYMO_RECORD_DRIVER_TURN, 3, 1, 2500, 0, 0);
		test_emit(&w, ns + 20 * MS, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0, 0);
		test_emit(&w, ns + 30 * MS, KYMO_RECORD_UNPARK, 1, 0, 0, 0, 0);
	}
	case_finish(&c, T0 + 3000 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 10);
	assert_int_equal(COUNT(&c, POLL_END), 10);
	assert_int_equal(TOTAL(&c, "poll", value_count), 30);
	assert_int_equal(COUNT(&c, DRIVER_TURN), 4);
	assert_int_equal(TOTAL(&c, "driver", value_count), 36);
	assert_int_equal(COUNT(&c, WORKER_PARK), 2);
	assert_int_equal(COUNT(&c, WORKER_UNPARK), 2);
	assert_int_equal(SUMS(&c, park_count), 38);
	assert_in_range(SUMS(&c, parked_ns), 380 * MS - 1000, 380 * MS + 1000);
	case_close(&c);
}

static void retain__settings_of_the_ring_apply_while_it_runs(void **state)
{
	struct ky_retain_policy policy = slow_polls(0, 0);
	struct ky_ring_settings *settings;
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	settings = &c.ring.control->settings;
	poll(&w, T0 + 10 * MS, 7, 0, 10 * US);
	case_step(&c, T0 + 50 * MS);
	atomic_store(&settings->generation, 1); /* a writer is at work: not yet */
	atomic_store(&settings->poll_threshold_ns, MS);
	poll(&w, T0 + 60 * MS, 7, 0, 10 * US);
	case_step(&c, T0 + 100 * MS);
	atomic_store(&settings->generation, 2);
	poll(&w, T0 + 110 * MS, 7, 0, 10 * US);
	case_step(&c, T0 + 150 * MS);
	atomic_store(&settings->poll_threshold_ns, 1); /* all again */
	atomic_store(&settings->generation, 4);
	poll(&w, T0 + 160 * MS, 7, 0, 10 * US);
	case_finish(&c, T0 + 200 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 3);
	assert_int_equal(TOTAL(&c, "poll", value_count), 1);
	assert_int_equal(COUNT(&c, RETENTION), 2);
	assert_string_equal(TEXT(EVENT(&c, RETENTION, 0), RETENTION, kind), "poll");
	assert_int_equal(NUMBER(EVENT(&c, RETENTION, 0), RETENTION, threshold_ns), MS);
	assert_int_equal(NUMBER(EVENT(&c, RETENTION, 1), RETENTION, threshold_ns), 0);
	assert_true(EVENT(&c, RETENTION, 0)->ns >= T0 + 60 * MS - 8);
	assert_true(EVENT(&c, RETENTION, 0)->ns < T0 + 110 * MS);
	case_close(&c);
}

static void retain__nothing_is_held_back_without_a_policy(void **state)
{
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, NULL);
	atomic_store(&c.ring.control->settings.poll_threshold_ns, MS);
	atomic_store(&c.ring.control->settings.generation, 2);
	wake(&w, T0 + 9 * MS, 7);
	poll(&w, T0 + 10 * MS, 7, 0, 10 * US);
	case_finish(&c, T0 + 50 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 1);
	assert_int_equal(COUNT(&c, WAKE), 1);
	assert_int_equal(COUNT(&c, RETENTION), 0);
	assert_int_equal(COUNT(&c, HISTOGRAM), 0);
	case_close(&c);
}

static void retain__each_segment_has_the_policy_and_its_own_counts(void **state)
{
	struct ky_retain_policy policy = slow_polls(MS, 0);
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	poll(&w, T0 + 10 * MS, 7, 0, 10 * US);
	case_step(&c, T0 + 50 * MS);
	assert_int_equal(ky_drain_seal(c.drain), 0);
	poll(&w, T0 + 60 * MS, 7, 0, 10 * US);
	poll(&w, T0 + 61 * MS, 7, 0, 10 * US);
	case_finish(&c, T0 + 100 * MS);
	assert_int_equal(COUNT(&c, RETENTION), 2);
	assert_int_equal(COUNT(&c, HISTOGRAM), 2);
	assert_int_equal(NUMBER(EVENT(&c, HISTOGRAM, 0), HISTOGRAM, value_count), 1);
	assert_int_equal(NUMBER(EVENT(&c, HISTOGRAM, 1), HISTOGRAM, value_count), 2);
	assert_true(NUMBER(EVENT(&c, HISTOGRAM, 1), HISTOGRAM, from_ns) ==
		    EVENT(&c, HISTOGRAM, 0)->ns);
	case_close(&c);
}

static void retain__counts_are_written_every_few_seconds(void **state)
{
	struct ky_retain_policy policy = slow_polls(MS, 0);
	struct drain_case c;
	struct test_writer w;

	(void)state;
	case_retain(&c, &w, &policy);
	for (uint64_t s = 0; s < 12; s++) {
		poll(&w, T0 + s * 1000 * MS + 10 * MS, 7, 0, 10 * US);
		case_step(&c, T0 + s * 1000 * MS + 500 * MS);
	}
	case_finish(&c, T0 + 12000 * MS);
	assert_int_equal(COUNT(&c, HISTOGRAM), 3);
	assert_int_equal(TOTAL(&c, "poll", value_count), 12);
	case_close(&c);
}

/* Records that the chunks claim, and what a refusal said was lost. */
struct record_sink {
	uint64_t taken, refused;
	uint64_t seen, refuse_at;
};

static int count_records(void *ctx, const struct ky_chunk *chunk)
{
	struct record_sink *sink = ctx;

	assert_true(chunk->record_count < 1u << 20);
	if (++sink->seen == sink->refuse_at) {
		sink->refused += chunk->record_count;
		return -ENOSPC;
	}
	sink->taken += chunk->record_count;
	return 0;
}

static void retain__every_record_belongs_to_one_chunk(void **state)
{
	struct ky_retain_policy policy = slow_polls(MS, 5 * MS);

	(void)state;
	for (uint64_t refuse_at = 0; refuse_at < 5; refuse_at++) {
		struct record_sink sink = {.refuse_at = refuse_at};
		struct ky_drain_stats stats;
		struct drain_case c;
		struct test_writer w;

		case_open(&c, 64);
		c.options.retain = &policy;
		c.options.chunk = count_records;
		c.options.chunk_ctx = &sink;
		case_start(&c);
		test_writer_open(&w, &c.ring, 501, T0);
		test_worker(&w, T0, 3, 0x1000, 0x2000);
		for (uint64_t i = 0; i < 30; i++) {
			uint64_t ns = T0 + i * 100 * MS;

			wake(&w, ns, 7);
			test_poll(&w, ns + (i % 7 ? 1 : 9) * MS, 7, 0);
			test_poll_end(&w, ns + (i % 5 ? 10 : 12) * MS,
				      i % 3 ? 0 : KYMO_POLL_SELF_WAKE);
			case_step(&c, ns + 50 * MS);
		}
		c.ring.now_ns = T0 + 4000 * MS;
		assert_int_equal(ky_drain_step(c.drain, KY_DRAIN_FINAL), 0);
		assert_int_equal(ky_drain_seal(c.drain), 0);
		ky_drain_stats(c.drain, &stats);
		assert_int_equal(sink.taken + sink.refused, 91);
		assert_int_equal(stats.records_lost, sink.refused);
		case_close(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retain__short_polls_are_counted_and_long_ones_written),
		cmocka_unit_test(retain__buckets_hold_every_value_in_its_place),
		cmocka_unit_test(retain__poll_without_a_queued_end_is_written),
		cmocka_unit_test(retain__poll_open_at_the_end_is_written_as_open),
		cmocka_unit_test(retain__late_wake_comes_with_its_poll_and_the_others_are_counted),
		cmocka_unit_test(retain__wake_in_its_own_poll_waits_from_that_polls_end),
		cmocka_unit_test(retain__late_wakes_without_a_poll_are_written_at_the_end),
		cmocka_unit_test(retain__counted_poll_is_no_open_poll_of_the_next_chunk),
		cmocka_unit_test(retain__nested_polls_count_beside_their_outer_one),
		cmocka_unit_test(retain__short_spans_are_counted_and_long_ones_written_as_ends),
		cmocka_unit_test(retain__spans_from_before_a_policy_get_their_ends),
		cmocka_unit_test(retain__short_blocking_runs_are_counted),
		cmocka_unit_test(retain__throttle_writes_its_rate_and_counts_the_rest),
		cmocka_unit_test(retain__settings_of_the_ring_apply_while_it_runs),
		cmocka_unit_test(retain__nothing_is_held_back_without_a_policy),
		cmocka_unit_test(retain__each_segment_has_the_policy_and_its_own_counts),
		cmocka_unit_test(retain__counts_are_written_every_few_seconds),
		cmocka_unit_test(retain__every_record_belongs_to_one_chunk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
