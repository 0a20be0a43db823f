/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* random.h - numbers to draw by: not for secrets.
 * G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (14), 2003: the triple
 * 13, 7, 17.
 */
#ifndef KY_BASE_RANDOM_H
#define KY_BASE_RANDOM_H

#include <stdint.h>

/* state: the caller's, not 0; changed. Returns 1 to 2^64 - 1. Threads: owner of the state. */
static inline uint64_t ky_random_next(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x;
}

/* From 0 on, below 1. */
static inline double ky_random_share(uint64_t *state)
{
	return (double)(ky_random_next(state) >> 11) / (double)(UINT64_C(1) << 53);
}

#endif
