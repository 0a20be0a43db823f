/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_snapshot.h - who is polling, parked or silent, by a few words of each open sub-buffer.
 *
 * A reading costs one cache line per open sub-buffer and one per claim since the reading before.
 * Records are read only where those words do not suffice: a thread's first sub-buffer (whose worker
 * is it?), the first poll seen of a thread, a silent thread, a sub-buffer with a new owner.
 * The image is untrusted (ring_view.h); loops are bounded by its slots and words.
 * Threads: owner.   Memory: fixed at open.
 */
#ifndef KY_RING_RING_SNAPSHOT_H
#define KY_RING_RING_SNAPSHOT_H

#include <ring/ring_view.h>

#define KY_SNAPSHOT_THREADS_MAX 16384u

/* A thread, by its index in the directory. */
struct ky_snapshot_thread {
	uint32_t tid;                     /* 0: nothing of it was seen */
	uint32_t rules_fired, rules_held; /* about the poll `stuck_ticks`; bit = rule */
	bool is_worker;                   /* polls tasks */
	bool is_stopped;                  /* by a signal or a debugger, at the last reading */
	bool has_exited;
	uint64_t runtime, identity; /* 0: unknown */
	uint64_t role_ticks;        /* until when we know what it was */
	uint64_t worker_ticks;      /* since when it serves this identity */
	uint64_t seen_number;       /* what was new at changed_ns */
	uint32_t seen_published;
	uint32_t read_published;
	uint64_t changed_ns; /* it had written something new, or is new itself */
	/* By the last reading of its sub-buffer. */
	uint64_t read_number;
	uint64_t last_ticks;  /* of its last record */
	uint32_t last_record; /* enum kymo_record */
	/* For the rules. */
	uint32_t sched_file;     /* descriptor + 1 */
	uint64_t stuck_ticks;    /* the poll that was last noted */
	uint64_t stuck_begin_ns; /* the same for all its notes: by the first */
	uint64_t replaced_ticks; /* the poll whose worker continues elsewhere */
	uint64_t note_next_ns;
	uint64_t excused_ns; /* what it did before does not count against it */
};

/* A sub-buffer that is open, or may be at the next reading. */
struct ky_snapshot_slot {
	uint32_t slot;
	uint32_t thread;   /* index; 0: unknown */
	uint64_t number;   /* claim number + 1 */
	uint64_t expected; /* it will be at least that */
	uint32_t misses;
	uint32_t published;
	bool is_open;
	uint32_t depth;       /* open polls */
	uint64_t begin_ticks; /* of the outermost */
	uint64_t task;
};

struct ky_ring_snapshot {
	struct ky_ring_view view;
	const struct ky_ring_side *side; /* NULL: none */
	struct ky_snapshot_thread *threads;
	uint32_t thread_max, thread_last; /* thread_last: the largest index seen */
	struct ky_snapshot_slot *slots;
	uint32_t slot_count;
	uint8_t *is_listed; /* by slot */
	uint64_t claim_index;
	uint64_t directory_at;
	uint64_t now_ns, ticks;
	bool has_stepped;
	uint64_t words[KY_SLOT_BYTES / 8];
};

/* Returns 0, -ENOMEM, what ky_ring_view_init() returns. */
int ky_ring_snapshot_open(struct ky_ring_snapshot *snapshot, const uint8_t *image,
			  uint64_t image_bytes);
void ky_ring_snapshot_release(struct ky_ring_snapshot *snapshot);

/* Brings slots[] and threads[] up to date. */
void ky_ring_snapshot_step(struct ky_ring_snapshot *snapshot, uint64_t now_ns, uint64_t ticks);

static inline struct ky_snapshot_thread *
ky_ring_snapshot_thread(struct ky_ring_snapshot *snapshot, const struct ky_snapshot_slot *slot)
{
	return &snapshot->threads[slot->thread];
}

/* Reads the records of an open slot unless its thread wrote nothing since: last_record and
 * last_ticks hold afterwards. False: it cannot be read now. */
bool ky_ring_snapshot_read(struct ky_ring_snapshot *snapshot, struct ky_snapshot_slot *slot);

/* True where the worker of this slot's poll moved to another thread meanwhile. Reads what was
 * claimed since the poll began, at most 1024 sub-buffers. */
bool ky_ring_snapshot_has_moved(struct ky_ring_snapshot *snapshot,
				const struct ky_snapshot_slot *slot);

/* The part of it that reads nothing: another thread known to us began to serve the identity of
 * thread `index` after these ticks. */
bool ky_ring_snapshot_is_replaced(const struct ky_ring_snapshot *snapshot, uint32_t index,
				  uint64_t ticks);

/* When the outermost poll that began at begin_ticks ended, by the records that the slot holds under
 * this claim number. False: they do not say it. */
bool ky_ring_snapshot_poll_end(struct ky_ring_snapshot *snapshot, uint32_t slot, uint64_t number,
			       uint64_t begin_ticks, uint64_t *end_ticks);

/* ns of so many ticks; saturates. */
uint64_t ky_ring_snapshot_ns(const struct ky_ring_snapshot *snapshot, uint64_t ticks);

#endif
