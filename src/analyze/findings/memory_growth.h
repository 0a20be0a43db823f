/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* memory_growth.h - how the process's resident memory grew in a time, and when it is at its limit.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_MEMORY_GROWTH_H
#define KY_ANALYZE_FINDINGS_MEMORY_GROWTH_H

#include <analyze/findings/facts.h>

struct ky_memory_growth {
	uint32_t reading_count; /* 0: fewer than two, and the rest is not known */
	uint64_t bytes;         /* by so much */
	bool is_less;           /* down */
	uint64_t lasted_ns;     /* between the first and the last reading */
	uint64_t limit_bytes;   /* the tightest of its cgroups; 0: none is known */
	uint64_t to_limit_ns;   /* at this pace; 0: it does not grow, or there is no limit */
	bool is_steady;         /* it grew at an even pace, of KY_FIND_GROWTH_READINGS or more */
};

/* Readings in [from, to], and the last one before. */
void ky_memory_growth_find(struct ky_memory_growth *out, const struct ky_facts *facts,
			   uint64_t from_ns, uint64_t to_ns);

#endif
