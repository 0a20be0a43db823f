/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* /proc and cgroups: of this process itself, and of files with anything in them. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_proc.h"
#include "../../lib/prng.h"

#include <fcntl.h>
#include <proc/proc_reader.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fake_proc fake;
static struct ky_proc_reader reader;
static struct ky_stuck_note note;

static int setup(void **state)
{
	(void)state;
	fake_proc_open(&fake, 4242);
	reader.dir = -1;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_proc_reader_close(&reader);
	fake_proc_close(&fake);
	return 0;
}

static void open_fake(void)
{
	ky_proc_reader_close(&reader);
	ky_proc_reader_open(&reader, fake.proc, fake.cgroup, 4242, 0);
}

/* The kernel's own files have the shape that we think they have. */
static void reading__reads_this_process(void **state)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid), file = 0;
	uint64_t cpu_ns, bytes, delay_ns;

	(void)state;
	ky_proc_reader_open(&reader, NULL, NULL, 0, 0);
	assert_true(ky_proc_reader_cpu(&reader, NULL, &cpu_ns));
	assert_true(ky_proc_reader_rss(&reader, NULL, &bytes));
	assert_in_range(bytes, 65536, UINT64_C(1) << 40);
	assert_int_equal(ky_proc_reader_life(&reader, NULL), KY_PROC_RUNS);
	assert_true(ky_proc_reader_run_delay(&reader, tid, &file, &delay_ns));
	assert_int_not_equal(file, 0);
	assert_int_equal(reader.sched_files, 1);
	assert_true(ky_proc_reader_run_delay(&reader, tid, &file, &delay_ns));
	ky_proc_reader_forget(&reader, &file);
	assert_int_equal(reader.sched_files, 0);
	assert_true(ky_proc_reader_thread(&reader, tid, &note));
	assert_int_equal(note.state, 'R');
	assert_int_equal(note.tid, tid);
	assert_false(ky_proc_reader_thread(&reader, UINT32_MAX, &note));
}

static void reading__recognises_a_missing_process(void **state)
{
	uint64_t value;
	uint32_t file = 0;

	(void)state;
	ky_proc_reader_open(&reader, NULL, NULL, UINT32_MAX, 0);
	assert_int_equal(ky_proc_reader_life(&reader, NULL), KY_PROC_GONE);
	assert_int_equal(ky_proc_reader_life(&reader, &file), KY_PROC_GONE);
	assert_false(ky_proc_reader_cpu(&reader, &file, &value));
	assert_int_equal(file, 0);
	ky_proc_reader_open(&reader, "/nowhere", NULL, 1, 0);
	assert_int_equal(ky_proc_reader_life(&reader, NULL), KY_PROC_UNKNOWN);
	assert_true(ky_proc_reader_thread(&reader, 1, &note));
	assert_int_equal(note.state, '?');
	assert_int_equal(note.syscall, -2);
}

/* A file that is kept says what is so now, of this process and no other. */
static void files__that_are_kept_are_opened_once(void **state)
{
	uint32_t stat = 0, statm = 0, first;
	uint64_t value;
	pid_t child;

	(void)state;
	open_fake();
	fake_proc_stat(&fake, 'S', 1000);
	assert_true(ky_proc_reader_cpu(&reader, &stat, &value));
	assert_int_equal(value, 1000000000);
	first = stat;
	fake_proc_stat(&fake, 'T', 3000);
	assert_true(ky_proc_reader_cpu(&reader, &stat, &value));
	assert_int_equal(value, 3000000000);
	assert_int_equal(ky_proc_reader_life(&reader, &stat), KY_PROC_STOPPED);
	assert_int_equal(stat, first);
	assert_true(ky_proc_reader_rss(&reader, &statm, &value));
	fake_proc_write(&fake, "statm", "1000 200 50 1 0 200 0\n");
	assert_true(ky_proc_reader_rss(&reader, &statm, &value));
	assert_int_equal(value, 200 * (uint64_t)sysconf(_SC_PAGESIZE));
	assert_int_not_equal(statm, stat);
	ky_proc_reader_drop(&stat);
	ky_proc_reader_drop(&statm);
	assert_int_equal(stat, 0);
	assert_int_equal(fcntl((int)first - 1, F_GETFD), -1);
	ky_proc_reader_close(&reader);

	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		alarm(60);
		for (;;)
			pause();
	}
	ky_proc_reader_open(&reader, NULL, NULL, (uint32_t)child, 0);
	assert_int_equal(ky_proc_reader_life(&reader, &stat), KY_PROC_RUNS);
	assert_true(ky_proc_reader_rss(&reader, &statm, &value));
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(ky_proc_reader_life(&reader, &stat), KY_PROC_GONE);
	assert_false(ky_proc_reader_cpu(&reader, &stat, &value));
	assert_int_not_equal(stat, 0);
	ky_proc_reader_drop(&stat);
	ky_proc_reader_drop(&statm);
}

static void life__follows_the_state(void **state)
{
	static const struct {
		char state;
		enum ky_proc_life life;
	} cases[] = {{'R', KY_PROC_RUNS},    {'S', KY_PROC_RUNS},    {'D', KY_PROC_RUNS},
		     {'T', KY_PROC_STOPPED}, {'t', KY_PROC_STOPPED}, {'Z', KY_PROC_RUNS}};

	(void)state;
	open_fake();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		fake_proc_stat(&fake, cases[i].state, 0); /* of 9 threads */
		assert_int_equal(ky_proc_reader_life(&reader, NULL), cases[i].life);
	}
	fake_proc_write(&fake, "stat", "1 (x) Z 1 1 1 0 -1 0 1 0 0 0 1 1 0 0 20 0 1 0 777 1\n");
	assert_int_equal(ky_proc_reader_life(&reader, NULL), KY_PROC_GONE);
	fake_proc_remove(&fake, "stat");
	assert_int_equal(ky_proc_reader_life(&reader, NULL), KY_PROC_GONE);
}

static void thread__counts_of_the_kernel(void **state)
{
	struct ky_thread_cpu cpu;

	(void)state;
	open_fake();
	assert_false(ky_proc_reader_counts(&reader, 7, &cpu));
	fake_proc_thread(&fake, 7, 'S', "running", "0");
	fake_proc_write(&fake, "task/7/schedstat", "123456789 4321 99\n");
	fake_proc_write(&fake, "task/7/status", "Name:\tx\nState:\tS\n");
	assert_true(ky_proc_reader_counts(&reader, 7, &cpu));
	assert_int_equal(cpu.tid, 7);
	assert_int_equal(cpu.cpu_ns, 123456789);
	assert_int_equal(cpu.run_delay_ns, 4321);
	assert_false(cpu.has_switches);
	fake_proc_write(&fake, "task/7/status",
			"Name:\tx\nvoluntary_ctxt_switches:\t12\n"
			"nonvoluntary_ctxt_switches:\t3\n");
	assert_true(ky_proc_reader_counts(&reader, 7, &cpu));
	assert_true(cpu.has_switches);
	assert_int_equal(cpu.voluntary, 12);
	assert_int_equal(cpu.involuntary, 3);
	fake_proc_write(&fake, "task/7/schedstat", "-\n");
	assert_false(ky_proc_reader_counts(&reader, 7, &cpu));
}

static void thread__reports_counters_or_that_there_are_none(void **state)
{
	static const char *const others[] = {"-\n", "", "12", "12 ", "12\n34"};

	(void)state;
	open_fake();
	fake_proc_thread(&fake, 7, 'R', "running", "0");
	assert_true(ky_proc_reader_thread(&reader, 7, &note));
	assert_false(note.has_counts);
	fake_proc_write(&fake, "task/7/schedstat", "123456789 4321 99\n");
	assert_true(ky_proc_reader_thread(&reader, 7, &note));
	assert_true(note.has_counts);
	assert_int_equal(note.cpu_ns, 123456789);
	assert_int_equal(note.run_delay_ns, 4321);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		fake_proc_write(&fake, "task/7/schedstat", "%s", others[i]);
		assert_true(ky_proc_reader_thread(&reader, 7, &note));
		assert_false(note.has_counts);
		assert_int_equal(note.cpu_ns + note.run_delay_ns, 0);
	}
}

static void thread__that_ran_on_is_not_still(void **state)
{
	static const char *const others[] = {"running", "202 0x3 0x7ffc18 0x401020",
					     "202 0x3 0x7ffc10 0x401030", "0 0x3 0x7ffc10 0x401020",
					     ""};

	(void)state;
	open_fake();
	fake_proc_thread(&fake, 7, 'S', "202 0x3 0x7ffc10 0x401020", "do_wait");
	assert_true(ky_proc_reader_thread(&reader, 7, &note));
	assert_int_equal(note.frame_count, 0);
	assert_true(ky_proc_reader_stands(&reader, 7, &note));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		fake_proc_thread(&fake, 7, 'S', others[i], "do_wait");
		assert_false(ky_proc_reader_stands(&reader, 7, &note));
	}
	/* Of a thread that runs nothing is known. */
	fake_proc_thread(&fake, 7, 'R', "running", "0");
	assert_true(ky_proc_reader_thread(&reader, 7, &note));
	assert_false(ky_proc_reader_stands(&reader, 7, &note));
}

static void thread__every_shape_of_syscall(void **state)
{
	static const struct {
		const char *text;
		int32_t syscall;
		uint64_t sp, pc;
	} cases[] = {
		{"running", -1, 0, 0},
		{"-1 0x7ffc10 0x401020", -1, 0x7ffc10, 0x401020},
		{"0 0x3 0x7f 0x1 0x0 0x0 0x0 0x7ffc10 0x401020", 0, 0x7ffc10, 0x401020},
		{"202 0x3 0x7f 0x1 0x0 0x0 0x0 0xffffffffffffffff 0x1", 202, UINT64_MAX, 1},
		{"", -1, 0, 0},
		{"99999999999 0x1 0x2", -1, 0, 0},
	};

	(void)state;
	open_fake();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		fake_proc_thread(&fake, 7, 'S', cases[i].text, "do_wait");
		assert_true(ky_proc_reader_thread(&reader, 7, &note));
		assert_int_equal(note.syscall, cases[i].syscall);
		assert_int_equal(note.sp, cases[i].sp);
		assert_int_equal(note.pc, cases[i].pc);
		assert_string_equal(note.wchan, "do_wait");
	}
	fake_proc_thread(&fake, 7, 'S', "running",
			 "a_wait_channel_whose_name_is_longer_than_there_is_room");
	ky_proc_reader_thread(&reader, 7, &note);
	assert_string_equal(note.wchan, "a_wait_channel_whose_name_is_lo");
	fake_proc_thread(&fake, 7, 'S', "running", "a\nb");
	ky_proc_reader_thread(&reader, 7, &note);
	assert_string_equal(note.wchan, "a");
	assert_false(ky_proc_reader_thread(&reader, 8, &note));
}

static void cgroup__paths_that_lead_nowhere(void **state)
{
	uint64_t ns[KY_CGROUP_LEVELS];

	(void)state;
	fake_proc_write(&fake, "/a/cpu.stat", "throttled_usec 7\n");
	fake_proc_write(&fake, "cgroup", "0::/../a\n");
	open_fake();
	assert_int_equal(reader.cgroup.levels, 0);
	assert_false(ky_proc_reader_throttled(&reader, ns));
	fake_proc_write(&fake, "cgroup", "garbage\n:\n::\n0::\n0:cpux:/a\n0::/a/b/c\n");
	open_fake();
	assert_int_equal(reader.cgroup.levels, 1);
	assert_true(ky_proc_reader_throttled(&reader, ns));
	assert_int_equal(ns[0], 7000);
	/* In a container, the root of the mount is the container. */
	fake_proc_write(&fake, "/cpu.stat", "throttled_usec 9\n");
	fake_proc_write(&fake, "cgroup", "0::/\n");
	open_fake();
	assert_true(ky_proc_reader_throttled(&reader, ns));
	assert_int_equal(ns[0], 9000);
	/* So it is above what is in it, and nothing of a path that the mount does not show. */
	fake_proc_write(&fake, "cgroup", "0::/a/b\n");
	open_fake();
	assert_int_equal(reader.cgroup.levels, 2);
	assert_int_equal(reader.cgroup.up[1], 2);
	assert_true(ky_proc_reader_throttled(&reader, ns));
	assert_int_equal(ns[0], 7000);
	assert_int_equal(ns[1], 9000);
	fake_proc_write(&fake, "cgroup", "0::/elsewhere\n");
	open_fake();
	assert_int_equal(reader.cgroup.levels, 0);
	/* Beside version 1. */
	fake_proc_write(&fake, "/unified/u/cpu.stat", "throttled_usec 11\n");
	fake_proc_write(&fake, "cgroup", "3:memory:/m\n0::/u\n");
	open_fake();
	assert_true(ky_proc_reader_throttled(&reader, ns));
	assert_int_equal(ns[0], 11000);
}

/* Files of random text: nothing is written beyond what is there. The sanitizers watch. */
static void reading__survives_any_text(void **state)
{
	static const char *const files[] = {
		"stat",           "statm",        "cgroup",          "task/7/stat",
		"task/7/syscall", "task/7/wchan", "task/7/schedstat"};
	static const char letters[] = "0123456789-x:/,() \n\tTZ.cpu";
	struct test_prng prng = {11};
	uint64_t value, ns[KY_CGROUP_LEVELS];
	char text[200];

	(void)state;
	for (int round = 0; round < 2000; round++) {
		uint32_t count = test_below(&prng, sizeof(text) - 1), file = 0;

		for (uint32_t i = 0; i < count; i++)
			text[i] = letters[test_below(&prng, sizeof(letters) - 1)];
		text[count] = 0;
		fake_proc_write(&fake, files[test_below(&prng, 7)], "%s", text);
		open_fake();
		ky_proc_reader_cpu(&reader, NULL, &value);
		ky_proc_reader_rss(&reader, NULL, &value);
		ky_proc_reader_life(&reader, NULL);
		ky_proc_reader_thread(&reader, 7, &note);
		assert_true(memchr(note.wchan, 0, sizeof(note.wchan)) != NULL);
		ky_proc_reader_throttled(&reader, ns);
		ky_proc_reader_run_delay(&reader, 7, &file, &value);
		ky_proc_reader_forget(&reader, &file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reading__reads_this_process, setup, teardown),
		cmocka_unit_test_setup_teardown(reading__recognises_a_missing_process, setup,
						teardown),
		cmocka_unit_test_setup_teardown(files__that_are_kept_are_opened_once, setup,
						teardown),
		cmocka_unit_test_setup_teardown(life__follows_the_state, setup, teardown),
		cmocka_unit_test_setup_teardown(thread__every_shape_of_syscall, setup, teardown),
		cmocka_unit_test_setup_teardown(thread__counts_of_the_kernel, setup, teardown),
		cmocka_unit_test_setup_teardown(thread__reports_counters_or_that_there_are_none,
						setup, teardown),
		cmocka_unit_test_setup_teardown(thread__that_ran_on_is_not_still, setup, teardown),
		cmocka_unit_test_setup_teardown(cgroup__paths_that_lead_nowhere, setup, teardown),
		cmocka_unit_test_setup_teardown(reading__survives_any_text, setup, teardown),
	};

	return cmocka_run_group_tests_name("proc_reader", tests, NULL, NULL);
}
