/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* prng.h - seeded random numbers (splitmix64) and a countdown of allocations for tests. */
#ifndef KY_TEST_PRNG_H
#define KY_TEST_PRNG_H

#include <base/alloc.h>
#include <stdint.h>

struct test_prng {
	uint64_t state;
};

static inline uint64_t test_random(struct test_prng *prng)
{
	uint64_t z = prng->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* 0 .. below - 1 */
static inline uint32_t test_below(struct test_prng *prng, uint32_t below)
{
	return (uint32_t)(test_random(prng) % below);
}

/* As many small numbers as large ones: the length is what matters to a varint. */
static inline uint64_t test_random_length(struct test_prng *prng)
{
	return test_random(prng) >> test_below(prng, 64);
}

#endif
