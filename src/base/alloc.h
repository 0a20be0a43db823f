/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* alloc.h - every allocation of ours outside the emit path, so that tests can make one fail.
 * Threads: any. Signals: unsafe.
 */
#ifndef KY_BASE_ALLOC_H
#define KY_BASE_ALLOC_H

#include <stddef.h>

void *ky_alloc(size_t bytes); /* zeroed; NULL when memory is out; never aborts */
void *ky_realloc(void *old, size_t bytes);
void ky_free(void *memory);

/* Test hook: NULL, or asked before each allocation; false makes it fail. */
extern _Bool (*ky_alloc_hook)(size_t bytes);

#endif
