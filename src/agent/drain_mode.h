/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* drain_mode.h - what is written of one ring: in stream mode all of it while it runs, in flight
 * mode nothing, or a cut of the ring at the end; and the way from one mode to the other.
 *
 * Invariant: no record is written twice, and none is missing that the ring still held. A stream
 *            that is left is sealed and kept: taken up again it begins after its last record, and a
 *            cut begins there, too. What was overwritten in between is in the stream as LossEvent
 *            `flight`.
 * Errors:    of the output are events (output.h).
 * Threads:   owner. What reads the image runs under the caller's guard.
 */
#ifndef KY_AGENT_DRAIN_MODE_H
#define KY_AGENT_DRAIN_MODE_H

#include <agent/output.h>
#include <drain/cut.h>
#include <drain/drain.h>
#include <drain/pace.h>
#include <proc/proc_reader.h>
#include <ring/ring_view.h>

struct ky_drain_mode {
	/* the owner's */
	const struct ky_agent_options *options;
	struct ky_agent_output *output;
	const uint8_t *image;
	size_t image_bytes;
	const char *source; /* metadata kymo.source */
	ky_name_fn name;    /* of struct ky_drain_options, as the next ones */
	void *name_ctx;
	void (*fetch_samples)(void *ctx);
	void *fetch_ctx;
	void (*has_written)(void *fetch_ctx); /* a chunk of the stream; NULL: nothing to do then */
	size_t memory_bytes_max, observer_bytes_max;
	const struct ky_proc_reader *process; /* NULL: the calling one, opened with the stream */
	bool (*may_read)(void);               /* of the process; NULL: always */
	bool has_last_cut;                    /* a flight ends with a cut of the ring */

	bool is_flight;          /* as long as no stream has begun, too */
	struct ky_drain *stream; /* in flight mode the one that was left; NULL: none */
	struct ky_drain *observer;
	struct ky_ring_view view;
	struct ky_drain_pace pace;
	struct ky_proc_reader own;
	struct ky_cut_report *report; /* of the last cut */
	bool is_ring_needed;          /* the last cut could not be written whole */
	uint64_t unsent_noted;        /* segments, as the stream's metadata says */
};

struct ky_drain_mode_pace {
	uint64_t longest_ns;               /* between two steps of the drain */
	uint64_t check_ns, check_empty_ns; /* between two readings of how much there is to drain */
	bool has_slack; /* a step comes early rather than by a wake-up of its own */
};

/* In flight mode. Returns 0; what ky_ring_view_init() returns. */
int ky_drain_mode_open(struct ky_drain_mode *mode);
/* The output stays open. */
void ky_drain_mode_close(struct ky_drain_mode *mode);
/* After a fault in the middle of a step, and in a forked child: what was open is not touched. */
void ky_drain_mode_forget(struct ky_drain_mode *mode);

/* Returns 1 when the mode is another one now; 0; an error: then it stays as it was. */
int ky_drain_mode_set(struct ky_drain_mode *mode, bool is_flight);

/* Drains what is due. *again_ns: when to call again, CLOCK_MONOTONIC. Returns what ky_drain_step()
 * returns for the stream. */
int ky_drain_mode_step(struct ky_drain_mode *mode, uint64_t now_ns,
		       const struct ky_drain_mode_pace *pace, uint64_t *again_ns);

/* What rules judge by: the stream; in flight mode, where is_wanted, a drain that only observes. Its
 * steps are due with those of the stream. Returns 0; what ky_drain_open() returns. *out: NULL:
 * none. */
int ky_drain_mode_events(struct ky_drain_mode *mode, bool is_wanted, struct ky_drain **out);

/* The process is gone (is_dead), or nothing is read any more. Returns what ky_drain_step() and
 * ky_cut() return. */
int ky_drain_mode_finish(struct ky_drain_mode *mode, bool is_dead, bool is_abnormal);

/* age_ns: how far back the last cut reached, 0 where a stream came before it or there is none. */
void ky_drain_mode_totals(const struct ky_drain_mode *mode, struct ky_drain_stats *out,
			  uint64_t *age_ns);

/* NULL in flight mode. */
static inline struct ky_drain *ky_drain_mode_stream(const struct ky_drain_mode *mode)
{
	return mode->is_flight ? NULL : mode->stream;
}

#endif
