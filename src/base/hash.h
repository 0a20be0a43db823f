/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* hash.h - hashes for tables of ours: the same on every machine.
 *
 * No defence against keys chosen to collide: a table that holds foreign keys is bounded, or mixes
 * in something its writer cannot know.
 * Threads: any. Signals: safe.
 */
#ifndef KY_BASE_HASH_H
#define KY_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define KY_HASH_START UINT64_C(0xcbf29ce484222325)

/* FNV-1a, byte by byte. hash: KY_HASH_START, or what an earlier call returned: then the bytes count
 * as following those. */
static inline uint64_t ky_hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* Spreads a number over 64 bits, so that any of them can choose a place. One to one. */
static inline uint64_t ky_hash_number(uint64_t number)
{
	number ^= number >> 32;
	number *= UINT64_C(0xd6e8feb86659fd93);
	number ^= number >> 32;
	number *= UINT64_C(0xd6e8feb86659fd93);
	return number ^ (number >> 32);
}

#endif
