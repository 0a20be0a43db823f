/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "spawned_at.h"

#include <stdatomic.h>
#include <stddef.h>

#include "hooks.h"
#include "host_words.h"
#include "tokio_elf.h"

#define KNOWN 2048u
#define TRIES_MAX 8u
#define FILE_BYTES_MAX 512u
#define LINE_MAX UINT64_C(0xffffff)
#define COLUMN_MAX UINT64_C(0xffff)

/* By a hash of the address. An address stays where it is once it is there: code that is gone, and
 * other code with a place at the same address, is taken for what was there first. */
static struct {
	_Atomic uintptr_t location;
	const struct kymo_usdt_place *_Atomic place;
} known[KNOWN];

static KY_TOKIO_READS_RAW const struct kymo_usdt_place *read_place(uintptr_t location)
{
	uint64_t words[3], text[FILE_BYTES_MAX / 8 + 2];
	uintptr_t start;
	uint64_t line, column;
	size_t count;

	if (!ky_tokio_is_address(location) || ky_tokio_read_words(location, words, 3) != 3)
		return NULL;
	line = words[2] & UINT32_MAX;
	column = words[2] >> 32;
	start = words[0] & ~UINT64_C(7);
	if (!ky_tokio_is_address(start) || words[1] == 0 || words[1] > FILE_BYTES_MAX ||
	    line == 0 || line > LINE_MAX || column == 0 || column > COLUMN_MAX)
		return NULL;
	count = (words[0] - start + words[1] + 7) / 8;
	if (ky_tokio_read_words(start, text, count) != count)
		return NULL;
	return kymo_usdt_place((const char *)text + (words[0] - start), words[1], (uint32_t)line,
			       (uint32_t)column);
}

static const struct kymo_usdt_place *place_at(uintptr_t location)
{
	uint64_t hash = location * UINT64_C(0x9e3779b97f4a7c15) >> 53;
	const struct kymo_usdt_place *place;

	for (uint32_t i = 0; i < TRIES_MAX; i++) {
		uint64_t at = (hash + i) % KNOWN;
		uintptr_t there = atomic_load_explicit(&known[at].location, memory_order_relaxed);

		if (!there && atomic_compare_exchange_strong_explicit(
				      &known[at].location, &there, location, memory_order_relaxed,
				      memory_order_relaxed))
			there = location;
		if (there != location)
			continue;
		place = atomic_load_explicit(&known[at].place, memory_order_acquire);
		if (!place) {
			place = read_place(location);
			atomic_store_explicit(&known[at].place, place, memory_order_release);
		}
		return place;
	}
	return read_place(location);
}

const struct kymo_usdt_place *ky_tokio_spawned_at(uint64_t task)
{
	const struct ky_tokio_thread *self = &ky_tokio_self;
	const char *header = self->ending ? self->ending : self->depth ? self->current : NULL;
	const struct ky_tokio_table *table = header ? ky_tokio_patched_table(header) : NULL;
	const uint64_t *id;

	if (!table || !table->has_place)
		return NULL;
	id = (const uint64_t *)(const void *)(header + table->id_offset);
	return id[0] == task ? place_at((uintptr_t)id[1]) : NULL;
}
