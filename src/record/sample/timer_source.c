/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/sample/sampler.h>

#include <base/now.h>
#include <base/testpoint.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/stack.h>
#include <pthread.h>
#include <record/emit/emit_engine.h>
#include <record/sample/poll_readings.h>
#include <record/sample/timer_phase.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <wire/sample_area.h>

#define THREADS_MAX 4096u
#define SECOND_NS UINT64_C(1000000000)
#define RATE_MAX 1000u
#define SCAN_NS UINT64_C(50000000)
#define SCAN_SHARE 500u /* of the time at most 1 / this is spent on searching for threads */
#define ENTRIES_BYTES 2048u
#define HANDLER_STACK_BYTES 3072u /* what a tick takes: 2.2 KiB to walk, 2.6 to scan threads */

/* A thread that is sampled. tid is taken first and given back last. */
struct timer {
	uint32_t tid;       /* atomic; 0: free */
	uint32_t is_seen;   /* atomic */
	int id;             /* atomic; of the kernel; -1: none yet */
	uint32_t rate_hz;   /* it goes at; 0: it only searches for a change, once per second */
	uint32_t is_fired;  /* atomic: once at least, at this rate */
	uint64_t period_ns; /* what one expiry stands for */
};

enum timer_state {
	IDLE = 0,
	BUSY, /* starting or stopping */
	ON
};

static struct {
	uint32_t state; /* atomic, enum timer_state */
	uint32_t wanted_hz;
	uint32_t high;        /* atomic: entries below may be taken */
	uint32_t is_left;     /* atomic: the host wanted the signal; no timer from then on */
	uint64_t scan_due_ns; /* atomic */
	uint64_t tick_ns;     /* the kernel's; 0: not known */
	/* atomic; its cpu_samples are there. A handler reads it once: it may be late, and find the
	 * next recording's. */
	struct ky_ring *ring;
	struct sigaction before;
	struct timer timers[THREADS_MAX];
} source;

/* Of the timer with the same index: many signal stacks have 8 KiB, of which the kernel's frame
 * takes up to 3.5. Pages that no handler has come by do not exist. */
static uint64_t frames_of[THREADS_MAX][KY_SAMPLE_FRAMES_MAX];

static bool is_on(void)
{
	return __atomic_load_n(&source.state, __ATOMIC_ACQUIRE) == ON;
}

/* By a filter that may kill for what it does not expect: of its own, or one that another process
 * has seen. */
static bool is_confined(void)
{
	return __atomic_load_n(&ky_engine.is_confined, __ATOMIC_RELAXED) || !ky_poll_cost_may_ask();
}

static struct ky_ring *ring_of(void)
{
	return __atomic_load_n(&source.ring, __ATOMIC_ACQUIRE);
}

static struct ky_sample_class_head *head_of(void)
{
	return ring_of()->cpu_samples.head;
}

static void say_refusal(int err)
{
	if (ring_of())
		atomic_store_explicit(&head_of()->refusals[KY_SOURCE_TIMER], (uint32_t)err,
				      memory_order_relaxed);
}

/* What the recorder process has left to us; 0: nothing. */
static uint32_t own_rate(const struct ky_ring *ring)
{
	return atomic_load_explicit(&ring->control->own_sample_hz, memory_order_relaxed);
}

static bool is_sampled_externally(const struct ky_ring *ring)
{
	return !own_rate(ring) &&
	       atomic_load_explicit(&ring->cpu_samples.head->source, memory_order_relaxed) &
		       1u << KY_SOURCE_PERF;
}

/* As the settings say, which win over the options; by whomever. */
static uint32_t any_rate(const struct ky_ring *ring)
{
	const struct ky_ring_settings *settings = &ring->control->settings;
	uint32_t rate_hz = ky_settings_sample_hz(settings);

	if (rate_hz == KY_SETTING_OFF)
		return 0;
	if (!rate_hz)
		rate_hz = source.wanted_hz ? source.wanted_hz : own_rate(ring);
	return rate_hz < RATE_MAX ? rate_hz : RATE_MAX;
}

static uint32_t wanted_rate(const struct ky_ring *ring)
{
	return is_sampled_externally(ring) ? 0 : any_rate(ring);
}

/* From now on, at this rate; the recorder process closes its events when it sees that. */
static void say_rate(const struct ky_ring *ring, uint32_t rate_hz)
{
	struct ky_sample_class_head *head = ring->cpu_samples.head;

	if (is_sampled_externally(ring))
		return;
	atomic_store_explicit(&head->rate_hz, rate_hz, memory_order_relaxed);
	if (rate_hz)
		atomic_store_explicit(&head->now, KY_SOURCE_TIMER, memory_order_release);
}

/* ---- one timer ---- */

static struct timespec span(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / SECOND_NS),
				 .tv_nsec = (long)(ns % SECOND_NS)};
}

static int set_timer(struct timer *timer, uint32_t rate_hz)
{
	uint64_t period_ns = rate_hz ? SECOND_NS / rate_hz : SECOND_NS;
	uint64_t draw = ky_timer_draw(timer->tid, ky_clock_ticks(&ring_of()->clock));
	uint64_t first_ns = ky_timer_first_ns(draw, period_ns, source.tick_ns);
	struct itimerspec when = {.it_interval = span(period_ns), .it_value = span(first_ns)};

	/* Its thread's handler reads them, and another may have made the timer. */
	__atomic_store_n(&timer->period_ns, period_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&timer->is_fired, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&timer->rate_hz, rate_hz, __ATOMIC_RELEASE);
	return syscall(SYS_timer_settime, __atomic_load_n(&timer->id, __ATOMIC_RELAXED), 0, &when,
		       NULL) ?
		       -errno :
		       0;
}

static int make_timer(struct timer *timer)
{
	/* The CPU clock of any thread of this process: see clock_getcpuclockid() in the kernel. */
	clockid_t clock = (clockid_t)(~timer->tid << 3 | 6u);
	struct sigevent event;
	int err, id;

	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGPROF;
	event.sigev_value.sival_ptr = timer;
#if defined(sigev_notify_thread_id)
	event.sigev_notify_thread_id = (pid_t)timer->tid;
#else
	event._sigev_un._tid = (pid_t)timer->tid;
#endif
	if (syscall(SYS_timer_create, clock, &event, &id) != 0)
		return -errno;
	__atomic_store_n(&timer->id, id, __ATOMIC_RELAXED);
	err = set_timer(timer, wanted_rate(ring_of()));
	if (err) {
		__atomic_store_n(&timer->id, -1, __ATOMIC_RELAXED);
		syscall(SYS_timer_delete, id);
	}
	return err;
}

static void delete_timer(struct timer *timer)
{
	int id = __atomic_exchange_n(&timer->id, -1, __ATOMIC_RELAXED);

	if (id >= 0)
		syscall(SYS_timer_delete, id);
	__atomic_store_n(&timer->tid, 0, __ATOMIC_RELEASE);
}

/* Where the call might kill, the kernel's timer stays: its ticks are of no thread that is known,
 * and one of a thread that has ended does not tick. */
static void drop_timer(struct timer *timer)
{
	if (is_confined())
		__atomic_store_n(&timer->id, -1, __ATOMIC_RELAXED);
	delete_timer(timer);
}

static bool is_left(void)
{
	return __atomic_load_n(&source.is_left, __ATOMIC_SEQ_CST) != 0;
}

static struct timer *find_timer(uint32_t tid)
{
	uint32_t high = __atomic_load_n(&source.high, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < high; i++)
		if (__atomic_load_n(&source.timers[i].tid, __ATOMIC_ACQUIRE) == tid)
			return &source.timers[i];
	return NULL;
}

static struct timer *take_timer(uint32_t tid)
{
	for (uint32_t i = 0; i < THREADS_MAX; i++) {
		uint32_t none = 0, high = __atomic_load_n(&source.high, __ATOMIC_RELAXED);

		if (__atomic_load_n(&source.timers[i].tid, __ATOMIC_RELAXED) != 0 ||
		    !__atomic_compare_exchange_n(&source.timers[i].tid, &none, tid, false,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		while (high < i + 1 &&
		       !__atomic_compare_exchange_n(&source.high, &high, i + 1, false,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		__atomic_store_n(&source.timers[i].id, -1, __ATOMIC_RELAXED);
		return &source.timers[i];
	}
	return NULL;
}

/* Returns 0, also where the thread has one; -errno. */
static int add_thread(uint32_t tid)
{
	struct timer *timer = find_timer(tid);
	int err;

	if (is_left())
		return -EBUSY;
	if (timer) {
		__atomic_store_n(&timer->is_seen, 1, __ATOMIC_RELAXED);
		return 0;
	}
	timer = take_timer(tid);
	if (!timer)
		return -EAGAIN;
	__atomic_store_n(&timer->is_seen, 1, __ATOMIC_RELAXED);
	err = make_timer(timer);
	if (err) {
		drop_timer(timer);
		/* ESRCH, EINVAL: it has ended meanwhile. */
		if (err != -ESRCH && err != -EINVAL)
			atomic_fetch_add_explicit(&head_of()->threads_refused, 1,
						  memory_order_relaxed);
	} else if (is_left()) { /* meanwhile; who drops all may have missed this one */
		drop_timer(timer);
		err = -EBUSY;
	}
	return err;
}

/* ---- all threads ---- */

struct timer_entry {
	uint64_t inode, offset;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

/* Those of /proc. This runs in the handler, too: without the C library's streams, and by bare
 * system calls, for open() and close() end a thread that another thread has cancelled, wherever it
 * stands. Returns -errno of the first that was refused. */
static int scan_threads(void)
{
	_Alignas(8) char bytes[ENTRIES_BYTES];
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task",
			      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int err = 0, one;
	long count = 0;

	if (fd < 0)
		return 0;
	for (uint32_t i = 0; i < __atomic_load_n(&source.high, __ATOMIC_ACQUIRE); i++)
		__atomic_store_n(&source.timers[i].is_seen, 0, __ATOMIC_RELAXED);
	while ((count = syscall(SYS_getdents64, fd, bytes, sizeof(bytes))) > 0) {
		for (long at = 0; at < count;) {
			const struct timer_entry *entry = (const void *)(bytes + at);
			uint32_t tid = 0;

			for (const char *digit = entry->name; *digit >= '0' && *digit <= '9';
			     digit++)
				tid = tid * 10 + (uint32_t)(*digit - '0');
			one = tid ? add_thread(tid) : 0;
			err = err ? err : one;
			at += entry->bytes;
		}
	}
	syscall(SYS_close, fd);
	for (uint32_t i = 0; count == 0 && i < __atomic_load_n(&source.high, __ATOMIC_ACQUIRE);
	     i++) {
		struct timer *timer = &source.timers[i];

		if (__atomic_load_n(&timer->tid, __ATOMIC_ACQUIRE) &&
		    __atomic_load_n(&timer->id, __ATOMIC_RELAXED) >= 0 &&
		    !__atomic_load_n(&timer->is_seen, __ATOMIC_RELAXED))
			drop_timer(timer);
	}
	return err == -ESRCH || err == -EINVAL ? 0 : err;
}

/* Now and then, by the thread that is sampled then: threads that record nothing are found by
 * that. */
static void scan_now_and_then(void)
{
	uint64_t due = __atomic_load_n(&source.scan_due_ns, __ATOMIC_RELAXED);
	uint64_t start = ky_now_ns(CLOCK_MONOTONIC), spent;

	if (start < due || is_confined() ||
	    !__atomic_compare_exchange_n(&source.scan_due_ns, &due, start + SECOND_NS, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	(void)scan_threads();
	spent = (ky_now_ns(CLOCK_MONOTONIC) - start) * SCAN_SHARE;
	__atomic_store_n(&source.scan_due_ns, start + (spent > SCAN_NS ? spent : SCAN_NS),
			 __ATOMIC_RELEASE);
}

/* ---- the handler ---- */

static uint64_t pc_of(const void *context)
{
	const ucontext_t *from = context;

#if defined(__x86_64__)
	return (uint64_t)from->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return from->uc_mcontext.pc;
#else
	(void)from;
	return 0;
#endif
}

static void put_sample(const struct ky_ring *ring, struct timer *timer, uint64_t periods,
		       const void *context)
{
	bool is_first = !__atomic_exchange_n(&timer->is_fired, 1, __ATOMIC_RELAXED);
	uint64_t period_ns = __atomic_load_n(&timer->period_ns, __ATOMIC_RELAXED);
	uint64_t *frames = frames_of[timer - source.timers];
	struct kymo_stack stack = {.frames = frames, .frames_max = KY_SAMPLE_FRAMES_MAX};
	struct ky_sample sample = {.kind = KY_SAMPLE_CPU,
				   .syscall = -1,
				   .tid = timer->tid,
				   .stamp = ky_clock_ticks(&ring->clock),
				   .value = ky_timer_value_ns(is_first, periods, period_ns,
							      source.tick_ns),
				   .other = KY_SOURCE_TIMER,
				   .frames = frames};
	int cpu = sched_getcpu();

	if (cpu >= 0) {
		sample.flags |= KY_SAMPLE_HAS_CPU;
		sample.cpu = (uint16_t)cpu;
	}
	kymo_stack_capture_context(&stack, context);
	if (!stack.count)
		frames[stack.count++] = pc_of(context);
	sample.frame_count = stack.count;
	if (stack.end != KYMO_STACK_FIRST)
		sample.flags |= KY_SAMPLE_TRUNCATED;
	(void)ky_sample_put(&ring->cpu_samples, &sample);
}

/* A handler's frame takes 3.6 KiB with AVX-512 and 11 with AMX, and Rust gives its threads signal
 * stacks of 8 KiB, or one such frame where that is more: two signals at once leave next to nothing.
 */
static bool has_room(const void *context)
{
	const stack_t *stack = &((const ucontext_t *)context)->uc_stack;
	uintptr_t room = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)stack->ss_sp;

	return room >= stack->ss_size || room >= HANDLER_STACK_BYTES; /* not on it, or enough */
}

static __attribute__((noinline)) void tick(const struct ky_ring *ring, struct timer *timer,
					   uint64_t periods, void *context)
{
	uint32_t rate_hz = wanted_rate(ring),
		 had_hz = __atomic_load_n(&timer->rate_hz, __ATOMIC_ACQUIRE);

	if (had_hz && rate_hz)
		put_sample(ring, timer, periods, context);
	if (rate_hz != had_hz && !is_confined()) {
		(void)set_timer(timer, rate_hz);
		say_rate(ring, rate_hz);
	}
	scan_now_and_then();
}

/* Async-signal-safe: everything it calls is ours, or a system call. */
static void on_tick(int number, siginfo_t *info, void *context)
{
	struct timer *timer = info->si_value.sival_ptr;
	uint64_t periods = 1 + (uint64_t)(info->si_overrun > 0 ? info->si_overrun : 0);
	const struct ky_ring *ring;
	int err = errno;

	(void)number;
	/* Another handler's, or one that was on its way when its timer went. */
	if (info->si_code != SI_TIMER || timer < source.timers ||
	    timer >= source.timers + THREADS_MAX || !is_on() || !timer->tid ||
	    !__atomic_load_n(&ky_engine.pool->is_alive, __ATOMIC_ACQUIRE))
		return;
	ring = ring_of();
	KY_TESTPOINT("timer.tick");
	if (has_room(context))
		tick(ring, timer, periods, context);
	else if (__atomic_load_n(&timer->rate_hz, __ATOMIC_RELAXED))
		atomic_fetch_add_explicit(&ring->cpu_samples.head->lost_count, 1,
					  memory_order_relaxed);
	errno = err;
}

static bool is_ours(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_tick;
}

/* Only where the host has none. Returns 0, -EBUSY, -errno. */
static int take_signal(void)
{
	struct sigaction action = {.sa_sigaction = on_tick,
				   .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};

	if (sigaction(SIGPROF, NULL, &source.before) != 0)
		return -errno;
	if (is_ours(&source.before))
		return 0;
	if ((source.before.sa_flags & SA_SIGINFO) ||
	    (source.before.sa_handler != SIG_DFL && source.before.sa_handler != SIG_IGN))
		return -EBUSY;
	sigemptyset(&action.sa_mask);
	return sigaction(SIGPROF, &action, NULL) ? -errno : 0;
}

/* What was sent and not delivered yet must find a handler, or it ends the process: ours stays. */
static bool has_signal(void)
{
	struct sigaction now;

	return sigaction(SIGPROF, NULL, &now) == 0 && is_ours(&now);
}

static void drop_all(void (*drop)(struct timer *timer))
{
	for (uint32_t i = 0; i < __atomic_load_n(&source.high, __ATOMIC_ACQUIRE); i++)
		if (__atomic_load_n(&source.timers[i].tid, __ATOMIC_ACQUIRE))
			drop(&source.timers[i]);
}

/* What is on its way to a thread would meet the host's handler, or end the process where it wants
 * none: ignoring a signal takes it from all threads. */
void ky_timer_leave_signal(void)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	/* A child has none of these timers, and maybe some of its own by these numbers. */
	if (!is_on() || is_left() ||
	    !__atomic_load_n(&ky_engine.pool->is_alive, __ATOMIC_ACQUIRE) ||
	    (uint32_t)getpid() != ring_of()->pid)
		return;
	__atomic_store_n(&source.is_left, 1, __ATOMIC_SEQ_CST);
	drop_all(delete_timer);
	if (has_signal() && sigaction(SIGPROF, &ignore, NULL) == 0)
		(void)sigaction(SIGPROF, &source.before, NULL);
	say_refusal(EBUSY);
}

/* ---- what the engine reports ---- */

/* What the handler calls, called before: a function that the loader has to find first takes more
 * stack than a signal may have. */
static void call_all(void)
{
	static _Alignas(8) uint8_t cells[KY_SAMPLE_CELL_BYTES * KY_SAMPLE_PARTS_MAX];
	static struct ky_sample_class_head head;
	const struct ky_sample_ring nowhere = {&head, cells, KY_SAMPLE_PARTS_MAX};
	static uint64_t frames[KY_SAMPLE_FRAMES_MAX]; /* threads that begin now have the others */
	struct ky_sample sample = {.kind = KY_SAMPLE_VOID, .frames = frames};
	struct kymo_stack stack = {.frames = frames, .frames_max = KY_SAMPLE_FRAMES_MAX};
	struct kymo_stack_start here;

	KYMO_STACK_HERE(&here);
	kymo_stack_capture(&stack, &here);
	sample.frame_count = stack.count;
	(void)ky_sample_put(&nowhere, &sample);
	(void)sched_getcpu();
}

/* One that waits with its signals for another's signalfd() gets no ticks. */
static void count_if_blocked(void)
{
	sigset_t blocked;

	if (pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 && sigismember(&blocked, SIGPROF) == 1)
		atomic_fetch_add_explicit(&head_of()->threads_refused, 1, memory_order_relaxed);
}

static int start(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	int err = take_signal();

	if (err)
		return err;
	call_all();
	err = add_thread(tid);
	if (err)
		return err;
	count_if_blocked();
	atomic_fetch_or_explicit(&head_of()->source, 1u << KY_SOURCE_TIMER, memory_order_relaxed);
	atomic_store_explicit(&head_of()->limits, KY_SAMPLE_NO_KERNEL_CHAIN, memory_order_relaxed);
	err = scan_threads();
	if (!err)
		say_rate(ring_of(), wanted_rate(ring_of()));
	return err;
}

/* Once a ring: its handlers may be at it. */
static bool make_samples(struct ky_ring *ring)
{
	struct ky_sample_ring samples;

	if (!ky_ring_samples(ring, KY_SAMPLES_CPU, &samples))
		return false;
	if (!ring->cpu_samples.cell_count)
		ring->cpu_samples = samples;
	return true;
}

static void stop(void)
{
	uint32_t on = ON;

	if (!__atomic_compare_exchange_n(&source.state, &on, BUSY, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return;
	drop_all(drop_timer);
	__atomic_store_n(&source.state, IDLE, __ATOMIC_SEQ_CST);
}

/* At another rate: none of them waits for its own next expiry. */
static void set_all(const struct ky_ring *ring, uint32_t rate_hz)
{
	for (uint32_t i = 0; i < __atomic_load_n(&source.high, __ATOMIC_ACQUIRE); i++) {
		struct timer *timer = &source.timers[i];

		if (__atomic_load_n(&timer->tid, __ATOMIC_ACQUIRE) &&
		    __atomic_load_n(&timer->id, __ATOMIC_RELAXED) >= 0 &&
		    __atomic_load_n(&timer->rate_hz, __ATOMIC_ACQUIRE) != rate_hz)
			(void)set_timer(timer, rate_hz);
	}
	say_rate(ring, rate_hz);
}

static void scan(uint32_t rate_hz)
{
	struct ky_ring *ring = __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);
	uint32_t idle = IDLE;
	int err;

	if (ring && is_on() && !is_left() && ring == ring_of() && !is_confined())
		set_all(ring, wanted_rate(ring));
	if (!ring || is_confined() ||
	    !__atomic_compare_exchange_n(&source.state, &idle, BUSY, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return;
	source.wanted_hz = rate_hz;
	source.tick_ns = ky_timer_tick_ns();
	__atomic_store_n(&source.is_left, 0, __ATOMIC_RELAXED);
	if (!any_rate(ring) || !make_samples(ring) || !wanted_rate(ring)) {
		__atomic_store_n(&source.state, IDLE, __ATOMIC_RELEASE);
		return;
	}
	__atomic_store_n(&source.ring, ring, __ATOMIC_RELEASE);
	/* From here on a tick finds everything, but the scan is ours. */
	__atomic_store_n(&source.scan_due_ns, UINT64_MAX, __ATOMIC_RELAXED);
	__atomic_store_n(&source.state, ON, __ATOMIC_SEQ_CST);
	err = start();
	__atomic_store_n(&source.scan_due_ns, ky_now_ns(CLOCK_MONOTONIC) + SCAN_NS,
			 __ATOMIC_RELEASE);
	if (err)
		say_refusal(-err);
	/* The recording ended meanwhile, and who stopped the sampler came before us. */
	if (__atomic_load_n(&ky_engine.phase, __ATOMIC_SEQ_CST) != KY_LIVE)
		stop();
}

void ky_timer_thread_begin(uint32_t tid)
{
	if (!is_on() || is_left() || is_confined())
		return;
	/* The host took the signal over: its handler must not meet ticks of ours. */
	if (!has_signal()) {
		drop_all(delete_timer);
		say_refusal(EBUSY);
		return;
	}
	if (add_thread(tid) == 0)
		count_if_blocked();
}

void ky_timer_thread_end(uint32_t tid)
{
	struct timer *timer = is_on() ? find_timer(tid) : NULL;

	if (timer)
		drop_timer(timer);
}

static void forget(void)
{
	memset(source.timers, 0, sizeof(source.timers));
	source.high = 0;
	source.is_left = 0;
	source.state = IDLE;
}

const struct ky_sampler_hooks ky_timer_source = {scan,
						 ky_timer_thread_begin,
						 ky_timer_thread_end,
						 stop,
						 forget,
						 is_on,
						 ky_timer_leave_signal,
						 NULL};
