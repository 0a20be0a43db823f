/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the kernel's log and /proc/PID/cgroup say, line by line; kills for real are in test_oom.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <watch/oom_watch.h>
#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static void log__names_the_process_killed_for_memory(void **state)
{
	uint64_t ns = 0;
	uint32_t uid = 0;

	(void)state;
	assert_int_equal(
		ky_oom_parse_record("3,900,22085097876,-;Memory cgroup out of memory: Killed "
				    "process 4711 (a b) total-vm:1kB, anon-rss:1kB, "
				    "file-rss:0kB, shmem-rss:0kB, UID:10001 pgtables:1kB",
				    &ns, &uid),
		4711);
	assert_int_equal(ns, 22085097876000);
	assert_int_equal(uid, 10001);
	assert_int_equal(ky_oom_parse_record("3,1,5,-;Out of memory: Killed process 12, UID 0, (x)",
					     &ns, &uid),
			 12);
	assert_int_equal(uid, UINT32_MAX);
}

static void log__other_records_name_no_process(void **state)
{
	static const char *const records[] = {
		"",
		"3",
		"3,1",
		"3,1,2,-",
		";",
		"3;Out of memory: Killed process 12 (x)",
		"6,1,2,-;oom_reaper: reaped process 12 (x), now anon-rss:0kB",
		"6,1,2,-;Killed process 12 (x)",
		"6,1,2,-;Out of memory: Killed process",
		"6,1,2,-;Out of memory: Killed process 99999999999999999999 (x)",
		/* user space wrote it: facility 1 */
		"12,1,2,-;Out of memory: Killed process 12 (x)",
		"6,1,2,-;a[3]: Out of memory: Killed process 12 (x)",
	};
	uint64_t ns;
	uint32_t uid;

	(void)state;
	for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
		assert_int_equal(ky_oom_parse_record(records[i], &ns, &uid), 0);
}

static void cgroup__both_versions_have_a_counter(void **state)
{
	char path[128];

	(void)state;
	assert_true(ky_oom_parse_cgroup("0::/a.slice/b\n", path, sizeof(path)));
	assert_string_equal(path, "/sys/fs/cgroup/a.slice/b/memory.events.local");
	assert_true(ky_oom_parse_cgroup("4:memory:/x\n", path, sizeof(path)));
	assert_string_equal(path, "/sys/fs/cgroup/memory/x/memory.oom_control");
	assert_false(ky_oom_parse_cgroup("3:cpuset:/x\n", path, sizeof(path)));
	assert_false(ky_oom_parse_cgroup("nothing", path, sizeof(path)));
	assert_false(ky_oom_parse_cgroup("0::/much/too/long\n", path, 20));
}

static void judge__claims_nothing_without_a_sign(void **state)
{
	struct ky_oom_watch watch;

	(void)state;
	ky_oom_watch_open(&watch);
	ky_oom_watch_child(&watch, (uint32_t)getpid());
	ky_oom_watch_check(&watch);
	assert_int_equal(ky_oom_watch_judge(&watch, 0), KY_OOM_NONE);
	assert_int_equal(ky_oom_watch_judge(&watch, SIGTERM), KY_OOM_NONE);
	assert_int_equal(ky_oom_watch_judge(&watch, SIGKILL), KY_OOM_NONE);
	ky_oom_watch_close(&watch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(log__names_the_process_killed_for_memory),
		cmocka_unit_test(log__other_records_name_no_process),
		cmocka_unit_test(cgroup__both_versions_have_a_counter),
		cmocka_unit_test(judge__claims_nothing_without_a_sign),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
