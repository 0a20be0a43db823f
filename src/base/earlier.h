/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* earlier.h - of two moments or lengths of time, one.
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

#endif
