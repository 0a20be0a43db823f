/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "patch.h"

#include <errno.h>
#include <sys/mman.h>

#include "hooks.h"
#include "late.h"
#include "live.h"
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

/* What is done with one word that shall become `ours`. */
typedef bool (*change_fn)(uintptr_t *word, uintptr_t ours);

static bool note(uintptr_t *word, uintptr_t ours)
{
	return ky_tokio_live_note(word, __atomic_load_n(word, __ATOMIC_RELAXED), ours);
}

/* A word that no thread remembers could not be restored, so it stays as it is. */
static bool store(uintptr_t *word, uintptr_t ours)
{
	if (!note(word, ours))
		return false;
	__atomic_store_n(word, ours, __ATOMIC_RELEASE);
	return true;
}

static bool change_table(uint32_t i, change_fn change)
{
	uintptr_t *words = ky_tokio_tables[i].words;

	return change(&words[KY_TOKIO_SLOT_POLL], ky_tokio_poll_thunk(i)) &&
	       change(&words[KY_TOKIO_SLOT_SHUTDOWN], ky_tokio_shutdown_thunk(i));
}

static bool change_waker(uint32_t i, change_fn change)
{
	uintptr_t *words = ky_tokio_wakers[i].words;
	size_t at = (size_t)i * KY_TOKIO_THUNK_BYTES;

	return change(&words[0], (uintptr_t)(ky_tokio_clone_thunks + at)) &&
	       change(&words[1], (uintptr_t)(ky_tokio_wake_thunks + at)) &&
	       change(&words[2], (uintptr_t)(ky_tokio_wake_by_ref_thunks + at));
}

static bool change_root(uint32_t i, change_fn change)
{
	uintptr_t *words = ky_tokio_root_tables[i].words;
	size_t at = (size_t)i * KY_TOKIO_THUNK_BYTES;

	return change(&words[0], (uintptr_t)(ky_tokio_root_clone_thunks + at)) &&
	       change(&words[1], (uintptr_t)(ky_tokio_root_wake_thunks + at)) &&
	       change(&words[2], (uintptr_t)(ky_tokio_root_wake_by_ref_thunks + at));
}

int ky_tokio_patch(const struct ky_tokio_found *found)
{
	int result = unseal(found);

	if (result < 0)
		return result;
	for (uint32_t i = 0; i < found->table_count; i++)
		(void)change_table(i, store);
	for (uint32_t i = 0; i < found->copy_count; i++)
		if (ky_tokio_wakers[i].words)
			(void)change_waker(i, store);
	for (uint32_t i = 0; i < found->root_count; i++)
		(void)change_root(i, store);
	for (uint32_t i = 0; i < found->got_count; i++)
		(void)store(found->got[i].slot, ky_tokio_wait_address(found->got[i].kind));
	seal(found, found->range_count);
	return 0;
}

static bool is_of(const struct ky_tokio_elf *elf, const uintptr_t *words)
{
	return words && ky_tokio_elf_is_in(elf, (uintptr_t)words, sizeof(*words), PF_R, PF_X);
}

bool ky_tokio_patch_later(const struct ky_tokio_found *found, const struct ky_tokio_elf *elf)
{
	bool has_room = true;

	for (uint32_t i = 0; i < found->table_count; i++)
		if (is_of(elf, ky_tokio_tables[i].words))
			has_room &= change_table(i, note);
	for (uint32_t i = 0; i < found->copy_count; i++)
		if (is_of(elf, ky_tokio_wakers[i].words))
			has_room &= change_waker(i, note);
	for (uint32_t i = 0; i < found->root_count; i++)
		if (is_of(elf, ky_tokio_root_tables[i].words))
			has_room &= change_root(i, note);
	for (uint32_t i = 0; i < found->got_count; i++)
		has_room &= note(found->got[i].slot, ky_tokio_wait_address(found->got[i].kind));
	return has_room;
}
