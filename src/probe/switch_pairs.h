/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* switch_pairs.h - makes times off CPU of the kernel's switch records, window by window.
 *
 * Invariants:  intervals of one thread ascend and do not overlap. What began before the window, or
 *              continues after it, is reported as far as it was seen, and says so. After records
 *              were lost no beginning is guessed until the next window.
 * Wake-ups:    a wait is split at its own, if that was reported: before it ended, or just before it
 *              began, on its way out. Else what of it was blocked is not known: a kernel does not
 *              report all of them, and says of none that it was left out.
 * Memory:      KY_PAIRS_THREADS threads and KY_PAIRS_INTERVALS intervals, made once; what is beyond
 *              them is counted as dropped.
 * Threads:     owner.
 */
#ifndef KY_PROBE_SWITCH_PAIRS_H
#define KY_PROBE_SWITCH_PAIRS_H

#include <probe/perf_source.h>
#include <stdbool.h>
#include <stdint.h>
#include <wire/switch_sample.h>

#define KY_PAIRS_THREADS 8192u
#define KY_PAIRS_INTERVALS 32768u

struct ky_pair_thread;

struct ky_switch_pair {
	uint32_t pid, tid;
	struct ky_switch_interval interval;
	uint64_t user; /* of a fault: number of the program's stack; 0: none */
};

/* Of one thread since the table was emptied last. */
struct ky_switch_sums {
	uint64_t in_count;     /* times that it got a CPU */
	uint64_t waited_ns;    /* off one because it waited; the short ones, too */
	uint64_t preempted_ns; /* ... because another one ran */
	uint64_t series;       /* of the table: sums of another one have another beginning */
};

struct ky_switch_pairs {
	struct ky_pair_thread *threads; /* a hash table */
	uint16_t *used;                 /* its places that are taken: mostly a few of many */
	uint32_t thread_count;
	uint64_t window_ns; /* beginning of the window */
	bool has_gap;       /* records were lost in it, or its beginning was not seen */
	/* Whether every wake-up of this thread since then was reported; NULL: none are. */
	bool (*covers)(void *ctx, uint32_t tid, uint64_t from_ns);
	void *covers_ctx;
	struct ky_switch_pair *out;
	uint32_t out_count;
	uint64_t dropped_count;
	uint64_t series;
};

/* Returns 0, -ENOMEM. */
int ky_switch_pairs_init(struct ky_switch_pairs *pairs);
void ky_switch_pairs_release(struct ky_switch_pairs *pairs);

/* A window begins. goes_on: right after the last one, so a thread that was off still is. */
void ky_switch_pairs_begin(struct ky_switch_pairs *pairs, uint64_t ns, bool goes_on);

/* In the order of time. */
void ky_switch_pairs_take(struct ky_switch_pairs *pairs, const struct ky_perf_switch *what);
void ky_switch_pairs_lost(struct ky_switch_pairs *pairs);

/* A record of it came in this window. */
bool ky_switch_pairs_has_seen(const struct ky_switch_pairs *pairs, uint32_t tid);
/* False: nothing is known of it. */
bool ky_switch_pairs_sums(const struct ky_switch_pairs *pairs, uint32_t tid,
			  struct ky_switch_sums *out);
/* It was off CPU from the window's beginning to its end. */
void ky_switch_pairs_put_whole(struct ky_switch_pairs *pairs, uint32_t pid, uint32_t tid,
			       uint64_t end_ns, uint8_t reason);

/* What is in `out` was seen to: an interval's reason is final when the next reading comes. */
void ky_switch_pairs_taken(struct ky_switch_pairs *pairs);

/* The window ends, and nothing is watched after it. Sums stay until the next one begins. */
void ky_switch_pairs_end(struct ky_switch_pairs *pairs, uint64_t ns);

#endif
