/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_output.h - where the chunks of one recorded process go: a store behind a thread of its own.
 *
 * Invariants: the store is opened with the first chunk, so that a process that records nothing
 *             leaves nothing; from then on it is the background's, and what it is asked here does
 *             not change any more.
 * Errors:     become events and never reach CMD.
 * Threads:    owner, but for what says otherwise.
 */
#ifndef KY_AGENT_RUN_OUTPUT_H
#define KY_AGENT_RUN_OUTPUT_H

#include <agent/agent_options.h>
#include <ring/ring_progress.h>
#include <drain/cut.h>
#include <ship/background.h>
#include <ship/store.h>
#include <stdatomic.h>
#include <wire/chunk.h>

/* What all processes of a session share. */
struct ky_run_outputs {
	const struct ky_agent_options *options;
	bool has_file; /* single file: a process has the name as it was given */
};

struct ky_run_output {
	struct ky_run_outputs *shared;
	const char *service, *run_name; /* the caller's */
	uint32_t pid;
	struct ky_ring_progress *progress; /* NULL: none; the background's once it has begun */
	struct ky_store *store;
	struct ky_background *background;
	uint64_t retry_ns;
	_Atomic uint64_t bytes_stored; /* written by the background */
	char path[512];                /* of the run's directory, or the file */
	/* the segment that is being handed out; has_segment: it has begun */
	uint64_t segment_bytes, segment_first_ns;
	bool has_segment;
	/* of the last chunk handed out, as ky_cut() takes them; zeros: none */
	uint64_t last_ticks;
	uint32_t last_ties;
};

void ky_run_output_init(struct ky_run_output *output, struct ky_run_outputs *shared,
			const char *service, const char *run_name, uint32_t pid);
/* Seals what is open, behind all that waits; also of one that never began. */
void ky_run_output_close(struct ky_run_output *output);

/* A ky_chunk_fn: ctx is the output. */
int ky_run_output_chunk(void *ctx, const struct ky_chunk *chunk);

/* Cuts what `options` says into this output, with the metadata of the command line. Returns what
 * ky_cut() returns. */
int ky_run_output_cut(struct ky_run_output *output, struct ky_cut_options *options,
		      const char *reason, struct ky_cut_report *report);

bool ky_run_output_has_begun(const struct ky_run_output *output);
/* Size or age ask for a new segment. */
bool ky_run_output_wants_seal(const struct ky_run_output *output, uint64_t now_ns);
/* Returns once everything handed out is on its way to the disk. */
void ky_run_output_wait(struct ky_run_output *output);
/* What could not be written since the last look. False: nothing. */
bool ky_run_output_take_loss(struct ky_run_output *output, struct ky_chunk_loss *out);

#endif
