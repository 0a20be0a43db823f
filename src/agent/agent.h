/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* agent.h - everything done for one ring: its drain and output, the probes of its process, its
 * rules and the dumps that they ask for. Two callers step it: the thread of a program that links
 * the library, and `kymo run`, which has an agent for each ring.
 *
 * A caller fills the parts in and opens them; what differs between callers are their options. An
 * agent prints nothing: what there is to report are events (agent_event.h), errors and the trace.
 * Threads: owner. Faults: what reads the image runs under the caller's guard; a step that is left
 *          in the middle ends with ky_agent_abandon().
 */
#ifndef KY_AGENT_AGENT_H
#define KY_AGENT_AGENT_H

#include <agent/drain_mode.h>
#include <agent/dumps.h>
#include <agent/output.h>
#include <agent/probes.h>
#include <agent/rules.h>

enum {
	KY_AGENT_RESOURCES,
	KY_AGENT_MODULES,
	KY_AGENT_TABLES,
	KY_AGENT_FILTERS,
	KY_AGENT_PROBES
};

struct ky_agent {
	struct ky_agent_output output;
	struct ky_drain_mode drain;
	struct ky_probe probes[KY_AGENT_PROBES]; /* zeros: this caller has none */
	struct ky_rules *rules;                  /* NULL: no rule watches */
	struct ky_dumps *dumps;                  /* NULL: none is made */
	struct ky_dump_maker maker;
};

/* As the settings of the ring and the caller want it now. */
struct ky_agent_moment {
	uint64_t now_ns; /* CLOCK_MONOTONIC */
	bool is_flight;
	/* In flight mode no time is too late: what rules need is drained with their checks. */
	bool rests_in_flight;
	uint32_t resource_ms; /* between readings; 0: as it was started, UINT32_MAX: off */
	struct ky_drain_mode_pace pace;
};

/* Does what is due. Returns when to call again, CLOCK_MONOTONIC; UINT64_MAX: when something
 * changes. With pace.has_slack the probes come with other steps and ask for none. *err: the first
 * of the drain's errors; 0. */
uint64_t ky_agent_step(struct ky_agent *agent, const struct ky_agent_moment *moment, int *err);

/* Makes the dumps that are due; is_closing: all that wait. Part of the step. Returns when the next
 * one is due. */
uint64_t ky_agent_make_dumps(struct ky_agent *agent, bool is_closing);

/* The process is gone (is_dead), or its ring is not read any more: makes the dumps that wait, and
 * writes the trace to its end. Returns what ky_drain_mode_finish() returns. */
int ky_agent_finish(struct ky_agent *agent, bool is_dead, bool is_abnormal);

/* Closes all of it, the output too. */
void ky_agent_close(struct ky_agent *agent);
/* What a fault may have left in the middle is never touched again; the output stays. */
void ky_agent_abandon(struct ky_agent *agent);

#endif
