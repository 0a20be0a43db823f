/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads that come, stay idle and go; forked children; signal handlers. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"
#include "../../lib/under_valgrind.h"

#include <base/testpoint.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Valgrind keeps at most 500 threads and ends the process at the next. */
static void *one_mark(void *ctx)
{
	kymo_mark(*(uint32_t *)ctx);
	return NULL;
}

static void exit__ten_thousand_threads_share_sub_buffers(void **state)
{
	struct test_recorder test;
	uint32_t number;
	size_t changes;

	(void)state;
	test_recorder_open(&test, 4u << 20, 0);
	number = 1;
	kymo_mark(number);
	for (number = 2; number <= 10001; number++)
		test_in_thread(one_mark, &number);
	test_recorder_read(&test);
	assert_int_equal(test.ring.bad_count, 0);
	/* 48 bytes a thread: 62 sub-buffers of 512, so the first thread's record is still there. */
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_MARK), 10001);
	assert_true(test.ring.header->claim_index < 80);
	changes = test_ring_count(&test.ring, 0, KYMO_RECORD_THREAD_CHANGE);
	assert_true(changes > 9900);
	for (size_t i = 0; i < test.ring.count; i++)
		if (test.ring.records[i].type == KYMO_RECORD_MARK)
			assert_int_equal(test.ring.records[i].words[0],
					 test.ring.records[i].thread);
	assert_int_equal(test.ring.header->thread_count, 10001);
	assert_int_equal(test.ring.header->dropped_count, 0);
	/* Thread entries stop at half of the directory; names still fit. */
	assert_true(test.ring.header->directory_overflow_count > 0);
	assert_int_not_equal(kymo_string_intern("late", 4), 0);
	test_recorder_close(&test);
}

struct idler {
	pthread_t thread;
	sem_t *ready;
	sem_t *stop;
};

static void *idle(void *ctx)
{
	struct idler *idler = ctx;

	kymo_mark(1);
	sem_post(idler->ready);
	sem_wait(idler->stop);
	return NULL;
}

static void idle__thousand_threads_cost_a_sub_buffer_each(void **state)
{
	struct idler *idlers = calloc(1000, sizeof(*idlers));
	struct test_recorder test;
	uint32_t count = test_is_under_valgrind() ? 300 : 1000;
	sem_t ready, stop;
	pthread_attr_t attr;

	(void)state;
	assert_non_null(idlers);
	test_recorder_open(&test, 16u << 20, 0);
	sem_init(&ready, 0, 0);
	sem_init(&stop, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64u << 10);
	for (uint32_t i = 0; i < count; i++) {
		idlers[i].ready = &ready;
		idlers[i].stop = &stop;
		assert_int_equal(pthread_create(&idlers[i].thread, &attr, idle, &idlers[i]), 0);
	}
	for (uint32_t i = 0; i < count; i++)
		sem_wait(&ready);
	test_recorder_read(&test);
	assert_int_equal(test.ring.slot_states[KY_SLOT_OPEN], count);
	assert_int_equal(test.ring.header->claim_index, count);
	assert_true(test.ring.header->populated_count <= count + 8);
	for (uint32_t i = 0; i < count; i++)
		sem_post(&stop);
	for (uint32_t i = 0; i < count; i++)
		pthread_join(idlers[i].thread, NULL);
	test_recorder_read(&test);
	assert_int_equal(test.ring.slot_states[KY_SLOT_PARKED], count);
	pthread_attr_destroy(&attr);
	free(idlers);
	test_recorder_close(&test);
}

static void state__pool_is_bounded_and_the_rest_is_counted(void **state)
{
	struct idler *idlers;
	struct test_recorder test;
	sem_t ready, stop;
	pthread_attr_t attr;
	int started = 0;

	(void)state;
	if (test_is_under_valgrind()) {
		print_message("# 4,100 threads take Valgrind minutes\n");
		skip();
	}
	idlers = calloc(4100, sizeof(*idlers));
	assert_non_null(idlers);
	test_recorder_open(&test, 64u << 20, 0);
	kymo_mark(1); /* this thread holds one of the 4,096 states */
	sem_init(&ready, 0, 0);
	sem_init(&stop, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64u << 10);
	for (; started < 4100; started++) {
		idlers[started].ready = &ready;
		idlers[started].stop = &stop;
		if (pthread_create(&idlers[started].thread, &attr, idle, &idlers[started]) != 0)
			break;
	}
	for (int i = 0; i < started; i++)
		sem_wait(&ready);
	test_recorder_read(&test);
	for (int i = 0; i < started; i++)
		sem_post(&stop);
	for (int i = 0; i < started; i++)
		pthread_join(idlers[i].thread, NULL);
	pthread_attr_destroy(&attr);
	free(idlers);
	if (started == 4100) {
		assert_int_equal(test.ring.header->dropped_no_state_count, 5);
		assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_MARK), 4096);
	}
	test_recorder_close(&test);
	if (started != 4100) {
		print_message("# the machine does not allow 4,100 threads\n");
		skip();
	}
}

static pthread_key_t late_key;

static void emit_late(void *value)
{
	(void)value;
	kymo_mark(2);
}

static void *emit_in_late_destructor(void *ctx)
{
	(void)ctx;
	kymo_mark(1);
	pthread_setspecific(late_key, &late_key);
	return NULL;
}

static void exit__events_after_our_clean_up_are_counted(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	/* Destructors run in the order of their keys, and ours was made first. */
	assert_int_equal(pthread_key_create(&late_key, emit_late), 0);
	test_in_thread(emit_in_late_destructor, NULL);
	test_recorder_read(&test);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_MARK), 1);
	assert_int_equal(test.ring.header->dropped_exited_count, 1);
	pthread_key_delete(late_key);
	test_recorder_close(&test);
}

static void directory__names_each_thread_once(void **state)
{
	struct test_recorder test;
	const struct ky_entry *entry;
	struct ky_entry_thread fixed;
	uint32_t one = 1;

	(void)state;
	prctl(PR_SET_NAME, "first thread");
	test_recorder_open(&test, 0, 0);
	kymo_mark(1);
	test_in_thread(one_mark, &one);
	test_recorder_read(&test);
	entry = test_ring_entry(&test.ring, KY_ENTRY_THREAD, 0);
	assert_non_null(entry);
	memcpy(&fixed, entry + 1, sizeof(fixed));
	assert_int_equal(fixed.tid, getpid());
	assert_memory_equal((const char *)(entry + 1) + sizeof(fixed), "first thread", 12);
	assert_non_null(test_ring_entry(&test.ring, KY_ENTRY_THREAD, 1));
	assert_null(test_ring_entry(&test.ring, KY_ENTRY_THREAD, 2));
	entry = test_ring_entry(&test.ring, KY_ENTRY_THREAD_EXIT, 0);
	assert_non_null(entry);
	assert_int_equal(entry->id, 2);
	test_recorder_close(&test);
}

/* ---- fork ---- */

static int child_status(pid_t child)
{
	int status = -1;

	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void fork__child_is_disarmed_and_parent_intact(void **state)
{
	struct test_recorder test;
	pid_t child;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_poll_begin(1, 0, 0);
	child = fork();
	if (child == 0) {
		struct kymo_recorder_status status = {.size = sizeof(status)};
		int bad = 0;

		for (uint64_t i = 0; i < 2000; i++) {
			kymo_poll_begin(666, 0, 0);
			kymo_poll_end(0);
		}
		kymo_poll_end(0);
		kymo_recorder_status(&status);
		bad |= status.is_armed ? 1 : 0;
		bad |= kymo_control.gates ? 2 : 0;
		bad |= kymo_string_intern("child", 5) ? 4 : 0;
		_exit(bad);
	}
	assert_int_equal(child_status(child), 0);
	kymo_poll_end(0);
	test_recorder_read(&test);
	assert_int_equal(test.ring.count, 2);
	assert_int_equal(test.ring.header->fork_disarmed_count, 1);
	assert_int_equal(test.ring.header->claim_index, 1);
	assert_int_equal(test.ring.header->dropped_count, 0);
	assert_true(kymo_control.gates & KYMO_GATE_POLL);
	test_recorder_close(&test);
}

static void fork__child_that_reopens_has_a_ring_of_its_own(void **state)
{
	struct test_recorder test;
	uint32_t name, one = 1;
	pid_t child;

	(void)state;
	test_recorder_open(&test, 0, 0);
	name = kymo_name_intern("a::task", 7, 0, 0, 0);
	kymo_poll_begin(1, name, 0);
	child = fork();
	if (child == 0) {
		struct test_recorder own;
		int bad = 0;

		memset(&own, 0, sizeof(own));
		bad |= kymo_recorder_reopen() != 0 ? 1 : 0;
		kymo_poll_begin(2, name, 0);
		kymo_poll_end(0);
		kymo_poll_end(0); /* of the parent's poll: nothing is open here */
		test_in_thread(one_mark, &one);
		bad |= kymo_name_intern("a::task", 7, 0, 0, 0) != name ? 2 : 0;
		bad |= kymo_recorder_reopen() != KYMO_E_ACTIVE ? 4 : 0;
		test_recorder_read(&own);
		bad |= own.ring.count != 4 && own.ring.count != 3 ? 8 : 0;
		bad |= own.ring.header->pid != (uint32_t)getpid() ? 16 : 0;
		bad |= !test_ring_entry(&own.ring, KY_ENTRY_NAME, 0) ? 32 : 0;
		_exit(bad);
	}
	assert_int_equal(child_status(child), 0);
	test_recorder_read(&test);
	assert_int_equal(test.ring.count, 1);
	kymo_poll_end(0);
	test_recorder_close(&test);
}

static void fork__before_the_first_event_leaves_the_child_armed(void **state)
{
	struct test_recorder test;
	struct kymo_recorder_status status = {.size = sizeof(status)};
	pid_t child;

	(void)state;
	test_recorder_open(&test, 0, 0);
	child = fork();
	if (child == 0) {
		int bad = 0;

		kymo_mark(1);
		kymo_recorder_status(&status);
		bad |= status.is_armed ? 0 : 1;
		bad |= status.sub_buffers_claimed == 1 ? 0 : 2;
		_exit(bad);
	}
	assert_int_equal(child_status(child), 0);
	kymo_recorder_status(&status);
	assert_string_equal(status.ring_path, "");
	test_recorder_close(&test);
}

static void *mark_and_say_who(void *ctx)
{
	kymo_mark(1);
	*(struct kymo_thread **)ctx = kymo_thread_self;
	return NULL;
}

/* The thread of the child has its state from the first recording. */
static void fork__between_recordings_leaves_each_thread_a_state_of_its_own(void **state)
{
	struct test_recorder test;
	pid_t child;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_mark(1);
	test_recorder_close(&test);
	test_recorder_open(&test, 0, 0);
	child = fork();
	if (child == 0) {
		struct kymo_thread *others[3];
		int bad = 0;

		kymo_mark(1);
		for (int i = 0; i < 3; i++) {
			test_in_thread(mark_and_say_who, &others[i]);
			bad |= others[i] == kymo_thread_self ? 1 << i : 0;
		}
		_exit(bad);
	}
	assert_int_equal(child_status(child), 0);
	test_recorder_close(&test);
}

/* From here on this process is killed for openat and memfd_create. */
static bool confine(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void sandbox__that_came_before_the_first_event_is_respected(void **state)
{
	struct test_recorder test;
	pid_t child;

	(void)state;
	if (prctl(PR_GET_SECCOMP) != 0) {
		print_message("# a container's filter hides ours\n");
		skip();
	}
	test_recorder_open(&test, 0, 0);
	child = fork();
	if (child == 0) {
		struct kymo_recorder_status status = {.size = sizeof(status)};

		if (!confine())
			_exit(77);
		for (uint32_t i = 0; i < 1000; i++)
			kymo_mark(i);
		kymo_recorder_status(&status);
		_exit(status.is_armed || status.last_error != KYMO_E_UNSUPPORTED);
	}
	assert_int_equal(child_status(child), 0);
	test_recorder_close(&test);
}

/* ---- the next recording ---- */

static bool is_interrupting;

void ky_testpoint(const char *name)
{
	if (!is_interrupting || strcmp(name, "thread.reattaching") != 0)
		return;
	is_interrupting = false;
	raise(SIGUSR1);
}

static void mark_in_handler(int number)
{
	(void)number;
	kymo_mark(7);
}

/* Of a thread whose state is made ready for another recording, in a handler: the thread has the
 * engine's lock. */
static void reattach__handler_that_emits_meanwhile_is_dropped(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_mark(1);
	test_recorder_close(&test);
	test_recorder_open(&test, 0, 0);
	assert_true(signal(SIGUSR1, mark_in_handler) != SIG_ERR);
	is_interrupting = true;
	alarm(60); /* ends the test where it waits for itself */
	kymo_mark(2);
	alarm(0);
	assert_false(is_interrupting);
	kymo_mark(3);
	test_recorder_read(&test);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_MARK), 2);
	assert_int_equal(test.ring.header->dropped_signal_count, 1);
	assert_true(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
	test_recorder_close(&test);
}

/* ---- cancellation ---- */

static void *mark_while_cancelled(void *ctx)
{
	pthread_cancel(pthread_self());
	kymo_mark(1);
	*(bool *)ctx = true;
	pthread_testcancel();
	*(bool *)ctx = false;
	return NULL;
}

/* The first event of all makes files, and its thread is cancelled: it ends after its event, and
 * holds no lock that others wait for. */
static void cancel__waits_until_the_event_is_over(void **state)
{
	struct test_recorder test;
	bool is_marked = false;

	(void)state;
	test_recorder_open(&test, 0, 0);
	test_in_thread(mark_while_cancelled, &is_marked);
	assert_true(is_marked);
	kymo_mark(2);
	test_recorder_read(&test);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_MARK), 2);
	test_recorder_close(&test);
}

/* ---- signals ---- */

static void emit_in_handler(int number)
{
	(void)number;
	kymo_poll_begin(9, 0, 0);
	kymo_poll_end(0);
}

static void signal__handler_between_events_is_recorded(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	signal(SIGUSR1, emit_in_handler);
	kymo_mark(1);
	raise(SIGUSR1);
	kymo_mark(1);
	test_recorder_read(&test);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_BEGIN), 1);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_END), 1);
	assert_int_equal(test.ring.header->dropped_count, 0);
	signal(SIGUSR1, SIG_DFL);
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit__ten_thousand_threads_share_sub_buffers),
		cmocka_unit_test(idle__thousand_threads_cost_a_sub_buffer_each),
		cmocka_unit_test(state__pool_is_bounded_and_the_rest_is_counted),
		cmocka_unit_test(exit__events_after_our_clean_up_are_counted),
		cmocka_unit_test(directory__names_each_thread_once),
		cmocka_unit_test(fork__child_is_disarmed_and_parent_intact),
		cmocka_unit_test(fork__child_that_reopens_has_a_ring_of_its_own),
		cmocka_unit_test(fork__before_the_first_event_leaves_the_child_armed),
		cmocka_unit_test(fork__between_recordings_leaves_each_thread_a_state_of_its_own),
		cmocka_unit_test(sandbox__that_came_before_the_first_event_is_respected),
		cmocka_unit_test(reattach__handler_that_emits_meanwhile_is_dropped),
		cmocka_unit_test(cancel__waits_until_the_event_is_over),
		cmocka_unit_test(signal__handler_between_events_is_recorded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
