/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "worker.h"

#include <stdatomic.h>

#include "host_words.h"

#define CELL_WORDS_MAX 16u

/* By a hash of the address; of two on one place the later one is known. */
#define KNOWN_WORKERS 256u
static _Atomic uintptr_t known_workers[KNOWN_WORKERS];

static _Atomic uintptr_t *known_place(uintptr_t worker)
{
	return &known_workers[worker * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}

void ky_tokio_worker_note(uintptr_t worker)
{
	atomic_store_explicit(known_place(worker), worker, memory_order_relaxed);
}

bool ky_tokio_worker_is_known(uintptr_t worker)
{
	return atomic_load_explicit(known_place(worker), memory_order_relaxed) == worker;
}

uintptr_t ky_tokio_worker_runtime(uintptr_t worker)
{
	uint64_t words[KY_TOKIO_WORKER_WORDS];

	if (!worker ||
	    ky_tokio_read_words(worker, words, KY_TOKIO_WORKER_WORDS) != KY_TOKIO_WORKER_WORDS)
		return 0;
	for (uint32_t i = 2; i < KY_TOKIO_WORKER_WORDS; i++)
		if (ky_tokio_is_arc(words[i]))
			return words[i];
	return 0;
}

uintptr_t ky_tokio_worker_of(const struct ky_tokio_table *table, const void *header)
{
	const char *cell = header;
	uint32_t offset = table->id_offset + 8;

	for (uint32_t i = 0; i < CELL_WORDS_MAX && offset + 8 <= table->trailer_offset;
	     i++, offset += 8) {
		uint64_t word = *(const uint64_t *)(const void *)(cell + offset);

		/* Where it was spawned stands in the cell, too; linked to a fixed address it may
		 * look like an Arc. */
		if (ky_tokio_is_arc(word) && ky_tokio_worker_runtime(word))
			return word;
	}
	return 0;
}
