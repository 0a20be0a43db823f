/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* wake_source.h - who woke a thread, and when: the kernel's tracepoint sched_waking by perf_event,
 * on all CPUs, with a filter in the kernel that lets wake-ups of our threads through. It
 * takes root, or CAP_PERFMON and a tracefs that may be read.
 *
 * A filter is a few ranges of thread ids, so others in between come along; a thread outside of them
 * is not covered until the filter follows. A filter cannot be changed: events are opened anew, into
 * the same rings.
 * Threads: owner. Memory: a ring for each CPU.
 */
#ifndef KY_PROBE_WAKE_SOURCE_H
#define KY_PROBE_WAKE_SOURCE_H

#include <probe/perf_source.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_WAKE_RANGES_MAX 16u
#define KY_WAKE_ROOM 16u /* thread ids after each range that the filter has, too */
/* What a wake-up that does not pass the filter takes of the CPU. */
#define KY_WAKE_PASSED_NS UINT64_C(60)

struct ky_wake_range {
	uint32_t first, last;
};

struct ky_wake_ranges {
	struct ky_wake_range list[KY_WAKE_RANGES_MAX]; /* ascending */
	uint32_t count;
};

/* Of ascending thread ids, the fewest others between them. */
void ky_wake_ranges_make(struct ky_wake_ranges *out, const uint32_t *tids, uint32_t count);
bool ky_wake_ranges_has(const struct ky_wake_ranges *ranges, uint32_t tid);

struct ky_wakes;

/* Tested on ourselves: a wake-up of ours is reported, with our number. Returns 0; -errno of what
 * was refused; -ENODATA: it opens and reports nothing, or numbers of another pid namespace. */
int ky_wakes_open(struct ky_wakes **out);
void ky_wakes_close(struct ky_wakes *wakes); /* NULL: no-op */

/* tids: ascending. Nothing is done where the filter has all of them. Returns 0, -errno. */
int ky_wakes_follow(struct ky_wakes *wakes, const uint32_t *tids, uint32_t count);

/* Its wake-ups from this moment on were asked for, while not paused. Not that all were reported:
 * there are threads, and no count of them, during which the kernel reports no wake-up by an
 * interrupt. */
bool ky_wakes_covers(const struct ky_wakes *wakes, uint32_t tid, uint64_t from_ns);

int ky_wakes_pause(struct ky_wakes *wakes, bool is_paused);

/* Gives out KY_SWITCH_WOKEN. Returns the number of records. */
uint32_t ky_wakes_read(struct ky_wakes *wakes, ky_perf_switch_fn fn, void *ctx);
uint64_t ky_wakes_lost(const struct ky_wakes *wakes);
/* What the wake-ups of the machine cost that were not given out, since the last call; there are
 * about as many as switches, which are counted. */
uint64_t ky_wakes_passed_ns(struct ky_wakes *wakes);

#endif
