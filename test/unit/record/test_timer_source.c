/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* CPU-time timers of a kernel of the test's own, whose system calls the linker puts here: which
 * timers there are, at what rate, and what an expiry, sent as the kernel sends it, becomes. */
#include "../../lib/cmocka_all.h"
#include "../../lib/now_fake.h"
#include "../../lib/recorder_case.h"

#include <base/testpoint.h>
#include <errno.h>
#include <pthread.h>
#include <record/emit/emit_engine.h>
#include <record/sample/sampler.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define T0 UINT64_C(1000000000000)
#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define RATE 100u
#define PERIOD (SECOND / RATE)
#define TASKS 990001 /* descriptor of /proc/self/task */
#define TIMERS 5000u
#define OTHER 4100000001u
#define THIRD 4100000002u

struct fake_timer {
	bool is_there;
	clockid_t clock;
	struct sigevent event;
	struct itimerspec when;
};

static struct {
	struct fake_timer timers[TIMERS];
	int made;                    /* their numbers */
	uint32_t tids[8], tid_count; /* that /proc lists */
	uint32_t reported;           /* of them */
	int create_error;            /* errno of OTHER's */
	uint64_t scan_ns;            /* what it takes */
	uint32_t scans;
} kernel;

static struct test_recorder test;
static struct ky_sample_ring cells;
static uint32_t own;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

static uint32_t tid_of(const struct sigevent *event)
{
#if defined(sigev_notify_thread_id)
	return (uint32_t)event->sigev_notify_thread_id;
#else
	return (uint32_t)event->_sigev_un._tid;
#endif
}

static long create(clockid_t clock, const struct sigevent *event, int *id)
{
	if (tid_of(event) == OTHER && kernel.create_error) {
		errno = kernel.create_error;
		return -1;
	}
	assert_in_range(kernel.made, 0, TIMERS - 1);
	kernel.timers[kernel.made] = (struct fake_timer){
		.is_there = true, .clock = clock, .event = *event};
	*id = kernel.made++;
	return 0;
}

static void (*step_in)(void);

void ky_testpoint(const char *name)
{
	void (*now)(void) = step_in;

	if (!now || strcmp(name, "timer.tick") != 0)
		return;
	step_in = NULL;
	now();
}

static struct fake_timer *timer_at(long id)
{
	assert_in_range(id, 0, kernel.made - 1);
	assert_true(kernel.timers[id].is_there);
	return &kernel.timers[id];
}

/* One entry a call, as a directory larger than the buffer has them. */
static long next_task(char *out)
{
	const uint16_t bytes = 32;

	if (kernel.reported == kernel.tid_count)
		return 0;
	memset(out, 0, bytes);
	memcpy(out + 16, &bytes, sizeof(bytes));
	(void)snprintf(out + 19, 12, "%u", kernel.tids[kernel.reported++]);
	return bytes;
}

/* All words there may be, as syscall() itself takes them: the address sanitizer would stop at those
 * that the caller did not pass. */
__attribute__((no_sanitize_address)) long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_timer_create)
		return create((clockid_t)a[0], (const struct sigevent *)a[1], (int *)a[2]);
	if (number == SYS_timer_settime && a[0] == -1) {
		errno = EINVAL;
		return -1;
	}
	if (number == SYS_timer_settime) {
		timer_at(a[0])->when = *(const struct itimerspec *)a[2];
		return 0;
	}
	if (number == SYS_timer_delete) {
		timer_at(a[0])->is_there = false;
		return 0;
	}
	if (number == SYS_openat && strcmp((const char *)a[1], "/proc/self/task") == 0) {
		kernel.reported = 0;
		kernel.scans++;
		test_now.ns += kernel.scan_ns;
		return TASKS;
	}
	if (number == SYS_getdents64 && a[0] == TASKS)
		return next_task((char *)a[1]);
	if (number == SYS_close && a[0] == TASKS)
		return 0;
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static int setup(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	memset(&test_now, 0, sizeof(test_now));
	test_now.ns = T0;
	own = (uint32_t)__real_syscall(SYS_gettid);
	kernel.tids[0] = own;
	kernel.tid_count = 1;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	assert_true(ky_ring_samples(ky_engine.ring, KY_SAMPLES_CPU, &cells));
	return signal(SIGPROF, SIG_DFL) == SIG_ERR ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_timer_source.stop();
	for (int i = 0; i < kernel.made; i++)
		assert_false(kernel.timers[i].is_there);
	test_recorder_close(&test);
	(void)signal(SIGPROF, SIG_DFL);
	return 0;
}

static uint32_t sample_count(void)
{
	return (uint32_t)(atomic_load(&cells.head->claim_index) >> KY_SAMPLE_CLAIM_BITS);
}

/* The newest one. */
static const struct ky_sample_cell *newest(void)
{
	uint64_t claim = KY_SAMPLE_CLAIM(atomic_load(&cells.head->claim_index));
	const struct ky_sample_cell *cell;

	do { /* a stack may take more than one */
		assert_true(claim > 0);
		claim--;
		cell = (const void *)(cells.cells +
				      claim % cells.cell_count * KY_SAMPLE_CELL_BYTES);
	} while (cell->part != 0);
	return cell;
}

/* NULL: the thread has none. */
static struct fake_timer *timer_of(uint32_t tid)
{
	for (int i = 0; i < kernel.made; i++)
		if (kernel.timers[i].is_there && tid_of(&kernel.timers[i].event) == tid)
			return &kernel.timers[i];
	return NULL;
}

/* As the kernel sends it, to this thread. */
static void send(int code, void *value, int overrun)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_code = code;
	info.si_value.sival_ptr = value;
	info.si_overrun = overrun;
	errno = ECHILD;
	assert_int_equal(__real_syscall(SYS_rt_tgsigqueueinfo, getpid(), own, SIGPROF, &info), 0);
	(void)usleep(0); /* the thread sanitizer holds signals back until a call that it knows */
	assert_int_equal(errno, ECHILD); /* as the host left it */
}

static void expire(int overrun)
{
	struct fake_timer *timer = timer_of(own);

	assert_non_null(timer);
	send(SI_TIMER, timer->event.sigev_value.sival_ptr, overrun);
}

static uint64_t ns_of(struct timespec time)
{
	return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static uint32_t refusal(void)
{
	return atomic_load(&cells.head->refusals[KY_SOURCE_TIMER]);
}

static void start__gives_every_thread_a_timer_on_its_own_cpu_clock(void **state)
{
	(void)state;
	kernel.tids[kernel.tid_count++] = OTHER;
	ky_timer_source.apply(RATE);
	assert_true(ky_timer_source.is_on());
	assert_int_equal(kernel.made, 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct fake_timer *timer = timer_of(i ? OTHER : own);

		assert_non_null(timer);
		/* The kernel's number of a thread's clock of scheduled time. */
		assert_int_equal(timer->clock, (clockid_t)(~(i ? OTHER : own) << 3 | 6u));
		assert_int_equal(timer->event.sigev_notify, SIGEV_THREAD_ID);
		assert_int_equal(timer->event.sigev_signo, SIGPROF);
		assert_int_equal(ns_of(timer->when.it_interval), PERIOD);
		/* Drawn: anywhere in the first period. */
		assert_in_range(ns_of(timer->when.it_value), 1, PERIOD);
	}
	assert_int_equal(atomic_load(&cells.head->source), 1u << KY_SOURCE_TIMER);
	assert_int_equal(atomic_load(&cells.head->rate_hz), RATE);
	assert_int_equal(atomic_load(&cells.head->limits), KY_SAMPLE_NO_KERNEL_CHAIN);
	assert_int_equal(refusal(), 0);
}

static void skip_under_thread_sanitizer(const char *why)
{
#if defined(__SANITIZE_THREAD__)
	print_message("# %s\n", why);
	skip();
#else
	(void)why;
#endif
}

/* As another thread does it, while this one is held up in its handler. */
static void begin_another_recording(void)
{
	ky_timer_source.stop();
	test_recorder_close(&test);
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	ky_engine.ring->sample_bytes = 0; /* there is no room for samples */
	atomic_store(&ky_engine.ring->control->settings.sample_hz, RATE / 2);
	ky_timer_source.apply(RATE);
	assert_false(ky_timer_source.is_on());
}

static void expiry__that_outlives_its_recording_is_of_no_other(void **state)
{
	(void)state;
	skip_under_thread_sanitizer("what another thread does allocates, here in a handler");
	ky_timer_source.apply(RATE);
	step_in = begin_another_recording;
	expire(0);
	assert_null(step_in);
	assert_int_equal(atomic_load(&ky_engine.ring->header->sample_classes), 0);
}

/* A thread that is late in an event follows the settings of a recording that is over. */
static void start__of_a_recording_that_is_over_is_none(void **state)
{
	(void)state;
	test_recorder_close(&test);
	ky_timer_source.apply(RATE);
	assert_false(ky_timer_source.is_on());
	assert_null(timer_of(own));
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
}

static void expiry__is_a_sample_that_stands_for_its_overruns_too(void **state)
{
	const struct ky_sample_cell *cell;

	(void)state;
	ky_timer_source.apply(RATE);
	expire(0);
	assert_int_equal(sample_count(), 1);
	cell = newest();
	assert_int_equal(cell->kind, KY_SAMPLE_CPU);
	assert_int_equal(cell->tid, own);
	assert_int_equal(cell->value, PERIOD);
	assert_int_equal(cell->other, KY_SOURCE_TIMER);
	assert_true(cell->flags & KY_SAMPLE_HAS_CPU);
	assert_true(cell->frame_count > 0);
	expire(2);
	assert_int_equal(sample_count(), 2);
	assert_int_equal(newest()->value, 3 * PERIOD);
}

/* Another timer of the host's, a plain signal, one that outlived its timer. */
static void signal__of_another_sender_is_no_sample(void **state)
{
	void *mine;

	(void)state;
	ky_timer_source.apply(RATE);
	mine = timer_of(own)->event.sigev_value.sival_ptr;
	send(SI_QUEUE, mine, 0);
	send(SI_TIMER, &kernel, 0);
	send(SI_TIMER, NULL, 0);
	assert_int_equal(sample_count(), 0);
	ky_timer_source.thread_end(own);
	assert_null(timer_of(own));
	send(SI_TIMER, mine, 0);
	assert_int_equal(sample_count(), 0);
	ky_timer_source.stop();
	send(SI_TIMER, mine, 0);
	assert_int_equal(sample_count(), 0);
}

static void set_hz(uint32_t hz)
{
	atomic_store(&ky_engine.ring->control->settings.sample_hz, hz);
}

/* It checks for a change once a second of its thread's time while it is paused. */
static void rate__follows_the_settings_at_the_next_expiry(void **state)
{
	(void)state;
	ky_timer_source.apply(RATE);
	set_hz(KY_SETTING_OFF);
	assert_int_equal(ns_of(timer_of(own)->when.it_interval), PERIOD);
	expire(0);
	assert_int_equal(sample_count(), 0);
	assert_int_equal(ns_of(timer_of(own)->when.it_interval), SECOND);
	assert_int_equal(atomic_load(&cells.head->rate_hz), 0);
	expire(0);
	assert_int_equal(sample_count(), 0);
	set_hz(250);
	expire(0); /* of the pause: it stands for nothing */
	assert_int_equal(sample_count(), 0);
	assert_int_equal(ns_of(timer_of(own)->when.it_interval), 4 * MS);
	assert_int_equal(atomic_load(&cells.head->rate_hz), 250);
	expire(1);
	assert_int_equal(sample_count(), 1);
	assert_int_equal(newest()->value, 8 * MS);
	set_hz(5000); /* at most 1,000 */
	expire(0);
	assert_int_equal(newest()->value, 4 * MS);
	assert_int_equal(ns_of(timer_of(own)->when.it_interval), MS);
}

static void rate__of_a_stopped_recording_is_none(void **state)
{
	(void)state;
	ky_timer_source.apply(RATE);
	atomic_store(&ky_engine.ring->control->settings.stopped_ns, T0);
	expire(0);
	assert_int_equal(sample_count(), 0);
	assert_int_equal(ns_of(timer_of(own)->when.it_interval), SECOND);
	atomic_store(&ky_engine.ring->control->settings.stopped_ns, 0);
}

static uintptr_t probed_at;

static void probe(int number)
{
	(void)number;
	probed_at = (uintptr_t)__builtin_frame_address(0);
}

/* What a signal takes of its stack before the handler runs. AT_MINSIGSTKSZ is what it may take at
 * most: with the tiles of AMX, which hardly any program uses, that is three times as much. */
static size_t signal_frame_bytes(const stack_t *stack)
{
	struct sigaction before, action = {.sa_handler = probe, .sa_flags = SA_ONSTACK};
	stack_t stack_before;

	assert_int_equal(sigaltstack(stack, &stack_before), 0);
	assert_int_equal(sigaction(SIGUSR2, &action, &before), 0);
	assert_int_equal(raise(SIGUSR2), 0);
	assert_int_equal(sigaction(SIGUSR2, &before, NULL), 0);
	assert_int_equal(sigaltstack(&stack_before, NULL), 0);
	return (uintptr_t)stack->ss_sp + stack->ss_size - probed_at;
}

/* As when a stack has overflowed, and a tick comes on top of the program's own handler. */
static void tick__without_room_on_the_signal_stack_is_lost(void **state)
{
	static _Alignas(64) uint8_t room[128 << 10];
	stack_t large = {.ss_sp = room, .ss_size = sizeof(room)};
	stack_t before, small = {.ss_sp = room, .ss_size = signal_frame_bytes(&large) + 2048};

	(void)state;
	skip_under_thread_sanitizer("the thread sanitizer runs a handler later, on the "
				    "thread's own stack");
	ky_timer_source.apply(RATE);
	assert_int_equal(sigaltstack(&small, &before), 0);
	expire(0);
	assert_int_equal(sample_count(), 0);
	assert_int_equal(atomic_load(&cells.head->lost_count), 1);
	assert_int_equal(sigaltstack(&large, NULL), 0);
	expire(0);
	assert_int_equal(sample_count(), 1);
	assert_int_equal(atomic_load(&cells.head->lost_count), 1);
	assert_int_equal(sigaltstack(&before, NULL), 0);
}

/* Threads that record nothing are found by a sampled thread, every 50 ms at most. */
static void scan__finds_new_and_ended_threads(void **state)
{
	(void)state;
	ky_timer_source.apply(RATE);
	assert_int_equal(kernel.scans, 1);
	kernel.tids[kernel.tid_count++] = OTHER;
	test_now.ns = T0 + 50 * MS - 1;
	expire(0);
	assert_int_equal(kernel.scans, 1);
	assert_null(timer_of(OTHER));
	test_now.ns = T0 + 50 * MS;
	expire(0);
	assert_int_equal(kernel.scans, 2);
	assert_non_null(timer_of(OTHER));
	kernel.tids[1] = THIRD;
	test_now.ns = T0 + 100 * MS;
	expire(0);
	assert_null(timer_of(OTHER));
	assert_non_null(timer_of(THIRD));
	assert_non_null(timer_of(own));
}

/* A five-hundredth of the time at most is spent on that. */
static void scan__that_takes_long_runs_less_often(void **state)
{
	(void)state;
	ky_timer_source.apply(RATE);
	kernel.scan_ns = MS;
	test_now.ns = T0 + 50 * MS;
	expire(0);
	assert_int_equal(kernel.scans, 2);
	test_now.ns = T0 + 550 * MS - 1;
	expire(0);
	assert_int_equal(kernel.scans, 2);
	test_now.ns = T0 + 550 * MS;
	expire(0);
	assert_int_equal(kernel.scans, 3);
}

static void refused__thread_is_counted_unless_it_has_ended(void **state)
{
	(void)state;
	ky_timer_source.apply(RATE);
	kernel.create_error = ESRCH;
	ky_timer_source.thread_begin(OTHER);
	assert_int_equal(atomic_load(&cells.head->threads_refused), 0);
	kernel.create_error = EAGAIN;
	ky_timer_source.thread_begin(OTHER);
	assert_int_equal(atomic_load(&cells.head->threads_refused), 1);
	assert_null(timer_of(OTHER));
	/* And tried again. */
	kernel.create_error = 0;
	ky_timer_source.thread_begin(OTHER);
	assert_non_null(timer_of(OTHER));
	ky_timer_source.thread_begin(OTHER);
	assert_int_equal(kernel.made, 2);
}

static void refused__where_a_filter_denies_timers(void **state)
{
	(void)state;
	kernel.tids[0] = OTHER;
	kernel.create_error = EPERM;
	ky_timer_source.apply(RATE);
	assert_int_equal(refusal(), EPERM);
}

/* One that waits with its signals for its own signalfd() gets no ticks. */
static void refused__thread_that_blocks_the_signal_is_counted(void **state)
{
	sigset_t prof;

	(void)state;
	assert_int_equal(sigemptyset(&prof), 0);
	assert_int_equal(sigaddset(&prof, SIGPROF), 0);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &prof, NULL), 0);
	ky_timer_source.apply(RATE);
	assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &prof, NULL), 0);
	assert_int_equal(atomic_load(&cells.head->threads_refused), 1);
}

static void on_host(int number)
{
	(void)number;
}

static void host__with_a_handler_is_left_alone(void **state)
{
	struct sigaction now;

	(void)state;
	assert_true(signal(SIGPROF, on_host) != SIG_ERR);
	ky_timer_source.apply(RATE);
	assert_int_equal(kernel.made, 0);
	assert_int_equal(refusal(), EBUSY);
	assert_int_equal(atomic_load(&cells.head->source), 0);
	assert_int_equal(sigaction(SIGPROF, NULL, &now), 0);
	assert_true(now.sa_handler == on_host);
}

/* Seen when the next thread begins: its handler must not meet ticks of ours. */
static void host__that_takes_the_signal_over_gets_it(void **state)
{
	(void)state;
	ky_timer_source.apply(RATE);
	assert_true(signal(SIGPROF, on_host) != SIG_ERR);
	ky_timer_source.thread_begin(OTHER);
	assert_null(timer_of(own));
	assert_null(timer_of(OTHER));
	assert_int_equal(refusal(), EBUSY);
}

/* The interposed sigaction() says so before it does it. */
static void host__that_claims_the_signal_finds_it_unchanged(void **state)
{
	struct sigaction now;

	(void)state;
	assert_true(signal(SIGPROF, SIG_IGN) != SIG_ERR);
	ky_timer_source.apply(RATE);
	ky_timer_source.leave_signal();
	assert_null(timer_of(own));
	assert_int_equal(sigaction(SIGPROF, NULL, &now), 0);
	assert_true(now.sa_handler == SIG_IGN);
	assert_int_equal(refusal(), EBUSY);
	/* For good. */
	ky_timer_source.thread_begin(OTHER);
	assert_null(timer_of(OTHER));
}

static void external__sampler_keeps_the_timers_off(void **state)
{
	(void)state;
	atomic_fetch_or(&cells.head->source, 1u << KY_SOURCE_PERF);
	ky_timer_source.apply(RATE);
	assert_false(ky_timer_source.is_on());
	assert_int_equal(kernel.made, 0);
}

/* perf_event samples this process from outside, until that leaves it to us, and takes it back. */
static void external__sampler_leaves_it_and_takes_it_back(void **state)
{
	struct ky_ring_control *control = ky_engine.ring->control;

	(void)state;
	atomic_fetch_or(&cells.head->source, 1u << KY_SOURCE_PERF);
	atomic_store(&cells.head->rate_hz, 99);
	kernel.tids[kernel.tid_count++] = OTHER;
	ky_timer_source.apply(0);
	assert_int_equal(kernel.made, 0);
	atomic_store(&control->own_sample_hz, RATE);
	ky_timer_source.apply(0);
	assert_int_equal(kernel.made, 2);
	assert_int_equal(ns_of(timer_of(OTHER)->when.it_interval), PERIOD);
	assert_int_equal(atomic_load(&cells.head->now), KY_SOURCE_TIMER);
	assert_int_equal(atomic_load(&cells.head->rate_hz), RATE);
	expire(0);
	assert_int_equal(sample_count(), 1);
	/* Taken back: no timer waits for its thread's next expiry, and nothing of ours says what
	 * the rate is. */
	atomic_store(&control->own_sample_hz, 0);
	atomic_store(&cells.head->now, KY_SOURCE_PERF);
	atomic_store(&cells.head->rate_hz, 99);
	ky_timer_source.apply(0);
	assert_int_equal(ns_of(timer_of(OTHER)->when.it_interval), SECOND);
	expire(0);
	assert_int_equal(sample_count(), 1);
	assert_int_equal(atomic_load(&cells.head->rate_hz), 99);
	assert_int_equal(atomic_load(&cells.head->now), KY_SOURCE_PERF);
	atomic_store(&control->own_sample_hz, RATE);
	ky_timer_source.apply(0);
	assert_int_equal(ns_of(timer_of(OTHER)->when.it_interval), PERIOD);
	assert_int_equal(atomic_load(&cells.head->now), KY_SOURCE_TIMER);
	/* At the rate of the settings, where they name one. */
	set_hz(250);
	ky_timer_source.apply(0);
	assert_int_equal(ns_of(timer_of(OTHER)->when.it_interval), SECOND / 250);
	set_hz(KY_SETTING_OFF);
	ky_timer_source.apply(0);
	assert_int_equal(ns_of(timer_of(OTHER)->when.it_interval), SECOND);
}

static void external__sampler_learns_who_cannot(void **state)
{
	(void)state;
	assert_true(signal(SIGPROF, on_host) != SIG_ERR);
	atomic_fetch_or(&cells.head->source, 1u << KY_SOURCE_PERF);
	atomic_store(&ky_engine.ring->control->own_sample_hz, RATE);
	ky_timer_source.apply(0);
	assert_int_equal(refusal(), EBUSY);
	assert_int_equal(kernel.made, 0);
	assert_int_equal(atomic_load(&cells.head->now), KY_SOURCE_NONE);
}

/* The filter that the program put itself under since may kill for timer_settime(). */
static void rate__is_left_alone_once_the_process_is_confined(void **state)
{
	(void)state;
	kernel.tids[kernel.tid_count++] = OTHER;
	ky_timer_source.apply(RATE);
	__atomic_store_n(&ky_engine.is_confined, 1, __ATOMIC_RELAXED);
	set_hz(250);
	expire(0);
	ky_timer_source.apply(RATE);
	assert_int_equal(ns_of(timer_of(own)->when.it_interval), PERIOD);
	assert_int_equal(ns_of(timer_of(OTHER)->when.it_interval), PERIOD);
	assert_int_equal(sample_count(), 1);
	set_hz(KY_SETTING_OFF); /* needs no call */
	expire(0);
	assert_int_equal(sample_count(), 1);
	__atomic_store_n(&ky_engine.is_confined, 0, __ATOMIC_RELAXED);
	set_hz(250);
	expire(0);
	assert_int_equal(ns_of(timer_of(own)->when.it_interval), SECOND / 250);
}

/* Nor for timer_delete() at the end of a thread. The ticks of its timer, should there be any, are
 * nobody's. */
static void thread__that_ends_in_a_confined_process_makes_no_call(void **state)
{
	void *value;

	(void)state;
	kernel.tids[kernel.tid_count++] = OTHER;
	ky_timer_source.apply(RATE);
	value = timer_of(OTHER)->event.sigev_value.sival_ptr;
	__atomic_store_n(&ky_engine.is_confined, 1, __ATOMIC_RELAXED);
	ky_timer_thread_end(OTHER);
	assert_non_null(timer_of(OTHER));
	send(SI_TIMER, value, 0);
	assert_int_equal(sample_count(), 0);
	__atomic_store_n(&ky_engine.is_confined, 0, __ATOMIC_RELAXED);
	timer_of(OTHER)->is_there = false; /* as teardown() wants it */
}

static void stop__and_start_again(void **state)
{
	(void)state;
	ky_timer_source.apply(RATE);
	ky_timer_source.stop();
	assert_null(timer_of(own));
	assert_false(ky_timer_source.is_on());
	ky_timer_source.thread_begin(OTHER);
	assert_null(timer_of(OTHER));
	ky_timer_source.apply(RATE);
	expire(0);
	assert_int_equal(sample_count(), 1);
}

/* A forked child has none of the timers, whatever their numbers are there. */
static void fork__child_forgets_without_a_call(void **state)
{
	struct fake_timer *timer;

	(void)state;
	ky_timer_source.apply(RATE);
	timer = timer_of(own);
	ky_timer_source.forget();
	assert_true(timer->is_there);
	assert_false(ky_timer_source.is_on());
	timer->is_there = false;
}

static void threads__beyond_the_table_are_refused(void **state)
{
	(void)state;
	ky_timer_source.apply(RATE);
	for (uint32_t i = 1; i < 4096; i++)
		ky_timer_source.thread_begin(OTHER + i);
	assert_int_equal(kernel.made, 4096);
	ky_timer_source.thread_begin(OTHER);
	assert_int_equal(kernel.made, 4096);
	/* Who ends gives its place back. */
	ky_timer_source.thread_end(OTHER + 7);
	ky_timer_source.thread_begin(OTHER);
	assert_non_null(timer_of(OTHER));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		CASE(start__gives_every_thread_a_timer_on_its_own_cpu_clock),
		CASE(expiry__that_outlives_its_recording_is_of_no_other),
		CASE(start__of_a_recording_that_is_over_is_none),
		CASE(expiry__is_a_sample_that_stands_for_its_overruns_too),
		CASE(signal__of_another_sender_is_no_sample),
		CASE(rate__follows_the_settings_at_the_next_expiry),
		CASE(rate__of_a_stopped_recording_is_none),
		CASE(tick__without_room_on_the_signal_stack_is_lost),
		CASE(scan__finds_new_and_ended_threads),
		CASE(scan__that_takes_long_runs_less_often),
		CASE(refused__thread_is_counted_unless_it_has_ended),
		CASE(refused__where_a_filter_denies_timers),
		CASE(refused__thread_that_blocks_the_signal_is_counted),
		CASE(host__with_a_handler_is_left_alone),
		CASE(host__that_takes_the_signal_over_gets_it),
		CASE(host__that_claims_the_signal_finds_it_unchanged),
		CASE(external__sampler_keeps_the_timers_off),
		CASE(external__sampler_leaves_it_and_takes_it_back),
		CASE(external__sampler_learns_who_cannot),
		CASE(rate__is_left_alone_once_the_process_is_confined),
		CASE(thread__that_ends_in_a_confined_process_makes_no_call),
		CASE(stop__and_start_again),
		CASE(fork__child_forgets_without_a_call),
		CASE(threads__beyond_the_table_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
