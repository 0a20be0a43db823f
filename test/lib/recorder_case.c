/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "recorder_case.h"

#include "cmocka_all.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(KYMO_ARCH_HEADER)
uint64_t test_ticks_offset;
uint64_t test_ticks_steps;
uint64_t test_ticks_end = UINT64_MAX;

/* The counter's upper half has just moved, and does not move again unless a test wants it to: no
 * TIME record, however long the machine takes. */
static void start_epoch(void)
{
	uint64_t ticks;
	uint32_t high;

	__atomic_store_n(&test_ticks_end, UINT64_MAX, __ATOMIC_RELAXED);
	ticks = kymo_arch_ticks(&high);
	test_ticks_offset += (UINT64_C(1) << 32) - (ticks & UINT32_MAX);
	ticks = kymo_arch_ticks(&high);
	__atomic_store_n(&test_ticks_end, (ticks | UINT32_MAX) - test_ticks_offset,
			 __ATOMIC_RELAXED);
}
#else
static void start_epoch(void)
{
}
#endif

void test_recorder_directory(struct test_recorder *test)
{
	memset(test, 0, sizeof(*test));
	start_epoch();
	snprintf(test->directory, sizeof(test->directory), "/dev/shm/kymo-test-XXXXXX");
	if (!mkdtemp(test->directory)) {
		snprintf(test->directory, sizeof(test->directory), "/tmp/kymo-test-XXXXXX");
		assert_non_null(mkdtemp(test->directory));
	}
}

void test_recorder_open(struct test_recorder *test, uint64_t ring_bytes, uint32_t flags)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;

	test_recorder_directory(test);
	options.service = "test";
	options.ring_directory = test->directory;
	options.ring_bytes = ring_bytes ? ring_bytes : 128u << 10;
	options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_STREAM | flags;
	assert_int_equal(kymo_recorder_open(&test->recorder, &options), 0);
}

void test_recorder_read(struct test_recorder *test)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};

	if (!test->ring.image) {
		assert_int_equal(kymo_recorder_status(&status), 0);
		memcpy(test->path, status.ring_path, sizeof(test->path));
		assert_int_equal(test_ring_open(&test->ring, test->path), 0);
	}
	test_ring_read(&test->ring);
}

void test_recorder_close(struct test_recorder *test)
{
	char path[400];
	struct dirent *entry;
	DIR *directory;

	assert_int_equal(kymo_recorder_close(test->recorder), 0);
	test_ring_close(&test->ring);
	directory = opendir(test->directory);
	while (directory && (entry = readdir(directory))) {
		snprintf(path, sizeof(path), "%s/%s", test->directory, entry->d_name);
		unlink(path);
	}
	if (directory)
		closedir(directory);
	rmdir(test->directory);
}

void test_in_thread(void *(*fn)(void *), void *ctx)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, fn, ctx), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}
