/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cut.h - one trace out of one ring, at this moment or after its process is gone: the only way a
 * dump, a recovery or the end of a flight comes about.
 *
 * Copies first, the oldest sub-buffer before all others, and encodes afterwards: the host never
 * waits, and what it overwrites meanwhile is what had to go next.
 * The image is untrusted (drain.h). Memory: a private copy of the populated part, plus the drain's.
 * Threads: any, one cut each.
 */
#ifndef KY_DRAIN_CUT_H
#define KY_DRAIN_CUT_H

#include <drain/drain.h>
#include <wire/cut_report.h>
#include <wire/watch_note.h>

struct ky_cut_pair {
	const char *key, *value;
};

struct ky_cut_options {
	const uint8_t *image; /* the mapped ring file, or a copy of it */
	size_t image_bytes;
	/* CLOCK_MONOTONIC; events outside are not written. 0: from the oldest, to the newest. */
	uint64_t from_ns, to_ns;
	/* Instead of from_ns where it is not 0: a stamp on the ring's own counter, and how many
	 * records of this very stamp are not wanted either. After a chunk: its last_ticks, its
	 * last_ties. */
	uint64_t from_ticks;
	uint32_t from_ties;
	/* The process is gone, or another boot's: anchors are those of the sub-buffers, polls that
	 * are open are reported as open at the end. */
	bool is_dead;
	ky_name_fn name; /* NULL: texts of the directory only */
	void *name_ctx;
	ky_chunk_fn chunk;
	void *chunk_ctx;
	const struct ky_cut_pair *pairs; /* metadata of this cut */
	size_t pair_count;
	const char *source;    /* metadata kymo.source */
	size_t copy_bytes_max; /* of sub-buffers, the newest; 0: all that is populated */
	/* What the watchdog has seen: written at their own times, in whatever order they come. */
	const struct ky_stuck_note *stuck;
	size_t stuck_count;
	const struct ky_trigger_note *triggers;
	size_t trigger_count;
	/* Of a living process. NULL: the clocks of this machine. Tests pass a fake one. */
	ky_anchor_fn anchor;
	void *anchor_ctx;
	const char *hostname; /* NULL: gethostname */
};

/* A fault inside the image (a file that another process truncates) is for the caller's guard;
 * jumped out of, the copy stays mapped. Once the copy is made the image is not read again.
 *
 * Returns 0; what ky_drain_open() returns; the sink's error; -ENOMEM. */
int ky_cut(const struct ky_cut_options *options, struct ky_cut_report *out);

#endif
