/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* drain_mode.h - what is written of one ring of `kymo run`: a stream while it runs, or a cut of the
 * ring at the end, and from one to the other when the ring's settings say so.
 *
 * Invariant: no record is written twice, and none is missing that the ring still held. A stream
 *            that is left is sealed and kept: it goes on behind its last record, and a cut begins
 *            there. What was overwritten in between is told by the stream as LossEvent `flight`.
 * Errors:    of the output are said by output.h.
 * Threads:   owner. Whatever looks at the image runs under the caller's guard.
 */
#ifndef KY_AGENT_DRAIN_MODE_H
#define KY_AGENT_DRAIN_MODE_H

#include <agent/output.h>
#include <drain/cut.h>
#include <ring/ring_view.h>
#include <proc/proc_look.h>
#include <symbol/ring_names.h>

struct ky_run_drain {
	const struct ky_agent_options *options;
	const uint8_t *image;
	size_t image_bytes;
	int fd;                           /* of the ring, open for writing */
	void (*fetch_samples)(void *ctx); /* of struct ky_drain_options */
	void *fetch_ctx;
	const char *source; /* metadata kymo.source */
	struct ky_agent_output *output;
	/* The stream; in flight mode one that only observes, for rules that need the events. */
	struct ky_drain *drain;
	struct ky_drain *paused; /* the stream that was left */
	bool is_flight;
	bool is_ring_needed; /* a flight that could not be written whole */
	struct ky_ring_view view;
	struct ky_ring_wish wish;
	struct ky_ring_names *names;
	struct ky_cut_report *report; /* of the cut that its flight ended with */
	struct ky_proc_look proc;     /* the process, for what the kernel counts */
	bool is_looking;              /* it is open */
};

/* Those up to `output` are the caller's, the others zero. Returns 0; what ky_drain_open(),
 * ky_ring_names_open() return. */
int ky_run_drain_open(struct ky_run_drain *run);
void ky_run_drain_close(struct ky_run_drain *run);
/* After a fault in the middle of a step: nothing of it is touched again. */
void ky_run_drain_abandon(struct ky_run_drain *run);

/* Reads the settings. Returns 1 when the mode is another one now; 0; an error: then it stays as it
 * was, until the next call. */
int ky_run_drain_follow(struct ky_run_drain *run, uint64_t now_ns);

/* A step of the stream. Returns what ky_drain_step() returns. */
int ky_run_drain_step(struct ky_run_drain *run, uint64_t now_ns);

/* The process is gone (is_dead), or nobody will look any more. Returns what ky_drain_step() and
 * ky_cut() return. */
int ky_run_drain_finish(struct ky_run_drain *run, bool is_dead, bool is_abnormal);

/* age_ns: how far back the cut reached, 0 where a stream came before it or there is none. */
void ky_run_drain_totals(const struct ky_run_drain *run, struct ky_drain_stats *out,
			 uint64_t *age_ns);

#endif
