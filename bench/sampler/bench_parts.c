/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bench_parts - of what a sample by perf_event is made: the timer's interrupt alone, a sample that
 * says nothing, and one word after the other of what kymo asks for.
 *
 * This thread does the same piece of work again and again on one processor, with one kind of
 * interruption RATE_HZ times a second of its CPU time, and without. Kinds take turns in random
 * order; a figure is the median of the pieces' extra CPU time over the interruptions that were
 * counted, with the quartiles. `none` is a second piece without any: the control.
 *
 *   timer      a timer's interrupt that wakes no thread (timerfd)
 *   count      a perf event that counts and takes no sample: what it makes of the thread's switches
 *              and ticks
 *   clock ..   software CPU clock with a sample of: the instruction's address; + thread, time, CPU,
 *              period; + the kernel's call chain; + registers; + so many bytes of the stack
 *   task ..    the same by the thread's own clock, which the kernel stops at each switch
 *   woken      as `clock address`, with a wake-up a sample in place of none
 *
 * Prints one JSON object a line. Exit status 77: perf_event yields nothing here. */
#include <base/now.h>
#include <base/random.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "piece.h"

#define RATE_HZ 4000u
#define PIECE_NS UINT64_C(6000000)
#define PIECES 61u
#define RING_PAGES 256u /* no ring fills within a piece */
#define REGISTERS 0xff0fffu

enum kind {
	NONE,
	TIMER,
	COUNT,
	CLOCK_ADDRESS,
	CLOCK_WORDS,
	CLOCK_CHAIN,
	CLOCK_REGISTERS,
	CLOCK_STACK_64,
	CLOCK_STACK_8K,
	CLOCK_STACK_32K,
	TASK_ADDRESS,
	WOKEN,
	KINDS
};

static const char *const names[KINDS] = {"none",
					 "timer",
					 "count",
					 "clock address",
					 "clock + words",
					 "clock + chain",
					 "clock + registers",
					 "clock + stack 64",
					 "clock + stack 8K",
					 "clock + stack 32K",
					 "task address",
					 "clock address, woken"};

struct result {
	double ns[PIECES];
	uint32_t count;
	uint64_t interruptions;
};

static struct result results[KINDS];
static uint32_t turns;
static int waited_fd = -1; /* atomic; of the thread that is woken */

static void fill(struct perf_event_attr *attr, enum kind kind)
{
	static const uint64_t words = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
				      PERF_SAMPLE_PERIOD;

	*attr = (struct perf_event_attr){.size = sizeof(*attr),
					 .type = PERF_TYPE_SOFTWARE,
					 .config = kind == TASK_ADDRESS ? PERF_COUNT_SW_TASK_CLOCK :
									  PERF_COUNT_SW_CPU_CLOCK,
					 .sample_period = 1000000000 / RATE_HZ,
					 .sample_type = PERF_SAMPLE_IP,
					 .disabled = 1,
					 .watermark = 1,
					 .wakeup_watermark = RING_PAGES / 2 * 4096};
	if (kind == COUNT)
		attr->sample_period = 0;
	if (kind == WOKEN) {
		attr->watermark = 0;
		attr->wakeup_events = 1;
	}
	if (kind >= CLOCK_WORDS && kind <= CLOCK_STACK_32K)
		attr->sample_type |= words;
	if (kind >= CLOCK_CHAIN && kind <= CLOCK_STACK_32K) {
		attr->sample_type |= PERF_SAMPLE_CALLCHAIN;
		attr->exclude_callchain_user = 1;
	}
	if (kind >= CLOCK_REGISTERS && kind <= CLOCK_STACK_32K) {
		attr->sample_type |= PERF_SAMPLE_REGS_USER;
		attr->sample_regs_user = REGISTERS;
	}
	if (kind >= CLOCK_STACK_64 && kind <= CLOCK_STACK_32K) {
		attr->sample_type |= PERF_SAMPLE_STACK_USER;
		attr->sample_stack_user = kind == CLOCK_STACK_64 ? 64 :
					  kind == CLOCK_STACK_8K ? 8192 :
								   32768;
	}
}

struct event {
	int fd;
	struct perf_event_mmap_page *page;
};

static bool open_event(struct event *event, enum kind kind)
{
	struct perf_event_attr attr;

	fill(&attr, kind);
	event->fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (event->fd < 0)
		return false;
	event->page = mmap(NULL, (RING_PAGES + 1) * 4096, PROT_READ | PROT_WRITE, MAP_SHARED,
			   event->fd, 0);
	if ((void *)event->page == MAP_FAILED) {
		close(event->fd);
		return false;
	}
	return true;
}

/* Records of samples; the ring is emptied. */
static uint64_t take(const struct event *event)
{
	const uint8_t *data = (const uint8_t *)event->page + 4096;
	uint64_t head = __atomic_load_n(&event->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = event->page->data_tail, count = 0;

	while (tail < head) {
		struct perf_event_header header;

		memcpy(&header, data + tail % (RING_PAGES * 4096), sizeof(header));
		if (!header.size)
			break;
		count += header.type == PERF_RECORD_SAMPLE;
		tail += header.size;
	}
	__atomic_store_n(&event->page->data_tail, head, __ATOMIC_RELEASE);
	return count;
}

static void *wait_for_samples(void *ctx)
{
	(void)ctx;
	for (;;) {
		struct pollfd polled = {__atomic_load_n(&waited_fd, __ATOMIC_ACQUIRE), POLLIN, 0};

		if (polled.fd < 0)
			usleep(200);
		else
			(void)poll(&polled, 1, 5);
	}
	return NULL;
}

static uint64_t interrupted_by_timer(uint64_t *count)
{
	const struct itimerspec often = {{0, 1000000000 / RATE_HZ}, {0, 1000000000 / RATE_HZ}};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	uint64_t ns;

	(void)timerfd_settime(fd, 0, &often, NULL);
	ns = piece(turns);
	close(fd);
	/* Those that came while another program had the processor are not this thread's. */
	*count = ns * RATE_HZ / 1000000000;
	return ns;
}

/* False: there is no such event. */
static bool run(enum kind kind, uint64_t *ns, uint64_t *count)
{
	struct event event;

	*count = 1;
	if (kind == NONE) {
		*ns = piece(turns);
		return true;
	}
	if (kind == TIMER) {
		*ns = interrupted_by_timer(count);
		return true;
	}
	if (!open_event(&event, kind))
		return false;
	if (kind == WOKEN)
		__atomic_store_n(&waited_fd, event.fd, __ATOMIC_RELEASE);
	(void)ioctl(event.fd, PERF_EVENT_IOC_ENABLE, 0);
	*ns = piece(turns);
	(void)ioctl(event.fd, PERF_EVENT_IOC_DISABLE, 0);
	__atomic_store_n(&waited_fd, -1, __ATOMIC_RELEASE);
	*count = kind == COUNT ? 1 : take(&event);
	munmap(event.page, (RING_PAGES + 1) * 4096);
	close(event.fd);
	return true;
}

static int by_size(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

static void print(enum kind kind)
{
	struct result *result = &results[kind];
	bool is_each = kind != NONE && kind != COUNT;

	if (!result->count)
		return;
	qsort(result->ns, result->count, sizeof(result->ns[0]), by_size);
	printf("{\"kind\": \"%s\", \"ns\": %.0f, \"quartiles\": [%.0f, %.0f], \"of\": \"%s\", "
	       "\"pieces\": %u, \"interruptions\": %llu}\n",
	       names[kind], result->ns[result->count / 2], result->ns[result->count / 4],
	       result->ns[result->count * 3 / 4], is_each ? "each" : "a piece", result->count,
	       (unsigned long long)result->interruptions);
}

static void measure(void)
{
	uint64_t random = 7;
	enum kind order[KINDS];

	for (uint32_t i = 0; i < KINDS; i++)
		order[i] = (enum kind)i;
	for (uint32_t round = 0; round < PIECES; round++) {
		for (uint32_t i = KINDS; i-- > 1;) {
			uint32_t other = (uint32_t)(ky_random_next(&random) % (i + 1));
			enum kind kind = order[i];

			order[i] = order[other];
			order[other] = kind;
		}
		for (uint32_t i = 0; i < KINDS; i++) {
			struct result *result = &results[order[i]];
			uint64_t quiet_ns = piece(turns), ns, count;

			if (!run(order[i], &ns, &count) || !count)
				continue;
			/* Before and after: the processor's speed drifts. */
			quiet_ns = (quiet_ns + piece(turns)) / 2;
			result->ns[result->count++] = ((double)ns - (double)quiet_ns) /
						      (double)count;
			result->interruptions += count;
		}
	}
}

int main(void)
{
	struct event event;
	pthread_t thread;
	cpu_set_t one;

	if (!open_event(&event, CLOCK_STACK_64)) {
		fprintf(stderr, "bench_parts: perf_event: %s\n", strerror(errno));
		return 77;
	}
	munmap(event.page, (RING_PAGES + 1) * 4096);
	close(event.fd);
	if (pthread_create(&thread, NULL, wait_for_samples, NULL) != 0)
		return 1;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	(void)sched_setaffinity(0, sizeof(one), &one);
	for (turns = 1; piece(turns) < PIECE_NS;)
		turns += turns / 4 + 1;
	measure();
	for (uint32_t i = 0; i < KINDS; i++)
		print((enum kind)i);
	return 0;
}
