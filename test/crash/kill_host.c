/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A loaded program that waits to be killed.
 *
 *   kill_host WITNESS SEED [DIRECTORY]
 *
 * Three threads record in bursts; one after the other short ones begin, record and exit. Names are
 * interned on the way. With DIRECTORY (built with the library's own drain) it streams there, and
 * records no faster than that can follow. WITNESS is a file of struct kill_witness.
 * With KILL_AT=POINT and KILL_NTH=N (built with KY_TESTPOINTS) it kills itself when it comes to
 * that point for the N-th time; with KILL_LATER_US the thread stands still there for so long
 * before, and the others continue.
 */
#include <fcntl.h>
#include <kymo/kymo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "kill_host.h"

#define LONG_THREADS 3u

struct work {
	uint32_t slot;
	uint64_t seed, events; /* 0 events: until killed */
};

static struct kill_witness *witness;
static long rest_ns = 30000;

#if defined(KY_TESTPOINTS)
void ky_testpoint(const char *name);

void ky_testpoint(const char *name)
{
	static _Atomic long left;
	static _Atomic int is_known;
	const char *wanted = getenv("KILL_AT");

	if (wanted == NULL || strcmp(wanted, name) != 0)
		return;
	if (!atomic_exchange(&is_known, 1))
		atomic_fetch_add(&left, strtol(getenv("KILL_NTH"), NULL, 10));
	if (atomic_fetch_sub(&left, 1) != 1)
		return;
	if (getenv("KILL_LATER_US") != NULL)
		nanosleep(&(const struct timespec){.tv_nsec = 1000 * strtol(getenv("KILL_LATER_US"),
									    NULL, 10)},
			  NULL);
	raise(SIGKILL);
}
#endif

static uint64_t random_below(uint64_t *seed, uint64_t limit)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*seed >> 33) % limit;
}

static uint32_t intern(uint32_t slot, uint32_t number)
{
	char text[KILL_NAME_BYTES];
	int bytes = snprintf(text, sizeof(text), "kill::slot_%u::job_%u", slot, number);

	return kymo_name_intern(text, (size_t)bytes, 0, 0, 0);
}

static void record(uint32_t slot, uint64_t n, uint32_t name)
{
	uint64_t task = kill_task_of(slot, n);

	if (n % 3 == 0)
		kymo_poll_begin(task, name, KYMO_QUEUE_UNKNOWN);
	else if (n % 3 == 1)
		kymo_wake(task, 0, KYMO_WAKE_BY_VALUE);
	else
		kymo_poll_end(0);
	atomic_store_explicit(&witness->slots[slot].published, n + 1, memory_order_release);
}

static void *run(void *argument)
{
	struct work work = *(struct work *)argument;
	uint32_t names[KILL_NAMES] = {0};
	uint64_t n = 0, burst;

	while (work.events == 0 || n < work.events) {
		for (burst = 1 + random_below(&work.seed, 2000);
		     burst > 0 && (work.events == 0 || n < work.events); burst--, n++) {
			uint32_t number = kill_name_of(n);

			if (names[number] == 0)
				names[number] = intern(work.slot, number);
			record(work.slot, n, names[number]);
		}
		nanosleep(&(const struct timespec){.tv_nsec = rest_ns}, NULL);
	}
	return NULL;
}

static bool map_witness(const char *path)
{
	int fd = open(path, O_RDWR);

	witness = fd >= 0 ?
			  mmap(NULL, sizeof(*witness), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) :
			  MAP_FAILED;
	close(fd);
	return witness != MAP_FAILED;
}

int main(int argc, char **argv)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	static struct work works[KILL_SLOTS];
	struct kymo_recorder *recorder;
	pthread_t thread;
	uint64_t seed;

	if (argc < 3 || !map_witness(argv[1]))
		return 64;
	seed = strtoull(argv[2], NULL, 10);
	options.flags = KYMO_RECORDER_NO_DRAIN;
	if (argc > 3) {
		options.flags = KYMO_RECORDER_STREAM;
		options.trace_directory = argv[3];
		options.rotate_interval_ns = UINT64_C(70000000);
		rest_ns = 2000000;
	}
	options.ring_bytes = UINT64_C(256) << 20;
	if (kymo_recorder_open(&recorder, &options) < 0)
		return 65;
	for (uint32_t slot = 0; slot < KILL_SLOTS; slot++) {
		works[slot] = (struct work){.slot = slot, .seed = seed + slot};
		if (slot >= LONG_THREADS)
			works[slot].events = 1 + random_below(&seed, 900);
		if (pthread_create(&thread, NULL, run, &works[slot]) != 0)
			return 66;
		if (slot >= LONG_THREADS)
			pthread_join(thread, NULL);
	}
	for (;;)
		pause();
}
