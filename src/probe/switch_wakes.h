/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* switch_wakes.h - wake-ups of the threads of the recorded processes, beside their switches: which
 * threads the kernel is to record them of, and what those are called that woke them.
 * Threads: owner. What touches a ring's area runs inside ky_ring_guard().
 */
#ifndef KY_PROBE_SWITCH_WAKES_H
#define KY_PROBE_SWITCH_WAKES_H

#include <probe/switch_pairs.h>
#include <probe/switch_windows.h>
#include <probe/wake_source.h>
#include <stdbool.h>
#include <stdint.h>
#include <wire/sample_area.h>

#define KY_WAKERS_MAX 256u
#define KY_WAKES_THREADS 4096u

struct ky_switch_wakes {
	struct ky_wakes *wakes; /* NULL: none */
	ky_switch_pid_fn pid;
	uint64_t listed_ns; /* when threads were listed last */
	bool is_stale;      /* one switches that the filter has not */
	uint64_t lost_reported;
	uint32_t threads[KY_WAKES_THREADS]; /* ascending, as they were listed */
	uint32_t thread_count;
	struct ky_waker_named {
		uint32_t tid, of_pid;
		uint64_t ns;
	} named[KY_WAKERS_MAX]; /* reported lately, by hash */
};

/* Finds out what this machine allows. */
void ky_switch_wakes_open(struct ky_switch_wakes *of, ky_switch_pid_fn pid);
void ky_switch_wakes_close(struct ky_switch_wakes *of);

/* A window begins, or continues: threads that came are followed. */
void ky_switch_wakes_window(struct ky_switch_wakes *of, const struct ky_switch_places *places,
			    uint64_t now_ns);
void ky_switch_wakes_pause(struct ky_switch_wakes *of, bool is_paused);

/* A thread switched. */
void ky_switch_wakes_note(struct ky_switch_wakes *of, uint32_t tid);

/* Returns the number of records. lost: as many more as there was no room for. */
uint32_t ky_switch_wakes_read(struct ky_switch_wakes *of, ky_perf_switch_fn fn, void *ctx,
			      uint64_t *lost);

/* What those wake-ups took of all CPUs that were not given out, since the last call. */
uint64_t ky_switch_wakes_passed_ns(struct ky_switch_wakes *of);

/* Puts what the wakers of these intervals are called beside them, unless that was reported
 * lately. */
void ky_switch_wakes_name(struct ky_switch_wakes *of, const struct ky_sample_ring *ring,
			  const struct ky_switch_pair *pairs, uint32_t count, uint64_t now_ns);

#endif
