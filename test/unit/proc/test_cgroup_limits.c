/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_proc.h"
#include <proc/cgroup_limits.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PID 4711u

static struct fake_proc fake;

static int open_proc(void **state)
{
	(void)state;
	fake_proc_open(&fake, PID);
	return 0;
}

static int close_proc(void **state)
{
	(void)state;
	fake_proc_close(&fake);
	return 0;
}

static struct ky_cgroup_limits limits;

static void find(void)
{
	char path[120];
	int dir;

	snprintf(path, sizeof(path), "%s/%u", fake.proc, PID);
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	ky_cgroup_limits_find(&limits, dir, fake.cgroup);
	close(dir);
}

static void assert_limit(const struct ky_cgroup_limit *limit, uint64_t value, const char *file)
{
	assert_true(limit->has_group && limit->is_limited);
	assert_int_equal(limit->value, value);
	assert_memory_equal(limit->file, fake.cgroup, strlen(fake.cgroup));
	assert_string_equal(limit->file + strlen(fake.cgroup), file);
}

static void limits__are_the_smallest_on_the_way_to_the_root(void **state)
{
	(void)state;
	fake_proc_write(&fake, "cgroup", "0::/a/b/c\n");
	fake_proc_write(&fake, "/a/b/c/memory.max", "8000000\n");
	fake_proc_write(&fake, "/a/b/c/memory.high", "max\n");
	fake_proc_write(&fake, "/a/b/c/cpu.max", "max 100000\n");
	fake_proc_write(&fake, "/a/b/memory.max", "max\n");
	fake_proc_write(&fake, "/a/b/cpu.max", "150000 100000\n");
	fake_proc_write(&fake, "/a/memory.max", "4000000\n");
	fake_proc_write(&fake, "/a/cpu.max", "400000 100000\n");
	find();
	assert_limit(&limits.memory, 4000000, "/a/memory.max");
	assert_limit(&limits.cpu, 1500, "/a/b/cpu.max");
	assert_false(limits.memory.is_v1 || limits.cpu.is_v1);
	fake_proc_write(&fake, "/a/b/memory.high", "3000000\n"); /* it holds one back, too */
	find();
	assert_limit(&limits.memory, 3000000, "/a/b/memory.high");
}

static void limits__of_a_group_without_the_controller_are_its_parents(void **state)
{
	(void)state;
	fake_proc_write(&fake, "cgroup", "0::/a/b\n");
	fake_proc_write(&fake, "/a/b/cgroup.procs", "1\n");
	fake_proc_write(&fake, "/a/memory.max", "4000000\n");
	find();
	assert_limit(&limits.memory, 4000000, "/a/memory.max");
	assert_false(limits.cpu.has_group);
}

/* The root that a container sees is a group of the machine, and has limits. */
static void limits__of_a_container_stand_at_the_root_of_its_mount(void **state)
{
	(void)state;
	fake_proc_write(&fake, "cgroup", "0::/\n");
	fake_proc_write(&fake, "/memory.max", "64000000\n");
	fake_proc_write(&fake, "/cpu.max", "50000 100000\n");
	find();
	assert_limit(&limits.memory, 64000000, "/memory.max");
	assert_limit(&limits.cpu, 500, "/cpu.max");
	fake_proc_write(&fake, "cgroup", "0::/init\n");
	fake_proc_write(&fake, "/init/memory.max", "max\n");
	fake_proc_write(&fake, "/init/cpu.max", "max 100000\n");
	find();
	assert_limit(&limits.memory, 64000000, "/memory.max");
	assert_limit(&limits.cpu, 500, "/cpu.max");
}

static void limits__of_version_1_are_read_from_both_hierarchies(void **state)
{
	(void)state;
	fake_proc_write(&fake, "cgroup", "5:memory:/m/n\n4:cpu,cpuacct:/c/d\n0::/none\n");
	fake_proc_write(&fake, "/memory/memory.limit_in_bytes", "9223372036854771712\n");
	fake_proc_write(&fake, "/memory/m/memory.limit_in_bytes", "5000000\n");
	fake_proc_write(&fake, "/memory/m/n/memory.limit_in_bytes", "9223372036854771712\n");
	fake_proc_write(&fake, "/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
	fake_proc_write(&fake, "/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	fake_proc_write(&fake, "/cpu,cpuacct/c/cpu.cfs_quota_us", "50000\n");
	fake_proc_write(&fake, "/cpu,cpuacct/c/cpu.cfs_period_us", "200000\n");
	fake_proc_write(&fake, "/cpu,cpuacct/c/d/cpu.cfs_quota_us", "100000\n");
	fake_proc_write(&fake, "/cpu,cpuacct/c/d/cpu.cfs_period_us", "100000\n");
	find();
	assert_true(limits.memory.is_v1 && limits.cpu.is_v1);
	assert_limit(&limits.memory, 5000000, "/memory/m/memory.limit_in_bytes");
	assert_limit(&limits.cpu, 250, "/cpu,cpuacct/c/cpu.cfs_quota_us");
}

/* The paths are the host's, and the mount shows the container's own group as its root. */
static void limits__of_version_1_in_a_container(void **state)
{
	(void)state;
	fake_proc_write(&fake, "cgroup", "5:memory:/docker/x\n4:cpu:/docker/x\n");
	fake_proc_write(&fake, "/memory/memory.limit_in_bytes", "5000000\n");
	fake_proc_write(&fake, "/cpu/cpu.cfs_quota_us", "-1\n");
	find();
	assert_limit(&limits.memory, 5000000, "/memory/memory.limit_in_bytes");
	assert_true(limits.cpu.has_group);
	assert_false(limits.cpu.is_limited);
}

static void limits__that_make_no_sense_are_none(void **state)
{
	(void)state;
	find(); /* no file says which group it is in */
	assert_false(limits.memory.has_group || limits.cpu.has_group);
	fake_proc_write(&fake, "cgroup", "0::/../x\n");
	find();
	assert_false(limits.memory.has_group || limits.cpu.has_group);
	fake_proc_write(&fake, "cgroup", "0::/a\n");
	fake_proc_write(&fake, "/a/memory.max", "many\n");
	fake_proc_write(&fake, "/a/cpu.max", "100000 0\n");
	find();
	assert_true(limits.memory.has_group && limits.cpu.has_group);
	assert_false(limits.memory.is_limited || limits.cpu.is_limited);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_proc, close_proc)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(limits__are_the_smallest_on_the_way_to_the_root),
		TEST(limits__of_a_group_without_the_controller_are_its_parents),
		TEST(limits__of_a_container_stand_at_the_root_of_its_mount),
		TEST(limits__of_version_1_are_read_from_both_hierarchies),
		TEST(limits__of_version_1_in_a_container),
		TEST(limits__that_make_no_sense_are_none),
	};

	return cmocka_run_group_tests_name("cgroup_limits", tests, NULL, NULL);
}
