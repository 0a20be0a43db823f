/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Control groups of both versions, in a /proc and a mount of the test's own. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <proc/cgroup_files.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct fake_proc fake;
static struct ky_cgroup cgroup;

static int setup(void **state)
{
	(void)state;
	fake_proc_open(&fake, 4242);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_proc_close(&fake);
	return 0;
}

/* Folders that have what is searched; of the first version, in a file of its own. */
static bool has_limit(const char *path, bool is_v1)
{
	char text[32];

	return ky_cgroup_read(path, is_v1 ? "limit_v1" : "limit", text, sizeof(text)) >= 0;
}

/* What /proc/PID/cgroup says, and what comes of it. */
static uint32_t find(const char *controller, const char *text)
{
	char path[128];
	int dir;

	fake_proc_write(&fake, "cgroup", "%s", text);
	(void)snprintf(path, sizeof(path), "%s/%u", fake.proc, fake.pid);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(dir >= 0);
	ky_cgroup_find(&cgroup, dir, fake.cgroup, controller, has_limit);
	close(dir);
	return cgroup.levels;
}

static void assert_level(uint32_t level, const char *below, uint32_t up)
{
	assert_int_equal(strncmp(cgroup.path[level], fake.cgroup, strlen(fake.cgroup)), 0);
	assert_string_equal(cgroup.path[level] + strlen(fake.cgroup), below);
	assert_int_equal(cgroup.up[level], up);
}

static void unified__levels_go_up_to_the_mount(void **state)
{
	(void)state;
	fake_proc_write(&fake, "/a/b/c/limit", "1\n");
	fake_proc_write(&fake, "/a/limit", "1\n"); /* none in b */
	fake_proc_write(&fake, "/limit", "1\n");
	assert_int_equal(find("cpu", "0::/a/b/c\n"), 3);
	assert_false(cgroup.is_v1);
	assert_level(0, "/a/b/c", 0);
	assert_level(1, "/a", 2);
	assert_level(2, "", 3);
	assert_string_equal(cgroup.name, "/a/b/c");
}

/* Each controller has a hierarchy, and a path in it, of its own. */
static void first_version__each_controller_has_its_own_path(void **state)
{
	const char *text = "12:memory:/m\n4:cpu,cpuacct:/c/d\n1:name=systemd:/s\n";

	(void)state;
	fake_proc_write(&fake, "/memory/m/limit_v1", "1\n");
	fake_proc_write(&fake, "/cpu/c/d/limit_v1", "1\n");
	fake_proc_write(&fake, "/cpu/c/limit_v1", "1\n");
	assert_int_equal(find("memory", text), 1);
	assert_true(cgroup.is_v1);
	assert_level(0, "/memory/m", 0);
	assert_string_equal(cgroup.name, "/m");
	assert_int_equal(find("cpu", text), 2);
	assert_level(0, "/cpu/c/d", 0);
	assert_level(1, "/cpu/c", 1);
	assert_string_equal(cgroup.name, "/c/d");
}

/* Without the link that most machines have. */
static void first_version__cpu_may_be_mounted_with_its_sibling(void **state)
{
	(void)state;
	fake_proc_write(&fake, "/cpu,cpuacct/c/limit_v1", "1\n");
	assert_int_equal(find("cpu", "4:cpu,cpuacct:/c\n"), 1);
	assert_level(0, "/cpu,cpuacct/c", 0);
	assert_true(cgroup.is_v1);
}

/* A container's own group is the root that it sees, whatever the host's path says. */
static void first_version__root_is_the_group_where_the_path_leads_nowhere(void **state)
{
	(void)state;
	fake_proc_write(&fake, "/memory/limit_v1", "1\n");
	assert_int_equal(find("memory", "7:memory:/docker/0123\n"), 1);
	assert_level(0, "/memory", 2);
	assert_string_equal(cgroup.name, "/docker/0123");
	/* With the other version such a root is another's. */
	fake_proc_write(&fake, "/limit", "1\n");
	assert_int_equal(find("memory", "0::/docker/0123\n"), 0);
	assert_string_equal(cgroup.name, "");
}

/* Both at once: the controllers that the first one has are not in the second. */
static void both__first_line_that_leads_somewhere_counts(void **state)
{
	(void)state;
	fake_proc_write(&fake, "/memory/m/limit_v1", "1\n");
	fake_proc_write(&fake, "/unified/u/limit", "1\n");
	assert_int_equal(find("memory", "7:memory:/m\n0::/u\n"), 1);
	assert_true(cgroup.is_v1);
	assert_level(0, "/memory/m", 0);
	assert_int_equal(find("cpu", "7:memory:/m\n0::/u\n"), 1);
	assert_false(cgroup.is_v1);
	assert_level(0, "/unified/u", 0);
}

static void names__are_whole_words(void **state)
{
	(void)state;
	fake_proc_write(&fake, "/cpu/c/limit_v1", "1\n");
	assert_int_equal(find("cpu", "3:cpuset:/c\n"), 0);
	assert_int_equal(find("cpu", "3:cpuacct,cpuset:/c\n"), 0);
	assert_int_equal(find("cpu", "3:cpuset,cpu:/c\n"), 1);
	assert_int_equal(find("cpu", "3::cpu:/c\n"), 0);
}

/* Twelve levels are kept, from the process's own on. */
static void levels__beyond_the_limit_are_left_out(void **state)
{
	char line[128] = "0::", path[256];

	(void)state;
	for (uint32_t i = 0; i < KY_CGROUP_LEVELS + 3; i++) {
		(void)snprintf(line + strlen(line), sizeof(line) - strlen(line), "/%c",
			       'a' + (int)i);
		(void)snprintf(path, sizeof(path), "%s/limit", line + 3);
		fake_proc_write(&fake, path, "1\n");
	}
	fake_proc_write(&fake, "/limit", "1\n");
	assert_int_equal(find("cpu", line), KY_CGROUP_LEVELS);
	assert_level(0, line + 3, 0);
	assert_int_equal(cgroup.up[KY_CGROUP_LEVELS - 1], KY_CGROUP_LEVELS - 1);
}

/* As "..": of a namespace beside ours. */
static void path__out_of_our_namespace_leads_nowhere(void **state)
{
	(void)state;
	fake_proc_write(&fake, "/limit", "1\n");
	assert_int_equal(find("cpu", "0::/../../other\n"), 0);
	assert_int_equal(find("cpu", "0::/\n"), 1);
	assert_level(0, "", 0);
}

static void number__follows_a_key_that_begins_a_line(void **state)
{
	const char *text = "nr_periods 12\nthrottled_usec 345\nusage 9\n";
	uint64_t value = 0;

	(void)state;
	assert_true(ky_proc_number(text, "throttled_usec", &value));
	assert_int_equal(value, 345);
	assert_false(ky_proc_number(text, "periods", &value));
	assert_false(ky_proc_number(text, "throttled", &value));
	assert_true(ky_proc_number("a\tb\nVmRSS:\t  77 kB\n", "VmRSS:", &value));
	assert_int_equal(value, 77);
	assert_true(ky_proc_number("cpu1 5\ncpu 8\n", "cpu", &value));
	assert_int_equal(value, 8);
	assert_false(ky_proc_number("limit max\n", "limit", &value));
	assert_int_equal(value, 8);
	assert_false(ky_proc_number("", "limit", &value));
}

static void file__is_cut_at_the_room_there_is(void **state)
{
	char text[8], path[KY_CGROUP_PATH_BYTES];

	(void)state;
	fake_proc_write(&fake, "/limit", "123456789\n");
	assert_int_equal(ky_cgroup_read(fake.cgroup, "limit", text, sizeof(text)), 7);
	assert_string_equal(text, "1234567");
	assert_int_equal(ky_cgroup_read(fake.cgroup, "none", text, sizeof(text)), -ENOENT);
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(ky_cgroup_read(path,
					"012345678901234567890123456789012345678901234567890"
					"123456789012345",
					text, sizeof(text)),
			 -ENAMETOOLONG);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(unified__levels_go_up_to_the_mount),
		CASE(first_version__each_controller_has_its_own_path),
		CASE(first_version__cpu_may_be_mounted_with_its_sibling),
		CASE(first_version__root_is_the_group_where_the_path_leads_nowhere),
		CASE(both__first_line_that_leads_somewhere_counts),
		CASE(names__are_whole_words),
		CASE(levels__beyond_the_limit_are_left_out),
		CASE(path__out_of_our_namespace_leads_nowhere),
		CASE(number__follows_a_key_that_begins_a_line),
		CASE(file__is_cut_at_the_room_there_is),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
