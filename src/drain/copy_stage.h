/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* copy_stage.h - how far the ring was read; for the files of the first stage alone: copy.c with
 * slot_plan.c, slot_cursor.c, record_parse.c and record_gap.c (sub-buffers), ring_directory.c,
 * sample.c, side.c, resource.c, thread_count.c.
 * Threads: owner.
 */
#ifndef KY_DRAIN_COPY_STAGE_H
#define KY_DRAIN_COPY_STAGE_H

#include <drain/copy.h>

struct ky_slot_cursor {
	uint64_t number;        /* claim number + 1 that `offset` is about; 0: none yet */
	uint64_t expected;      /* a claim number + 1 that may still land here */
	uint64_t hold_since_ns; /* busy or filling since; 0: not */
	struct ky_dthread *thread;
	uint32_t offset; /* read up to here */
	uint32_t hold_offset;
	bool is_listed;
	bool is_complete; /* nothing more to come under this number */
	bool is_parked;   /* its thread left it, and we have everything */
};

/* One slot to read in this step. */
struct ky_visit {
	uint64_t number;
	uint64_t floor_ticks; /* no record of this or a later visit is older (memory is short) */
	uint64_t start_ticks; /* of the slot, once asked; UINT64_MAX: it is another claim's */
	uint32_t slot;
};

/* Of one class of the sample area. */
struct ky_sample_cursor {
	uint64_t next;        /* claim */
	uint64_t since_ns;    /* it is being written since; 0: it is not */
	uint64_t reported_ns; /* when it was read last */
	uint32_t number;      /* of the next sample */
	bool has_number;
	uint64_t source_lost; /* reported */
	uint64_t held_lost;   /* not reported yet: no segment was open */
	bool is_inexact;      /* held_lost is a lower bound */
};

struct ky_copy {
	struct ky_drain_common *common;
	size_t memory_bytes_max;
	void (*fetch_samples)(void *ctx);
	void *fetch_ctx;
	bool (*count_thread)(void *ctx, uint32_t tid, struct ky_thread_cpu *out);
	void *count_ctx;

	/* sub-buffers */
	struct ky_slot_cursor *cursors;
	uint32_t *listed; /* slots to read in every step */
	uint32_t listed_count;
	struct ky_visit *visits; /* of this step, in the order of their claims */
	uint32_t visit_count, visit_at;
	uint64_t reading_step; /* its visits are not done; 0: none */
	uint64_t relieved_at;  /* records that waited after the last merge of this step */
	uint64_t claim_index;  /* claims seen */
	uint32_t usable_seen;
	uint64_t back_step;  /* ky_drain_resume() came before this step */
	bool has_lapped;     /* the claim index went round between two steps */
	uint64_t hold_ticks; /* the merge must not pass this */
	uint64_t words[KY_SLOT_BYTES / 8];

	struct ky_sample_cursor sample_cursors[KY_SAMPLE_CLASSES];
	uint64_t late_counted; /* late wakes when the kernel's counts were read last */

	/* the side and resource areas */
	uint64_t mark_next;     /* number of the next mark */
	uint64_t mark_since_ns; /* it is being written since; 0: it is not */
	bool has_crash;         /* queued */
	uint64_t counters_ns;   /* when the counters were read last */
	uint64_t resource_next; /* number of the next row */
};

/* Returns 0; -ENOMEM. */
static inline int ky_copy_push(struct ky_copy *copy, struct ky_dthread *thread, uint64_t ticks,
			       uint32_t type, uint32_t arg, uint64_t a)
{
	return ky_queue_push(&thread->queue, &copy->common->threads.queues,
			     &(struct ky_rec){ticks, a, type, arg});
}

#endif
