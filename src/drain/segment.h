/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* segment.h - the last stage of a drain: chunks go to the sink, and into segments that stand on
 * their own; for drain.c and cut.c.
 *
 * Threads:     owner.
 */
#ifndef KY_DRAIN_SEGMENT_H
#define KY_DRAIN_SEGMENT_H

#include <drain/convert.h>
#include <drain/cut.h>

struct ky_segment;

/* Returns 0, -ENOMEM. */
int ky_segment_open(struct ky_segment **out, struct ky_drain_common *common,
		    struct ky_convert *convert, const struct ky_drain_options *options);
void ky_segment_close(struct ky_segment *segment);
bool ky_segment_is_open(const struct ky_segment *segment);
/* The clock was read for the first time: what distinguishes streams of one process. */
void ky_segment_first_step(struct ky_segment *segment);

/* ---- chunks ---- */

/* Ends the open chunk and starts another where the next event at `ns` asks for it. */
void ky_segment_turn(struct ky_segment *segment, uint64_t ns);
/* The same unless the open chunk takes so much more. */
void ky_segment_room(struct ky_segment *segment, uint64_t ns, uint32_t events, uint32_t bytes);
/* A chunk must not wait for the next event for ever: its readers are live. */
void ky_segment_flush_old(struct ky_segment *segment);
void ky_segment_loss(struct ky_segment *segment, const struct ky_loss *loss, uint64_t ns);
void ky_segment_refused(struct ky_segment *segment, const struct ky_chunk_loss *loss);

/* ---- what is reported between records ---- */

/* Modules and runtimes that were found since the last step. */
void ky_segment_announce(struct ky_segment *segment, uint64_t ns);
/* The policy that was `before` is another one now. */
void ky_segment_policy(struct ky_segment *segment, const struct ky_retain_policy *before,
		       uint64_t ns);
/* Everything counted by a policy. At the end of the process wakes that still wait are reported,
 * too. */
void ky_segment_counts(struct ky_segment *segment, uint64_t ns, bool is_end);
void ky_segment_header_drops(struct ky_segment *segment, uint64_t ns);
/* Sub-buffers after the end of a truncated file: each held one record at least. */
void ky_segment_truncated(struct ky_segment *segment, uint64_t ns);
/* Counters that changed, or that this segment does not have. */
void ky_segment_counters(struct ky_segment *segment, uint64_t ns);
void ky_segment_open_spans(struct ky_segment *segment, uint64_t ns, bool is_at_exit);
void ky_segment_places(struct ky_segment *segment, uint64_t ns);
void ky_segment_allocs(struct ky_segment *segment, uint64_t ns);

/* ---- the end ---- */

/* What the report says besides. */
struct ky_segment_report {
	uint64_t cpu_ns;
	uint32_t open_slots;
};

void ky_segment_seal(struct ky_segment *segment, uint64_t ns,
		     const struct ky_segment_report *report);
void ky_segment_last_word(struct ky_segment *segment, uint64_t ns,
			  const struct ky_segment_report *report);

/* ---- what a cut says ---- */

struct ky_segment_cut {
	uint32_t ring_slots;      /* of the ring that was copied; 0: it is the drain's */
	uint32_t truncated_count; /* slots that the file it was copied from lacks */
	const struct ky_cut_pair *pairs;
	size_t pair_count;
	uint64_t end_ns; /* time of the last words, where later than the last record's */
	/* What the segment holds, in stamps: nothing before, all from there on, all up to. */
	uint64_t cover_from, cover_whole_from, cover_to;
};

struct ky_segment_cut *ky_segment_cut(struct ky_segment *segment);

#endif
