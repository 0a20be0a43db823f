/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program with what `kymo attach` searches for: task tables, a waker table, and threads that
 * sleep as Tokio's workers do. Each thread says what it expects of every wait, and notes what it
 * got.
 *
 *   attach_host KIND...
 *
 * futex, futex-timed, epoll, epoll-timed   a worker that polls and then parks in this way
 * relative       a worker in a futex wait for so long (it cannot be resumed exactly)
 * in-poll        a worker that waits inside a task
 * held           a worker in a futex wait, called from inside the C library (qsort)
 * busy           a worker that never sleeps
 * sleep, read    threads of the program's own in nanosleep() and in read()
 * brief          a thread that makes others, one after the other, which burn some milliseconds each
 * lone           the thread of main() parks, and there is no other but the one that wakes it
 *
 * Each worker has a rounding mode, a signal mask and a signal stack of its own, and checks after
 * every wait whether they are still the same.
 *
 * Prints its pid when all are under way; ends at SIGTERM with one line of numbers, and status 1
 * when a wait gave what it must not give.
 */
#include <errno.h>
#include <fenv.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEPT __attribute__((used, noinline, noclone))
#if defined(__clang__)
#undef KEPT
#define KEPT __attribute__((used, noinline, optnone))
#endif
#define WORKERS_MAX 16
/* A test that fails leaves none for ever: it would hold the runner's pipes. */
#define LIFE_S 300
#define PACE_NS 2000000
#define BRIEF_NS 4000000
#define NOTIFIED 4u
#define REFERENCE 64u
#define KERNEL_MASK_BYTES 8 /* the rest of a sigset_t is left as it was */

enum kind {
	KIND_FUTEX,
	KIND_FUTEX_TIMED,
	KIND_EPOLL,
	KIND_EPOLL_TIMED,
	KIND_RELATIVE,
	KIND_IN_POLL,
	KIND_HELD,
	KIND_BUSY,
	KIND_SLEEP,
	KIND_READ,
	KIND_BRIEF,
	KIND_LONE,
	KIND_COUNT
};
static const char *const names[KIND_COUNT] = {"futex",    "futex-timed", "epoll", "epoll-timed",
					      "relative", "in-poll",     "held",  "busy",
					      "sleep",    "read",        "brief", "lone"};

struct task {
	uint64_t state, next;
	const void *table;
	uint64_t owner, scheduler, id;
	uint64_t rest[8];
	uint64_t poll_count;
};

struct worker {
	pthread_t thread;
	enum kind kind;
	struct task task;
	_Atomic uint32_t word;
	int event_fd, epoll_fd, pipe[2];
	_Atomic uint64_t waits, polls;
	_Atomic uint32_t bad; /* waits that gave what they must not */
	_Atomic int first_error;
	sigset_t mask;
	uint8_t signal_stack[65536];
};

static struct worker workers[WORKERS_MAX];
static uint32_t worker_count;
static _Atomic bool is_ending;
static volatile uint32_t sink;
static __thread struct worker *self;

/* ---- what stands for Tokio ---- */

#define TASK "_ZN5tokio7runtime4task3raw"
void host_push(void) __asm__("_ZN5tokio7runtime9scheduler12multi_thread6handle4push17h01E");
void host_schedule(struct task *task) __asm__(TASK "8schedule17h0000000000000001E");
void host_poll(struct task *task) __asm__(TASK "4poll17h0000000000000001E");
void host_park(struct worker *worker) __asm__("_ZN5tokio7runtime4park5Inner4park17h01E");
const char host_text[] __attribute__((used)) = "/x/tokio-1.54.1/src/runtime/task/state.rs";

KEPT void host_push(void)
{
	sink++;
}

KEPT void host_schedule(struct task *task)
{
	host_push();
	task->next++;
}

static void nothing(struct task *task)
{
	task->next++;
}

static struct words {
	uint64_t words[2];
} clone_waker(struct task *task)
{
	return (struct words){{(uintptr_t)task, 17}};
}

static const struct table {
	void (*functions[7])(struct task *);
	uint64_t trailer, scheduler, id;
} table = {{host_poll, host_schedule, nothing, nothing, nothing, nothing, nothing}, 80, 32, 40};

struct waker_table {
	struct words (*clone)(struct task *);
	void (*others[3])(struct task *);
};
extern const struct waker_table
	host_waker __asm__("_ZN5tokio7runtime4task5waker12WAKER_VTABLE17h0000000000000001E");
const struct waker_table host_waker = {clone_waker, {nothing, nothing, nothing}};

/* ---- waits ---- */

static void note(struct worker *worker, bool is_good, int error)
{
	int none = 0;

	atomic_fetch_add(&worker->waits, 1);
	if (is_good)
		return;
	atomic_fetch_add(&worker->bad, 1);
	atomic_compare_exchange_strong(&worker->first_error, &none, error);
}

/* What else a thread has that a borrowed one must get back. */
static void set_own(struct worker *worker)
{
	stack_t stack = {.ss_sp = worker->signal_stack, .ss_size = sizeof(worker->signal_stack)};
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1 + (int)(worker - workers) % 2 * (SIGUSR2 - SIGUSR1));
	sigaddset(&mask, SIGTERM);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &worker->mask);
	sigaltstack(&stack, NULL);
	fesetround(FE_TOWARDZERO);
}

static bool is_own(const struct worker *worker)
{
	stack_t stack;
	sigset_t mask;

	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	sigaltstack(NULL, &stack);
	return memcmp(&mask, &worker->mask, KERNEL_MASK_BYTES) == 0 &&
	       stack.ss_sp == worker->signal_stack &&
	       stack.ss_size == sizeof(worker->signal_stack) && fegetround() == FE_TOWARDZERO;
}

static struct timespec in_ns(clockid_t clock, long ns)
{
	struct timespec at;

	clock_gettime(clock, &at);
	at.tv_nsec += ns;
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

static bool has_come(const struct timespec *at)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > at->tv_sec || (now.tv_sec == at->tv_sec && now.tv_nsec >= at->tv_nsec);
}

static long futex_wait(struct worker *worker, int operation, const struct timespec *limit)
{
	uint32_t seen = atomic_load(&worker->word);

	return syscall(SYS_futex, &worker->word, operation, seen, limit, NULL,
		       FUTEX_BITSET_MATCH_ANY);
}

static void wait_futex(struct worker *worker, bool is_timed)
{
	struct timespec until = in_ns(CLOCK_MONOTONIC, 5000000);
	long got = futex_wait(worker, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
			      is_timed ? &until : NULL);
	int error = got == 0 ? 0 : errno;

	if (error == ETIMEDOUT)
		note(worker, is_timed && has_come(&until), error);
	else
		note(worker, error == 0 || error == EAGAIN, error);
}

static void wait_relative(struct worker *worker)
{
	const struct timespec limit = {3600, 0};
	long got = futex_wait(worker, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, &limit);

	note(worker, got == 0 || errno == EAGAIN, got == 0 ? 0 : errno);
}

/* With a limit it may come back early and empty, as Tokio's driver expects; never with an error. */
static void wait_epoll(struct worker *worker, int limit_ms)
{
	struct epoll_event event;
	uint64_t count;
	int got = epoll_wait(worker->epoll_fd, &event, 1, limit_ms);

	note(worker, got == 1 || (got == 0 && limit_ms > 0), got < 0 ? errno : 0);
	if (got == 1 && read(worker->event_fd, &count, sizeof(count)) < 0)
		note(worker, false, errno);
}

KEPT void host_park(struct worker *worker)
{
	switch (worker->kind) {
	case KIND_FUTEX:
	case KIND_LONE:
		wait_futex(worker, false);
		break;
	case KIND_FUTEX_TIMED:
		wait_futex(worker, true);
		break;
	case KIND_RELATIVE:
		wait_relative(worker);
		break;
	case KIND_EPOLL:
		wait_epoll(worker, -1);
		break;
	case KIND_EPOLL_TIMED:
		wait_epoll(worker, 3600000);
		break;
	default:
		break;
	}
	sink++; /* no tail call: its frame must be there */
}

KEPT void host_poll(struct task *task)
{
	task->poll_count++;
	task->state &= ~(uint64_t)NOTIFIED;
	if (self->kind == KIND_IN_POLL)
		wait_futex(self, false);
	sink++;
}

static int park_and_compare(const void *a, const void *b)
{
	if (a < b)
		wait_futex(self, false);
	return a < b ? -1 : 1;
}

static void poll_once(struct worker *worker)
{
	void (*const volatile *functions)(struct task *) = table.functions;

	worker->task.state |= NOTIFIED;
	functions[0](&worker->task);
	atomic_fetch_add(&worker->polls, 1);
}

static void sleep_once(struct worker *worker)
{
	const struct timespec pause = {0, PACE_NS};

	note(worker, nanosleep(&pause, NULL) == 0, errno);
}

static void read_once(struct worker *worker)
{
	char byte;

	note(worker, read(worker->pipe[0], &byte, 1) == 1, errno);
}

static void *burn(void *ctx)
{
	struct timespec now;

	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while (now.tv_sec == 0 && now.tv_nsec < BRIEF_NS && !atomic_load(&is_ending));
	return ctx;
}

static void make_brief(struct worker *worker)
{
	void *got = NULL;
	pthread_t brief;
	int err = pthread_create(&brief, NULL, burn, worker);

	if (!err)
		err = pthread_join(brief, &got);
	note(worker, !err && got == worker, err);
}

static void *work(void *ctx)
{
	struct worker *worker = ctx;
	int pair[2];

	self = worker;
	set_own(worker);
	while (!atomic_load(&is_ending)) {
		if (worker->kind == KIND_SLEEP) {
			sleep_once(worker);
		} else if (worker->kind == KIND_READ) {
			read_once(worker);
		} else if (worker->kind == KIND_BRIEF) {
			make_brief(worker);
		} else if (worker->kind == KIND_HELD) {
			pair[0] = pair[1] = 0;
			qsort(pair, 2, sizeof(pair[0]), park_and_compare);
		} else {
			poll_once(worker);
			host_park(worker);
			if (!is_own(worker))
				note(worker, false, ENOTRECOVERABLE);
		}
	}
	return NULL;
}

static void wake(struct worker *worker)
{
	const uint64_t one = 1;

	atomic_fetch_add(&worker->word, 1);
	syscall(SYS_futex, &worker->word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
	if (write(worker->event_fd, &one, sizeof(one)) < 0 || write(worker->pipe[1], "x", 1) < 0)
		abort();
}

static bool add(const char *name)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct worker *worker = &workers[worker_count];

	for (uint32_t kind = 0; kind < KIND_COUNT && worker_count < WORKERS_MAX; kind++) {
		if (strcmp(name, names[kind]) != 0)
			continue;
		worker->kind = (enum kind)kind;
		worker->task = (struct task){.state = 3 * REFERENCE,
					     .table = &table,
					     .owner = 7,
					     .scheduler = 0x100000,
					     .id = 1 + worker_count};
		worker->event_fd = eventfd(0, 0);
		worker->epoll_fd = epoll_create1(0);
		if (pipe(worker->pipe) != 0 ||
		    epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, worker->event_fd, &event) != 0)
			return false;
		worker_count++;
		return true;
	}
	return false;
}

static int report(void)
{
	uint64_t waits = 0, polls = 0;
	uint32_t bad = 0;

	for (uint32_t i = 0; i < worker_count; i++) {
		const struct worker *worker = &workers[i];
		uint32_t own = atomic_load(&worker->bad);

		waits += atomic_load(&worker->waits);
		polls += atomic_load(&worker->polls);
		bad += own;
		if (own)
			printf("%s: %u waits went wrong, the first with %s\n", names[worker->kind],
			       own, strerror(atomic_load(&worker->first_error)));
	}
	printf("waits=%llu polls=%llu bad=%u\n", (unsigned long long)waits,
	       (unsigned long long)polls, bad);
	return bad != 0;
}

static int tick(sigset_t *ends)
{
	const struct timespec pause = {0, PACE_NS};

	while (sigtimedwait(ends, NULL, &pause) < 0)
		for (uint32_t i = 0; i < worker_count; i++)
			wake(&workers[i]);
	atomic_store(&is_ending, true);
	return report();
}

static void *end_lone(void *ends)
{
	exit(tick(ends));
}

int main(int argc, char **argv)
{
	sigset_t ends;

	alarm(LIFE_S);
	sigemptyset(&ends);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	for (int i = 1; i < argc; i++)
		if (!add(argv[i]))
			return 2;
	for (uint32_t i = 0; i < worker_count; i++)
		if (workers[i].kind != KIND_LONE &&
		    pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			return 2;
	printf("%d\n", (int)getpid());
	fflush(stdout);
	if (worker_count && workers[0].kind == KIND_LONE) {
		pthread_create(&workers[1].thread, NULL, end_lone, &ends);
		work(&workers[0]);
	}
	_exit(tick(&ends) | (fflush(stdout) ? 2 : 0));
}
