/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* perf_ring.h - a ring that the kernel writes records of perf_event into, and we read.
 * Threads: owner. Memory: the ring's own.
 */
#ifndef KY_PROBE_PERF_RING_H
#define KY_PROBE_PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A record's header counts its bytes by 16 bits. */
#define KY_PERF_RECORD_WORDS 8192u

struct ky_perf_ring {
	int fd;                            /* -1: none */
	struct perf_event_mmap_page *page; /* NULL: none */
	size_t bytes;                      /* of records: a power of two */
	bool is_at_work;                   /* the next record was given out, and not ended */
};

/* Of the event ring->fd. Returns 0, -errno. */
int ky_perf_ring_map(struct ky_perf_ring *ring, size_t bytes);
void ky_perf_ring_close(struct ky_perf_ring *ring);

/* The next record, read where it lies: most of a stack's copy is never read, and it is in
 * another CPU's cache. Copied to `room` only where it goes round the ring's end. NULL: there is
 * none. Who takes it may leave by a jump, because what it writes to has gone; then that record is
 * lost, and not met again and again.
 *
 * lost   grows by such a record, and by those that the kernel had no room for */
const struct perf_event_header *
ky_perf_ring_begin(struct ky_perf_ring *ring, uint64_t room[KY_PERF_RECORD_WORDS], uint64_t *lost);

/* Gives its room back. */
void ky_perf_ring_end(struct ky_perf_ring *ring, const struct perf_event_header *record);

#endif
