/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_places.h - one run as `kymo diff` sees it: of each spawn place the quantiles of its polls,
 * and how far the polls of that run alone would scatter them.
 *
 * Scatter:     block bootstrap. The run is cut into blocks of equal time, because polls close to
 *              each other are alike, on whichever worker; blocks are drawn again with replacement.
 * Invariants:  deterministic: the same run gives the same numbers on every machine.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_RUN_PLACES_H
#define KY_ANALYZE_RUN_PLACES_H

#include <read/trace.h>

enum ky_run_quantile {
	KY_RUN_P50,
	KY_RUN_P90,
	KY_RUN_P99,
	KY_RUN_QUANTILES
};

/* Polls that a quantile needs in each run: 50 beyond it at the least, and so many blocks. */
#define KY_RUN_POLLS_MIN 100u
extern const uint32_t ky_run_polls_min[KY_RUN_QUANTILES];
extern const char *const ky_run_quantile_keys[KY_RUN_QUANTILES];

struct ky_run_place {
	uint64_t poll_count;
	uint64_t quantiles_ns[KY_RUN_QUANTILES];
	double logs[KY_RUN_QUANTILES];      /* natural logarithms of them */
	double variances[KY_RUN_QUANTILES]; /* of the logarithms, by the polls of the run alone */
};

struct ky_timed_length {
	uint64_t at_ns, length_ns;
};

/* The place with these polls; changes their order. memory: what it needs besides is allocated.
 * Returns 0, -ENOMEM. count: at least 1. */
int ky_run_place_make(struct ky_run_place *out, struct ky_timed_length *polls, uint32_t count,
		      uint64_t seed);

struct ky_run_places {
	struct ky_run_place *places; /* by name index of the trace; poll_count 0: none */
	uint32_t count;
};

/* All places of a trace with KY_RUN_POLLS_MIN polls, whose end is proven. Returns 0, -ENOMEM. */
int ky_run_places_make(struct ky_run_places *out, const struct ky_trace *trace);
void ky_run_places_release(struct ky_run_places *places);

#endif
