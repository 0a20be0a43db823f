/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* longest.h - the longest of many polls, or of the delays before them.
 *
 * Memory:      at most twice `max` rows of 32 bytes.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_LONGEST_H
#define KY_ANALYZE_LONGEST_H

#include <read/trace.h>

struct ky_long_row {
	uint64_t length_ns, start_ns, row; /* row: of the polls of trace->workers[worker] */
	uint32_t worker;
};

struct ky_longest {
	struct ky_long_row *rows; /* longest first once ky_longest_finish() has been called */
	size_t count, capacity, max;
	uint64_t least_ns; /* so many are longer that a shorter one is left out */
};

/* Returns false where memory is short. */
bool ky_longest_add(struct ky_longest *list, const struct ky_poll *poll, uint64_t row,
		    uint64_t length_ns);
/* Longest first; then earlier start, then worker. */
void ky_longest_finish(struct ky_longest *list);
void ky_longest_release(struct ky_longest *list);

#endif
