/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/ring_builder.h"

#include <base/gnu.h>

#include <agent/ring_dump.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lib/temp_tree.h"

#define SLOTS 8u
#define NS UINT64_C(2000000000)
#define OTHERS 64 /* exit status of a child that could not dump */

static struct test_ring ring;
static char folder[64], path[128];

static int open_ring(void **state)
{
	struct test_writer writer;

	(void)state;
	test_ring_open(&ring, SLOTS);
	test_writer_open(&writer, &ring, 101, NS);
	test_poll(&writer, NS + 10, 1, 0);
	test_poll_end(&writer, NS + 20, 0);
	if (temp_tree_make(folder, sizeof(folder)) != 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/a.trc.zst", folder);
	return 0;
}

static int close_ring(void **state)
{
	(void)state;
	test_ring_close(&ring);
	return temp_tree_remove(folder);
}

/* A thread cannot take back what it gave away: a process of its own. Returns by how much its nice
 * value grew. */
static int growth(bool gives_way)
{
	struct ky_open_ring open = {.fd = -1, .image = ring.image, .image_bytes = ring.image_bytes};
	static struct ky_ring_dump dump;
	bool is_file_trouble;
	struct stat about;
	int status = 0;
	pid_t child;

	dump.ring = &open;
	dump.path = path;
	dump.gives_way = gives_way;
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		int before = getpriority(PRIO_PROCESS, 0), err;

		ky_stage_zstd(&dump.stage, 1);
		dump.cut.is_dead = true;
		err = ky_ring_dump(&dump, &is_file_trouble);
		_exit(err ? OTHERS : getpriority(PRIO_PROCESS, 0) - before);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(stat(path, &about), 0);
	return WEXITSTATUS(status);
}

static void ring_dump__gives_way_when_it_is_asked_to(void **state)
{
	int most = 19 - getpriority(PRIO_PROCESS, 0);

	(void)state;
	assert_int_equal(growth(true), most < 10 ? most : 10);
}

static void ring_dump__keeps_its_place_otherwise(void **state)
{
	(void)state;
	assert_int_equal(growth(false), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_ring, close_ring)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ring_dump__gives_way_when_it_is_asked_to),
		TEST(ring_dump__keeps_its_place_otherwise),
	};

	return cmocka_run_group_tests_name("ring_dump", tests, NULL, NULL);
}
