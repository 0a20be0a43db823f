/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* what_if.h - the delays from wake to poll as they would be, had the polls of some places been
 * shorter: `kymo why --what-if`. How that is computed, and what is assumed, is in queue_replay.h.
 *
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_WHAT_IF_H
#define KY_ANALYZE_WHAT_IF_H

#include <analyze/histogram.h>
#include <analyze/queue_replay.h>
#include <analyze/why.h>

#define KY_WHAT_IF_MAX 16u /* places at once */

/* Polls of the tasks of this name take at most so long. */
struct ky_what_if_cap {
	uint32_t name;
	uint64_t cap_ns;
};

struct ky_what_if_delays {
	struct ky_quantiles ns;
	uint64_t over_count; /* longer than over_ns */
};

struct ky_what_if_change {
	struct ky_what_if_delays before, after;
};

struct ky_what_if_place {
	struct ky_what_if_cap cap;
	uint64_t poll_count, longest_ns;        /* of its polls */
	uint64_t shortened_count, shortened_ns; /* by the cap */
	uint64_t kept_count;                    /* over the cap, but of unknown length or not of a
						    worker: as long as they were */
	struct ky_what_if_change change;        /* of its tasks */
};

struct ky_what_if {
	uint64_t over_ns;
	struct ky_what_if_change all; /* delays that `kymo why` is asked for */
	struct ky_what_if_place places[KY_WHAT_IF_MAX];
	uint32_t place_count;
	struct ky_queue_replay replay;
};

/* The kinds of task that `text` may mean: the one of that name, in full or as it is printed, or
 * else all in whose names it is. names: gets the first of them, most time in polls first.
 * Returns how many there are, -ENOMEM. */
int ky_what_if_find(const struct ky_trace *trace, const char *text, uint32_t *names,
		    uint32_t name_max);

/* options: as of ky_why_make(). caps: at most KY_WHAT_IF_MAX, of different names.
 * Returns 0, -ENOMEM. */
int ky_what_if_make(struct ky_what_if *out, const struct ky_trace *trace,
		    const struct ky_why_options *options, const struct ky_what_if_cap *caps,
		    uint32_t cap_count);

/* The key "what_if" of `kymo why --json`. */
void ky_what_if_json(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_what_if *what_if);

#endif
