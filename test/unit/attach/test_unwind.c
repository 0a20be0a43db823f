/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The callers of a thread that sleeps: a child of ours, whose functions we know. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <attach/attach_arch.h>
#include <attach/unwind.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lib/under_valgrind.h"

#define KEPT __attribute__((noinline, used))

static volatile uint32_t sink;
static int pipe_ends[2];

/* A frame whose size is only in its description. */
KEPT static void unwind_inner(void)
{
	volatile char room[300];
	char byte;

	room[0] = 1;
	if (read(pipe_ends[0], &byte, 1) == 1)
		sink += (uint32_t)room[0];
}

KEPT static void unwind_middle(uint32_t depth)
{
	if (depth)
		unwind_middle(depth - 1);
	else
		unwind_inner();
	sink++;
}

static int compare(const void *a, const void *b)
{
	(void)a;
	(void)b;
	unwind_middle(3);
	return 0;
}

KEPT static void unwind_through_libc(void)
{
	int pair[2] = {2, 1};

	qsort(pair, 2, sizeof(pair[0]), compare);
	sink++;
}

/* A stopped child inside `body`, with its registers. */
static pid_t start(void (*body)(void), struct ky_arch_frame *frame)
{
	static struct ky_arch_context context;
	char path[64], text[32] = "";
	pid_t child;
	int status;

	assert_int_equal(pipe(pipe_ends), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		body();
		_exit(0);
	}
	snprintf(path, sizeof(path), "task/%d/syscall", (int)child);
	while (strncmp(text, "0 ", 2) != 0) /* in read() */
		assert_true(ky_process_read_file((uint32_t)child, path, text, sizeof(text)) > 0);
	assert_int_equal(ptrace(PTRACE_SEIZE, child, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, child, NULL, NULL), 0);
	assert_int_equal(waitpid(child, &status, __WALL), child);
	assert_int_equal(ky_arch_read(child, &context), 0);
	ky_arch_frame_of(&context, frame);
	return child;
}

static void finish(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, __WALL);
	close(pipe_ends[0]);
	close(pipe_ends[1]);
}

static size_t count_of(const struct ky_process *process, const struct ky_unwind *walk,
		       const char *function)
{
	char name[128];
	size_t count = 0;

	for (uint32_t i = 1; i < walk->count; i++) {
		struct ky_attach_module *module = ky_process_module_of(process, walk->pcs[i], NULL);

		if (module && ky_module_function(module, walk->pcs[i] - 1, name, sizeof(name)) &&
		    strncmp(name, function, strlen(function)) == 0)
			count++;
	}
	return count;
}

static void walk_child(void (*body)(void), struct ky_unwind *walk, const char *outer)
{
	static struct ky_process process;
	struct ky_arch_frame frame;
	char why[KY_ATTACH_WHY_BYTES] = "";
	pid_t child = start(body, &frame);

	/* A process that is traced is refused, so it is read as another user's would be. */
	ptrace(PTRACE_DETACH, child, NULL, NULL);
	assert_int_equal(ky_process_check(&process, (uint32_t)child, why), 0);
	ky_unwind_thread(walk, &process, &frame);
	assert_int_equal(walk->end, KY_UNWIND_OUTERMOST);
	assert_int_equal(count_of(&process, walk, "unwind_inner"), 1);
	assert_int_equal(count_of(&process, walk, "unwind_middle"), 4);
	assert_int_equal(count_of(&process, walk, outer), 1);
	assert_int_equal(count_of(&process, walk, "main"), 1);
	finish(child);
	ky_process_close(&process);
}

static void plain(void)
{
	unwind_middle(3);
	sink++;
}

static void unwind__reaches_main_and_the_first_frame(void **state)
{
	struct ky_unwind walk;

	(void)state;
	walk_child(plain, &walk, "unwind_inner");
}

static void unwind__goes_through_a_library_without_frame_pointers(void **state)
{
	struct ky_unwind walk;

	(void)state;
	walk_child(unwind_through_libc, &walk, "unwind_through_libc");
}

static void unwind__unknown_code_ends_the_walk(void **state)
{
	static struct ky_process process;
	struct ky_arch_frame frame;
	struct ky_unwind walk;
	char why[KY_ATTACH_WHY_BYTES] = "";
	pid_t child = start(plain, &frame);

	(void)state;
	ptrace(PTRACE_DETACH, child, NULL, NULL);
	assert_int_equal(ky_process_check(&process, (uint32_t)child, why), 0);
	frame.pc = 0x1000;
	ky_unwind_thread(&walk, &process, &frame);
	assert_int_equal(walk.end, KY_UNWIND_UNKNOWN);
	assert_int_equal(walk.count, 1);
	finish(child);
	ky_process_close(&process);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unwind__reaches_main_and_the_first_frame),
		cmocka_unit_test(unwind__goes_through_a_library_without_frame_pointers),
		cmocka_unit_test(unwind__unknown_code_ends_the_walk),
	};

	if (test_is_under_valgrind()) {
		print_message(
			"1..0 # SKIP under Valgrind code lies elsewhere than its file says\n");
		return 0;
	}
	if (ky_arch_refusal()) {
		print_message("1..0 # SKIP %s\n", ky_arch_refusal());
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
