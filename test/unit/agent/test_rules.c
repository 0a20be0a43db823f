/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The rules over a ring that the test writes, at times that it sets. */
#include "../../lib/cmocka_all.h"
#include "../../lib/now_fake.h"
#include "../../lib/ring_builder.h"

#include <agent/rules.h>
#include <stdatomic.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define T0 UINT64_C(2000000000)

struct rules_case {
	struct test_ring ring;
	struct ky_dumps dumps;
	struct ky_rules *rules;
	struct ky_agent_event last; /* that was reported */
	uint32_t event_count;
};

static struct rules_case c;

static void keep(void *ctx, const struct ky_agent_event *event)
{
	struct rules_case *in = ctx;

	in->last = *event;
	in->event_count++;
}

static int setup(void **state)
{
	struct ky_rules_options options = {.dumps = &c.dumps, .event = keep, .event_ctx = &c};
	static struct ky_rule list[KY_RULES_MAX];
	size_t count = 0;
	char why[200];

	(void)state;
	memset(&c, 0, sizeof(c));
	test_ring_open(&c.ring, 8);
	c.ring.header->flags |= KY_RING_CLOCK_MONOTONIC;
	options.image = c.ring.image;
	options.image_bytes = c.ring.image_bytes;
	options.access.base = c.ring.image;
	test_now.ns = T0;
	assert_int_equal(ky_rules_open(&c.rules, &options), 0);
	assert_int_equal(ky_rules_parse(list, &count, "poll>100ms", why, sizeof(why)), 0);
	assert_int_equal(ky_rules_set(c.rules, list, count), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_rules_close(c.rules);
	test_ring_close(&c.ring);
	return 0;
}

/* So much later than it was asked for. Returns the interval between the two checks. */
static uint64_t check_late(uint64_t late_ns)
{
	uint64_t pause_ns = ky_rules_step(c.rules, NULL, NULL);

	assert_true(pause_ns <= 100 * MS);
	test_now.ns += pause_ns + late_ns;
	(void)ky_rules_step(c.rules, NULL, NULL);
	return pause_ns + late_ns;
}

static void rules__time_that_no_check_saw_is_in_the_ring(void **state)
{
	const struct ky_ring_unwatched *unwatched = &c.ring.side->unwatched;
	uint64_t interval_ns;

	(void)state;
	check_late(0);
	assert_int_equal(atomic_load(&unwatched->late_count), 0);
	interval_ns = check_late(20 * MS);
	assert_int_equal(atomic_load(&unwatched->late_count), 1);
	assert_true(atomic_load(&unwatched->ns) == interval_ns);
	interval_ns += check_late(300 * MS);
	assert_int_equal(atomic_load(&unwatched->late_count), 2);
	assert_true(atomic_load(&unwatched->ns) == interval_ns);
}

static void rules__late_checks_are_reported_at_the_end(void **state)
{
	(void)state;
	check_late(20 * MS);
	check_late(30 * MS);
	check_late(0);
	assert_int_equal(c.event_count, 0);
	ky_rules_finish(c.rules);
	assert_int_equal(c.event_count, 1);
	assert_int_equal(c.last.kind, KY_AGENT_CHECKS_LATE);
	assert_int_equal(c.last.count, 2);
	assert_true(c.last.span_ns == 30 * MS);
}

static void rules__checks_in_time_are_no_event(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		check_late(10 * MS);
	ky_rules_finish(c.rules);
	assert_int_equal(c.event_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rules__time_that_no_check_saw_is_in_the_ring, setup,
						teardown),
		cmocka_unit_test_setup_teardown(rules__late_checks_are_reported_at_the_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(rules__checks_in_time_are_no_event, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
