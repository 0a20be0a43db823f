/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* agent_event.h - what an agent has to report beside the trace. It prints nothing: the caller makes
 * a sentence of an event, or keeps its error.
 * Threads: owner; events come on its thread.
 */
#ifndef KY_AGENT_AGENT_EVENT_H
#define KY_AGENT_AGENT_EVENT_H

#include <stdint.h>

enum ky_agent_event_kind {
	KY_AGENT_STORE_FAILED,     /* error, path, reason: nothing is written until it opens */
	KY_AGENT_LATEST_FAILED,    /* error, path: no link `latest` leads to this run */
	KY_AGENT_STORE_FULL,       /* error, path: the single file has reached its bound */
	KY_AGENT_WRITE_FAILED,     /* error, path */
	KY_AGENT_RULE_UNUSABLE,    /* reason: a sentence */
	KY_AGENT_FIRING_UNWRITTEN, /* rule, error: the stream does not have it */
	KY_AGENT_DUMP_REFUSED,     /* rule, error; KYMO_E_BUSY: count dumps wait already */
	KY_AGENT_DUMP_MADE,        /* rule, value, path, count: of events, span_ns: of them */
	KY_AGENT_DUMP_FAILED,      /* rule, value, path, error */
	KY_AGENT_MAKER_FAILED,     /* rule, error: no process to make the dump */
	KY_AGENT_MAKER_KILLED,     /* rule, value, path, count: the signal */
	KY_AGENT_DUMP_LOST,        /* rule, value, error: the ring was cut while it waited */
	KY_AGENT_DUMPS_FAIL,       /* the last ones: firings are only counted for a minute */
	KY_AGENT_BUDGET_USED,      /* firings are only counted */
	KY_AGENT_CHECKS_LATE,      /* count: of checks that hid something, span_ns: the latest */
	KY_AGENT_FIRINGS_HELD /* count: by the cooldown, budget_count: since the budget is used */
};

/* Texts are the agent's and valid during the call; "" and 0 where the kind has none. */
struct ky_agent_event {
	enum ky_agent_event_kind kind;
	int error;    /* negative */
	uint32_t pid; /* of the recorded process */
	const char *path, *reason, *rule, *value;
	uint64_t count, budget_count, span_ns;
};

typedef void (*ky_agent_event_fn)(void *ctx, const struct ky_agent_event *event);

#endif
