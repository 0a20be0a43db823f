/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "io_keys.h"

#include <stdatomic.h>

#define PLACE_BITS 14
#define FD_BITS 20
#define NUMBER_BITS 32 /* of a key that is no address */
#define FD_MASK ((UINT64_C(1) << FD_BITS) - 1)

/* Hash of the key without its lowest bits | descriptor + 1; 0: none. */
static _Atomic uint64_t keys[UINT64_C(1) << PLACE_BITS];

/* A bijection of what it mixes: the finalizer of MurmurHash3. */
static uint64_t hash_of(uint64_t key)
{
	key ^= key >> 33;
	key *= UINT64_C(0xff51afd7ed558ccd);
	key ^= key >> 33;
	key *= UINT64_C(0xc4ceb9fe1a85ec53);
	return key ^ key >> 33;
}

static _Atomic uint64_t *place_of(uint64_t hash)
{
	return &keys[hash & ((UINT64_C(1) << PLACE_BITS) - 1)];
}

void ky_tokio_io_key_note(uint64_t key, int fd)
{
	uint64_t hash = hash_of(key);

	if (fd < 0 || (uint64_t)fd >= FD_MASK || key >> NUMBER_BITS == 0)
		return;
	atomic_store_explicit(place_of(hash), (hash & ~FD_MASK) | ((uint64_t)fd + 1),
			      memory_order_relaxed);
}

int ky_tokio_io_key_descriptor(uint64_t key)
{
	uint64_t hash = hash_of(key);
	uint64_t word = atomic_load_explicit(place_of(hash), memory_order_relaxed);

	return (word ^ hash) & ~FD_MASK ? -1 : (int)(word & FD_MASK) - 1;
}
