/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_agent.h - the agent of a program that links the library: what is done for its ring, with the
 * probes, the samplers, the rules and the dumps of the process itself. recorder.c has the thread
 * that steps it.
 *
 * Memory:  rings are the engine's and stay mapped.
 * Threads: the library's thread alone while there is one, but for ky_own_agent_status().
 */
#ifndef KY_AGENT_OWN_AGENT_H
#define KY_AGENT_OWN_AGENT_H

#include <agent/agent.h>
#include <agent/dump_place.h>
#include <agent/own_namer.h>
#include <agent/own_rules.h>
#include <agent/own_samplers.h>
#include <agent/probe_resources.h>
#include <agent/unwind_tables.h>

struct ky_own_agent {
	struct ky_agent agent;
	struct ky_own_rules rules;
	struct ky_unwind_tables tables;
	struct ky_own_samplers samplers;
	struct ky_own_namer namer;
	struct ky_probe_resources resources;
	struct ky_agent_options options;
	char trace_file[512]; /* "": segments in a directory */
	struct ky_dump_place place;
	char dump_directory[KY_RING_PATH_BYTES];
	const struct ky_ring *drained;   /* that the drain reads */
	const struct ky_ring *dumped;    /* that the dumps are made of; NULL: none yet */
	const struct ky_ring *sampled;   /* that the samplers write to */
	const struct ky_ring *swept_for; /* rings of dead processes beside this one were seen to */
	bool is_file_taken;              /* by the parent, or by this process */
	int32_t last_error;              /* atomic; the first */
};

/* Of zeros, before its options are taken (own_options.h). */
void ky_own_agent_init(struct ky_own_agent *own);
/* Before the first step, also in a forked child. dumps: that wait for it. */
void ky_own_agent_begin(struct ky_own_agent *own, struct ky_dumps *dumps);

/* Everything there is to do; ring: that records, NULL: none does. Returns when there may be more,
 * UINT64_MAX: when the bell rings. */
uint64_t ky_own_agent_step(struct ky_own_agent *own, const struct ky_ring *ring);
/* All dumps that wait, of this ring; NULL: nothing was recorded. */
void ky_own_agent_last_dumps(struct ky_own_agent *own, const struct ky_ring *ring);

/* No step comes any more: writes the trace to its end and closes all of it. streamed: the ring that
 * goes to disk even where no step came to it; NULL: none. */
void ky_own_agent_end(struct ky_own_agent *own, const struct ky_ring *streamed);

/* In a forked child. The parent's drain and store stay where they are, never touched again: closing
 * them would seal a segment that the parent is still writing. */
void ky_own_agent_forget(struct ky_own_agent *own);

/* Fills in what it wrote, its first error and what the rules came to. Threads: any. */
void ky_own_agent_status(const struct ky_own_agent *own, struct kymo_recorder_status *status);

#endif
