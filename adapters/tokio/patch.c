/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "patch.h"

#include <errno.h>
#include <sys/mman.h>

#include "hooks.h"
#include "waits.h"

static void seal(const struct ky_tokio_found *found, uint32_t count)
{
	/* Unsealing may have failed half-way through a range, so a refusal here has nothing to
	 * add. */
	for (uint32_t i = 0; i < count; i++)
		(void)mprotect((void *)found->ranges[i].start,
			       found->ranges[i].end - found->ranges[i].start, PROT_READ);
}

static int unseal(const struct ky_tokio_found *found)
{
	for (uint32_t i = 0; i < found->range_count; i++) {
		const struct ky_tokio_range *range = &found->ranges[i];

		if (mprotect((void *)range->start, range->end - range->start,
			     PROT_READ | PROT_WRITE)) {
			int error = errno;

			seal(found, i + 1);
			return -error;
		}
	}
	return 0;
}

static void store(uintptr_t *slot, const char *thunk)
{
	__atomic_store_n(slot, (uintptr_t)thunk, __ATOMIC_RELEASE);
}

int ky_tokio_patch(const struct ky_tokio_found *found)
{
	int result = unseal(found);

	if (result < 0)
		return result;
	for (uint32_t i = 0; i < found->table_count; i++) {
		uintptr_t *words = ky_tokio_tables[i].words;
		size_t at = (size_t)i * KY_TOKIO_THUNK_BYTES;

		store(&words[KY_TOKIO_SLOT_POLL], ky_tokio_poll_thunks + at);
		store(&words[KY_TOKIO_SLOT_SHUTDOWN], ky_tokio_shutdown_thunks + at);
	}
	for (uint32_t i = 0; i < found->copy_count; i++) {
		uintptr_t *words = ky_tokio_wakers[i].words;
		size_t at = (size_t)i * KY_TOKIO_THUNK_BYTES;

		if (!words)
			continue;
		store(&words[0], ky_tokio_clone_thunks + at);
		store(&words[1], ky_tokio_wake_thunks + at);
		store(&words[2], ky_tokio_wake_by_ref_thunks + at);
	}
	for (uint32_t i = 0; i < found->got_count; i++)
		__atomic_store_n(found->got[i].slot, ky_tokio_wait_address(found->got[i].kind),
				 __ATOMIC_RELEASE);
	seal(found, found->range_count);
	return 0;
}
