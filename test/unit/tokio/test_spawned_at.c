/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Where a task was spawned, from the word after its id: only what looks like a place is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <kymo/emit.h>
#include <string.h>
#include <sys/mman.h>

#include "../../../adapters/tokio/hooks.h"
#include "../../../adapters/tokio/spawned_at.h"
#include "fake_recorder.h"
#include "fake_tokio.h"

struct location {
	const char *file;
	uint64_t file_bytes;
	uint32_t line, column;
};

static struct kymo_usdt_place found;
static bool is_found;
static uint64_t asked_task;

static int set_up(void **state)
{
	(void)state;
	fake_patch();
	fake_recorder_reset(UINT32_MAX);
	fake_table_of(FAKE_MULTI)->has_place = true;
	return 0;
}

static void ask(struct fake_task *task)
{
	const struct kymo_usdt_place *place = ky_tokio_spawned_at(asked_task);

	is_found = place != NULL;
	if (place)
		found = *place;
	task->state &= ~(uint64_t)FAKE_NOTIFIED;
}

/* Inside a poll of task 41. */
static void poll_spawned_at(uint64_t location, uint64_t task_asked_for)
{
	struct fake_task task = fake_task(FAKE_MULTI, 41);

	task.captured[0] = location;
	asked_task = task_asked_for;
	fake_poll_body = ask;
	fake_poll(&task);
	fake_poll_body = NULL;
}

static void place__of_the_task_that_is_polled(void **state)
{
	static const struct location location = {"src/main.rs-and what follows", 11, 57, 9};

	(void)state;
	for (int i = 0; i < 2; i++) {
		poll_spawned_at((uintptr_t)&location, 41);
		assert_true(is_found);
		assert_string_equal(found.file, "src/main.rs");
		assert_int_equal(found.line, 57);
		assert_int_equal(found.column, 9);
	}
}

static void place__of_another_task_is_not_known(void **state)
{
	static const struct location location = {"src/main.rs", 11, 57, 9};

	(void)state;
	poll_spawned_at((uintptr_t)&location, 42);
	assert_false(is_found);
	assert_null(ky_tokio_spawned_at(41)); /* outside any poll */
}

static void place__is_not_read_where_tokio_keeps_none(void **state)
{
	static const struct location location = {"src/main.rs", 11, 57, 9};

	(void)state;
	fake_table_of(FAKE_MULTI)->has_place = false;
	poll_spawned_at((uintptr_t)&location, 41);
	assert_false(is_found);
}

static void place__is_read_only_where_there_is_one(void **state)
{
	static const struct location bad[] = {
		{"src/main.rs", 0, 57, 9},         {"src/main.rs", 513, 57, 9},
		{"src/main.rs", 11, 0, 9},         {"src/main.rs", 11, 57, 0},
		{"src/main.rs", 11, 57, 1u << 16}, {"src/main.rs", 11, 1u << 24, 9},
	};
	static struct location nowhere = {NULL, 11, 57, 9};
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		poll_spawned_at((uintptr_t)&bad[i], 41);
		assert_false(is_found);
	}
	poll_spawned_at(0, 41);
	assert_false(is_found);
	poll_spawned_at(8 * 8192 + 1, 41);
	assert_false(is_found);
	/* A file that ends where nothing is mapped. */
	assert_ptr_not_equal(page, MAP_FAILED);
	munmap(page + 4096, 4096);
	nowhere.file = page + 4090;
	poll_spawned_at((uintptr_t)&nowhere, 41);
	assert_false(is_found);
	munmap(page, 4096);
	poll_spawned_at((uintptr_t)page, 41);
	assert_false(is_found);
}

static void seek_end(struct fake_task *task)
{
	task->state |= FAKE_COMPLETE;
}

/* An end outside any poll: asked for while its record is written. */
static void place__of_a_task_that_is_shut_down(void **state)
{
	static const struct location location = {"src/other.rs", 12, 3, 4};
	struct fake_task task = fake_task(FAKE_MULTI, 43);

	(void)state;
	task.captured[0] = (uintptr_t)&location;
	fake_shutdown_body = seek_end;
	fake_shutdown(&task);
	fake_shutdown_body = NULL;
	assert_null(ky_tokio_self.ending);
	ky_tokio_self.ending = &task;
	assert_string_equal(ky_tokio_spawned_at(43)->file, "src/other.rs");
	ky_tokio_self.ending = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(place__of_the_task_that_is_polled, set_up),
		cmocka_unit_test_setup(place__of_another_task_is_not_known, set_up),
		cmocka_unit_test_setup(place__is_not_read_where_tokio_keeps_none, set_up),
		cmocka_unit_test_setup(place__is_read_only_where_there_is_one, set_up),
		cmocka_unit_test_setup(place__of_a_task_that_is_shut_down, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
