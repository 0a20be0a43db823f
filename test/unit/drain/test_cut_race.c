/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Cuts of a ring that is written to while they are made: all up to the clock reading, no more. */
#include "../../lib/cut_case.h"

struct race {
	struct test_ring *ring;
	struct test_writer *writer;
	uint64_t now_ns, wrote_ns;
	uint32_t before, after, readings;
};

/* The clock is read: polls were written just before that, and continue after it. A second reading
 * is made long after them. */
static int racing_clock(void *ctx, struct ky_clock_anchor *out)
{
	struct race *race = ctx;
	uint64_t ns = race->now_ns - race->before * 10000 - 1;

	if (race->readings++) {
		race->ring->now_ns = race->wrote_ns + MS;
		test_ring_anchor(race->ring, out);
		return 0;
	}
	cut_polls(race->writer, race->ring, ns, race->before);
	race->ring->now_ns = race->now_ns;
	test_ring_anchor(race->ring, out);
	race->wrote_ns = cut_polls(race->writer, race->ring, race->now_ns + 100, race->after);
	return 0;
}

static void race(struct cut_case *c, struct race *race, uint32_t count)
{
	static struct test_writer w;
	uint64_t ns;

	cut_open(c, 64);
	test_writer_open(&w, &c->ring, 501, T0);
	ns = cut_polls(&w, &c->ring, T0, count);
	race->ring = &c->ring;
	race->writer = &w;
	race->now_ns = ns + race->before * 10000 + MS;
	c->options.anchor = racing_clock;
	c->options.anchor_ctx = race;
	cut_take(c, ns);
}

static void cut__everything_up_to_the_clock_reading_and_nothing_after_it(void **state)
{
	static const uint32_t before[] = {0, 5, 700, 5000}, after[] = {3, 300, 3000};
	uint32_t count = 4000;

	(void)state;
	for (int i = 0; i < 4; i++) {
		for (int k = 0; k < 3; k++) {
			static struct cut_case c;
			struct race racing = {.before = before[i], .after = after[k]};

			race(&c, &racing, count);
			assert_int_equal(racing.readings, 1);
			assert_int_equal(COUNT(&c, POLL_START), count + before[i]);
			assert_int_equal(COUNT(&c, POLL_END), count + before[i]);
			assert_int_equal(COUNT(&c, LOSS), 0);
			assert_true(EVENT(&c, POLL_START, COUNT(&c, POLL_START) - 1)->ns <=
				    racing.now_ns);
			assert_int_equal(c.report.slots_overwritten, 0);
			cut_close(&c);
		}
	}
}

/* Between the reading of the clock and the last pass the ring went round: what that pass was to
 * bring is gone. The cut must not end early as if all were there. */
static void cut__held_up_for_a_round_of_the_ring_reports_what_it_missed(void **state)
{
	static const uint32_t after[] = {30000, 60000, 100000};
	uint32_t count = 4000;

	(void)state;
	for (int k = 0; k < 3; k++) {
		static struct cut_case c;
		struct race racing = {.before = 700, .after = after[k]};
		size_t polls_read;

		race(&c, &racing, count);
		polls_read = COUNT(&c, POLL_START);
		assert_int_equal(racing.readings, 2);
		assert_in_range(EVENT(&c, POLL_END, COUNT(&c, POLL_END) - 1)->ns,
				racing.wrote_ns - 10000, racing.wrote_ns);
		assert_true(COUNT(&c, LOSS) > 0);
		assert_true(c.report.records_lost > 0);
		/* Two records a poll; one of them may be lost where a gap begins or ends. */
		assert_in_range(polls_read * 2 + c.report.records_lost,
				(count + 700 + after[k]) * 2 - 2, (count + 700 + after[k]) * 2 + 2);
		assert_true(c.report.age_ns > 0);
		cut_close(&c);
	}
}

/* A thread closes its sub-buffer and sleeps; while the cut copies what lies before that sub-buffer,
 * another thread writes round the ring and over it. */
#define SLEEPER 1000u
#define TEST_SLOT_RECORDS_MAX (KY_SLOT_BYTES / 8)

static struct test_writer overtaking;
static struct test_ring *overtaken; /* NULL: nothing is to happen */
static uint64_t overtaking_ns;
static uint32_t copied_before;

void ky_testpoint(const char *name);
void ky_testpoint(const char *name)
{
	if (!overtaken || strcmp(name, "ring_copy.slot") != 0 || copied_before-- > 0)
		return;
	overtaking_ns = cut_polls(&overtaking, overtaken, overtaking_ns, 40000);
	overtaken = NULL;
}

static int clock_after_it(void *ctx, struct ky_clock_anchor *out)
{
	struct test_ring *ring = ctx;

	ring->now_ns = overtaking_ns + MS;
	return test_ring_anchor(ring, out);
}

static void cut__overtaken_while_it_copies_counts_what_a_sleeping_thread_wrote_last(void **state)
{
	static struct cut_case c;
	static struct test_writer sleeper;
	uint64_t slept_after = 0, last = 0;

	(void)state;
	overtaking_ns = T0;
	cut_open(&c, 64);
	test_writer_open(&sleeper, &c.ring, 501, T0);
	test_writer_open(&overtaking, &c.ring, 502, T0);
	while (overtaking.slot < 50) {
		c.ring.now_ns = overtaking_ns;
		test_poll(&sleeper, overtaking_ns, SLEEPER + ++slept_after, 0);
		test_poll_end(&sleeper, overtaking_ns + 5000, 0);
		overtaking_ns = cut_polls(&overtaking, &c.ring, overtaking_ns + 10000, 1);
	}
	test_writer_exit(&sleeper, overtaking_ns, false);
	overtaken = &c.ring;
	copied_before = 20;
	c.options.anchor = clock_after_it;
	assert_int_equal(ky_cut(&c.options, &c.report), 0);
	test_sink_decode(&c.sink);
	for (size_t i = 0; i < c.sink.event_count; i++) {
		const struct test_event *event = &c.sink.events[i];

		if (event->event == KY_EV_POLL_START &&
		    event->number[KY_F_POLL_START_task_id] > SLEEPER)
			last = event->number[KY_F_POLL_START_task_id] - SLEEPER;
	}
	assert_in_range(last, 1, slept_after - 1);
	/* Nothing of it comes after the gap, so only the count of sub-buffers covers it. */
	assert_true((slept_after - last) * 2 <= c.report.slots_overwritten * TEST_SLOT_RECORDS_MAX);
	assert_true(c.report.records_lost > 0);
	cut_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cut__everything_up_to_the_clock_reading_and_nothing_after_it),
		cmocka_unit_test(cut__held_up_for_a_round_of_the_ring_reports_what_it_missed),
		cmocka_unit_test(
			cut__overtaken_while_it_copies_counts_what_a_sleeping_thread_wrote_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
