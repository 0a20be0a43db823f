/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* alloc_fail.h - makes the n-th allocation fail: for (n = 0; !done; n++) { test_alloc_fail_at(n);
 * ... }
 */
#ifndef KY_TEST_ALLOC_FAIL_H
#define KY_TEST_ALLOC_FAIL_H

#include <base/alloc.h>
#include <stdint.h>

static uint64_t test_allocs_left = UINT64_MAX;
static uint64_t test_alloc_bytes;

static inline _Bool test_alloc_hook(size_t bytes)
{
	test_alloc_bytes += bytes;
	if (!test_allocs_left)
		return 0;
	test_allocs_left--;
	return 1;
}

/* From here on n allocations succeed, all later ones fail. UINT64_MAX: none fails. */
static inline void test_alloc_fail_at(uint64_t n)
{
	test_allocs_left = n;
	test_alloc_bytes = 0;
	ky_alloc_hook = test_alloc_hook;
}

static inline void test_alloc_normal(void)
{
	ky_alloc_hook = NULL;
}

#endif
