/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* alloc.h - every allocation of ours outside the emit path, so that tests can make one fail.
 * Threads: any. Signals: unsafe.
 */
#ifndef KY_BASE_ALLOC_H
#define KY_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

void *ky_alloc(size_t bytes); /* zeroed; NULL when memory is out; never aborts */
void *ky_realloc(void *old, size_t bytes);
void ky_free(void *memory);

/* Room for `wanted` elements in an array that doubles; new ones are zero.
 *
 * list      where the pointer to the array is: &rows of `struct row *rows`
 * capacity  elements there is room for
 * Returns   0; -ENOMEM, and nothing changes.
 */
int ky_grow(void *list, uint32_t *capacity, uint32_t wanted, size_t element_bytes);

/* Test hook: NULL, or asked before each allocation; false makes it fail. */
extern _Bool (*ky_alloc_hook)(size_t bytes);

#endif
