/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "late.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>

#include "got.h"
#include "hooks.h"
#include "live.h"
#include "waits.h"

#define OBJECTS_MAX 4096u

extern const char ky_tokio_dlsym[];

/* The program headers' place and the name distinguish objects. One that was closed and opened again
 * between two readings stands where it stood: it shows by a slot that is not ours any more. */
struct late_object {
	const void *phdr;
	uint64_t hash;
	const uintptr_t *slot; /* one that was replaced, or NULL */
	uintptr_t value;
	bool is_there;
};

static struct late_object objects[OBJECTS_MAX];
static uint32_t object_count;
static struct late_object nowhere, *current = &nowhere; /* the one that is being read */
static struct ky_tokio_late_calls calls;
static unsigned long long adds_seen;
static atomic_flag is_reading = ATOMIC_FLAG_INIT;

static uint64_t hash_of(const struct dl_phdr_info *info)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ info->dlpi_addr;

	for (const char *at = info->dlpi_name; at && *at; at++)
		hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
	return hash;
}

static bool is_as_left(const struct late_object *object, const struct dl_phdr_info *info)
{
	struct ky_tokio_elf elf = {
		.bias = info->dlpi_addr, .phdr = info->dlpi_phdr, .phdr_count = info->dlpi_phnum};

	if (!object->slot)
		return true;
	return ky_tokio_elf_is_in(&elf, (uintptr_t)object->slot, sizeof(*object->slot), PF_R, 0) &&
	       __atomic_load_n(object->slot, __ATOMIC_RELAXED) == object->value;
}

bool ky_tokio_late_note(const struct dl_phdr_info *info)
{
	struct late_object *free_one = NULL;
	uint64_t hash = hash_of(info);

	for (uint32_t i = 0; i < object_count; i++) {
		if (objects[i].phdr == info->dlpi_phdr && objects[i].hash == hash) {
			current = &objects[i];
			current->is_there = true;
			return !is_as_left(current, info);
		}
		if (!objects[i].phdr)
			free_one = &objects[i];
	}
	if (!free_one && object_count < OBJECTS_MAX)
		free_one = &objects[object_count++];
	current = &nowhere;
	if (!free_one)
		return false;
	*free_one = (struct late_object){info->dlpi_phdr, hash, NULL, 0, true};
	current = free_one;
	return true;
}

/* Forgets those that the last walk did not meet. */
static void forget_closed(void)
{
	for (uint32_t i = 0; i < object_count; i++) {
		if (!objects[i].is_there)
			objects[i].phdr = NULL;
		objects[i].is_there = false;
	}
}

static bool store(int fd, uintptr_t *slot, uintptr_t value)
{
	if (!ky_tokio_live_note(slot, __atomic_load_n(slot, __ATOMIC_RELAXED), value) ||
	    pwrite(fd, &value, sizeof(value), (off_t)(uintptr_t)slot) != sizeof(value))
		return false;
	current->slot = slot;
	current->value = value;
	return true;
}

static int open_memory(void)
{
	return open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
}

void ky_tokio_late_watch(const struct dl_phdr_info *info)
{
	struct ky_tokio_elf elf = {
		.bias = info->dlpi_addr, .phdr = info->dlpi_phdr, .phdr_count = info->dlpi_phnum};
	uintptr_t *slots[4];
	uint32_t count;
	int fd;

	/* Our own calls go on through that slot, which must not lead back to us. */
	if (ky_tokio_elf_is_in(&elf, (uintptr_t)ky_tokio_dlsym, 1, PF_X, 0))
		return;
	count = ky_tokio_got_dlsym(&elf, slots, 4);
	fd = count ? open_memory() : -1;
	for (uint32_t i = 0; fd >= 0 && i < count; i++)
		(void)store(fd, slots[i], (uintptr_t)ky_tokio_dlsym);
	if (fd >= 0)
		close(fd);
}

static bool is_of(const struct ky_tokio_elf *elf, const uintptr_t *words)
{
	return words && ky_tokio_elf_is_in(elf, (uintptr_t)words, sizeof(*words), PF_R, PF_X);
}

static bool store_tables(int fd, const struct ky_tokio_found *found, const struct ky_tokio_elf *elf)
{
	bool is_good = true;

	for (uint32_t i = 0; i < found->table_count; i++) {
		uintptr_t *words = ky_tokio_tables[i].words;

		if (!is_of(elf, words))
			continue;
		is_good &= store(fd, &words[KY_TOKIO_SLOT_POLL], ky_tokio_poll_thunk(i));
		is_good &= store(fd, &words[KY_TOKIO_SLOT_SHUTDOWN], ky_tokio_shutdown_thunk(i));
	}
	for (uint32_t i = 0; i < found->copy_count; i++) {
		uintptr_t *words = ky_tokio_wakers[i].words;
		size_t at = (size_t)i * KY_TOKIO_THUNK_BYTES;

		if (!is_of(elf, words))
			continue;
		is_good &= store(fd, &words[0], (uintptr_t)(ky_tokio_clone_thunks + at));
		is_good &= store(fd, &words[1], (uintptr_t)(ky_tokio_wake_thunks + at));
		is_good &= store(fd, &words[2], (uintptr_t)(ky_tokio_wake_by_ref_thunks + at));
	}
	return is_good;
}

int ky_tokio_late_patch(const struct ky_tokio_found *found, const struct ky_tokio_elf *elf)
{
	int fd = open_memory();
	bool is_good;

	if (fd < 0)
		return -errno;
	is_good = store_tables(fd, found, elf);
	for (uint32_t i = 0; i < found->got_count; i++)
		is_good &= store(fd, found->got[i].slot, ky_tokio_wait_address(found->got[i].kind));
	close(fd);
	return is_good ? 0 : -EACCES;
}

static int read_adds(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	(void)info_bytes;
	*(unsigned long long *)ctx = info->dlpi_adds;
	return 1;
}

static int visit(struct dl_phdr_info *info, size_t info_bytes, void *ctx)
{
	(void)info_bytes;
	if (!ky_tokio_late_note(info))
		return 0;
	ky_tokio_late_watch(info);
	calls.object(info);
	*(bool *)ctx = true;
	return 0;
}

void ky_tokio_late_start(const struct ky_tokio_late_calls *wanted)
{
	calls = *wanted;
	dl_iterate_phdr(read_adds, &adds_seen);
	forget_closed();
}

void ky_tokio_late_check(void)
{
	unsigned long long adds = 0;
	bool is_new = false;
	int saved = errno;

	dl_iterate_phdr(read_adds, &adds);
	if (adds != __atomic_load_n(&adds_seen, __ATOMIC_RELAXED) &&
	    !atomic_flag_test_and_set_explicit(&is_reading, memory_order_acquire)) {
		__atomic_store_n(&adds_seen, adds, __ATOMIC_RELAXED);
		dl_iterate_phdr(visit, &is_new);
		forget_closed();
		if (is_new)
			calls.done();
		atomic_flag_clear_explicit(&is_reading, memory_order_release);
	}
	errno = saved;
}
