/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stops.h - when the process as a whole was stopped, or its CPU limit stopped it.
 *
 * A stop is bounded by what was told or seen of the process, and by its own events: while it is
 * stopped there are none. What is between the two bounds of an end counts as stopped, so no time of
 * a stop is taken for the program's.
 * Invariants:  stops ascend and do not overlap.
 */
#ifndef KY_READ_STOPS_H
#define KY_READ_STOPS_H

#include <read/trace.h>

/* See ProcessStateEvent. */
struct ky_trace_state {
	uint64_t after_ns, by_ns; /* after 0: told as it happened */
	uint64_t detail;
	uint8_t change; /* enum ky_process_change */
	uint8_t source; /* enum ky_state_source */
};

struct ky_trace_stop {
	uint64_t from_ns, to_ns;
	uint64_t unsure_ns;     /* it may have been shorter by so much; 0: it was told */
	uint32_t signal_number; /* 0: not known */
	uint8_t source;
	bool is_open; /* no end is in the trace: it lasts until the last event */
};

/* See CgroupThrottledEvent. */
struct ky_trace_throttle {
	uint64_t from_ns, to_ns, throttled_ns;
	uint8_t level;
};

/* Of [from, to): the time in stops. */
uint64_t ky_trace_stopped_ns(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns);
/* The first stop that ends after this time; NULL: none. */
const struct ky_trace_stop *ky_trace_stop_after(const struct ky_trace *trace, uint64_t ns);

#endif
