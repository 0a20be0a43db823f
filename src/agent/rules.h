/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* rules.h - rules of `kymo run` over one ring: a watchdog, and the dumps it asks for.
 *
 * A dump is made by a process forked for it, so that neither the drain nor the watchdog waits: it
 * holds the window of the rule, from the ring, in stream mode too. It is due once the rule's
 * `after` is over, or at the end of the recorded process.
 * Threads: owner.
 */
#ifndef KY_AGENT_RULES_H
#define KY_AGENT_RULES_H

#include <agent/agent_options.h>
#include <ring/ring_finder.h>
#include <drain/drain.h>
#include <sys/types.h>

struct ky_run_trigger;

struct ky_run_trigger_options {
	const struct ky_agent_options *run;
	const struct ky_open_ring *ring; /* lives as long as the trigger */
	const char *service;
	uint32_t pid;
	const char *source;      /* metadata kymo.source */
	struct ky_drain *stream; /* firings are told there too; NULL: none */
	bool has_sums;
};

/* Says which rule can never fire here; the others are armed. Returns 0; -ENOMEM; what
 * ky_watchdog_open() returns. */
int ky_run_trigger_open(struct ky_run_trigger **out, const struct ky_run_trigger_options *options);

/* Looks, and makes the dumps that are due. sums: NULL where no drain runs. Returns after how many
 * nanoseconds to call again. */
uint64_t ky_run_trigger_step(struct ky_run_trigger *trigger, const struct ky_event_sums *sums);

/* From now on firings are told there; NULL: nowhere. */
void ky_run_trigger_stream(struct ky_run_trigger *trigger, struct ky_drain *stream);

/* The process is gone, or nobody will look any more: makes what is still due and waits for it. */
void ky_run_trigger_finish(struct ky_run_trigger *trigger, bool is_dead);
void ky_run_trigger_close(struct ky_run_trigger *trigger);

/* Do the rules need the events themselves? */
bool ky_run_trigger_needs_events(const struct ky_agent_options *run);

#endif
