/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* earlier.h - of two moments or lengths of time, one; of two spans, what they share.
 * Threads: any.
 */
#ifndef KY_BASE_EARLIER_H
#define KY_BASE_EARLIER_H

#include <stdint.h>

static inline uint64_t ky_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t ky_later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Length of what [from, to) has in common with the other; 0: nothing. */
static inline uint64_t ky_overlap(uint64_t from, uint64_t to, uint64_t other_from,
				  uint64_t other_to)
{
	from = ky_later(from, other_from);
	to = ky_earlier(to, other_to);
	return to > from ? to - from : 0;
}

#endif
