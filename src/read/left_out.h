/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* left_out.h - what a reader had no room for: each list has a limit, and beyond it a count.
 *
 * Threads:     owner while loading; any number of readers afterwards.
 */
#ifndef KY_READ_LEFT_OUT_H
#define KY_READ_LEFT_OUT_H

#include <stdbool.h>
#include <stdint.h>

enum ky_left_kind {
	KY_LEFT_SPAN_EVENTS,
	KY_LEFT_SPAN_FIELDS,
	KY_LEFT_SPAN_TEXTS,
	KY_LEFT_CUSTOM_EVENTS,
	KY_LEFT_CUSTOM_TEXTS,
	KY_LEFT_COUNTERS,
	KY_LEFT_ANNOTATIONS,
	KY_LEFT_QUEUE_SAMPLES,
	KY_LEFT_RESOURCES,
	KY_LEFT_WAKE_SOURCES,
	KY_LEFT_REQUEST_WAITS,
	KY_LEFT_KINDS
};

struct ky_trace;
struct ky_trace_private;

/* A row of trace.left_outs, which has those of which something was left out. */
struct ky_left_out {
	uint64_t count;
	uint32_t kind; /* enum ky_left_kind */
};

/* "span_events": the key in JSON and SQL. */
const char *ky_left_out_key(uint32_t kind);
/* "events of spans": after a number. And what follows from that: "their spans are not in the lists
 * or end late". */
const char *ky_left_out_noun(uint32_t kind);
const char *ky_left_out_effect(uint32_t kind);

/* While loading: counts one, and returns true, for the caller to return. */
bool ky_leave_out(struct ky_trace_private *private, enum ky_left_kind kind);
/* Once all is loaded. Returns 0, -ENOMEM. */
int ky_left_outs_finish(struct ky_trace *trace);

#endif
