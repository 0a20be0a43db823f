/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sort.h - puts an array in order without a library, recursion or memory; the result is the same
 * everywhere as long as is_before leaves no two elements undecided.
 * Threads: any.
 */
#ifndef KY_READ_SORT_H
#define KY_READ_SORT_H

#include <stdbool.h>
#include <stddef.h>

typedef bool (*ky_is_before_fn)(const void *a, const void *b, const void *ctx);

void ky_sort(void *elements, size_t count, size_t element_bytes, ky_is_before_fn is_before,
	     const void *ctx);

#endif
