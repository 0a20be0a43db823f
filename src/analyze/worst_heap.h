/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* worst_heap.h - the worst polls or delays of a trace, so many: a heap whose root is the least of
 * them.
 * Threads: any.
 */
#ifndef KY_ANALYZE_WORST_HEAP_H
#define KY_ANALYZE_WORST_HEAP_H

#include <analyze/report.h>

/* Keeps the candidate if it is among the worst `max`, by delay or by length of poll. */
void ky_worst_add(struct ky_worst *heap, uint32_t *count, uint32_t max,
		  const struct ky_worst *candidate, bool by_delay);
/* The heap becomes a list, the worst first. */
void ky_worst_order(struct ky_worst *heap, uint32_t count, bool by_delay);

#endif
