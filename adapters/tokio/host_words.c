/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "host_words.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tokio_elf.h"

#define ADDRESS_MIN UINT64_C(65536)
#define ADDRESS_MAX (UINT64_C(1) << 47)
#define PAGE_BYTES_MIN 4096u
#define STRONG_MAX (UINT64_C(1) << 24)

bool ky_tokio_is_address(uint64_t word)
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

KY_TOKIO_READS_RAW size_t ky_tokio_read_words(uintptr_t address, uint64_t *out, size_t count)
{
	for (size_t i = 0; i < count; i++, address += sizeof(*out)) {
		if ((i == 0 || address % PAGE_BYTES_MIN == 0) && !is_readable(address))
			return i;
		out[i] = __atomic_load_n((const uint64_t *)address, __ATOMIC_RELAXED);
	}
	return count;
}

bool ky_tokio_is_arc(uintptr_t address)
{
	uint64_t counts[2];

	return ky_tokio_is_address(address) && ky_tokio_read_words(address, counts, 2) == 2 &&
	       counts[0] >= 1 && counts[0] < STRONG_MAX && counts[1] >= 1 && counts[1] < STRONG_MAX;
}
