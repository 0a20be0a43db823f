/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* alloc_odds.h - the chances of allocation sampling: how many bytes go by until the next sample,
 * and what a sample stands for.
 *
 * Samples are a Poisson process over the bytes: gaps are exponentially distributed with the mean,
 * so an allocation of b bytes meets one with p = 1 - exp(-b / mean), whatever was allocated before,
 * and weights of 1 / p give totals without bias (Horvitz and Thompson).
 * Relative errors: below 1e-9. No library of mathematics: it runs inside another's allocator.
 * Threads: any.      Signals: safe.
 */
#ifndef KY_RECORD_SAMPLE_ALLOC_ODDS_H
#define KY_RECORD_SAMPLE_ALLOC_ODDS_H

#include <stdint.h>

#define KY_ALLOC_GAP_MAX (UINT64_C(1) << 46)

/* alloc_table.c: the calling thread begins a new gap, and draws from this sequence on. */
void ky_alloc_seed(uint64_t seed);

/* The next of a sequence of random numbers (splitmix64). */
uint64_t ky_alloc_random(uint64_t *state);

/* Bytes before the next sample, of 64 random bits. mean_bytes: 1 .. 2^32. */
uint64_t ky_alloc_gap(uint64_t random, uint64_t mean_bytes);

/* 1 / p of an allocation of so many bytes, at least 1, in parts of 2^32. */
uint64_t ky_alloc_weight(uint64_t bytes, uint64_t mean_bytes);

#endif
