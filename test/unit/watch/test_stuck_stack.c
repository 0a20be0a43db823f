/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* When the stack of a stuck thread is taken, and what it is worth; walks themselves:
 * test_unwind_process.c. */
#include "../../lib/cmocka_all.h"
#include "../../lib/fake_proc.h"

#include <string.h>
#include <watch/watch_state.h>
#include <wire/ring_image.h>

#define PID 4242u
#define TID 4243u
#define SP UINT64_C(0x7ffd00001000)
#define PC UINT64_C(0x7f0000001234)
#define FUTEX "202 0x1 0x80 0x0 0x0 0x0 0x0 0x7ffd00001000 0x7f0000001234"

static struct fake_proc fake;
static struct ky_watchdog watchdog;
static struct ky_stuck_note note;
/* Without unwind tables. */
static _Alignas(4096) uint8_t image[sizeof(struct ky_ring_header)];

static int setup(void **state)
{
	(void)state;
	fake_proc_open(&fake, PID);
	memset(&watchdog, 0, sizeof(watchdog));
	watchdog.options = (struct ky_watchdog_options){
		.image = image, .image_bytes = sizeof(image), .pid = PID};
	watchdog.proc.dir = -1;
	ky_proc_reader_open(&watchdog.proc, fake.proc, fake.cgroup, PID, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_proc_reader_close(&watchdog.proc);
	fake_proc_close(&fake);
	return 0;
}

/* The thread is seen in that state, in a call; then its stack is taken. */
static void take(char thread_state, const char *call)
{
	fake_proc_thread(&fake, TID, thread_state, call, "futex_wait");
	memset(&note, 0, sizeof(note));
	assert_true(ky_proc_reader_thread(&watchdog.proc, TID, &note));
	ky_watch_stack(&watchdog, &note);
}

static void stack__without_tables_is_one_frame(void **state)
{
	(void)state;
	take('S', FUTEX);
	assert_int_equal(note.sp, SP);
	assert_int_equal(note.frame_count, 1);
	assert_true(note.frames[0] == PC);
	assert_int_equal(note.guessed_count, 0);
	assert_true(note.is_truncated);
}

static void stack__is_only_of_a_thread_off_cpu(void **state)
{
	(void)state;
	take('R', FUTEX); /* its registers are of its last call */
	assert_int_equal(note.frame_count, 0);
	take('S', "running");
	assert_int_equal(note.frame_count, 0);
	take('T', FUTEX); /* stopped */
	assert_int_equal(note.frame_count, 1);
}

static bool may_not(void)
{
	return false;
}

/* A filter of system calls may kill for it. */
static void stack__is_not_read_where_that_is_not_allowed(void **state)
{
	(void)state;
	watchdog.options.may_read = may_not;
	take('S', FUTEX);
	assert_int_equal(note.frame_count, 0);
}

/* It ran while it was read: another call, or the same from elsewhere, or none. */
static void stack__that_moved_meanwhile_is_dropped(void **state)
{
	static const char *const later[] = {
		"0 0x1 0x80 0x0 0x0 0x0 0x0 0x7ffd00001000 0x7f0000001234",
		"202 0x1 0x80 0x0 0x0 0x0 0x0 0x7ffd00001008 0x7f0000001234",
		"202 0x1 0x80 0x0 0x0 0x0 0x0 0x7ffd00001000 0x7f0000001238", "running"};

	(void)state;
	for (uint32_t i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
		fake_proc_thread(&fake, TID, 'S', FUTEX, "futex_wait");
		memset(&note, 0, sizeof(note));
		assert_true(ky_proc_reader_thread(&watchdog.proc, TID, &note));
		fake_proc_thread(&fake, TID, 'S', later[i], "futex_wait");
		ky_watch_stack(&watchdog, &note);
		assert_int_equal(note.frame_count, 0);
	}
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(stack__without_tables_is_one_frame),
		CASE(stack__is_only_of_a_thread_off_cpu),
		CASE(stack__is_not_read_where_that_is_not_allowed),
		CASE(stack__that_moved_meanwhile_is_dropped),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
