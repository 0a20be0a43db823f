/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Preloaded into a program: sends SIGPROF to each of its threads some thousand times a second, and
 * says at the end how many of the stacks reached the first function of their thread. Tables are
 * made by a thread in the program, as the library does it.
 *
 * STACK_PROBE_OUT: a file for one line: samples, and how many ended how.
 * STACK_PROBE_LOST: a file for the places where walks ended early, each with its module. */

#include "../lib/own_tables.h"

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <record/sample/stack_walk.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FRAMES_MAX 512u
#define LOST_MAX 4096u

static struct own_tables tables;
static _Atomic int is_ready;
static _Atomic uint64_t ends[8], samples, frames, guessed;
static _Atomic uint32_t lost_count;
static uint64_t lost[LOST_MAX];

static void on_sample(int number, siginfo_t *info, void *context)
{
	static __thread uint64_t room[FRAMES_MAX];
	struct ky_walk walk = {.frames = room, .frames_max = FRAMES_MAX};
	uint32_t at;

	(void)number;
	(void)info;
	if (!atomic_load(&is_ready))
		return;
	ky_stack_context_by(&walk, &tables.view, context, true);
	atomic_fetch_add(&samples, 1);
	atomic_fetch_add(&frames, walk.count);
	atomic_fetch_add(&guessed, walk.guessed_count);
	atomic_fetch_add(&ends[walk.end], 1);
	if (walk.end == KY_WALK_FIRST)
		return;
	at = atomic_fetch_add(&lost_count, 1);
	if (at < LOST_MAX)
		lost[at] = walk.last_pc;
}

/* Every thread but this one. */
static void signal_all(void)
{
	long own = syscall(SYS_gettid), pid = getpid();
	DIR *stream = opendir("/proc/self/task");
	struct dirent *entry;

	while (stream && (entry = readdir(stream)) != NULL) {
		long tid = strtol(entry->d_name, NULL, 10);

		if (tid > 0 && tid != own)
			(void)syscall(SYS_tgkill, pid, tid, SIGPROF);
	}
	if (stream)
		closedir(stream);
}

static void *keep(void *ctx)
{
	const struct timespec pause = {.tv_nsec = 200000};
	struct sigaction action = {.sa_sigaction = on_sample,
				   .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};

	(void)ctx;
	atomic_store(&is_ready, 1);
	sigaction(SIGPROF, &action, NULL);
	for (uint32_t round = 0;; round++) {
		nanosleep(&pause, NULL);
		signal_all();
		if (round % 16 == 0)
			(void)ky_unwind_keeper_scan(tables.keeper);
	}
	return NULL;
}

__attribute__((constructor)) static void begin(void)
{
	sigset_t all, before;
	pthread_t thread;

	if (!getenv("STACK_PROBE_OUT"))
		return;
	if (own_tables_open(&tables) != 0)
		abort();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, NULL, keep, NULL) != 0)
		abort();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	while (!atomic_load(&is_ready))
		sched_yield();
}

static unsigned long count(_Atomic uint64_t *word)
{
	return (unsigned long)atomic_load(word);
}

__attribute__((destructor)) static void finish(void)
{
	const char *out = getenv("STACK_PROBE_OUT"), *where = getenv("STACK_PROBE_LOST");
	FILE *file = out ? fopen(out, "a") : NULL;

	atomic_store(&is_ready, 0);
	if (!file)
		return;
	fprintf(file,
		"samples %lu first %lu unknown %lu unreadable %lu full %lu frames %lu "
		"guessed %lu\n",
		count(&samples), count(&ends[KY_WALK_FIRST]), count(&ends[KY_WALK_UNKNOWN]),
		count(&ends[KY_WALK_UNREADABLE]), count(&ends[KY_WALK_FULL]), count(&frames),
		count(&guessed));
	fclose(file);
	file = where ? fopen(where, "a") : NULL;
	for (uint32_t i = 0; file && i < atomic_load(&lost_count) && i < LOST_MAX; i++) {
		Dl_info info = {0};

		(void)dladdr((void *)(uintptr_t)lost[i], &info);
		fprintf(file, "%lx %s+%lx %s\n", (unsigned long)lost[i],
			info.dli_fname ? info.dli_fname : "?",
			info.dli_fname ? (unsigned long)(lost[i] - (uint64_t)info.dli_fbase) : 0,
			info.dli_sname ? info.dli_sname : "?");
	}
	if (file)
		fclose(file);
}
