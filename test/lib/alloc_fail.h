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
	uint64_t left = __atomic_load_n(&test_allocs_left, __ATOMIC_RELAXED);

	__atomic_fetch_add(&test_alloc_bytes, bytes, __ATOMIC_RELAXED);
	while (left && !__atomic_compare_exchange_n(&test_allocs_left, &left, left - 1, 1,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return left != 0;
}

/* From here on n allocations succeed, all later ones fail. UINT64_MAX: none fails. */
static inline void test_alloc_fail_at(uint64_t n)
{
	__atomic_store_n(&test_allocs_left, n, __ATOMIC_RELAXED);
	__atomic_store_n(&test_alloc_bytes, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ky_alloc_hook, test_alloc_hook, __ATOMIC_RELEASE);
}

static inline void test_alloc_normal(void)
{
	__atomic_store_n(&ky_alloc_hook, NULL, __ATOMIC_RELEASE);
}

#endif
