/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* copy.h - the first stage of a drain: what the ring holds and was not read yet goes into the
 * queues and tables of struct ky_drain_common; for drain.c.
 *
 * Threads:     owner.
 */
#ifndef KY_DRAIN_COPY_H
#define KY_DRAIN_COPY_H

#include <drain/common.h>
#include <drain/counter_news.h>

struct ky_copy;

/* Samples of one class overwritten before the drain read them. */
struct ky_sample_gap {
	uint64_t count, from_ns;
	bool is_inexact; /* so many at least */
};

/* The common part is the caller's and outlives the stage. Returns 0, -ENOMEM. */
int ky_copy_open(struct ky_copy **out, struct ky_drain_common *common,
		 const struct ky_drain_options *options);
void ky_copy_close(struct ky_copy *copy);

/* Once a step, in this order; each returns 0 or -ENOMEM. is_reported: a segment is open, so what is
 * missing can be reported. */
int ky_copy_samples(struct ky_copy *copy, bool is_reported, struct ky_sample_gap *gaps);

/* The queues hold as much as is merged at a stroke. */
#define KY_COPY_FULL 1
/* Sub-buffers; KY_COPY_FULL: merge, and call again. */
int ky_copy_slots(struct ky_copy *copy);
int ky_copy_directory(struct ky_copy *copy); /* also before each merge */
/* What the kernel has counted for the threads of workers, when it is time. late_wakes: polls so far
 * that began late. */
int ky_copy_thread_counts(struct ky_copy *copy, uint64_t late_wakes);
/* Rows of the resource area that are new, none before what is merged by now. */
int ky_copy_resources(struct ky_copy *copy, uint64_t merged_ns);
/* Marks, a crash, counters. */
int ky_copy_side(struct ky_copy *copy, struct ky_counter_news *news);
/* At the end: what was lost at the end of a thread becomes inexact gaps. */
int ky_copy_last_gaps(struct ky_copy *copy);
int ky_copy_exits(struct ky_copy *copy);

/* No record that was not read is older than this, nor than what a busy thread may publish. */
uint64_t ky_copy_floor(struct ky_copy *copy);
uint64_t ky_copy_hold_ticks(const struct ky_copy *copy);
/* Whether more waits than memory was meant for. */
bool ky_copy_is_over_budget(const struct ky_copy *copy);
/* Frees empty queues where all of them are over the budget. */
void ky_copy_give_back(struct ky_copy *copy);

/* As ky_drain_resume(). Returns whether the ring went round meanwhile. */
bool ky_copy_resume(struct ky_copy *copy, uint64_t ticks);
/* Sub-buffers that threads write to. */
uint32_t ky_copy_open_slots(const struct ky_copy *copy);

#endif
