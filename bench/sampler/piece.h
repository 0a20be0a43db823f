/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* piece.h - the work that these benchmarks take samples of: it goes through 16 KiB of memory.
 * Threads: one at a time.
 */
#ifndef KY_BENCH_SAMPLER_PIECE_H
#define KY_BENCH_SAMPLER_PIECE_H

#include <base/now.h>
#include <stdint.h>

#define WORK_WORDS 2048u

static uint64_t work[WORK_WORDS];
static volatile uint64_t sink;

/* Returns its CPU time in ns. */
static uint64_t piece(uint32_t count)
{
	uint64_t began_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID), sum = 0;

	for (uint32_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < WORK_WORDS; j++)
			sum += work[j] ^= sum >> 3;
	sink += sum;
	return ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
}

#endif
