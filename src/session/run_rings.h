/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_rings.h - the ring files of one `kymo run` session: found, drained, finished, removed.
 *
 * A ring belongs to the session when its header says so, whichever process made it: CMD, a child, a
 * daemon that left the process group. Each becomes a run directory, or a file, of its own in the
 * output.
 *
 * Trouble with the disk or with a ring is said once and never reaches CMD.
 * Threads: owner.
 */
#ifndef KY_SESSION_RUN_RINGS_H
#define KY_SESSION_RUN_RINGS_H

#include <poll.h>
#include <session/session_options.h>
#include <stdbool.h>
#include <stdint.h>

struct ky_run_rings;
struct ky_run_samplers;

struct ky_run_totals {
	uint32_t process_count; /* rings that were recorded */
	uint32_t live_count;    /* whose process still runs */
	uint32_t live_pid;      /* one of them */
	uint64_t event_count, lost_count, dropped_count;
	uint64_t sample_lost_count; /* stacks, not records */
	uint64_t flown_count;       /* overwritten in flight mode, between two streams */
	uint64_t bytes_stored;
	uint64_t unsent_count; /* segments that were deleted before all destinations had them */
	uint64_t age_ns;       /* flight mode: how far back the one ring reached */
	bool is_full;          /* the single file has reached its bound */
	int write_error;       /* of the output alone */
	int open_error;        /* we had no descriptor left for a ring, or for their directory */
	int error;             /* first trouble with the output or a ring; 0 when none */
	char trace_path[512];  /* run directory of the only process, or the directory above; or the
			       * file as it was named */
};

/* directory: where the recorders put their ring files. Returns 0, -ENOMEM. */
int ky_run_rings_open(struct ky_run_rings **out, const struct ky_session_options *options,
		      const char *directory, uint64_t session);
void ky_run_rings_close(struct ky_run_rings *rings);

/* What samples the processes; stays the caller's and outlives the rings. NULL: nothing does. */
void ky_run_rings_sample(struct ky_run_rings *rings, struct ky_run_samplers *samplers);

/* CMD is process `pid`: its rings are finished once ky_run_rings_child_ended() has said how it
 * ended. */
void ky_run_rings_child(struct ky_run_rings *rings, uint32_t pid);
/* It has ended, and what the kernel counted for it can be read until it is reaped. ctx: the
 * rings. */
void ky_run_rings_child_ending(void *ctx);
void ky_run_rings_child_ended(struct ky_run_rings *rings, int wait_status, uint32_t oom);

/* Searches for new rings, drains the known ones, finishes those whose process is gone.
 * Returns after how many nanoseconds it wants to be called again. */
uint64_t ky_run_rings_step(struct ky_run_rings *rings);

/* What wakes a caller that waits for the next step, at most KY_RUN_RINGS_POLLED_MAX; returns how
 * many. After the wait it gives them back. */
#define KY_RUN_RINGS_POLLED_MAX 65u
uint32_t ky_run_rings_poll(struct ky_run_rings *rings, struct pollfd *out);
void ky_run_rings_polled(struct ky_run_rings *rings, const struct pollfd *polled, uint32_t count);

/* Finishes everything that is still there: a process that continues has its gates closed first.
 * is_alone: no process of the session runs any more, so none holds a ring without a file. */
void ky_run_rings_finish(struct ky_run_rings *rings, bool is_alone);

void ky_run_rings_totals(const struct ky_run_rings *rings, struct ky_run_totals *out);

#endif
