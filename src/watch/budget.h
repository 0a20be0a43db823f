/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* budget.h - how many dumps an hour all rules together may make, and how many bytes.
 *
 * An hour is the last 60 whole minutes and the one under way: never more than asked in any hour.
 * A dump of which nothing came takes none of it; but when KY_BUDGET_FAILURES of them failed within
 * a minute, the next one is made when that minute is over: what is wrong is wrong for longer.
 * Threads: owner. Memory: fixed.
 */
#ifndef KY_WATCH_BUDGET_H
#define KY_WATCH_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define KY_BUDGET_MINUTES 61u
/* Unless something else is asked for. */
#define KY_BUDGET_DUMPS 12u
#define KY_BUDGET_BYTES (UINT64_C(1) << 30)
#define KY_BUDGET_FAILURES 3u

struct ky_budget {
	uint32_t dumps_max;
	uint64_t bytes_max;
	struct {
		uint64_t minute; /* + 1; 0: never used */
		uint32_t dumps;
		uint64_t bytes;
	} bins[KY_BUDGET_MINUTES];
	uint64_t failed_ns[KY_BUDGET_FAILURES]; /* the last ones; 0: none */
	uint32_t failed_at;                     /* of the oldest */
};

/* 0: the above. */
void ky_budget_init(struct ky_budget *budget, uint32_t dumps_max, uint64_t bytes_max);
bool ky_budget_allows(const struct ky_budget *budget, uint64_t now_ns);
void ky_budget_add(struct ky_budget *budget, uint64_t now_ns, uint32_t dumps, uint64_t bytes);

/* Nothing came of a dump that was added at since_ns. */
void ky_budget_fail(struct ky_budget *budget, uint64_t now_ns, uint64_t since_ns);
/* Too many of the last minute failed. */
bool ky_budget_is_failing(const struct ky_budget *budget, uint64_t now_ns);

#endif
