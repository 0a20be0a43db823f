/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ascending.h - numbers in ascending order, mostly moments: how many are below one of them.
 * Threads: any.
 */
#ifndef KY_READ_ASCENDING_H
#define KY_READ_ASCENDING_H

#include <stdint.h>

void ky_ascending_sort(uint64_t *values, uint32_t count);

/* How many of the sorted values are below `value`. */
uint32_t ky_ascending_below(const uint64_t *values, uint32_t count, uint64_t value);
/* How many of the sorted values are not above `value`. */
uint32_t ky_ascending_up_to(const uint64_t *values, uint32_t count, uint64_t value);

#endif
