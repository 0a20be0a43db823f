/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* output.h - where the chunks of one ring go: a store or a function, through a queue with a thread
 * of its own where the options name one.
 *
 * How much is on disk stands in the ring (struct ky_ring_drained), so that a recovery of a killed
 * process begins after it. Not so with a function: no recovery finds its bytes.
 * Invariants: the store is opened with the first chunk, so that a process that records nothing
 *             leaves nothing; a chunk's note is in the ring before the chunk is on disk.
 * Errors:     become events, and the chunk is refused. A store that does not open is tried again
 *             after a second.
 * Threads:    owner, but for the atomics.
 */
#ifndef KY_AGENT_OUTPUT_H
#define KY_AGENT_OUTPUT_H

#include <agent/agent_options.h>
#include <agent/ring_access.h>
#include <ship/background.h>
#include <ship/store.h>
#include <ship/trace_sink.h>
#include <stdatomic.h>
#include <wire/chunk.h>
#include <wire/ring_image.h>

struct ky_agent_output {
	const struct ky_agent_options *options;
	struct ky_ring_access access;
	uint64_t drained_at; /* of struct ky_ring_drained in the ring; 0: it has none */
	uint64_t lost_at;    /* of struct ky_ring_lost; the same */
	uint32_t pid;
	char service[64], run_name[64];
	uint64_t started_unix_ns; /* when the ring was made */
	bool *is_file_taken;      /* another process has the name of the single file */
	struct ky_store *store;
	struct ky_trace_sink *sink;
	struct ky_background *queue;
	uint64_t retry_ns;
	uint64_t lost[2];     /* as noted */
	uint64_t chunk_count; /* the writing thread's */
	char path[512];       /* of the run's directory, or the file */
	/* the segment that is being handed out; has_segment: it has begun */
	uint64_t segment_bytes, segment_first_ns;
	bool has_segment;
	/* of the last chunk handed out, or of another stream that this one continues, as ky_cut()
	 * takes them; zeros: none */
	uint64_t last_ticks;
	uint32_t last_ties;
	/* The writing thread's, for all others; kept to the end. */
	_Atomic uint64_t bytes_stored, segments_sealed;
	_Atomic uint64_t segments_unsent; /* deleted by the bound, and a destination lacks them */
	_Atomic int store_error;          /* the store's last; 0: none */
};

/* header: of the ring that `access` reaches. is_file_taken: set as soon as this output has the
 * file. */
void ky_agent_output_init(struct ky_agent_output *output, const struct ky_agent_options *options,
			  const struct ky_ring_header *header, const struct ky_ring_access *access,
			  bool *is_file_taken);
/* All that was lost so far; stored when it is news. */
void ky_agent_output_note_lost(struct ky_agent_output *output, uint64_t records, uint64_t samples);
/* Seals what is open, after all that waits; also of one that never began. */
void ky_agent_output_close(struct ky_agent_output *output);
/* In a forked child: what the parent had open stays where it is, untouched. */
void ky_agent_output_forget(struct ky_agent_output *output);

/* A ky_chunk_fn: ctx is the output. */
int ky_agent_output_chunk(void *ctx, const struct ky_chunk *chunk);

bool ky_agent_output_has_begun(const struct ky_agent_output *output);
/* Size or age ask for a new segment. */
bool ky_agent_output_wants_seal(const struct ky_agent_output *output, uint64_t now_ns);
/* Returns once everything handed out is on its way to the disk. */
void ky_agent_output_wait(struct ky_agent_output *output);
/* What could not be written since the last call. False: nothing. */
bool ky_agent_output_take_loss(struct ky_agent_output *output, struct ky_chunk_loss *out);

#endif
