/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* When a process was stopped: files of /proc and of a cgroup that say so, and a clock of the
 * test's. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_proc.h"

#include <probe/process_watch.h>
#include <signal.h>
#include <string.h>

#define PID 4242u
#define START UINT64_C(1000000000000)
#define MS UINT64_C(1000000)

static struct fake_proc fake;
static struct ky_proc_reader reader;
static struct ky_resource_source source;
static struct ky_process_watch watch;
static _Alignas(8) uint8_t area[KY_RESOURCE_AREA_BYTES];

static bool put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	(void)ctx;
	memcpy(area + offset, bytes, count);
	return true;
}

static void write_counted(unsigned int throttled_us)
{
	fake_proc_write(&fake, "/own/cpu.stat",
			"usage_usec 5000\nnr_periods 8\nnr_throttled 3\nthrottled_usec %u\n",
			throttled_us);
}

/* A first reading, which the rows of a watch come after. */
static int setup(void **state)
{
	(void)state;
	fake_proc_open(&fake, PID);
	memset(area, 0, sizeof(area));
	memset(&source, 0, sizeof(source));
	memset(&watch, 0, sizeof(watch));
	source.put = put;
	source.proc = fake.proc;
	source.cgroup = fake.cgroup;
	fake_proc_stat(&fake, 'S', 0);
	fake_proc_write(&fake, "cgroup", "0::/own\n");
	write_counted(700);
	fake_proc_write(&fake, "/own/cpu.max", "50000 100000\n");
	ky_proc_reader_open(&reader, fake.proc, fake.cgroup, PID, 0);
	(void)ky_resource_step(&source, &reader, KY_RESOURCE_INTERVAL_NS, START);
	assert_int_equal(source.limited_levels, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_process_watch_end(&watch, &source);
	ky_proc_reader_close(&reader);
	fake_proc_close(&fake);
	return 0;
}

static void look(uint64_t ms)
{
	ky_process_watch_look(&watch, &source, &reader, START + ms * MS);
}

/* The n-th row of its kind from the end. NULL: there are not so many. */
static const struct ky_resource_row *row_back(uint32_t kind, uint32_t n)
{
	for (uint64_t at = source.claim_index; at-- > 0;) {
		const struct ky_resource_entry *entry =
			(const void *)(area + ky_resource_entry_offset(at));

		if (entry->row.kind == kind && n-- == 0)
			return &entry->row;
	}
	return NULL;
}

static void expect(uint32_t n, uint8_t change, uint64_t detail, uint64_t after_ns, uint64_t by_ns,
		   enum ky_state_source how)
{
	const struct ky_resource_row *row = row_back(KY_RESOURCE_STATE, n);

	assert_non_null(row);
	assert_int_equal(row->scope, change);
	assert_int_equal(row->values[KY_STATE_DETAIL], detail);
	assert_int_equal(row->values[KY_STATE_AFTER_NS], after_ns);
	assert_int_equal(row->values[KY_STATE_BY_NS], by_ns);
	assert_int_equal(row->values[KY_STATE_SOURCE], how);
}

static void look__bounds_a_stop_by_the_look_before(void **state)
{
	(void)state;
	look(0);
	assert_null(row_back(KY_RESOURCE_STATE, 0));
	fake_proc_stat(&fake, 'T', 0);
	look(50);
	expect(0, KY_PROCESS_STOPPED, 0, START, START + 50 * MS, KY_STATE_SEEN);
	look(100);
	assert_null(row_back(KY_RESOURCE_STATE, 1));
	fake_proc_stat(&fake, 'R', 0);
	look(150);
	expect(0, KY_PROCESS_CONTINUED, 0, START + 100 * MS, START + 150 * MS, KY_STATE_SEEN);
	fake_proc_stat(&fake, 't', 0); /* a debugger */
	look(200);
	expect(0, KY_PROCESS_STOPPED, 0, START + 150 * MS, START + 200 * MS, KY_STATE_SEEN);
}

static void look__at_first_does_not_know_since_when(void **state)
{
	(void)state;
	fake_proc_stat(&fake, 'T', 0);
	look(0);
	expect(0, KY_PROCESS_STOPPED, 0, 1, START, KY_STATE_SEEN);
}

static void tell__has_the_moment_and_the_signal(void **state)
{
	(void)state;
	watch.is_told = true;
	fake_proc_stat(&fake, 'T', 0); /* is not looked at */
	look(0);
	assert_null(row_back(KY_RESOURCE_STATE, 0));
	ky_process_watch_tell(&watch, &source, KY_PROCESS_STOPPED, SIGTSTP, START + 7 * MS);
	expect(0, KY_PROCESS_STOPPED, SIGTSTP, 0, START + 7 * MS, KY_STATE_TOLD);
	ky_process_watch_tell(&watch, &source, KY_PROCESS_STOPPED, SIGSTOP, START + 8 * MS);
	assert_null(row_back(KY_RESOURCE_STATE, 1));
	ky_process_watch_tell(&watch, &source, KY_PROCESS_CONTINUED, 0, START + 9 * MS);
	expect(0, KY_PROCESS_CONTINUED, 0, 0, START + 9 * MS, KY_STATE_TOLD);
	ky_process_watch_tell(&watch, &source, KY_PROCESS_EXITED, 3, START + 10 * MS);
	expect(0, KY_PROCESS_EXITED, 3, 0, START + 10 * MS, KY_STATE_TOLD);
}

/* Both were stopped: the process's stop is not told, its continuing is, and the next look is
 * late. */
static void tell__of_a_stop_that_the_looker_shared_is_bounded_by_its_gap(void **state)
{
	(void)state;
	watch.is_told = true;
	look(0);
	look(50);
	look(900);
	ky_process_watch_tell(&watch, &source, KY_PROCESS_CONTINUED, 0, START + 899 * MS);
	expect(1, KY_PROCESS_STOPPED, 0, START + 50 * MS, START + 899 * MS, KY_STATE_WITH_READER);
	expect(0, KY_PROCESS_CONTINUED, 0, START + 50 * MS, START + 899 * MS, KY_STATE_WITH_READER);
}

/* It continues later than the looker, which then hears of the stop, too: late. */
static void tell__of_a_stop_after_a_gap_is_bounded_by_it(void **state)
{
	(void)state;
	watch.is_told = true;
	look(50);
	look(900);
	ky_process_watch_tell(&watch, &source, KY_PROCESS_STOPPED, SIGSTOP, START + 899 * MS);
	expect(0, KY_PROCESS_STOPPED, SIGSTOP, START + 50 * MS, START + 899 * MS,
	       KY_STATE_WITH_READER);
	ky_process_watch_tell(&watch, &source, KY_PROCESS_CONTINUED, 0, START + 900 * MS);
	expect(0, KY_PROCESS_CONTINUED, 0, 0, START + 900 * MS, KY_STATE_TOLD);
	look(950);
	ky_process_watch_tell(&watch, &source, KY_PROCESS_STOPPED, SIGSTOP, START + 1500 * MS);
	expect(0, KY_PROCESS_STOPPED, SIGSTOP, 0, START + 1500 * MS, KY_STATE_TOLD);
}

/* ... and what is told is passed on at the look after it. */
static void tell__finds_the_gap_also_a_look_later(void **state)
{
	(void)state;
	watch.is_told = true;
	look(50);
	look(900);
	look(950);
	ky_process_watch_tell(&watch, &source, KY_PROCESS_CONTINUED, 0, START + 901 * MS);
	expect(1, KY_PROCESS_STOPPED, 0, START + 50 * MS, START + 901 * MS, KY_STATE_WITH_READER);
	look(2000 - 50);
	look(2000);
	look(2050);
	look(2100);
	look(2150);
	look(2200);
	look(2250);
	ky_process_watch_tell(&watch, &source, KY_PROCESS_CONTINUED, 0, START + 2230 * MS);
	expect(0, KY_PROCESS_CONTINUED, 0, START + 2200 * MS, START + 2230 * MS,
	       KY_STATE_WITH_READER);
}

static void expect_throttle(uint32_t n, uint64_t from_ns, uint64_t to_ns, uint64_t ns)
{
	const struct ky_resource_row *row = row_back(KY_RESOURCE_THROTTLED, n);

	assert_non_null(row);
	assert_int_equal(row->scope, 0);
	assert_int_equal(row->values[KY_THROTTLED_FROM_NS], from_ns);
	assert_int_equal(row->values[KY_THROTTLED_TO_NS], to_ns);
	assert_int_equal(row->values[KY_THROTTLED_NS], ns);
}

static void look__joins_throttling_until_it_rests(void **state)
{
	(void)state;
	look(0);
	write_counted(40700); /* counted when it ends: it began up to 40 ms before the last look */
	look(50);
	look(100);
	write_counted(80700);
	look(150);
	look(200);
	look(250);
	assert_null(row_back(KY_RESOURCE_THROTTLED, 0));
	look(300);
	expect_throttle(0, START - 40 * MS, START + 150 * MS, 80 * MS);
}

static void look__tells_long_throttling_in_parts(void **state)
{
	unsigned int counted_us = 700;

	(void)state;
	for (uint64_t ms = 0; ms <= 2000; ms += 50, counted_us += 10000) {
		write_counted(counted_us);
		look(ms);
	}
	/* 10 ms at each look from 50 ms on: told once a second has passed since its begin. */
	expect_throttle(0, START + 1000 * MS, START + 2000 * MS, 200 * MS);
	expect_throttle(1, START - 10 * MS, START + 1000 * MS, 200 * MS);
}

static void look__begins_anew_with_another_cgroup(void **state)
{
	(void)state;
	look(0);
	write_counted(5); /* fewer */
	look(50);
	write_counted(10);
	look(100);
	ky_process_watch_end(&watch, &source);
	expect_throttle(0, START + 50 * MS - 5000, START + 100 * MS, 5000);
}

static void look__of_an_idle_process_comes_seldom_and_is_no_gap(void **state)
{
	(void)state;
	look(0);
	assert_int_equal(watch.due_ns, START + 50 * MS);
	source.is_idle = true;
	look(50); /* its CPU limit may hold it up at any moment */
	assert_int_equal(watch.due_ns, START + 100 * MS);
	source.limited_levels = 0;
	look(100);
	assert_int_equal(watch.due_ns, START + 1100 * MS);
	look(1110);
	assert_int_equal(watch.gap_to_ns, 0);
	look(2300); /* 190 ms too late: the looker stood */
	assert_int_equal(watch.gap_from_ns, START + 1110 * MS);
	assert_int_equal(watch.gap_to_ns, START + 2300 * MS);
	fake_proc_stat(&fake, 'T', 0);
	look(3300);
	assert_int_equal(watch.due_ns, START + 3350 * MS);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(look__bounds_a_stop_by_the_look_before),
		CASE(look__at_first_does_not_know_since_when),
		CASE(tell__has_the_moment_and_the_signal),
		CASE(tell__of_a_stop_that_the_looker_shared_is_bounded_by_its_gap),
		CASE(tell__of_a_stop_after_a_gap_is_bounded_by_it),
		CASE(tell__finds_the_gap_also_a_look_later),
		CASE(look__joins_throttling_until_it_rests),
		CASE(look__tells_long_throttling_in_parts),
		CASE(look__begins_anew_with_another_cgroup),
		CASE(look__of_an_idle_process_comes_seldom_and_is_no_gap),
	};

	return cmocka_run_group_tests_name("process_watch", tests, NULL, NULL);
}
