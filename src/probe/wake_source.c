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
#define RING_BYTES_MIN (1u << 14)
#define FILTER_BYTES (KY_WAKE_RANGES_MAX * 64u)
#define TEST_SLEEPS 50u /* at most: the first one will do */
#define TEST_SLEEP_NS 20000

struct wake_cpu {
	struct ky_perf_ring ring; /* its event only holds the ring, and counts switches */
	int fd;                   /* the event with the filter; -1: none */
	uint64_t switch_count;
};

struct ky_wakes {
	struct ky_wake_format format;
	struct perf_event_attr attr;
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

static void write_filter(const struct ky_wake_ranges *ranges, char out[FILTER_BYTES])
{
	size_t used = 0;

	for (uint32_t i = 0; i < ranges->count && used < FILTER_BYTES; i++)
		used += (size_t)snprintf(out + used, FILTER_BYTES - used,
					 "%s(pid >= %u && pid <= %u)", i ? " || " : "",
					 ranges->list[i].first, ranges->list[i].last);
}

/* Returns a descriptor, -errno. */
static int open_filtered(const struct ky_wakes *wakes, uint32_t cpu, const char *filter)
{
	struct perf_event_attr attr = wakes->attr;
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

/* The new one sees before the old one is shut: none is missed, one may be reported twice. */
static int renew(struct ky_wakes *wakes, uint32_t cpu, const char *filter)
{
	int fd = open_filtered(wakes, cpu, filter), *event = &wakes->cpus[cpu].fd;

	if (fd < 0)
		return fd;
	if (*event >= 0)
		ky_perf_event_close(*event);
	*event = fd;
	return 0;
}

static int set_filter(struct ky_wakes *wakes, const struct ky_wake_ranges *ranges)
{
	char filter[FILTER_BYTES];
	int err = 0;

	write_filter(ranges, filter);
	for (uint32_t i = 0; i < wakes->cpu_count && !err; i++)
		if (wakes->cpus[i].ring.page)
			err = renew(wakes, i, filter);
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
	/* Threads that are made next mostly have the next numbers. */
	for (i = 0; i < ranges.count; i++)
		ranges.list[i].last += KY_WAKE_ROOM;
	err = set_filter(wakes, &ranges);
	/* Some CPUs may have the new one: nothing is covered by both. */
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

	for (uint32_t i = 0; i < wakes->cpu_count; i++)
		pause_event(wakes->cpus[i].fd, is_paused, &err);
	wakes->is_paused = is_paused;
	return err;
}

/* ---- reading ---- */

/* Returns false for what is no record of ours. */
static bool give_out(const struct ky_wakes *wakes, const struct perf_event_header *header,
		     ky_perf_switch_fn fn, void *ctx)
{
	struct ky_perf_switch what;

	if (!ky_trace_record_wake((const void *)header, &wakes->format, &what))
		return false;
	fn(ctx, &what);
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
			count += give_out(wakes, record, fn, ctx);
			ky_perf_ring_end(ring, record);
		}
	}
	return count;
}

uint64_t ky_wakes_lost(const struct ky_wakes *wakes)
{
	return wakes->lost_count;
}

uint64_t ky_wakes_passed_ns(struct ky_wakes *wakes)
{
	uint64_t count, sum = 0;

	for (uint32_t i = 0; i < wakes->cpu_count; i++) {
		struct wake_cpu *cpu = &wakes->cpus[i];

		if (!cpu->ring.page || !ky_perf_event_read(cpu->ring.fd, &count, 1))
			continue;
		sum += count - cpu->switch_count;
		cpu->switch_count = count;
	}
	return sum * KY_WAKE_PASSED_NS;
}

/* ---- opening ---- */

static int open_rings(struct ky_wakes *wakes, size_t ring_bytes)
{
	/* The thread that is woken is switched to: about as many as there are wake-ups. */
	struct perf_event_attr counter = {.size = sizeof(counter),
					  .type = PERF_TYPE_SOFTWARE,
					  .config = PERF_COUNT_SW_CONTEXT_SWITCHES,
					  .use_clockid = 1,
					  .clockid = CLOCK_MONOTONIC};
	int err = 0, opened = 0;

	for (uint32_t i = 0; i < wakes->cpu_count && !err; i++) {
		struct ky_perf_ring *ring = &wakes->cpus[i].ring;

		ring->fd = ky_perf_event_open(&counter, -1, (int)i);
		if (ring->fd == -ENODEV) { /* the CPU is off */
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
struct seen_wake {
	uint32_t tid;
	uint32_t timers;
};

static void on_test_record(void *ctx, const struct ky_perf_switch *what)
{
	struct seen_wake *seen = ctx;

	if (what->tid != seen->tid || !what->ns)
		return;
	seen->timers += what->is_by_interrupt;
}

/* Does the timer that ends a sleep on this CPU show? */
static bool is_reported_on(struct ky_wakes *wakes, size_t cpu)
{
	struct seen_wake seen = {.tid = (uint32_t)syscall(SYS_gettid)};
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	if (sched_setaffinity(0, sizeof(only), &only) != 0)
		return true; /* shut down since */
	for (uint32_t i = 0; i < TEST_SLEEPS; i++) {
		ky_sleep_ns(TEST_SLEEP_NS);
		(void)ky_wakes_read(wakes, on_test_record, &seen);
		if (seen.timers)
			return true;
	}
	return false;
}

/* One CPU on which interrupts are not reported is enough to take what waits for what is ready.
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
			if (CPU_ISSET(cpu, &mine) && !is_reported_on(wakes, cpu))
				err = -ENODATA;
		(void)sched_setaffinity(0, sizeof(mine), &mine);
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
	for (uint32_t i = 0; i < wakes->cpu_count; i++)
		wakes->cpus[i].fd = wakes->cpus[i].ring.fd = -1;
	wakes->is_paused = true;
	*out = wakes;
	return 0;
}

static void fill_attr(struct ky_wakes *wakes)
{
	wakes->attr = (struct perf_event_attr){
		.size = sizeof(wakes->attr),
		.type = PERF_TYPE_TRACEPOINT,
		.config = wakes->format.id,
		.sample_period = 1,
		.sample_type = KY_TRACE_SAMPLE_TYPE,
		.disabled = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
}

static int open_and_test(struct ky_wakes *wakes)
{
	int err = 0;

	/* EPERM of mmap(): more than may be locked. */
	for (size_t bytes = RING_BYTES_MAX; bytes >= RING_BYTES_MIN; bytes /= 2) {
		err = open_rings(wakes, bytes);
		if (err != -EPERM && err != -ENOMEM)
			break;
	}
	return err ? err : test_wakes(wakes);
}

int ky_wakes_open(struct ky_wakes **out)
{
	struct ky_wake_format format;
	struct ky_wakes *wakes;
	int err = ky_wake_format_read(&format);

	*out = NULL;
	if (!err)
		err = make(&wakes);
	if (err)
		return err;
	wakes->format = format;
	fill_attr(wakes);
	err = open_and_test(wakes);
	if (err) {
		ky_wakes_close(wakes);
		return err;
	}
	(void)ky_wakes_passed_ns(wakes);
	wakes->now.count = 0; /* no wake-ups were asked for yet */
	*out = wakes;
	return 0;
}

void ky_wakes_close(struct ky_wakes *wakes)
{
	if (!wakes)
		return;
	for (uint32_t i = 0; i < wakes->cpu_count; i++) {
		if (wakes->cpus[i].fd >= 0)
			ky_perf_event_close(wakes->cpus[i].fd);
		ky_perf_ring_close(&wakes->cpus[i].ring);
	}
	ky_free(wakes->cpus);
	ky_free(wakes);
}
