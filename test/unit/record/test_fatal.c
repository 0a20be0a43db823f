/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Fatal signals in real processes: how each ends, and what its ring says afterwards. Every case is
 * a child that dies; the parent reads its status and the file it left. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"
#include "../../lib/under_valgrind.h"

#include <errno.h>
#include <kymo/fatal.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sanitizers bring handlers and stacks of their own, which is not what is tested here. */
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__asan_default_options(void)
{
	return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0:"
	       "use_sigaltstack=0:allow_user_segv_handler=1";
}
const char *__tsan_default_options(void)
{
	return "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0:"
	       "use_sigaltstack=0";
}

/* Sanitizers keep variables, and call functions, on frames of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

/* From the stack pointer of a crash up to the frame that noted itself. */
#define FRAME_BYTES_MAX 4096u

struct witness { /* what the child says about itself, in shared memory */
	uint32_t tid;
	uint32_t calls;
	uint64_t sp;
	char path[256];
};

static struct test_recorder test;
static struct witness *witness;

struct ending {
	int status;
	struct ky_ring_crash crash;
};

static void note_thread(void)
{
	witness->tid = (uint32_t)syscall(SYS_gettid);
	witness->sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
}

static struct ending ending; /* of the last child */

/* The test framework's own handlers are not what is tested. */
static void drop_handlers(void)
{
	static const int numbers[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		signal(numbers[i], SIG_DFL);
}

/* Runs fn in a child with a recorder, and reads what it leaves. */
static void run(void (*prepare)(void), void (*fn)(void))
{
	struct test_ring ring = {0};
	const struct ky_ring_side *side;
	pid_t child;

	if (test_is_under_valgrind()) {
		print_message("# Valgrind delivers signals in a way of its own\n");
		skip();
	}
	memset(&ending, 0, sizeof(ending));
	test_recorder_directory(&test);
	witness = mmap(NULL, sizeof(*witness), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	assert_true(witness != MAP_FAILED);
	child = fork();
	if (child == 0) {
		struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
		struct kymo_recorder_status status = {.size = sizeof(status)};
		struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		drop_handlers();
		if (prepare)
			prepare();
		options.service = "test";
		options.ring_directory = test.directory;
		options.ring_bytes = 128u << 10;
		options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_FATAL_SIGNALS;
		if (kymo_recorder_open(&test.recorder, &options) != 0)
			_exit(99);
		kymo_mark(1);
		kymo_recorder_status(&status);
		memcpy(witness->path, status.ring_path, sizeof(witness->path));
		note_thread();
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &ending.status, 0), child);
	assert_int_equal(test_ring_open(&ring, witness->path), 0);
	side = (const struct ky_ring_side *)(const void *)((const uint8_t *)ring.header +
							   ring.header->side_offset);
	memcpy(&ending.crash, &side->crash, sizeof(ending.crash));
	test_ring_close(&ring);
	assert_int_equal(unlink(witness->path), 0);
	assert_int_equal(rmdir(test.directory), 0);
}

static void forget_witness(void)
{
	munmap(witness, sizeof(*witness));
}

static void assert_recorded(int signal_number)
{
	assert_int_equal(atomic_load(&ending.crash.state), 2);
	assert_int_equal(ending.crash.signal, signal_number);
	assert_int_equal(ending.crash.tid, witness->tid);
	assert_true(ending.crash.monotonic_ns > 0);
	assert_true(ending.crash.ticks > 0);
}

/* ---- ways to crash ---- */

static volatile int *volatile nowhere = (int *)8;

static void touch_nowhere(void)
{
	note_thread();
	*nowhere = 1;
}

static void *thread_crashes(void *ctx)
{
	(void)ctx;
	kymo_mark(2); /* its first event guards it */
	touch_nowhere();
	return NULL;
}

static void crash_in_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, thread_crashes, NULL);
	pthread_join(thread, NULL);
}

/* Not a tail call, and no frame may be merged away. */
static int __attribute__((noinline)) recurse(volatile int depth)
{
	volatile char frame[512];

	frame[0] = (char)depth;
	return depth < 0 ? frame[0] : recurse(depth + 1) + frame[0];
}

static void *thread_overflows(void *ctx)
{
	(void)ctx;
	kymo_mark(2);
	note_thread();
	recurse(0);
	return NULL;
}

static void overflow_in_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, thread_overflows, NULL);
	pthread_join(thread, NULL);
}

static void overflow_in_main(void)
{
	recurse(0);
}

static void call_abort(void)
{
	abort();
}

static void divide(void)
{
	raise(SIGFPE);
}

/* ---- handlers of the program ---- */

static void count_call(int number)
{
	(void)number;
	witness->calls++;
}

static void exit_42(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	witness->calls++;
	witness->sp = (uint64_t)(uintptr_t)info->si_addr;
	_exit(42);
}

static void give_up(int number, siginfo_t *info, void *context)
{
	(void)info;
	(void)context;
	witness->calls++;
	signal(number, SIG_DFL); /* as many do: return, and let it happen again */
}

static volatile char *volatile guarded;

static void unlock_page(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	witness->calls++;
	mprotect((void *)(uintptr_t)guarded, 4096, PROT_READ | PROT_WRITE);
}

static sigjmp_buf back;

static void jump(int number)
{
	witness->calls++;
	siglongjmp(back, number);
}

static void handle(int number, void (*fn)(int, siginfo_t *, void *), void (*plain)(int), int flags)
{
	struct sigaction action = {.sa_flags = flags};

	if (fn)
		action.sa_sigaction = fn;
	else
		action.sa_handler = plain;
	sigaction(number, &action, NULL);
}

static void handle_by_exit(void)
{
	handle(SIGSEGV, exit_42, NULL, SA_SIGINFO);
}

static void handle_by_giving_up(void)
{
	handle(SIGSEGV, give_up, NULL, SA_SIGINFO);
}

static void handle_once(void)
{
	handle(SIGSEGV, NULL, count_call, (int)SA_RESETHAND);
}

static void ignore_all(void)
{
	signal(SIGSEGV, SIG_IGN);
	signal(SIGABRT, SIG_IGN);
	signal(SIGFPE, SIG_IGN);
}

static void repair_fault(void)
{
	guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	guarded[0] = 7; /* faults once */
	_exit(guarded[0]);
}

static void handle_by_repair(void)
{
	handle(SIGSEGV, unlock_page, NULL, SA_SIGINFO);
}

static void jump_out_and_go_on(void)
{
	if (sigsetjmp(back, 1) == 0)
		touch_nowhere();
	_exit(5);
}

static void handle_by_jump(void)
{
	handle(SIGSEGV, NULL, jump, 0);
}

static struct sigaction ours;

static void pass_on(int number, siginfo_t *info, void *context)
{
	witness->calls++;
	ours.sa_sigaction(number, info, context);
}

static void chain_after_and_crash(void)
{
	struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};

	action.sa_sigaction = pass_on;
	sigaction(SIGSEGV, &action, &ours);
	touch_nowhere();
}

static void crash_again(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	if (witness->calls++ < 3)
		*nowhere = 2; /* in the handler */
	_exit(43);
}

static void handle_by_crashing(void)
{
	handle(SIGSEGV, crash_again, NULL, SA_SIGINFO | SA_NODEFER);
}

/* ---- cases ---- */

static void crash__main_thread_is_in_the_ring(void **state)
{
	(void)state;
	run(NULL, touch_nowhere);
	assert_true(WIFSIGNALED(ending.status));
	assert_int_equal(WTERMSIG(ending.status), SIGSEGV);
	assert_recorded(SIGSEGV);
	assert_int_equal(ending.crash.address, 8);
	assert_int_equal(ending.crash.code, SEGV_MAPERR);
#if defined(__x86_64__) || defined(__aarch64__)
	assert_true(ending.crash.register_count > 20);
	assert_true(ending.crash.pc != 0);
#endif
#if (defined(__x86_64__) || defined(__aarch64__)) && !IS_SANITIZED
	/* Within the frame that noted itself, or just below it. */
	assert_true(ending.crash.sp <= witness->sp &&
		    ending.crash.sp + FRAME_BYTES_MAX > witness->sp);
#endif
	assert_int_equal(ending.crash.stack_bytes % 8, 0);
	assert_true(ending.crash.stack_bytes >= 256);
	forget_witness();
}

static void crash__second_thread_is_named(void **state)
{
	(void)state;
	run(NULL, crash_in_thread);
	assert_int_equal(WTERMSIG(ending.status), SIGSEGV);
	assert_recorded(SIGSEGV);
	forget_witness();
}

static bool has_bytes(const struct ky_ring_crash *crash)
{
	for (uint32_t i = 0; i < crash->stack_bytes; i++)
		if (crash->stack[i])
			return true;
	return false;
}

static void crash__stack_overflow_in_a_thread_is_recorded(void **state)
{
	(void)state;
	run(NULL, overflow_in_thread);
	assert_int_equal(WTERMSIG(ending.status), SIGSEGV);
	assert_recorded(SIGSEGV);
	assert_true(has_bytes(&ending.crash));
	forget_witness();
}

static void crash__stack_overflow_in_main_is_recorded(void **state)
{
	(void)state;
	run(NULL, overflow_in_main);
	assert_int_equal(WTERMSIG(ending.status), SIGSEGV);
	assert_recorded(SIGSEGV);
	assert_true(has_bytes(&ending.crash));
	forget_witness();
}

static void crash__abort_and_raised_signals_keep_their_status(void **state)
{
	(void)state;
	run(NULL, call_abort);
	assert_true(WIFSIGNALED(ending.status));
	assert_int_equal(WTERMSIG(ending.status), SIGABRT);
	assert_recorded(SIGABRT);
	forget_witness();
	run(NULL, divide);
	assert_int_equal(WTERMSIG(ending.status), SIGFPE);
	assert_recorded(SIGFPE);
	assert_int_equal(ending.crash.code, SI_TKILL);
	forget_witness();
}

static void chain__earlier_handler_gets_the_kernels_arguments(void **state)
{
	(void)state;
	run(handle_by_exit, touch_nowhere);
	assert_true(WIFEXITED(ending.status));
	assert_int_equal(WEXITSTATUS(ending.status), 42);
	assert_int_equal(witness->calls, 1);
	assert_int_equal(witness->sp, 8); /* si_addr */
	assert_recorded(SIGSEGV);
	forget_witness();
}

static void chain__handler_that_gives_up_ends_by_the_signal(void **state)
{
	(void)state;
	run(handle_by_giving_up, touch_nowhere);
	assert_int_equal(WTERMSIG(ending.status), SIGSEGV);
	assert_int_equal(witness->calls, 1);
	assert_recorded(SIGSEGV);
	forget_witness();
}

static void chain__one_shot_handler_runs_once(void **state)
{
	(void)state;
	run(handle_once, touch_nowhere);
	assert_int_equal(WTERMSIG(ending.status), SIGSEGV);
	assert_int_equal(witness->calls, 1);
	assert_recorded(SIGSEGV);
	forget_witness();
}

static void chain__repaired_fault_is_no_crash(void **state)
{
	(void)state;
	run(handle_by_repair, repair_fault);
	assert_true(WIFEXITED(ending.status));
	assert_int_equal(WEXITSTATUS(ending.status), 7);
	assert_int_equal(witness->calls, 1);
	assert_int_equal(atomic_load(&ending.crash.state), 0);
	forget_witness();
}

static void chain__handler_may_jump_out(void **state)
{
	(void)state;
	run(handle_by_jump, jump_out_and_go_on);
	assert_true(WIFEXITED(ending.status));
	assert_int_equal(WEXITSTATUS(ending.status), 5);
	assert_int_equal(witness->calls, 1);
	forget_witness();
}

static void chain__ignored_signals_are_ignored_but_faults_are_not(void **state)
{
	(void)state;
	run(ignore_all, touch_nowhere);
	assert_int_equal(WTERMSIG(ending.status), SIGSEGV);
	assert_recorded(SIGSEGV);
	forget_witness();
	run(ignore_all, divide); /* raised, not computed */
	assert_true(WIFEXITED(ending.status));
	assert_int_equal(WEXITSTATUS(ending.status), 0);
	assert_int_equal(atomic_load(&ending.crash.state), 0);
	forget_witness();
	run(ignore_all, call_abort);
	assert_int_equal(WTERMSIG(ending.status), SIGABRT);
	assert_recorded(SIGABRT);
	forget_witness();
}

static void chain__later_handler_reaches_ours(void **state)
{
	(void)state;
	run(NULL, chain_after_and_crash);
	assert_int_equal(WTERMSIG(ending.status), SIGSEGV);
	assert_int_equal(witness->calls, 1);
	assert_recorded(SIGSEGV);
	forget_witness();
}

static void chain__crash_in_the_earlier_handler_keeps_the_first_record(void **state)
{
	(void)state;
#if defined(__SANITIZE_THREAD__)
	print_message("# the thread sanitizer does not survive a crash inside a handler\n");
	skip();
#endif
	run(handle_by_crashing, touch_nowhere);
	assert_true(WIFEXITED(ending.status));
	assert_int_equal(WEXITSTATUS(ending.status), 43);
	assert_int_equal(witness->calls, 4);
	assert_recorded(SIGSEGV);
#if (defined(__x86_64__) || defined(__aarch64__)) && !IS_SANITIZED
	assert_true(ending.crash.sp <= witness->sp &&
		    ending.crash.sp + FRAME_BYTES_MAX > witness->sp);
#endif
	forget_witness();
}

static pthread_barrier_t barrier;

static void *crash_with_others(void *ctx)
{
	(void)ctx;
	kymo_mark(3);
	pthread_barrier_wait(&barrier);
	*nowhere = 3;
	return NULL;
}

static void crash_everywhere(void)
{
	pthread_t threads[8];

	pthread_barrier_init(&barrier, NULL, 8);
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, crash_with_others, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

static void crash__of_many_threads_at_once_gives_one_whole_record(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		run(NULL, crash_everywhere);

		assert_int_equal(WTERMSIG(ending.status), SIGSEGV);
		assert_int_equal(atomic_load(&ending.crash.state), 2);
		assert_int_equal(ending.crash.signal, SIGSEGV);
		assert_int_equal(ending.crash.address, 8);
		assert_int_not_equal(ending.crash.tid, 0);
		forget_witness();
	}
}

static void crash_in_child(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		*nowhere = 4; /* not reopened: the ring is its parent's */
	waitpid(child, &status, 0);
	_exit(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void crash__of_a_forked_child_is_not_the_parents(void **state)
{
	(void)state;
	run(NULL, crash_in_child);
	assert_int_equal(WEXITSTATUS(ending.status), SIGSEGV);
	assert_int_equal(atomic_load(&ending.crash.state), 0);
	forget_witness();
}

static void *guard_and_exit(void *ctx)
{
	stack_t stack;

	assert_int_equal(kymo_thread_guard(), 0);
	assert_int_equal(sigaltstack(NULL, &stack), 0);
	assert_false(stack.ss_flags & SS_DISABLE);
	*(void **)ctx = stack.ss_sp;
	assert_int_equal(kymo_thread_guard(), 0); /* has one */
	return NULL;
}

static void *keep_own(void *ctx)
{
	static char own[32768];
	stack_t mine = {.ss_sp = own, .ss_size = sizeof(own)}, now;

	assert_int_equal(sigaltstack(&mine, NULL), 0);
	assert_int_equal(kymo_thread_guard(), 0);
	assert_int_equal(sigaltstack(NULL, &now), 0);
	assert_ptr_equal(now.ss_sp, own);
	mine.ss_flags = SS_DISABLE;
	sigaltstack(&mine, NULL);
	(void)ctx;
	return NULL;
}

static void guard__stack_is_freed_with_its_thread_and_never_replaces_another(void **state)
{
	unsigned char in_core;
	void *stack = NULL;

	(void)state;
	test_in_thread(guard_and_exit, &stack);
	assert_non_null(stack);
	assert_int_equal(mincore((void *)((uintptr_t)stack & ~(uintptr_t)4095), 4096, &in_core),
			 -1);
	assert_int_equal(errno, ENOMEM);
	test_in_thread(keep_own, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crash__main_thread_is_in_the_ring),
		cmocka_unit_test(crash__second_thread_is_named),
		cmocka_unit_test(crash__stack_overflow_in_a_thread_is_recorded),
		cmocka_unit_test(crash__stack_overflow_in_main_is_recorded),
		cmocka_unit_test(crash__abort_and_raised_signals_keep_their_status),
		cmocka_unit_test(chain__earlier_handler_gets_the_kernels_arguments),
		cmocka_unit_test(chain__handler_that_gives_up_ends_by_the_signal),
		cmocka_unit_test(chain__one_shot_handler_runs_once),
		cmocka_unit_test(chain__repaired_fault_is_no_crash),
		cmocka_unit_test(chain__handler_may_jump_out),
		cmocka_unit_test(chain__ignored_signals_are_ignored_but_faults_are_not),
		cmocka_unit_test(chain__later_handler_reaches_ours),
		cmocka_unit_test(chain__crash_in_the_earlier_handler_keeps_the_first_record),
		cmocka_unit_test(crash__of_many_threads_at_once_gives_one_whole_record),
		cmocka_unit_test(crash__of_a_forked_child_is_not_the_parents),
		cmocka_unit_test(guard__stack_is_freed_with_its_thread_and_never_replaces_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
