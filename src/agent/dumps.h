/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* dumps.h - dumps that wait for the library's thread, in the order in which they are due.
 *
 * Static, so that a call which comes too late finds a closed queue and not freed memory. After a
 * fork it is the parent's: everything is refused until ky_dump_queue_open().
 */
#ifndef KY_AGENT_DUMPS_H
#define KY_AGENT_DUMPS_H

#include <agent/dump_place.h>

#define KY_DUMPS_WAITING_MAX 32u

/* Empty and accepting; forgets what was there, its locks included. Threads: setup-only. */
void ky_dump_queue_open(void);
/* This process has opened it. Threads: any. */
bool ky_dump_queue_is_ours(void);
/* Refuses from now on; what is waiting stays for ky_dump_queue_run(). Threads: any. */
void ky_dump_queue_close(void);

/* Takes the request over and rings the bell. A waited-for one is given back by
 * ky_dump_queue_wait(). Returns 0; KYMO_E_CLOSED; KYMO_E_BUSY (counted); -EDEADLK: the runner would
 * wait for itself. Threads: any. */
int ky_dump_queue_put(struct ky_dump_request *request);
void ky_dump_queue_wait(struct ky_dump_request *request);

/* About dumps of firings: before one is made, and what became of it (0 or an error). */
struct ky_dump_hooks {
	void (*before)(void *ctx, struct ky_dump_request *request);
	void (*after)(void *ctx, const struct ky_dump_request *request, int err);
	void *ctx;
};

/* Makes what is due; is_closing: everything. Returns when the next one is due, CLOCK_MONOTONIC;
 * UINT64_MAX: none. Threads: the runner's. */
uint64_t ky_dump_queue_run(const struct ky_dump_place *place, const struct ky_ring *ring,
			   bool is_closing, const struct ky_dump_hooks *hooks);

struct ky_dump_queue_stats {
	uint32_t waiting;
	uint64_t made, failed, refused;
};
void ky_dump_queue_stats(struct ky_dump_queue_stats *out);

#endif
