/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_progress.h - how much of a ring is on disk: what agent/output.c notes in the ring, as a
 * recovery reads it.
 *
 * Invariant: a chunk's note is in the ring before the chunk is on disk, so the last chunk found
 *            there has one, unless more than KY_DRAINED_CHUNKS were written after it.
 * Threads:   one writer a ring; readers any. What is read comes from an untrusted image.
 */
#ifndef KY_RING_RING_PROGRESS_H
#define KY_RING_RING_PROGRESS_H

#include <ring/ring_finder.h>
#include <ring/ring_view.h>

struct ky_drained_note {
	uint64_t last_ns, last_ticks, last_ties;
};

struct ky_ring_tail {
	char path[KY_DRAINED_PATH_BYTES]; /* "": no process streamed it, or what it wrote is gone */
	/* The first that is missing there, as ky_cut() takes it; 0: all. */
	uint64_t from_ns, from_ticks;
	uint32_t from_ties;
	/* A chunk that its writer was killed in; what the ring gives holds all of it. "": none. */
	char torn_path[KY_DRAINED_PATH_BYTES + 64];
	char begun_path[KY_DRAINED_PATH_BYTES +
			64]; /* a later segment with nothing but a part of a chunk; "": none */
	uint64_t torn_from_bytes;
	uint64_t chunk_count;   /* that were noted */
	uint64_t horizon_ticks; /* before, the ring has overwritten something; 0: nothing */
	uint32_t note_count;
	struct ky_drained_note notes[KY_DRAINED_CHUNKS];
};

/* Where the oldest sub-buffer of the claim index's last round begins; 0: none was overwritten. */
uint64_t ky_ring_horizon_ticks(const struct ky_ring_view *view);

/* Copies the notes. Run it inside ky_ring_guarded(). */
void ky_ring_progress_read(struct ky_ring_tail *tail, const struct ky_open_ring *ring);

#endif
