/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The ring's file: where it may lie, and what happens when the machine says no. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"
#include "../../lib/under_valgrind.h"

#include <errno.h>
#include <fcntl.h>
#include <record/emit/ring_file.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wire/unwind_image.h>

static const struct ky_clock any_clock;

static struct ky_ring_request request_in(const char *directory)
{
	return (struct ky_ring_request){.directory = directory,
					.service = "svc",
					.ring_bytes = 128u << 10,
					.sample_bytes = 256u << 10,
					.directory_bytes = KY_DIRECTORY_BYTES_DEFAULT};
}

static void drop(struct ky_ring *ring)
{
	ky_ring_detach(ring);
	ky_ring_forget(ring, true);
}

static void create__names_the_file_after_the_process(void **state)
{
	struct test_recorder test;
	struct ky_ring_request request;
	struct ky_ring *ring = NULL, *second = NULL;
	char expected[128];
	struct stat st;

	(void)state;
	test_recorder_directory(&test);
	request = request_in(test.directory);
	assert_int_equal(ky_ring_create(&ring, &request, &any_clock), 0);
	snprintf(expected, sizeof(expected), "%s/svc-%d-%llu.ring", test.directory, (int)getpid(),
		 (unsigned long long)ring->start_time_ticks);
	assert_string_equal(ring->path, expected);
	assert_true(ring->start_time_ticks > 0);
	assert_int_equal(stat(ring->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal((uint64_t)st.st_size, ring->header->file_bytes);
	assert_int_equal((uintptr_t)ring->slots % KY_SLOT_BYTES, 0);
	assert_int_equal(ring->header->slots_offset % KY_SLOT_BYTES, 0);
	/* A second ring of the same process: an earlier program before exec, say. */
	assert_int_equal(ky_ring_create(&second, &request, &any_clock), 0);
	assert_string_not_equal(second->path, ring->path);
	drop(second);
	drop(ring);
	rmdir(test.directory);
}

static void create__lock_lasts_as_long_as_the_mapping(void **state)
{
	struct test_recorder test;
	struct ky_ring_request request;
	struct ky_ring *ring = NULL;
	struct stat st;
	int fd;

	(void)state;
	test_recorder_directory(&test);
	request = request_in(test.directory);
	assert_int_equal(ky_ring_create(&ring, &request, &any_clock), 0);
	assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
	assert_int_equal(ring->header->pid_namespace, (uint64_t)st.st_ino);
	fd = open(ring->path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), -1);
	assert_int_equal(errno, EWOULDBLOCK);
	drop(ring);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	close(fd);
	rmdir(test.directory);
}

/* What other processes and the handler of a fatal signal write to must not be able to fault. */
static void create__side_area_exists_and_is_empty(void **state)
{
	struct test_recorder test;
	struct ky_ring_request request;
	struct ky_ring *ring = NULL;
	unsigned char in_core[64];
	const uint8_t *bytes;
	size_t pages;

	(void)state;
	test_recorder_directory(&test);
	request = request_in(test.directory);
	assert_int_equal(ky_ring_create(&ring, &request, &any_clock), 0);
	assert_true(ring->header->side_bytes >= sizeof(struct ky_ring_side));
	assert_int_equal(ring->header->side_offset % 64, 0);
	assert_ptr_equal(ring->base + ring->header->side_offset, ring->side);
	assert_true(ring->header->side_offset + ring->header->side_bytes <=
		    ring->header->directory_offset);
	pages = ring->header->side_bytes / (size_t)sysconf(_SC_PAGESIZE);
	assert_true(pages > 0 && pages <= sizeof(in_core));
	assert_int_equal(mincore(ring->side, ring->header->side_bytes, in_core), 0);
	for (size_t i = 0; i < pages; i++)
		assert_int_equal(in_core[i] & 1, 1);
	bytes = (const uint8_t *)ring->side;
	for (size_t i = 0; i < ring->header->side_bytes; i++)
		assert_int_equal(bytes[i], 0);
	drop(ring);
	rmdir(test.directory);
}

/* Sparse until a sampler starts; then every page is there before the class is said to be. */
static void samples__have_pages_once_they_are_asked_for(void **state)
{
	struct ky_sample sample = {.kind = KY_SAMPLE_CPU, .tid = 1};
	struct ky_sample_ring samples;
	struct test_recorder test;
	struct ky_ring_request request;
	struct ky_ring *ring = NULL;
	unsigned char in_core[64];
	uint32_t pages = 0;
	uint8_t *area;

	(void)state;
	test_recorder_directory(&test);
	request = request_in(test.directory);
	assert_int_equal(ky_ring_create(&ring, &request, &any_clock), 0);
	assert_int_equal(ring->header->sample_bytes, 256u << 10);
	area = ring->base + ring->header->sample_offset;
	assert_int_equal(mincore(area, 256u << 10, in_core), 0);
	for (size_t i = 0; i < sizeof(in_core); i++)
		assert_int_equal(in_core[i] & 1, 0);
	assert_true(ky_ring_samples(ring, KY_SAMPLES_CPU, &samples));
	assert_int_equal(ring->header->sample_classes, 1u << KY_SAMPLES_CPU);
	assert_int_equal(mincore(area, 256u << 10, in_core), 0);
	for (size_t i = 0; i < sizeof(in_core); i++)
		pages += in_core[i] & 1;
	assert_int_equal(pages, 1 + samples.cell_count / (4096 / KY_SAMPLE_CELL_BYTES));
	for (uint32_t i = 0; i < samples.cell_count; i++)
		assert_true(ky_sample_put(&samples, &sample));
	/* A second request finds what is there. */
	assert_true(ky_ring_samples(ring, KY_SAMPLES_CPU, &samples));
	assert_int_equal(KY_SAMPLE_CLAIM(samples.head->claim_index), samples.cell_count);
	for (uint32_t i = 0; i < samples.cell_count; i++)
		assert_int_equal(*ky_sample_serial(&samples, i), (i + 1) * 2);
	drop(ring);
	rmdir(test.directory);
}

static void create__refuses_a_directory_others_can_write(void **state)
{
	struct test_recorder test;
	struct ky_ring_request request;
	struct ky_ring *ring = NULL;

	(void)state;
	test_recorder_directory(&test);
	assert_int_equal(chmod(test.directory, 0777), 0);
	request = request_in(test.directory);
	assert_int_equal(ky_ring_create(&ring, &request, &any_clock), 0);
	assert_string_equal(ring->path, "");
	assert_int_equal(ring->header->flags & KY_RING_ANONYMOUS, KY_RING_ANONYMOUS);
	assert_int_equal(fcntl(ring->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	drop(ring);
	rmdir(test.directory);
}

static void create__does_not_follow_a_symbolic_link(void **state)
{
	struct test_recorder test;
	struct ky_ring_request request;
	struct ky_ring *ring = NULL;
	char link[128];

	(void)state;
	test_recorder_directory(&test);
	snprintf(link, sizeof(link), "%s.link", test.directory);
	assert_int_equal(symlink(test.directory, link), 0);
	request = request_in(link);
	assert_int_equal(ky_ring_create(&ring, &request, &any_clock), 0);
	assert_string_equal(ring->path, "");
	drop(ring);
	unlink(link);
	rmdir(test.directory);
}

static void create__missing_parent_falls_back_to_memory(void **state)
{
	struct ky_ring_request request = request_in("/proc/nonexistent/kymo/ring");
	struct ky_ring *ring = NULL;

	(void)state;
	assert_int_equal(ky_ring_create(&ring, &request, &any_clock), 0);
	assert_true(ring->fd >= 0);
	drop(ring);
	assert_int_equal(ring->fd, -1);
}

static void forget__spares_a_reused_descriptor(void **state)
{
	struct ky_ring_request request = request_in("/proc/nonexistent/kymo/ring");
	struct ky_ring *ring = NULL;
	int fd;

	(void)state;
	assert_int_equal(ky_ring_create(&ring, &request, &any_clock), 0);
	fd = ring->fd;
	close(fd); /* as daemonizing hosts do */
	assert_int_equal(open("/dev/null", O_RDONLY | O_CLOEXEC), fd);
	drop(ring);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	close(fd);
}

/* In a child: limits and mounts stay there. */
static int in_child(int (*fn)(const char *directory), const char *directory)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(fn(directory));
	if (waitpid(child, &status, 0) != child)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static int under_file_limit(const char *directory)
{
	struct ky_ring_request request = request_in(directory);
	struct rlimit limit = {1u << 20, 1u << 20};
	struct ky_sample_ring samples;
	struct ky_ring *ring = NULL;
	int bad = 0;

	signal(SIGXFSZ, SIG_DFL);
	request.ring_bytes = 8u << 20;
	if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
		return 100;
	bad |= ky_ring_create(&ring, &request, &any_clock) ? 1 : 0;
	if (bad)
		return bad;
	bad |= ring->header->file_bytes <= 1u << 20 ? 0 : 2;
	/* Stacks are what it does without. */
	bad |= ring->header->sample_bytes == 0 && ring->header->sample_offset == 0 ? 0 : 32;
	bad |= !ky_ring_samples(ring, KY_SAMPLES_CPU, &samples) && !samples.cell_count ? 0 : 64;
	bad |= !ring->unwind && ring->header->unwind_offset == 0 ? 0 : 128;
	bad |= ring->slot_count >= 64 ? 0 : 4;
	bad |= ky_ring_populate(ring, ring->slot_count - 1) ? 0 : 8;
	memset(ring->slots, 1, (size_t)ring->slot_count * KY_SLOT_BYTES);
	drop(ring);
	limit.rlim_cur = 4096;
	if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
		return 100;
	bad |= ky_ring_create(&ring, &request, &any_clock) == -EFBIG ? 0 : 16;
	return bad;
}

static void create__respects_the_file_size_limit(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_directory(&test);
	assert_int_equal(in_child(under_file_limit, test.directory), 0);
	rmdir(test.directory);
}

/* Address space alone, until tables are made. */
static void create__unwind_area_is_the_last_and_sparse(void **state)
{
	struct test_recorder test;
	struct ky_ring_request request;
	struct ky_ring *ring = NULL;
	const struct ky_ring_header *header;
	struct stat before;

	(void)state;
	test_recorder_directory(&test);
	request = request_in(test.directory);
	assert_int_equal(ky_ring_create(&ring, &request, &any_clock), 0);
	header = ring->header;
	assert_int_equal(stat(ring->path, &before), 0);
	assert_int_equal(header->unwind_bytes, KY_UNWIND_AREA_BYTES);
	assert_int_equal(header->unwind_offset + header->unwind_bytes, header->file_bytes);
	assert_ptr_equal(ring->unwind, ring->base + header->unwind_offset);
	assert_true(before.st_blocks * 512 < (off_t)(2u << 20));
	assert_int_equal(header->unwind_ready, 0);
	drop(ring);
	rmdir(test.directory);
}

#define NO_MOUNT 77

/* 1 MiB of tmpfs: header, a directory step and about a hundred slots fit. */
static int on_small_tmpfs(const char *directory)
{
	struct ky_ring_request request = request_in(directory);
	struct ky_sample_ring samples;
	struct ky_ring *ring = NULL;
	uint32_t good = 0, usable;
	int bad = 0;

	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, "") != 0 ||
	    mount("tmpfs", directory, "tmpfs", 0, "size=1m,mode=700") != 0)
		return NO_MOUNT;
	request.ring_bytes = 8u << 20;
	if (ky_ring_create(&ring, &request, &any_clock) != 0 || !ring->path[0])
		return 1;
	for (uint32_t slot = 0; slot < ring->slot_count; slot++) {
		if (!ky_ring_populate(ring, slot))
			continue;
		memset(ky_ring_slot(ring, slot), 7, KY_SLOT_BYTES);
		good++;
	}
	bad |= !ky_ring_samples(ring, KY_SAMPLES_CPU, &samples) && !samples.cell_count ? 0 : 32;
	bad |= ring->header->sample_classes ? 64 : 0;
	usable = ring->header->usable_count;
	bad |= good == usable ? 0 : 2;
	bad |= usable >= 32 && usable < 128 ? 0 : 4;
	bad |= ring->header->populated_count == usable ? 0 : 8;
	bad |= ky_ring_populate_directory(ring, ring->directory_bytes) ? 16 : 0;
	return bad;
}

static void populate__full_tmpfs_means_fewer_sub_buffers(void **state)
{
	struct test_recorder test;
	int result;

	(void)state;
	if (test_is_under_valgrind()) {
		print_message("# Valgrind makes the call that asks for a page itself\n");
		skip();
	}
	test_recorder_directory(&test);
	result = in_child(on_small_tmpfs, test.directory);
	rmdir(test.directory);
	if (result == NO_MOUNT) {
		print_message("# a small tmpfs needs the right to mount\n");
		skip();
	}
	assert_int_equal(result, 0);
}

/* The whole recorder on it: the host goes round in what there is. */
static int record_on_small_tmpfs(const char *directory)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	struct test_recorder test;
	int bad = 0;

	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, "") != 0 ||
	    mount("tmpfs", directory, "tmpfs", 0, "size=1m,mode=700") != 0)
		return NO_MOUNT;
	memset(&test, 0, sizeof(test));
	options.ring_directory = directory;
	options.flags = KYMO_RECORDER_NO_DRAIN;
	if (kymo_recorder_open(&recorder, &options) != 0)
		return 1;
	for (uint64_t i = 0; i < 200000; i++)
		kymo_mark((uint32_t)i);
	for (int i = 0; i < 4000; i++) {
		char name[32];
		int count = snprintf(name, sizeof(name), "name %d", i);

		(void)kymo_name_intern(name, (size_t)count, 0, 0, 0);
	}
	test_recorder_read(&test);
	bad |= test.ring.bad_count ? 2 : 0;
	bad |= test.ring.header->usable_count < 128 ? 0 : 4;
	bad |= test.ring.header->dropped_count ? 8 : 0;
	bad |= test_ring_lost(&test.ring, 1) + test.ring.count == 200000 ? 0 : 16;
	bad |= test.ring.header->directory_overflow_count ? 0 : 32;
	return bad;
}

static void emit__full_tmpfs_never_fails_the_host(void **state)
{
	struct test_recorder test;
	int result;

	(void)state;
	if (test_is_under_valgrind()) {
		print_message("# Valgrind makes the call that asks for a page itself\n");
		skip();
	}
	test_recorder_directory(&test);
	result = in_child(record_on_small_tmpfs, test.directory);
	rmdir(test.directory);
	if (result == NO_MOUNT) {
		print_message("# a small tmpfs needs the right to mount\n");
		skip();
	}
	assert_int_equal(result, 0);
}

static void detach__late_writes_are_harmless(void **state)
{
	struct test_recorder test;
	struct ky_ring_request request;
	struct ky_ring *ring = NULL;

	(void)state;
	test_recorder_directory(&test);
	request = request_in(test.directory);
	assert_int_equal(ky_ring_create(&ring, &request, &any_clock), 0);
	drop(ring);
	memset(ring->base, 1, ring->mapped_bytes);
	assert_int_equal(rmdir(test.directory), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create__names_the_file_after_the_process),
		cmocka_unit_test(create__lock_lasts_as_long_as_the_mapping),
		cmocka_unit_test(create__side_area_exists_and_is_empty),
		cmocka_unit_test(samples__have_pages_once_they_are_asked_for),
		cmocka_unit_test(create__refuses_a_directory_others_can_write),
		cmocka_unit_test(create__does_not_follow_a_symbolic_link),
		cmocka_unit_test(create__missing_parent_falls_back_to_memory),
		cmocka_unit_test(forget__spares_a_reused_descriptor),
		cmocka_unit_test(create__respects_the_file_size_limit),
		cmocka_unit_test(create__unwind_area_is_the_last_and_sparse),
		cmocka_unit_test(populate__full_tmpfs_means_fewer_sub_buffers),
		cmocka_unit_test(emit__full_tmpfs_never_fails_the_host),
		cmocka_unit_test(detach__late_writes_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
