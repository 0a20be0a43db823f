/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "runtimes.h"

#include <errno.h>
#include <kymo/recorder.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "tables.h"

#define RUNTIMES_MAX 256u
#define LOCK_TRIES_MAX 1000u
#define GENERATION_SHIFT 48
#define NAME_BYTES 64u

struct runtime {
	uintptr_t handle;
	uint64_t owner; /* 0: no task of it was polled yet */
	uint32_t generation;
	uint32_t worker_count;
	bool is_retired; /* its last worker ended */
	bool is_described;
	uint32_t kind, copy; /* as they were described */
	char name[NAME_BYTES];
};

static struct runtime runtimes[RUNTIMES_MAX];
static uint32_t runtime_count;
static _Atomic uint32_t local_sets_described; /* a bit a copy */
static atomic_flag lock = ATOMIC_FLAG_INIT;

static bool try_lock(void)
{
	for (uint32_t i = 0; i < LOCK_TRIES_MAX; i++) {
		if (!atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
			return true;
		sched_yield();
	}
	return false;
}

static void unlock(void)
{
	atomic_flag_clear_explicit(&lock, memory_order_release);
}

static uint64_t key_of(const struct runtime *runtime)
{
	return runtime->handle | (uint64_t)(runtime->generation & 0xffffu) << GENERATION_SHIFT;
}

/* The entry of this handle, a new one where there is none; NULL when the table is full. */
static struct runtime *find(uintptr_t handle)
{
	for (uint32_t i = 0; i < runtime_count; i++)
		if (runtimes[i].handle == handle)
			return &runtimes[i];
	if (runtime_count == RUNTIMES_MAX)
		return NULL;
	runtimes[runtime_count] = (struct runtime){.handle = handle};
	return &runtimes[runtime_count++];
}

static void start_over(struct runtime *runtime)
{
	runtime->generation++;
	runtime->owner = 0;
	runtime->is_retired = false;
	runtime->is_described = false;
	runtime->name[0] = '\0';
}

/* The lock is held, and not while it is said. Returns whether it has to be said. */
static bool describe(struct runtime *runtime, uint32_t kind, uint32_t copy, struct runtime *out)
{
	if (runtime->is_described)
		return false;
	runtime->is_described = true;
	runtime->kind = kind;
	runtime->copy = copy;
	*out = *runtime;
	return true;
}

static void say(const struct runtime *runtime)
{
	kymo_runtime_describe(key_of(runtime), runtime->name, runtime->kind, runtime->copy);
}

uint64_t ky_tokio_runtime_enter(uintptr_t handle, uint32_t copy)
{
	struct runtime *runtime, about;
	uint64_t key = handle;
	bool is_new = false;

	if (handle == 0 || !try_lock())
		return key;
	runtime = find(handle);
	if (runtime) {
		if (runtime->is_retired)
			start_over(runtime);
		runtime->worker_count++;
		key = key_of(runtime);
		is_new = describe(runtime, KYMO_RUNTIME_MULTI_THREAD, copy, &about);
	}
	unlock();
	if (is_new)
		say(&about);
	return key;
}

void ky_tokio_runtime_leave(uint64_t key)
{
	if (!try_lock())
		return;
	for (uint32_t i = 0; i < runtime_count; i++) {
		struct runtime *runtime = &runtimes[i];

		if (key_of(runtime) == key && runtime->worker_count && --runtime->worker_count == 0)
			runtime->is_retired = true;
	}
	unlock();
}

static uint32_t public_kind(uint32_t kind)
{
	if (kind == KY_TOKIO_KIND_MULTI_THREAD)
		return KYMO_RUNTIME_MULTI_THREAD;
	return kind == KY_TOKIO_KIND_CURRENT_THREAD ? KYMO_RUNTIME_CURRENT_THREAD :
						      KYMO_RUNTIME_UNKNOWN;
}

/* They come and go by the thousand, and which of them it is carries no information. */
static uint64_t local_sets_of(uint32_t copy)
{
	uint32_t bit = 1u << (copy % 32u);

	if (!(atomic_fetch_or_explicit(&local_sets_described, bit, memory_order_relaxed) & bit))
		kymo_runtime_describe(1 + copy, "", KYMO_RUNTIME_LOCAL_SET, copy);
	return 1 + copy;
}

uint64_t ky_tokio_runtime_of(uintptr_t handle, uint64_t owner, uint32_t kind, uint32_t copy)
{
	struct runtime *runtime, about;
	uint64_t key = handle;
	bool is_new = false;

	if (kind == KY_TOKIO_KIND_LOCAL_SET)
		return local_sets_of(copy);
	if (!try_lock())
		return key;
	runtime = find(handle);
	if (runtime) {
		if (runtime->owner && runtime->owner != owner)
			start_over(runtime);
		runtime->owner = owner;
		key = key_of(runtime);
		is_new = describe(runtime, public_kind(kind), copy, &about);
	}
	unlock();
	if (is_new)
		say(&about);
	return key;
}

int ky_tokio_runtime_name(uint64_t owner, const char *name)
{
	struct runtime *named = NULL, about;
	size_t bytes = strnlen(name, NAME_BYTES - 1);

	if (!try_lock())
		return -ENOENT;
	for (uint32_t i = 0; i < runtime_count && owner; i++)
		if (runtimes[i].owner == owner)
			named = &runtimes[i];
	if (named) {
		memcpy(named->name, name, bytes);
		named->name[bytes] = '\0';
		about = *named;
	}
	unlock();
	if (!named)
		return -ENOENT;
	if (about.is_described)
		say(&about);
	return 0;
}

void ky_tokio_runtimes_start_over(void)
{
	atomic_store_explicit(&local_sets_described, 0, memory_order_relaxed);
	if (!try_lock())
		return;
	for (uint32_t i = 0; i < runtime_count; i++)
		runtimes[i].is_described = false;
	unlock();
}
