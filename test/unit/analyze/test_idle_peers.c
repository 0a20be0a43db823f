/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Peers in other runtimes, and what is concluded: test/cli/test_queue_findings.py. */
#include "../read/read_case.h"
#include <analyze/idle_peers.h>

static const struct ky_notified no_notifications;

/* Worker 0 polls from 1,000 to 50,000; of the others two are parked now and then. */
static void parked_open(struct read_case *c)
{
	case_begin(c);
	case_start(c, 1000, 0, 1, "svc::hog");
	case_park(c, 10000, 1, 11);
	case_park(c, 15000, 2, 12);
	case_unpark(c, 20000, 1, 11);
	case_unpark(c, 22000, 2, 12);
	case_park(c, 30000, 1, 11);
	case_unpark(c, 31000, 1, 11);
	case_end(c, 50000, 0);
	case_open(c);
}

static uint64_t idle_ns(struct ky_idle_peers *peers, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t ns = 0;

	assert_true(ky_idle_peers_ns(peers, 0, from_ns, to_ns, &ns));
	return ns;
}

static void idle_peers__time_in_which_one_is_parked_counts_once(void **state)
{
	struct ky_idle_range range = {0, 50000};
	struct ky_idle_peers peers;
	struct read_case c;

	(void)state;
	parked_open(&c);
	assert_int_equal(ky_idle_peers_make(&peers, c.trace, &no_notifications, &range, 1), 0);
	assert_int_equal(idle_ns(&peers, 1000, 50000), 12000 + 1000);
	assert_int_equal(idle_ns(&peers, 1000, 10000), 0);
	assert_int_equal(idle_ns(&peers, 12000, 21000), 9000);
	assert_int_equal(idle_ns(&peers, 21000, 30500), 1000 + 500);
	assert_int_equal(idle_ns(&peers, 12000, 12001), 1); /* not in order */
	assert_int_equal(idle_ns(&peers, 40000, 50000), 0);
	assert_int_equal(idle_ns(&peers, 15000, 15000), 0);
	assert_true(ky_idle_peers_are(&peers, 0, 1));
	assert_false(ky_idle_peers_are(&peers, 1, 1));
	ky_idle_peers_release(&peers);
	case_finish(&c);
}

static void idle_peers__ranges_may_overlap_and_come_in_any_order(void **state)
{
	struct ky_idle_range ranges[] = {{18000, 24000}, {11000, 13000}, {12000, 14000}};
	struct ky_idle_peers peers;
	struct read_case c;

	(void)state;
	parked_open(&c);
	assert_int_equal(ky_idle_peers_make(&peers, c.trace, &no_notifications, ranges, 3), 0);
	assert_int_equal(peers.range_count, 2);
	assert_int_equal(idle_ns(&peers, 11000, 14000), 3000);
	assert_int_equal(idle_ns(&peers, 18000, 24000), 4000);
	ky_idle_peers_release(&peers);
	case_finish(&c);
}

static void idle_peers__a_park_with_a_loss_inside_is_no_idle_time(void **state)
{
	struct ky_idle_range range = {0, 50000};
	struct ky_idle_peers peers;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_start(&c, 1000, 0, 1, "svc::hog");
	case_park(&c, 10000, 1, 11);
	case_loss(&c, 11, 12000, 13000);
	case_unpark(&c, 20000, 1, 11);
	case_end(&c, 50000, 0);
	case_open(&c);
	assert_int_equal(ky_idle_peers_make(&peers, c.trace, &no_notifications, &range, 1), 0);
	assert_int_equal(idle_ns(&peers, 1000, 50000), 0);
	ky_idle_peers_release(&peers);
	case_finish(&c);
}

static void idle_peers__survives_each_failing_allocation(void **state)
{
	struct ky_idle_range range = {0, 50000};
	struct ky_idle_peers peers;
	bool is_done = false;
	struct read_case c;
	uint64_t n, ns;

	(void)state;
	parked_open(&c);
	for (n = 0; !is_done; n++) {
		test_alloc_fail_at(n);
		is_done = ky_idle_peers_make(&peers, c.trace, &no_notifications, &range, 1) == 0;
		is_done = is_done && ky_idle_peers_ns(&peers, 0, 1000, 50000, &ns);
		test_alloc_normal();
		ky_idle_peers_release(&peers);
	}
	assert_int_equal(ns, 13000);
	assert_true(n > 3);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(idle_peers__time_in_which_one_is_parked_counts_once),
		cmocka_unit_test(idle_peers__ranges_may_overlap_and_come_in_any_order),
		cmocka_unit_test(idle_peers__a_park_with_a_loss_inside_is_no_idle_time),
		cmocka_unit_test(idle_peers__survives_each_failing_allocation),
	};

	return cmocka_run_group_tests_name("idle_peers", tests, NULL, NULL);
}
