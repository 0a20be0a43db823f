/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sender.h - sealed segments from a directory of traces to destinations, in order, each once.
 *
 * A destination that is away delays itself alone; what it has not taken stays on disk until the
 * bound there. What it has is in a list beside the segments (ship/sent_list.h), so that the next
 * process continues there.
 * Threads: owner, but for ky_sender_finish_at().
 */
#ifndef KY_SEND_SENDER_H
#define KY_SEND_SENDER_H

#include <kymo/stage.h>
#include <send/segment_copy.h>

#define KY_SENDER_STAGES_MAX 8u

struct ky_sender;

struct ky_sender_options {
	const char *directory; /* of runs, or of dumps alone; NULL: none */
	const char *dumps; /* a directory of dumps, which may come later, or a dump; NULL: none */
	struct kymo_segment_stage stages[KY_SENDER_STAGES_MAX]; /* closed by the sender */
	uint32_t stage_count;
	/* Not 0: of runs that a process records into only those of this one. */
	uint32_t owner_pid;
	struct ky_segment_filter filter; /* zeros: files are sent as they are */
	/* A sentence for the user: trouble when it begins, and when it ends. */
	void (*say)(void *ctx, const char *text);
	void *say_ctx;
};

/* Of one destination. */
struct ky_sender_totals {
	const char *name;
	uint64_t taken_count, taken_bytes;     /* by this sender */
	uint64_t waiting_count, waiting_bytes; /* as of the last pass */
	uint64_t refused_count;                /* ... of these, that it does not want */
	uint64_t elsewhere_count;              /* runs that another process sends */
	uint64_t lost_count, lost_bytes;       /* deleted by the bound on disk since we began */
	char reason[KYMO_STAGE_REASON_BYTES];  /* why the first of them waits; "": it is its turn */
	char first_waiting[256];               /* path of the oldest */
};

/* Returns 0; -ENOMEM. */
int ky_sender_open(struct ky_sender **out, const struct ky_sender_options *options);
void ky_sender_close(struct ky_sender *sender); /* NULL: no-op */

/* Sends all that is there and wanted now. Returns 0; what ky_segment_walk() returns. */
int ky_sender_pass(struct ky_sender *sender);
/* When a destination wants to be asked again, of CLOCK_MONOTONIC; UINT64_MAX: none waits. */
uint64_t ky_sender_due_ns(const struct ky_sender *sender);
void ky_sender_totals(const struct ky_sender *sender, uint32_t stage, struct ky_sender_totals *out);

/* Each destination is asked at once with the next pass, however long it wanted to wait. */
void ky_sender_hurry(struct ky_sender *sender);

/* Nothing is sent beyond this time of CLOCK_MONOTONIC; waiting for a retry ends, too. */
void ky_sender_finish_at(struct ky_sender *sender, uint64_t deadline_ns);

#endif
