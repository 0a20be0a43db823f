/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_record.h - one record of a sub-buffer: how long it is, and when it was written.
 * Threads: any.
 */
#ifndef KY_DRAIN_RING_RECORD_H
#define KY_DRAIN_RING_RECORD_H

#include <stdint.h>

#define KY_STAMP_HALF ((uint64_t)1 << 42)
#define KY_STAMP_WRAP ((uint64_t)1 << 43)

/* Words of the record with this header word, itself included; 0: there is no such record. */
uint32_t ky_ring_record_words(uint64_t header);

static inline uint32_t ky_ring_record_type(uint64_t header)
{
	return (uint32_t)(header >> 16) & 0xffu;
}

/* Full stamp from 40 bits: the nearest to the last one, never before it. */
static inline uint64_t ky_ring_record_ticks(uint64_t last, uint64_t header)
{
	uint64_t stamp = header >> 24 << 3;
	uint64_t ahead = (stamp - last) & (KY_STAMP_WRAP - 1);

	return ahead < KY_STAMP_HALF ? last + ahead : last;
}

#endif
