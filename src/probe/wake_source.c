/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/wake_source.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <probe/perf_event.h>
#include <probe/perf_ring.h>
#include <probe/trace_record.h>
#include <probe/wake_format.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_BYTES_MAX (1u << 18)
#define SWITCH_RING_BYTES_MAX (1u << 19)
#define RING_BYTES_MIN (1u << 14)
#define FILTER_BYTES (KY_WAKE_RANGES_MAX * 64u)
#define TEST_SLEEPS 50u /* at most: the first one will do */
#define TEST_SLEEP_NS 20000
/* What a record with a stack costs: sleeps in a round, rounds with and without, bounds. */
#define COST_SLEEPS 8u
#define COST_ROUNDS 3u
#define COST_NS_MIN UINT64_C(500)
#define COST_NS_MAX UINT64_C(6000)

struct wake_cpu {
	struct ky_perf_ring ring; /* its event only holds the ring, and counts switches */
	int fd;                   /* the event with the filter; -1: none */
	int out_fd, in_fd;        /* those of switches; -1: none */
	uint64_t switch_count;
};

struct ky_wakes {
	struct ky_wake_format format;
	struct ky_switch_format switch_format;
	struct perf_event_attr attr, out_attr, in_attr;
	int switch_refusal; /* 0: switches are told */
	/* Since the others were counted last: switches that were handed out, those with a stack. */
	uint64_t own_switch_count, own_stack_count;
	uint64_t stack_ns; /* what a record with one takes more than one without */
	struct ky_kernel_stacks stacks;
	struct wake_cpu *cpus;
	uint32_t cpu_count;
	struct ky_wake_ranges now, before; /* of the filter, and the one before it */
	uint64_t since_ns, before_ns;      /* that the filter is the one, and was the other */
	uint64_t lost_count;
	bool is_paused;
	uint64_t record[KY_PERF_RECORD_WORDS]; /* one that went round a ring's end */
};

/* ---- the filter ---- */

bool ky_wake_ranges_has(const struct ky_wake_ranges *ranges, uint32_t tid)
{
	for (uint32_t i = 0; i < ranges->count; i++)
		if (tid >= ranges->list[i].first && tid <= ranges->list[i].last)
			return true;
	return false;
}

/* The two with the fewest numbers between them become one. */
static void join_nearest(struct ky_wake_ranges *ranges)
{
	uint32_t best = 0, least = UINT32_MAX;

	for (uint32_t i = 0; i + 1 < ranges->count; i++) {
		uint32_t gap = ranges->list[i + 1].first - ranges->list[i].last;

		if (gap < least) {
			least = gap;
			best = i;
		}
	}
	ranges->list[best].last = ranges->list[best + 1].last;
	memmove(&ranges->list[best + 1], &ranges->list[best + 2],
		(ranges->count - best - 2) * sizeof(*ranges->list));
	ranges->count--;
}

void ky_wake_ranges_make(struct ky_wake_ranges *out, const uint32_t *tids, uint32_t count)
{
	out->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (out->count && tids[i] <= out->list[out->count - 1].last + 1) {
			out->list[out->count - 1].last = tids[i];
			continue;
		}
		if (out->count == KY_WAKE_RANGES_MAX)
			join_nearest(out);
		out->list[out->count++] = (struct ky_wake_range){tids[i], tids[i]};
	}
}

/* field: of thread ids. */
static void write_filter(const struct ky_wake_ranges *ranges, const char *field,
			 char out[FILTER_BYTES])
{
	size_t used = 0;

	for (uint32_t i = 0; i < ranges->count && used < FILTER_BYTES; i++)
		used += (size_t)snprintf(out + used, FILTER_BYTES - used,
					 "%s(%s >= %u && %s <= %u)", i ? " || " : "", field,
					 ranges->list[i].first, field, ranges->list[i].last);
}

/* Returns a descriptor, -errno. */
static int open_filtered(const struct ky_wakes *wakes, uint32_t cpu,
			 const struct perf_event_attr *how, const char *filter)
{
	struct perf_event_attr attr = *how;
	int fd = ky_perf_event_open(&attr, -1, (int)cpu), err;

	if (fd < 0)
		return fd;
	err = ky_perf_event_set_filter(fd, filter);
	if (!err)
		err = ky_perf_event_set_output(fd, wakes->cpus[cpu].ring.fd);
	if (!err && !wakes->is_paused)
		err = ky_perf_event_pause(fd, false);
	if (!err)
		return fd;
	ky_perf_event_close(fd);
	return err;
}

/* The new one sees before the old one is shut: none is missed, one may be told twice. */
static int renew(const struct ky_wakes *wakes, uint32_t cpu, const struct perf_event_attr *how,
		 const char *filter, int *event)
{
	int fd = open_filtered(wakes, cpu, how, filter);

	if (fd < 0)
		return fd;
	if (*event >= 0)
		ky_perf_event_close(*event);
	*event = fd;
	return 0;
}

static int set_filter(struct ky_wakes *wakes, const struct ky_wake_ranges *ranges)
{
	char woken[FILTER_BYTES], goes[FILTER_BYTES], comes[FILTER_BYTES];
	int err = 0;

	write_filter(ranges, "pid", woken);
	write_filter(ranges, "prev_pid", goes);
	write_filter(ranges, "next_pid", comes);
	for (uint32_t i = 0; i < wakes->cpu_count && !err; i++) {
		struct wake_cpu *cpu = &wakes->cpus[i];

		if (!cpu->ring.page)
			continue;
		err = renew(wakes, i, &wakes->attr, woken, &cpu->fd);
		if (!err && !wakes->switch_refusal)
			err = renew(wakes, i, &wakes->out_attr, goes, &cpu->out_fd);
		if (!err && !wakes->switch_refusal)
			err = renew(wakes, i, &wakes->in_attr, comes, &cpu->in_fd);
	}
	return err;
}

int ky_wakes_follow(struct ky_wakes *wakes, const uint32_t *tids, uint32_t count)
{
	struct ky_wake_ranges ranges;
	uint32_t i = 0;
	int err;

	while (i < count && ky_wake_ranges_has(&wakes->now, tids[i]))
		i++;
	if (i == count)
		return 0;
	ky_wake_ranges_make(&ranges, tids, count);
	/* Threads that are made next mostly have the numbers behind. */
	for (i = 0; i < ranges.count; i++)
		ranges.list[i].last += KY_WAKE_ROOM;
	err = set_filter(wakes, &ranges);
	/* Some processors may have the new one: nothing is covered by both. */
	wakes->before = wakes->now;
	wakes->now = ranges;
	if (err)
		wakes->before.count = wakes->now.count = 0;
	wakes->before_ns = wakes->since_ns;
	/* Now that it is in place: on a busy machine that takes milliseconds. */
	wakes->since_ns = ky_now_ns(CLOCK_MONOTONIC);
	return err;
}

bool ky_wakes_covers(const struct ky_wakes *wakes, uint32_t tid, uint64_t from_ns)
{
	return ky_wake_ranges_has(&wakes->now, tid) &&
	       (from_ns >= wakes->since_ns ||
		(from_ns >= wakes->before_ns && ky_wake_ranges_has(&wakes->before, tid)));
}

/* fd -1: none. */
static void pause_event(int fd, bool is_paused, int *err)
{
	int failed = fd < 0 ? 0 : ky_perf_event_pause(fd, is_paused);

	*err = failed ? failed : *err;
}

int ky_wakes_pause(struct ky_wakes *wakes, bool is_paused)
{
	int err = 0;

	/* Wake-ups before switches: whoever is seen to wait, is seen to be woken. */
	for (uint32_t i = 0; i < wakes->cpu_count; i++)
		pause_event(wakes->cpus[i].fd, is_paused, &err);
	for (uint32_t i = 0; i < wakes->cpu_count; i++) {
		pause_event(wakes->cpus[i].out_fd, is_paused, &err);
		pause_event(wakes->cpus[i].in_fd, is_paused, &err);
	}
	wakes->is_paused = is_paused;
	return err;
}

/* ---- reading ---- */

/* Told by one event for who goes, which asks for frames, and by another one for who comes. */
static void hand_out_switch(struct ky_wakes *wakes, const struct ky_trace_record *record,
			    struct ky_perf_switch *what, uint32_t next_tid, ky_perf_switch_fn fn,
			    void *ctx)
{
	struct ky_perf_switch next = {.kind = KY_SWITCH_IN, .ns = record->ns, .tid = next_tid};

	if (!record->has_chain) {
		if (next_tid && ky_wake_ranges_has(&wakes->now, next_tid))
			fn(ctx, &next);
		return;
	}
	wakes->own_stack_count++;
	if (!what->tid || !ky_wake_ranges_has(&wakes->now, what->tid))
		return;
	what->kernel = ky_kernel_stacks_add(&wakes->stacks, record->chain, record->chain_count);
	fn(ctx, what);
}

/* Returns false for what is no record of ours. */
static bool hand_out(struct ky_wakes *wakes, const struct perf_event_header *header,
		     ky_perf_switch_fn fn, void *ctx)
{
	struct ky_trace_record record;
	struct ky_perf_switch what;
	uint32_t next_tid;

	if (!ky_trace_record_read(&record, (const void *)header))
		return false;
	if (ky_trace_record_wake(&record, &wakes->format, &what)) {
		fn(ctx, &what);
		return true;
	}
	if (wakes->switch_refusal ||
	    !ky_trace_record_switch(&record, &wakes->switch_format, &what, &next_tid))
		return false;
	wakes->own_switch_count++;
	hand_out_switch(wakes, &record, &what, next_tid, fn, ctx);
	return true;
}

uint32_t ky_wakes_read(struct ky_wakes *wakes, ky_perf_switch_fn fn, void *ctx)
{
	const struct perf_event_header *record;
	uint32_t count = 0;

	for (uint32_t i = 0; i < wakes->cpu_count; i++) {
		struct ky_perf_ring *ring = &wakes->cpus[i].ring;

		while (ring->page && (record = ky_perf_ring_begin(ring, wakes->record,
								  &wakes->lost_count)) != NULL) {
			count += hand_out(wakes, record, fn, ctx);
			ky_perf_ring_end(ring, record);
		}
	}
	return count;
}

int ky_wakes_switch_refusal(const struct ky_wakes *wakes)
{
	return wakes->switch_refusal;
}

struct ky_kernel_stacks *ky_wakes_stacks(struct ky_wakes *wakes)
{
	return &wakes->stacks;
}

uint64_t ky_wakes_lost(const struct ky_wakes *wakes)
{
	return wakes->lost_count;
}

uint64_t ky_wakes_passed_ns(struct ky_wakes *wakes)
{
	uint64_t count, sum = 0, own = wakes->own_switch_count;

	for (uint32_t i = 0; i < wakes->cpu_count; i++) {
		struct wake_cpu *cpu = &wakes->cpus[i];

		if (!cpu->ring.page || !ky_perf_event_read(cpu->ring.fd, &count, 1))
			continue;
		sum += count - cpu->switch_count;
		cpu->switch_count = count;
	}
	if (wakes->switch_refusal)
		return sum * KY_WAKE_PASSED_NS;
	/* What was handed out is paid for by the record. */
	sum = (sum > own ? sum - own : 0) * (KY_WAKE_PASSED_NS + KY_SWITCH_PASSED_NS) +
	      wakes->own_stack_count * wakes->stack_ns;
	wakes->own_switch_count = wakes->own_stack_count = 0;
	return sum;
}

/* ---- opening ---- */

static int open_rings(struct ky_wakes *wakes, size_t ring_bytes)
{
	/* Whoever is woken is switched to: about as many as there are wake-ups. */
	struct perf_event_attr counter = {.size = sizeof(counter),
					  .type = PERF_TYPE_SOFTWARE,
					  .config = PERF_COUNT_SW_CONTEXT_SWITCHES,
					  .use_clockid = 1,
					  .clockid = CLOCK_MONOTONIC};
	int err = 0, opened = 0;

	for (uint32_t i = 0; i < wakes->cpu_count && !err; i++) {
		struct ky_perf_ring *ring = &wakes->cpus[i].ring;

		ring->fd = ky_perf_event_open(&counter, -1, (int)i);
		if (ring->fd == -ENODEV) { /* the processor is off */
			ring->fd = -1;
			continue;
		}
		err = ring->fd < 0 ? ring->fd : ky_perf_ring_map(ring, ring_bytes);
		opened += !err;
	}
	for (uint32_t i = 0; i < wakes->cpu_count && err; i++)
		ky_perf_ring_close(&wakes->cpus[i].ring);
	return err || opened ? err : -ENODEV;
}

/* What the test saw of itself. */
struct seen {
	uint32_t tid;
	uint32_t timers, came, went; /* went: with a stack */
};

static void on_test_record(void *ctx, const struct ky_perf_switch *what)
{
	struct seen *seen = ctx;

	if (what->tid != seen->tid || !what->ns)
		return;
	seen->timers += what->kind == KY_SWITCH_WOKEN && what->is_by_interrupt;
	seen->came += what->kind == KY_SWITCH_IN;
	seen->went += what->kind == KY_SWITCH_OUT && what->kernel;
}

/* Does the timer that ends a sleep on this processor show? And that we went, and came back? */
static bool is_told_on(struct ky_wakes *wakes, size_t cpu)
{
	struct seen seen = {.tid = (uint32_t)syscall(SYS_gettid)};
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only) != 0)
		return true; /* shut down since */
	for (uint32_t i = 0; i < TEST_SLEEPS; i++) {
		ky_sleep_ns(TEST_SLEEP_NS);
		(void)ky_wakes_read(wakes, on_test_record, &seen);
		if (seen.timers && (wakes->switch_refusal || (seen.came && seen.went)))
			return true;
	}
	if (!wakes->switch_refusal && !(seen.came && seen.went))
		wakes->switch_refusal = -ENODATA;
	return seen.timers;
}

/* Of our processor time, a sleep. */
static uint64_t time_sleeps(void)
{
	uint64_t start_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	for (uint32_t i = 0; i < COST_SLEEPS; i++)
		ky_sleep_ns(TEST_SLEEP_NS);
	return (ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns) / COST_SLEEPS;
}

/* That we go is recorded in our own time, stack and all. */
static void measure_stacks(struct ky_wakes *wakes)
{
	uint64_t with_ns = UINT64_MAX, without_ns = UINT64_MAX, ns;
	struct seen seen = {.tid = 0};

	for (uint32_t i = 0; i < COST_ROUNDS && !wakes->switch_refusal; i++) {
		ns = time_sleeps();
		with_ns = ns < with_ns ? ns : with_ns;
		(void)ky_wakes_pause(wakes, true);
		ns = time_sleeps();
		without_ns = ns < without_ns ? ns : without_ns;
		(void)ky_wakes_pause(wakes, false);
		(void)ky_wakes_read(wakes, on_test_record, &seen);
	}
	ns = with_ns > without_ns ? with_ns - without_ns : 0;
	wakes->stack_ns = ns > COST_NS_MIN ? ns : COST_NS_MIN;
	if (wakes->stack_ns > COST_NS_MAX)
		wakes->stack_ns = COST_NS_MAX;
}

/* One processor on which interrupts are not told is enough to take what waits for what is ready.
 * It was met with Linux 6.18: from some moment on, until the next boot, as if what counts nested
 * events there had been left too high. */
static int test_wakes(struct ky_wakes *wakes)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	int err = ky_wakes_follow(wakes, &tid, 1);
	cpu_set_t mine;

	if (!err)
		err = ky_wakes_pause(wakes, false);
	if (!err && sched_getaffinity(0, sizeof(mine), &mine) != 0)
		err = -errno;
	if (!err) {
		for (size_t cpu = 0; cpu < CPU_SETSIZE && !err; cpu++)
			if (CPU_ISSET(cpu, &mine) && !is_told_on(wakes, cpu))
				err = -ENODATA;
		(void)sched_setaffinity(0, sizeof(mine), &mine);
		measure_stacks(wakes);
	}
	(void)ky_wakes_pause(wakes, true);
	return err;
}

static int make(struct ky_wakes **out)
{
	uint32_t cpus = ky_perf_event_cpus();
	struct ky_wakes *wakes;

	*out = NULL;
	if (!cpus)
		return -EINVAL;
	wakes = ky_alloc(sizeof(*wakes));
	if (!wakes)
		return -ENOMEM;
	wakes->cpus = ky_alloc(cpus * sizeof(*wakes->cpus));
	if (!wakes->cpus) {
		ky_free(wakes);
		return -ENOMEM;
	}
	wakes->cpu_count = cpus;
	for (uint32_t i = 0; i < wakes->cpu_count; i++) {
		struct wake_cpu *cpu = &wakes->cpus[i];

		cpu->fd = cpu->out_fd = cpu->in_fd = cpu->ring.fd = -1;
	}
	wakes->is_paused = true;
	*out = wakes;
	return 0;
}

static void fill_attrs(struct ky_wakes *wakes)
{
	/* Both come in one ring: words stand at the same places. */
	wakes->attr = (struct perf_event_attr){
		.size = sizeof(wakes->attr),
		.type = PERF_TYPE_TRACEPOINT,
		.config = wakes->format.id,
		.sample_period = 1,
		.sample_type = KY_TRACE_SAMPLE_TYPE,
		.exclude_callchain_user = 1,
		.exclude_callchain_kernel = 1,
		.disabled = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	wakes->in_attr = wakes->attr;
	wakes->in_attr.config = wakes->switch_format.id;
	wakes->out_attr = wakes->in_attr;
	wakes->out_attr.exclude_callchain_kernel = 0;
	wakes->out_attr.sample_max_stack = KY_SWITCH_STACK_MAX;
}

static int open_and_test(struct ky_wakes *wakes)
{
	size_t most = wakes->switch_refusal ? RING_BYTES_MAX : SWITCH_RING_BYTES_MAX;
	int err = 0;

	/* EPERM of mmap(): more than may be locked. */
	for (size_t bytes = most; bytes >= RING_BYTES_MIN; bytes /= 2) {
		err = open_rings(wakes, bytes);
		if (err != -EPERM && err != -ENOMEM)
			break;
	}
	return err ? err : test_wakes(wakes);
}

static int open_with(struct ky_wakes **out, const struct ky_wake_format *format,
		     const struct ky_switch_format *switch_format, int switch_refusal)
{
	struct ky_wakes *wakes;
	int err = make(&wakes);

	*out = NULL;
	if (err)
		return err;
	wakes->format = *format;
	wakes->switch_format = *switch_format;
	wakes->switch_refusal = switch_refusal;
	fill_attrs(wakes);
	err = open_and_test(wakes);
	/* What opens and tells nothing is not worth its cost. */
	if (!err && wakes->switch_refusal != switch_refusal)
		err = wakes->switch_refusal;
	if (err) {
		ky_wakes_close(wakes);
		return err;
	}
	(void)ky_wakes_passed_ns(wakes);
	memset(&wakes->stacks, 0, sizeof(wakes->stacks));
	wakes->now.count = 0; /* nobody asked for us */
	*out = wakes;
	return 0;
}

int ky_wakes_open(struct ky_wakes **out, bool has_switches)
{
	struct ky_switch_format switch_format;
	struct ky_wake_format format;
	int err = ky_wake_format_read(&format), refusal;

	*out = NULL;
	if (err)
		return err;
	refusal = ky_switch_format_read(&switch_format);
	if (!has_switches)
		refusal = -ECANCELED;
	err = open_with(out, &format, &switch_format, refusal);
	if (err && !refusal)
		err = open_with(out, &format, &switch_format, err);
	return err;
}

void ky_wakes_close(struct ky_wakes *wakes)
{
	if (!wakes)
		return;
	for (uint32_t i = 0; i < wakes->cpu_count; i++) {
		if (wakes->cpus[i].fd >= 0)
			ky_perf_event_close(wakes->cpus[i].fd);
		if (wakes->cpus[i].out_fd >= 0)
			ky_perf_event_close(wakes->cpus[i].out_fd);
		if (wakes->cpus[i].in_fd >= 0)
			ky_perf_event_close(wakes->cpus[i].in_fd);
		ky_perf_ring_close(&wakes->cpus[i].ring);
	}
	ky_free(wakes->cpus);
	ky_free(wakes);
}
