/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/switch_wakes.h>

#include <base/hash.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_NS_MIN UINT64_C(100000000)
#define LIST_NS_MAX UINT64_C(1000000000)
/* A dump has what lies in the area: names have to come again. */
#define NAME_NS UINT64_C(10000000000)

void ky_switch_wakes_open(struct ky_switch_wakes *of, ky_switch_pid_fn pid)
{
	memset(of, 0, sizeof(*of));
	of->pid = pid;
	(void)ky_wakes_open(&of->wakes);
}

void ky_switch_wakes_close(struct ky_switch_wakes *of)
{
	ky_wakes_close(of->wakes);
	of->wakes = NULL;
}

/* ---- threads ---- */

static void list_threads(struct ky_switch_wakes *of, uint32_t pid)
{
	struct dirent *entry;
	char path[48];
	DIR *tasks;

	(void)snprintf(path, sizeof(path), "/proc/%u/task", pid);
	tasks = opendir(path);
	if (!tasks)
		return;
	while (of->thread_count < KY_WAKES_THREADS && (entry = readdir(tasks)) != NULL)
		if (entry->d_name[0] != '.')
			of->threads[of->thread_count++] = (uint32_t)strtoul(entry->d_name, NULL,
									    10);
	(void)closedir(tasks);
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *one = a, *other = b;

	return (*one > *other) - (*one < *other);
}

static bool is_due(const struct ky_switch_wakes *of, uint64_t now_ns)
{
	uint64_t least_ns = of->is_stale ? LIST_NS_MIN : LIST_NS_MAX;

	return of->wakes && (!of->listed_ns || now_ns - of->listed_ns >= least_ns);
}

void ky_switch_wakes_window(struct ky_switch_wakes *of, const struct ky_switch_places *places,
			    uint64_t now_ns)
{
	if (!is_due(of, now_ns))
		return;
	of->thread_count = 0;
	for (uint32_t i = 0; i < places->count; i++)
		list_threads(of, of->pid(places->ctx, i));
	qsort(of->threads, of->thread_count, sizeof(*of->threads), by_number);
	/* What is refused now, for want of memory or descriptors, is not covered. */
	(void)ky_wakes_follow(of->wakes, of->threads, of->thread_count);
	of->listed_ns = now_ns;
	of->is_stale = false;
}

void ky_switch_wakes_pause(struct ky_switch_wakes *of, bool is_paused)
{
	if (of->wakes)
		(void)ky_wakes_pause(of->wakes, is_paused);
}

void ky_switch_wakes_note(struct ky_switch_wakes *of, uint32_t tid)
{
	if (of->wakes && !of->is_stale && tid)
		of->is_stale = !ky_wakes_covers(of->wakes, tid, UINT64_MAX);
}

uint32_t ky_switch_wakes_read(struct ky_switch_wakes *of, ky_perf_switch_fn fn, void *ctx,
			      uint64_t *lost)
{
	uint32_t count;

	*lost = 0;
	if (!of->wakes)
		return 0;
	count = ky_wakes_read(of->wakes, fn, ctx);
	*lost = ky_wakes_lost(of->wakes) - of->lost_reported;
	of->lost_reported += *lost;
	return count;
}

uint64_t ky_switch_wakes_passed_ns(struct ky_switch_wakes *of)
{
	return of->wakes ? ky_wakes_passed_ns(of->wakes) : 0;
}

/* ---- names ---- */

static bool read_name(uint32_t pid, uint32_t tid, char name[KY_WAKER_NAME_BYTES])
{
	ssize_t bytes;
	char path[64];
	int fd;

	memset(name, 0, KY_WAKER_NAME_BYTES);
	(void)snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bytes = read(fd, name, KY_WAKER_NAME_BYTES - 1);
	close(fd);
	if (bytes <= 0)
		return false;
	name[strcspn(name, "\n")] = '\0';
	return name[0] != '\0';
}

static void name_one(struct ky_switch_wakes *of, const struct ky_sample_ring *ring, uint32_t of_pid,
		     const struct ky_switch_interval *interval, uint64_t now_ns)
{
	struct ky_waker_named *named =
		&of->named[ky_hash_number(interval->by_tid ^ (uint64_t)of_pid << 32) %
			   KY_WAKERS_MAX];
	char name[KY_WAKER_NAME_BYTES];
	uint64_t frames[KY_WAKER_FRAMES];
	struct ky_sample sample = {.kind = KY_SAMPLE_WAKER,
				   .flags = KY_SAMPLE_STAMP_IS_NS,
				   .syscall = -1,
				   .tid = interval->by_tid,
				   .stamp = now_ns,
				   .more = interval->by_pid,
				   .frames = frames,
				   .frame_count = KY_WAKER_FRAMES};

	if (named->tid == interval->by_tid && named->of_pid == of_pid &&
	    now_ns - named->ns < NAME_NS)
		return;
	*named = (struct ky_waker_named){interval->by_tid, of_pid, now_ns};
	if (!read_name(interval->by_pid, interval->by_tid, name))
		return;
	ky_waker_enc(name, frames);
	(void)ky_sample_put(ring, &sample);
}

void ky_switch_wakes_name(struct ky_switch_wakes *of, const struct ky_sample_ring *ring,
			  const struct ky_switch_pair *pairs, uint32_t count, uint64_t now_ns)
{
	for (uint32_t i = 0; of->wakes && i < count; i++)
		if (pairs[i].interval.by == KY_WOKEN_BY_THREAD && pairs[i].interval.by_tid)
			name_one(of, ring, pairs[i].pid, &pairs[i].interval, now_ns);
}
