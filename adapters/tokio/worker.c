/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "worker.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ADDRESS_MIN UINT64_C(65536)
#define ADDRESS_MAX (UINT64_C(1) << 47)
#define CELL_WORDS_MAX 16u
#define WORKER_WORDS 5u /* strong, weak; handle, index, core in the compiler's order */
#define STRONG_MAX (UINT64_C(1) << 24)

static bool is_address(uint64_t word)
{
	return word >= ADDRESS_MIN && word < ADDRESS_MAX && word % 8 == 0;
}

/* The kernel reads the word before it finds that there is no such operation. A thread is not made
 * without this call, so no filter of system calls kills for it. */
static bool is_readable(uintptr_t address)
{
	int saved = errno;
	bool is_there = syscall(SYS_rt_sigprocmask, -1, address, NULL, sizeof(uint64_t)) != 0 &&
			errno == EINVAL;

	errno = saved;
	return is_there;
}

KY_TOKIO_READS_RAW static bool read_words(uintptr_t address, uint64_t *out, size_t count)
{
	for (size_t i = 0; i < count; i++, address += sizeof(*out)) {
		if (!is_readable(address))
			return false;
		out[i] = __atomic_load_n((const uint64_t *)address, __ATOMIC_RELAXED);
	}
	return true;
}

/* An Arc's target starts with two counts. */
static bool is_arc(uintptr_t address)
{
	uint64_t counts[2];

	return is_address(address) && read_words(address, counts, 2) && counts[0] >= 1 &&
	       counts[0] < STRONG_MAX && counts[1] >= 1 && counts[1] < STRONG_MAX;
}

uintptr_t ky_tokio_worker_of(const struct ky_tokio_table *table, const void *header)
{
	const char *cell = header;
	uint32_t offset = table->id_offset + 8;

	for (uint32_t i = 0; i < CELL_WORDS_MAX && offset + 8 <= table->trailer_offset;
	     i++, offset += 8) {
		uint64_t word = *(const uint64_t *)(const void *)(cell + offset);

		if (is_arc(word))
			return word;
	}
	return 0;
}

uintptr_t ky_tokio_worker_runtime(uintptr_t worker)
{
	uint64_t words[WORKER_WORDS];

	if (!worker || !read_words(worker, words, WORKER_WORDS))
		return 0;
	for (uint32_t i = 2; i < WORKER_WORDS; i++)
		if (is_arc(words[i]))
			return words[i];
	return 0;
}
