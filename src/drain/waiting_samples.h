/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* waiting_samples.h - samples that were read and wait for their turn in the merge, and what was
 * read about those that come; for src/drain.
 *
 * Memory:      KY_SAMPLES_WAITING_MAX samples, from the first one on.
 * Threads:     owner.
 */
#ifndef KY_DRAIN_WAITING_SAMPLES_H
#define KY_DRAIN_WAITING_SAMPLES_H

#include <drain/thread_table.h>
#include <wire/switch_sample.h>

/* One that waits for its turn in the merge; frames after it. */
struct ky_waiting_sample {
	uint8_t kind, flags;
	uint16_t cpu;
	int16_t syscall;
	uint32_t tid, frame_count;
	uint64_t value, more, other, task, weight;
	uint64_t runnable_min_ns, runnable_max_ns; /* of a switch */
	uint32_t by_pid, by_tid;                   /* who ended it */
	uint8_t by;                                /* enum ky_woken_by */
	bool is_truncated;                         /* its stack; of others `flags` say it */
	uint64_t frames[];
};
#define KY_SAMPLES_WAITING_MAX 16384u

#define KY_WAKER_NAMES 1024u

/* What threads are called that woke others; by hash, the latest stays. */
struct ky_waker_name {
	uint32_t tid, pid;
	char name[KY_WAKER_NAME_BYTES];
};

struct ky_sample_list {
	struct ky_dthread *source; /* its queue is merged like a thread's */
	struct ky_waker_name *wakers;
	struct ky_waiting_sample **waiting;
	uint32_t place_count;  /* places that were ever taken: the others were not touched */
	uint32_t *free_places; /* of those */
	uint32_t free_count;   /* of all */
};

/* Returns 0, -ENOMEM. */
int ky_samples_init(struct ky_sample_list *samples);
void ky_samples_release(struct ky_sample_list *samples);
/* Places for samples, at the first one: most rings have none. Returns 0, -ENOMEM. */
int ky_samples_make_places(struct ky_sample_list *samples);
/* Takes the sample over. Returns 0, -ENOMEM. */
int ky_samples_add(struct ky_sample_list *samples, struct ky_queue_sums *sums,
		   struct ky_waiting_sample *sample, uint64_t ticks);
/* It was reported. */
void ky_samples_remove(struct ky_sample_list *samples, uint64_t place);
struct ky_waker_name *ky_samples_waker(const struct ky_sample_list *samples, uint32_t tid);

#endif
