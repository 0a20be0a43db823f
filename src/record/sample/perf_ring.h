/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* perf_ring.h - a ring that the kernel writes records of perf_event into, and we read.
 * Threads: owner. Memory: the ring's own.
 */
#ifndef KY_RECORD_SAMPLE_PERF_RING_H
#define KY_RECORD_SAMPLE_PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KY_PERF_CPUS_MAX 1024u
#define KY_PERF_PAGE_BYTES 4096u /* in front of the records */

struct ky_perf_ring {
	int fd;                            /* -1: none */
	struct perf_event_mmap_page *page; /* NULL: none */
};

/* Returns a descriptor, -errno. */
int ky_perf_ring_event(struct perf_event_attr *attr, pid_t tid, int cpu);

/* Of the event ring->fd; ring_bytes: a power of two. Returns 0, -errno. */
int ky_perf_ring_map(struct ky_perf_ring *ring, size_t ring_bytes);
void ky_perf_ring_close(struct ky_perf_ring *ring, size_t ring_bytes);

/* Copies the next record out of the ring and gives its room back. False: there is none. */
bool ky_perf_ring_take(struct ky_perf_ring *ring, size_t ring_bytes, uint64_t *record,
		       size_t record_bytes);

#endif
