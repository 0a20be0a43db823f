/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program that links the library and asks for stacks: its own thread makes the tables. */
#include "../../lib/cmocka_all.h"
#include "../../lib/temp_tree.h"

#include <kymo/recorder.h>
#include <kymo/stack.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[64];
static uint64_t frames[64];

__attribute__((noinline)) static uint32_t capture(void)
{
	struct kymo_stack stack = {.frames = frames, .frames_max = 64};
	struct kymo_stack_start start;

	KYMO_STACK_HERE(&start);
	kymo_stack_capture(&stack, &start);
	return stack.end;
}

static void open_recorder(struct kymo_recorder **out)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;

	options.flags = KYMO_RECORDER_EAGER;
	options.service = "tables";
	options.trace_directory = directory;
	options.ring_directory = directory;
	assert_int_equal(kymo_recorder_open(out, &options), 0);
}

static void maker__makes_tables_once_a_stack_was_wanted(void **state)
{
	struct kymo_recorder *recorder;

	(void)state;
	for (uint32_t i = 0; i < 2; i++) { /* a later ring has tables of its own */
		open_recorder(&recorder);
		while (capture() != KYMO_STACK_FIRST)
			sched_yield();
		assert_int_equal(kymo_recorder_close(recorder), 0);
		assert_int_equal(capture(), KYMO_STACK_NO_TABLES);
	}
}

static void maker__a_forked_child_has_none(void **state)
{
	struct kymo_recorder *recorder;
	int status;
	pid_t child;

	(void)state;
	open_recorder(&recorder);
	while (capture() != KYMO_STACK_FIRST)
		sched_yield();
	child = fork();
	if (child == 0)
		_exit(capture() == KYMO_STACK_NO_TABLES ? 0 : 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static int make_directory(void **state)
{
	(void)state;
	return temp_tree_make(directory, sizeof(directory));
}

static int remove_directory(void **state)
{
	(void)state;
	return temp_tree_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(maker__makes_tables_once_a_stack_was_wanted),
		cmocka_unit_test(maker__a_forked_child_has_none),
	};

	return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
