/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include "../../lib/ring_builder.h"

#include <base/alloc.h>
#include <base/now.h>
#include <ring/ring_finder.h>
#include <ring/ring_process.h>
#include <proc/run_process.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 4u
#define GONE_PID 4194303u /* larger than any pid there is by default */

static char directory[] = "/tmp/kymo-finder-XXXXXX";
static struct test_ring built;

static int make_directory(void **state)
{
	(void)state;
	memcpy(directory + sizeof(directory) - 7, "XXXXXX", 6);
	return mkdtemp(directory) == NULL;
}

static int empty_directory(void **state)
{
	char command[sizeof(directory) + 64];
	pid_t pid = fork();

	(void)state;
	snprintf(command, sizeof(command), "chmod 700 '%s'; rm -rf '%s'", directory, directory);
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, NULL, 0) != pid;
}

static void path_of(char *out, size_t out_bytes, const char *name)
{
	snprintf(out, out_bytes, "%s/%s", directory, name);
}

static void write_file(const char *name, const void *bytes, size_t byte_count)
{
	char path[128];
	int fd;

	path_of(path, sizeof(path), name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, byte_count), byte_count);
	close(fd);
}

/* A ring of this boot and this pid namespace, as a process would have left it. */
static void build(uint32_t pid, uint64_t start_ticks, const char *service)
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY);

	test_ring_open(&built, SLOTS);
	assert_int_equal(read(fd, built.header->boot_id, 36), 36);
	close(fd);
	built.header->pid = pid;
	built.header->uid = (uint32_t)geteuid();
	built.header->start_time_ticks = start_ticks;
	built.header->pid_namespace = ky_run_process_namespace();
	snprintf(built.header->service, sizeof(built.header->service), "%s", service);
}

static void plant(const char *name)
{
	write_file(name, built.image, built.image_bytes);
	test_ring_close(&built);
}

static uint64_t own_start(void)
{
	char text[1024], *at;
	int fd = open("/proc/self/stat", O_RDONLY), field;
	ssize_t bytes = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	at = strrchr(text, ')');
	for (field = 2; field < 22; field++)
		at = strchr(at + 1, ' ');
	return strtoull(at, NULL, 10);
}

static void find(struct ky_found_rings *out, uint32_t pid)
{
	const struct ky_ring_query query = {.ring_directory = directory, .pid = pid};

	assert_int_equal(ky_ring_find(out, &query), 0);
}

static const struct ky_found_ring *named(const struct ky_found_rings *rings, const char *name)
{
	uint32_t i;

	for (i = 0; i < rings->count; i++)
		if (strcmp(strrchr(rings->rings[i].path, '/') + 1, name) == 0)
			return &rings->rings[i];
	return NULL;
}

static void assert_trouble(const struct ky_found_rings *rings, const char *name, int error,
			   const char *text)
{
	const struct ky_found_ring *ring = named(rings, name);

	assert_non_null(ring);
	assert_int_equal(ring->state, KY_FOUND_TROUBLE);
	assert_int_equal(ring->error, error);
	assert_non_null(strstr(ring->why, text));
	assert_non_null(strstr(ring->why, name));
}

static void ring_finder__alive_dead_and_closed_are_distinguished(void **state)
{
	struct ky_found_rings rings;

	(void)state;
	build((uint32_t)getpid(), own_start(), "mine");
	plant("a.ring");
	build((uint32_t)getpid(), own_start() + 1, "reused");
	plant("b.ring");
	build(GONE_PID, 7, "gone");
	plant("c.ring");
	build(GONE_PID, 8, "tidy");
	atomic_store(&built.header->state, KY_RING_CLOSED);
	plant("d.ring");
	build((uint32_t)getpid(), own_start(), "before");
	built.header->boot_id[0] ^= 1;
	plant("e.ring");
	find(&rings, 0);
	assert_int_equal(rings.count, 5);
	assert_int_equal(named(&rings, "a.ring")->state, KY_FOUND_ALIVE);
	assert_int_equal(named(&rings, "b.ring")->state, KY_FOUND_DEAD);
	assert_int_equal(named(&rings, "c.ring")->state, KY_FOUND_DEAD);
	assert_int_equal(named(&rings, "d.ring")->state, KY_FOUND_CLOSED);
	assert_int_equal(named(&rings, "e.ring")->state, KY_FOUND_DEAD);
	assert_true(named(&rings, "e.ring")->is_other_boot);
	assert_string_equal(named(&rings, "c.ring")->service, "gone");
	assert_int_equal(named(&rings, "a.ring")->ring_bytes, SLOTS * KY_SLOT_BYTES);
	ky_found_rings_release(&rings);
}

static void ring_finder__hostile_files_cost_a_sentence_each_and_no_other_ring(void **state)
{
	static const char text[] = "this is no ring at all, but as long as one would be .....";
	struct ky_found_rings rings;
	char path[128];

	(void)state;
	build((uint32_t)getpid(), own_start(), "good");
	plant("good.ring");
	path_of(path, sizeof(path), "link.ring");
	assert_int_equal(symlink("good.ring", path), 0);
	path_of(path, sizeof(path), "pipe.ring");
	assert_int_equal(mkfifo(path, 0600), 0);
	path_of(path, sizeof(path), "folder.ring");
	assert_int_equal(mkdir(path, 0700), 0);
	write_file("text.ring", text, sizeof(text));
	write_file("short.ring", "KYMO", 4);
	build(1, 1, "old");
	built.header->version = KY_RING_VERSION + 1;
	plant("version.ring");
	build(1, 1, "odd");
	built.header->slots_offset = UINT64_MAX;
	plant("offset.ring");
	build(1, 1, "cut");
	write_file("cut.ring", built.image, sizeof(struct ky_ring_header) - 1);
	write_file("early.ring", built.image, 4096);
	test_ring_close(&built);
	build(1, 1, "huge");
	plant("huge.ring");
	path_of(path, sizeof(path), "huge.ring");
	assert_int_equal(truncate(path, (off_t)6 << 30), 0);
	find(&rings, 0);
	assert_int_equal(named(&rings, "good.ring")->state, KY_FOUND_ALIVE);
	assert_trouble(&rings, "link.ring", -ELOOP, "symbolic link");
	assert_trouble(&rings, "pipe.ring", -EINVAL, "regular file");
	assert_trouble(&rings, "folder.ring", -EINVAL, "regular file");
	assert_trouble(&rings, "text.ring", KYMO_E_NOT_TRACE, "does not begin");
	assert_trouble(&rings, "short.ring", KYMO_E_TRUNCATED, "at byte 4");
	assert_trouble(&rings, "version.ring", KYMO_E_VERSION, "version 2");
	assert_trouble(&rings, "offset.ring", KYMO_E_CORRUPT, "contradicts");
	assert_trouble(&rings, "cut.ring", KYMO_E_TRUNCATED, "inside its header");
	assert_trouble(&rings, "early.ring", KYMO_E_TRUNCATED, "truncated at byte 4096");
	assert_trouble(&rings, "huge.ring", KYMO_E_LIMIT, "longer");
	assert_int_equal(rings.count, 11);
	ky_found_rings_release(&rings);
}

static void ring_finder__every_flipped_byte_of_a_header_is_survived(void **state)
{
	struct ky_found_rings rings;
	uint8_t *image;
	size_t at;

	(void)state;
	build(GONE_PID, 7, "flipped");
	image = built.image;
	for (at = 0; at < sizeof(struct ky_ring_header); at++) {
		image[at] ^= 0xffu;
		write_file("f.ring", image, built.image_bytes);
		image[at] ^= 0xffu;
		find(&rings, 0);
		assert_in_range(rings.count, 0, 1);
		if (rings.count == 1 && rings.rings[0].state != KY_FOUND_TROUBLE)
			assert_in_range(rings.rings[0].populated_bytes, 0, SLOTS * KY_SLOT_BYTES);
		ky_found_rings_release(&rings);
	}
	test_ring_close(&built);
}

static void ring_finder__others_files_and_names_are_left_alone(void **state)
{
	struct ky_found_rings rings;
	char path[128];

	(void)state;
	write_file("notes.txt", "hello", 5);
	write_file(".hidden.ring", "hello", 5);
	write_file("new.ring", "", 0);
	build(GONE_PID, 7, "prepared");
	atomic_store(&built.header->magic, 0);
	plant("prepared.ring");
	find(&rings, 0);
	assert_int_equal(rings.count, 0);
	ky_found_rings_release(&rings);
	if (geteuid() != 0)
		return;
	build(GONE_PID, 7, "foreign");
	plant("foreign.ring");
	path_of(path, sizeof(path), "foreign.ring");
	assert_int_equal(chown(path, 12345, 12345), 0);
	find(&rings, 0);
	assert_trouble(&rings, "foreign.ring", -EPERM, "user 12345");
	ky_found_rings_release(&rings);
}

static void ring_finder__directory_that_others_may_write_in_is_not_trusted(void **state)
{
	struct ky_found_rings rings;

	(void)state;
	build(GONE_PID, 7, "x");
	plant("x.ring");
	assert_int_equal(chmod(directory, 0777), 0);
	find(&rings, 0);
	assert_int_equal(rings.count, 1);
	assert_int_equal(rings.rings[0].state, KY_FOUND_TROUBLE);
	assert_non_null(strstr(rings.rings[0].why, "others may write"));
	ky_found_rings_release(&rings);
}

static void ring_finder__directory_that_is_missing_or_a_link_is_reported(void **state)
{
	const struct ky_ring_query missing = {.ring_directory = "/proc/nonexistent/kymo"};
	struct ky_ring_query link = {0};
	struct ky_found_rings rings;
	char path[128];

	(void)state;
	assert_int_equal(ky_ring_find(&rings, &missing), 0);
	assert_int_equal(rings.count, 1);
	assert_true(rings.is_unseen);
	assert_int_equal(rings.rings[0].error, -ENOENT);
	ky_found_rings_release(&rings);
	path_of(path, sizeof(path), "link");
	assert_int_equal(symlink(directory, path), 0);
	link.ring_directory = path;
	assert_int_equal(ky_ring_find(&rings, &link), 0);
	assert_int_equal(rings.count, 1);
	assert_int_equal(rings.rings[0].state, KY_FOUND_TROUBLE);
	ky_found_rings_release(&rings);
}

/* Maps it as its recorder does: the lock stays with the mapping. */
static void *hold(const char *name)
{
	char path[128];
	void *image;
	int fd;

	path_of(path, sizeof(path), name);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	image = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(image, MAP_FAILED);
	assert_int_equal(flock(fd, LOCK_SH), 0);
	close(fd);
	return image;
}

static void ring_finder__ring_of_before_an_exec_is_dead_and_the_newer_one_taken(void **state)
{
	const struct ky_ring_query query = {.ring_directory = directory};
	char why[KY_FOUND_WHY_BYTES], pid[16];
	struct ky_found_rings rings;
	struct ky_found_ring one;
	void *image;

	(void)state;
	build((uint32_t)getpid(), own_start(), "first");
	plant("first.ring");
	build((uint32_t)getpid(), own_start(), "second");
	built.header->open_anchor.realtime_ns += 1000;
	plant("second.ring");
	image = hold("second.ring");
	find(&rings, (uint32_t)getpid());
	assert_int_equal(rings.count, 2);
	assert_int_equal(named(&rings, "first.ring")->state, KY_FOUND_DEAD);
	assert_true(named(&rings, "first.ring")->is_replaced);
	assert_int_equal(named(&rings, "second.ring")->state, KY_FOUND_ALIVE);
	ky_found_rings_release(&rings);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	assert_int_equal(ky_ring_find_one(&one, &query, pid, true, why), 0);
	assert_string_equal(one.service, "second");
	munmap(image, 4096);
}

static void ring_finder__two_recorders_of_one_process_are_both_alive(void **state)
{
	struct ky_found_rings rings;
	void *images[2];

	(void)state;
	build((uint32_t)getpid(), own_start(), "one");
	plant("one.ring");
	build((uint32_t)getpid(), own_start(), "two");
	built.header->open_anchor.realtime_ns += 1000;
	plant("two.ring");
	images[0] = hold("one.ring");
	images[1] = hold("two.ring");
	find(&rings, 0);
	assert_int_equal(named(&rings, "one.ring")->state, KY_FOUND_ALIVE);
	assert_int_equal(named(&rings, "two.ring")->state, KY_FOUND_ALIVE);
	ky_found_rings_release(&rings);
	munmap(images[0], 4096);
	munmap(images[1], 4096);
}

static void ring_finder__ring_of_another_namespace_lives_while_it_is_mapped(void **state)
{
	struct ky_found_rings rings;
	void *image;

	(void)state;
	build(17, 7, "boxed");
	built.header->pid_namespace++;
	plant("boxed.ring");
	image = hold("boxed.ring");
	find(&rings, 0);
	assert_true(rings.rings[0].is_foreign);
	assert_int_equal(rings.rings[0].pid, 0);
	assert_int_equal(rings.rings[0].ring_pid, 17);
	assert_int_equal(rings.rings[0].state, KY_FOUND_ALIVE);
	ky_found_rings_release(&rings);
	munmap(image, 4096);
	find(&rings, 0);
	assert_int_equal(rings.rings[0].state, KY_FOUND_DEAD);
	ky_found_rings_release(&rings);
}

static void ring_finder__service_names_one_process_or_lists_all(void **state)
{
	const struct ky_ring_query query = {.ring_directory = directory};
	char why[KY_FOUND_WHY_BYTES], other[32];
	struct ky_found_ring one;
	pid_t child = fork();
	void *image;

	(void)state;
	if (child == 0) {
		pause();
		_exit(0);
	}
	build((uint32_t)getpid(), own_start(), "web");
	plant("a.ring");
	build(GONE_PID, 3, "web");
	plant("b.ring");
	build(GONE_PID - 1, 3, "batch");
	plant("c.ring");
	assert_int_equal(ky_ring_find_one(&one, &query, "web", false, why), 0);
	assert_int_equal(one.pid, (uint32_t)getpid());
	assert_int_equal(ky_ring_find_one(&one, &query, "batch", false, why), -ESRCH);
	assert_non_null(strstr(why, "kymo recover"));
	assert_int_equal(ky_ring_find_one(&one, &query, "batch", true, why), 0);
	assert_int_equal(one.pid, GONE_PID - 1);
	assert_int_equal(ky_ring_find_one(&one, &query, "none", true, why), -ESRCH);
	build((uint32_t)child, 0, "web");
	built.header->pid_namespace++; /* by its lock, for its start time is not known here */
	plant("d.ring");
	image = hold("d.ring");
	assert_int_equal(ky_ring_find_one(&one, &query, "web", false, why), -ENOTUNIQ);
	snprintf(other, sizeof(other), " %d", (int)getpid());
	assert_non_null(strstr(why, other));
	munmap(image, 4096);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void ring_finder__refusals_name_the_reason(void **state)
{
	const struct ky_ring_query query = {.ring_directory = directory};
	char why[KY_FOUND_WHY_BYTES], pid[16];
	struct ky_found_ring one;

	(void)state;
	assert_int_equal(ky_ring_find_one(&one, &query, "4194303", true, why), -ESRCH);
	assert_non_null(strstr(why, "no process 4194303"));
	assert_int_equal(ky_ring_find_one(&one, &query, "0", true, why), -ESRCH);
	assert_int_equal(ky_ring_find_one(&one, &query, "99999999999999999999", true, why), -ESRCH);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	assert_int_equal(ky_ring_find_one(&one, &query, pid, true, why), -ENODATA);
	assert_non_null(strstr(why, "does not record"));
	build((uint32_t)getpid(), own_start(), "x");
	atomic_store(&built.header->state, KY_RING_CLOSED);
	plant("x.ring");
	assert_int_equal(ky_ring_find_one(&one, &query, pid, false, why), -ENODATA);
	assert_non_null(strstr(why, "closed its recorder"));
	assert_int_equal(ky_ring_find_one(&one, &query, pid, true, why), 0);
	build(GONE_PID, 7, "y");
	plant("y.ring");
	assert_int_equal(ky_ring_find_one(&one, &query, "4194303", false, why), -ESRCH);
	assert_non_null(strstr(why, "is gone"));
	write_file("z-4194302-5.ring", "nonsense, but longer than eight bytes", 37);
	assert_int_equal(ky_ring_find_one(&one, &query, "4194302", true, why), KYMO_E_NOT_TRACE);
}

static void ring_finder__open_refuses_a_replaced_file(void **state)
{
	struct ky_found_rings rings;
	struct ky_open_ring open;
	char why[KY_FOUND_WHY_BYTES];

	(void)state;
	build(GONE_PID, 7, "x");
	plant("x.ring");
	find(&rings, 0);
	assert_int_equal(ky_ring_open(&open, &rings.rings[0], false, why), 0);
	assert_int_equal(open.image_bytes, rings.rings[0].file_bytes);
	assert_null(open.control);
	ky_ring_close(&open);
	assert_int_equal(ky_ring_open(&open, &rings.rings[0], true, why), 0);
	assert_non_null(open.control);
	assert_non_null(open.side);
	atomic_store(&open.control->gates, 3);
	assert_int_equal(*(const uint32_t *)(const void *)(open.image + 4096), 3);
	ky_ring_close(&open);
	ky_ring_close(&open);
	assert_int_equal(rename(rings.rings[0].path, "/dev/null/x"), -1);
	write_file("y.ring", "other", 5);
	{
		char path[128];

		path_of(path, sizeof(path), "y.ring");
		assert_int_equal(rename(path, rings.rings[0].path), 0);
	}
	assert_int_equal(ky_ring_open(&open, &rings.rings[0], false, why), -ENOENT);
	assert_non_null(strstr(why, "gone since"));
	assert_int_equal(ky_ring_remove(&rings.rings[0]), 0);
	assert_int_equal(access(rings.rings[0].path, F_OK), 0);
	ky_found_rings_release(&rings);
	find(&rings, 0);
	assert_int_equal(rings.count, 1);
	assert_int_equal(ky_ring_remove(&rings.rings[0]), 0);
	assert_int_equal(access(rings.rings[0].path, F_OK), -1);
	assert_int_equal(ky_ring_remove(&rings.rings[0]), 0);
	ky_found_rings_release(&rings);
}

static int read_last_byte(void *ctx)
{
	const struct ky_open_ring *open = ctx;

	return *(const volatile uint8_t *)(open->image + open->image_bytes - 1);
}

static void ring_finder__file_truncated_while_mapped_is_survived(void **state)
{
	struct ky_found_rings rings;
	struct ky_open_ring open;
	char why[KY_FOUND_WHY_BYTES];

	(void)state;
	build(GONE_PID, 7, "x");
	plant("x.ring");
	find(&rings, 0);
	assert_int_equal(ky_ring_open(&open, &rings.rings[0], false, why), 0);
	assert_int_equal(ky_ring_guarded(&open, read_last_byte, &open), 0);
	assert_int_equal(truncate(rings.rings[0].path, 4096), 0);
	assert_int_equal(ky_ring_guarded(&open, read_last_byte, &open), KYMO_E_TRUNCATED);
	assert_int_equal(ky_ring_guarded(&open, read_last_byte, &open), KYMO_E_TRUNCATED);
	ky_ring_close(&open);
	ky_found_rings_release(&rings);
}

static void ring_finder__ring_is_found_through_the_process_that_maps_it(void **state)
{
	const struct ky_ring_query query = {.pid = (uint32_t)getpid()};
	struct ky_found_rings rings;
	char path[128];
	void *image;
	uint32_t i;
	bool is_found = false;

	(void)state;
	build((uint32_t)getpid(), own_start(), "elsewhere");
	plant("far.ring");
	image = hold("far.ring");
	assert_int_equal(ky_ring_find(&rings, &query), 0);
	path_of(path, sizeof(path), "far.ring");
	for (i = 0; i < rings.count; i++)
		is_found |= strcmp(rings.rings[i].path, path) == 0;
	assert_true(is_found);
	ky_found_rings_release(&rings);
	munmap(image, 4096);
}

static void ring_finder__anonymous_ring_is_found_through_its_descriptor(void **state)
{
	const struct ky_ring_query query = {.pid = (uint32_t)getpid()};
	int fd = memfd_create("kymo-ring", MFD_CLOEXEC);
	struct ky_found_rings rings;
	struct ky_open_ring open;
	char why[KY_FOUND_WHY_BYTES];
	void *image;

	(void)state;
	build((uint32_t)getpid(), own_start(), "nameless");
	built.header->flags |= KY_RING_ANONYMOUS;
	assert_int_equal(write(fd, built.image, built.image_bytes), built.image_bytes);
	test_ring_close(&built);
	image = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(image, MAP_FAILED);
	assert_int_equal(ky_ring_find(&rings, &query), 0);
	assert_int_equal(rings.count, 1);
	assert_int_equal(rings.rings[0].state, KY_FOUND_ALIVE);
	assert_true(rings.rings[0].is_anonymous);
	assert_string_equal(rings.rings[0].service, "nameless");
	assert_int_equal(ky_ring_open(&open, &rings.rings[0], true, why), 0);
	ky_ring_close(&open);
	ky_found_rings_release(&rings);
	munmap(image, 4096);
	close(fd);
}

static void ring_finder__process_of_this_namespace_has_one_name(void **state)
{
	(void)state;
	assert_int_equal(ky_ring_process_namespace((uint32_t)getpid()), ky_run_process_namespace());
	assert_int_not_equal(ky_ring_process_inner_pid((uint32_t)getpid()), 0);
	assert_int_equal(ky_ring_process_outer_pid(ky_run_process_namespace(),
						   ky_ring_process_inner_pid((uint32_t)getpid()),
						   own_start()),
			 getpid());
	assert_int_equal(ky_ring_process_outer_pid(1, (uint32_t)getpid(), own_start()), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_directory, empty_directory)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ring_finder__alive_dead_and_closed_are_distinguished),
		TEST(ring_finder__hostile_files_cost_a_sentence_each_and_no_other_ring),
		TEST(ring_finder__every_flipped_byte_of_a_header_is_survived),
		TEST(ring_finder__others_files_and_names_are_left_alone),
		TEST(ring_finder__directory_that_others_may_write_in_is_not_trusted),
		TEST(ring_finder__directory_that_is_missing_or_a_link_is_reported),
		TEST(ring_finder__ring_of_before_an_exec_is_dead_and_the_newer_one_taken),
		TEST(ring_finder__two_recorders_of_one_process_are_both_alive),
		TEST(ring_finder__ring_of_another_namespace_lives_while_it_is_mapped),
		TEST(ring_finder__service_names_one_process_or_lists_all),
		TEST(ring_finder__refusals_name_the_reason),
		TEST(ring_finder__open_refuses_a_replaced_file),
		TEST(ring_finder__file_truncated_while_mapped_is_survived),
		TEST(ring_finder__ring_is_found_through_the_process_that_maps_it),
		TEST(ring_finder__anonymous_ring_is_found_through_its_descriptor),
		TEST(ring_finder__process_of_this_namespace_has_one_name),
	};

	return cmocka_run_group_tests_name("ring_finder", tests, NULL, NULL);
}
