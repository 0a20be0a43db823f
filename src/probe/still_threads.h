/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* still_threads.h - what the kernel counts of threads that were seen to switch: their time on a
 * CPU, their time in the run queue, and how often they got a CPU.
 *
 * One that was off CPU for a whole window has no switch records there: its CPU time
 * did not grow. Of one that was off it now and then the growth of the run queue's time bounds how
 * much of each interval was spent ready to run. That holds only where the records say that it got a
 * CPU just as often as the kernel counted: else one of the two readings is later than the other.
 *
 * Those are read that were seen to switch in earlier windows, the latest STILL_MAX of them,
 * by files that stay open: a reading takes about a microsecond.
 * Threads: owner.
 */
#ifndef KY_PROBE_STILL_THREADS_H
#define KY_PROBE_STILL_THREADS_H

#include <probe/switch_pairs.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_STILL_MAX 64u

struct ky_still_thread {
	uint32_t pid, tid;      /* tid 0: free */
	int fd;                 /* atomic; of its schedstat, -1: none */
	uint64_t device, inode; /* of that file: the program may close it, and reuse its number */
	uint64_t cpu_ns;        /* at the window's beginning; UINT64_MAX: unreadable */
	uint64_t used;          /* number of the last window that it was seen in */
	/* At the last reading that goes with sums of the records. */
	uint64_t delay_ns, run_count;
	struct ky_switch_sums sums;
	bool has_sums;
};

/* From one such reading to the next. */
struct ky_still_growth {
	uint64_t delay_ns; /* in the run queue */
	struct ky_switch_sums sums;
};

struct ky_still_threads {
	struct ky_still_thread threads[KY_STILL_MAX];
	uint64_t window; /* number */
};

void ky_still_init(struct ky_still_threads *still);
void ky_still_release(struct ky_still_threads *still);

/* In a forked child, of the parent's: its own copies of the files. Signal-safe. */
void ky_still_close_files(const struct ky_still_threads *still);

/* It was seen to switch. NULL: no room, or it is gone. */
struct ky_still_thread *ky_still_note(struct ky_still_threads *still, uint32_t pid, uint32_t tid);
/* A window begins, and with it sums of this series. */
void ky_still_begin(struct ky_still_threads *still, uint64_t series);
/* At its end. reason: enum ky_off_cpu. False: it ran, it is gone, or it is not known. */
bool ky_still_is_still(const struct ky_still_thread *thread, uint8_t *reason);

/* It waits now, for something other than a CPU: a reading of some 9 us. */
bool ky_still_waits(const struct ky_still_thread *thread);

/* sums: of all records by now. False: what has grown since the last reading is not known. */
bool ky_still_grow(struct ky_still_thread *thread, const struct ky_switch_sums *sums,
		   struct ky_still_growth *out);
/* Bounds what of the interval was runnable: it lies in the time that the growth is of. */
void ky_still_bound(const struct ky_still_growth *growth, struct ky_switch_interval *interval);

#endif
