/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <session/run_scan.h>
#include <fcntl.h>
#include <unistd.h>

#define OPENED_NS UINT64_C(5000000000)
#define MS_NS UINT64_C(1000000)

static struct ky_run_scan scan;

static int open_scan(void **state)
{
	(void)state;
	scan = (struct ky_run_scan){.due_ns = 0};
	ky_run_scan_init(&scan, OPENED_NS);
	return 0;
}

static void run_scan__scans_less_often_as_time_passes(void **state)
{
	(void)state;
	assert_int_equal(ky_run_scan_pace_ns(&scan, false, false, OPENED_NS), 20 * MS_NS);
	assert_int_equal(ky_run_scan_pace_ns(&scan, false, false, OPENED_NS + 100 * MS_NS),
			 50 * MS_NS);
	assert_int_equal(ky_run_scan_pace_ns(&scan, false, false, OPENED_NS + 9000 * MS_NS),
			 KY_RUN_SCAN_IDLE_NS);
	assert_int_equal(ky_run_scan_pace_ns(&scan, true, false, OPENED_NS + 9000 * MS_NS),
			 KY_RUN_SCAN_FLIGHT_NS);
}

static void run_scan__rests_where_names_that_come_are_reported(void **state)
{
	uint64_t now_ns = OPENED_NS + 9000 * MS_NS;

	(void)state;
	assert_int_equal(ky_run_scan_pace_ns(&scan, false, true, OPENED_NS), 20 * MS_NS);
	assert_int_equal(ky_run_scan_pace_ns(&scan, false, true, now_ns), KY_RUN_SCAN_NEWS_NS);
	assert_int_equal(ky_run_scan_pace_ns(&scan, true, true, now_ns), KY_RUN_SCAN_NEWS_NS);
	scan.due_ns = now_ns + KY_RUN_SCAN_NEWS_NS;
	ky_run_scan_news(&scan, now_ns);
	assert_int_equal(scan.due_ns, now_ns + 20 * MS_NS);
	/* Another one puts it off no further. */
	ky_run_scan_news(&scan, now_ns + 10 * MS_NS);
	assert_int_equal(scan.due_ns, now_ns + 20 * MS_NS);
}

/* The free room is not known without a directory. */
static void run_scan__wants_anonymous_rings_at_once_without_a_directory(void **state)
{
	(void)state;
	assert_true(ky_run_scan_wants_anonymous(&scan, -1, OPENED_NS));
	assert_true(ky_run_scan_wants_anonymous(&scan, -1, OPENED_NS + MS_NS));
}

static void run_scan__wants_anonymous_rings_ever_more_rarely(void **state)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t now_ns = OPENED_NS, last_ns = OPENED_NS, pace_ns = 0;

	(void)state;
	assert_true(fd >= 0);
	for (int i = 0; i < 12; i++) {
		while (!ky_run_scan_wants_anonymous(&scan, fd, now_ns))
			now_ns += 50 * MS_NS;
		assert_true(now_ns - last_ns >= pace_ns);
		pace_ns = now_ns - last_ns;
		last_ns = now_ns;
	}
	assert_true(pace_ns >= 60000 * MS_NS);
	assert_true(pace_ns < 2 * 60000 * MS_NS);
	close(fd);
}

static void run_scan__ignores_a_name_with_its_inode(void **state)
{
	(void)state;
	ky_run_scan_ignore(&scan, "a.ring", 7);
	assert_true(ky_run_scan_ignores(&scan, "a.ring", 7));
	assert_false(ky_run_scan_ignores(&scan, "a.ring", 8));
	assert_false(ky_run_scan_ignores(&scan, "b.ring", 7));
	for (uint32_t i = 0; i < 2 * KY_RUN_SCAN_IGNORED_MAX; i++)
		ky_run_scan_ignore(&scan, "c.ring", 100 + i);
	assert_int_equal(scan.ignored_count, KY_RUN_SCAN_IGNORED_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(run_scan__scans_less_often_as_time_passes, open_scan),
		cmocka_unit_test_setup(run_scan__rests_where_names_that_come_are_reported,
				       open_scan),
		cmocka_unit_test_setup(run_scan__wants_anonymous_rings_at_once_without_a_directory,
				       open_scan),
		cmocka_unit_test_setup(run_scan__wants_anonymous_rings_ever_more_rarely, open_scan),
		cmocka_unit_test_setup(run_scan__ignores_a_name_with_its_inode, open_scan),
	};

	return cmocka_run_group_tests_name("run_scan", tests, NULL, NULL);
}
