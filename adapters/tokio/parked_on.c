/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "parked_on.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io_keys.h"

#define EVENTFD_LINK "anon_inode:[eventfd]"
#define POLLER_LINK "anon_inode:[eventpoll]"
#define KNOWN_FUTEXES 256u /* of each kind: locks come and go, parks stay */
#define LINE_BYTES 256
/* What Tokio registers its own waker with, now and in earlier versions. */
#define WAKER_KEY UINT64_C(0)
#define WAKER_KEY_EARLIER (UINT64_C(1) << 31)

uint64_t ky_tokio_eventfds[KY_TOKIO_EVENTFD_MAX / 64];
_Atomic uint16_t ky_tokio_drivers[KY_TOKIO_EVENTFD_MAX];
static _Atomic uintptr_t known_futexes[KNOWN_FUTEXES], known_locks[KNOWN_FUTEXES];

void ky_tokio_eventfd_note(int fd)
{
	if (fd >= 0 && fd < KY_TOKIO_EVENTFD_MAX)
		__atomic_fetch_or(&ky_tokio_eventfds[fd / 64], UINT64_C(1) << (fd % 64),
				  __ATOMIC_RELAXED);
}

void ky_tokio_driver_note(int poller, int fd, uint64_t key)
{
	if (poller < 0 || poller >= KY_TOKIO_EVENTFD_MAX ||
	    (key != WAKER_KEY && key != WAKER_KEY_EARLIER))
		return;
	atomic_store_explicit(&ky_tokio_drivers[poller], (uint16_t)(fd + 1), memory_order_relaxed);
}

/* Lines "tfd: 4 events: .. data: 0 ..", fd in decimal, data in hexadecimal. */
static void learn_poller(int poller)
{
	char path[64], line[LINE_BYTES];
	FILE *stream;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", poller);
	stream = fopen(path, "re");
	while (stream && fgets(line, sizeof(line), stream)) {
		const char *data = strstr(line, "data:");
		long fd = strncmp(line, "tfd:", 4) == 0 ? strtol(line + 4, NULL, 10) : -1;
		uint64_t key;

		if (!data || fd < 0 || fd > INT_MAX)
			continue;
		key = strtoull(data + 5, NULL, 16);
		ky_tokio_io_key_note(key, (int)fd);
		if (ky_tokio_is_eventfd((int)fd))
			ky_tokio_driver_note(poller, (int)fd, key);
	}
	if (stream)
		fclose(stream);
}

/* Descriptors of one kind; eventfds first. */
static void learn(const char *kind, bool is_poller)
{
	DIR *stream = opendir("/proc/self/fd");
	struct dirent *entry;
	char target[32];

	while (stream && (entry = readdir(stream)) != NULL) {
		ssize_t bytes = readlinkat(dirfd(stream), entry->d_name, target, sizeof(target));
		long fd = strtol(entry->d_name, NULL, 10);

		if (bytes != (ssize_t)strlen(kind) || fd < 0 || fd >= KY_TOKIO_EVENTFD_MAX ||
		    memcmp(target, kind, (size_t)bytes) != 0)
			continue;
		if (is_poller)
			learn_poller((int)fd);
		else
			ky_tokio_eventfd_note((int)fd);
	}
	if (stream)
		closedir(stream);
}

void ky_tokio_parked_on_learn(void)
{
	learn(EVENTFD_LINK, false);
	learn(POLLER_LINK, true);
}

static uint32_t known_place(const uint32_t *futex)
{
	return (uint32_t)((uintptr_t)futex * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

static void note(_Atomic uintptr_t *table, const uint32_t *futex)
{
	atomic_store_explicit(&table[known_place(futex)], (uintptr_t)futex, memory_order_relaxed);
}

bool ky_tokio_is_waited_on(const uint32_t *futex)
{
	uint32_t at = known_place(futex);

	return atomic_load_explicit(&known_futexes[at], memory_order_relaxed) == (uintptr_t)futex ||
	       atomic_load_explicit(&known_locks[at], memory_order_relaxed) == (uintptr_t)futex;
}

void ky_tokio_lock_note(const uint32_t *futex)
{
	note(known_locks, futex);
}

void ky_tokio_parked_on_record(uint64_t word)
{
	uintptr_t futex = (uintptr_t)(word & KY_TOKIO_FUTEX_MASK);

	if (!kymo_gate_is_open(KYMO_GATE_PARK))
		return;
	if (futex)
		note(known_futexes, (const uint32_t *)futex);
	ky_tokio_self.parked_on = word;
	kymo_parked_on(word);
}
