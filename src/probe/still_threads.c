/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/still_threads.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wire/sample_area.h>

void ky_still_init(struct ky_still_threads *still)
{
	memset(still, 0, sizeof(*still));
	for (uint32_t i = 0; i < KY_STILL_MAX; i++)
		still->threads[i].fd = -1;
}

/* Closes a file that is still the one which was opened. */
static void close_own(const struct ky_still_thread *thread, int fd)
{
	struct stat about;

	if (fd >= 0 && fstat(fd, &about) == 0 && (uint64_t)about.st_dev == thread->device &&
	    (uint64_t)about.st_ino == thread->inode)
		close(fd);
}

/* Its number is not reported any more when it may be another file's: a forked child closes it. */
static void drop(struct ky_still_thread *thread)
{
	int fd = __atomic_exchange_n(&thread->fd, -1, __ATOMIC_SEQ_CST);

	close_own(thread, fd);
	*thread = (struct ky_still_thread){.fd = -1};
}

void ky_still_close_files(const struct ky_still_threads *still)
{
	for (uint32_t i = 0; i < KY_STILL_MAX; i++) {
		const struct ky_still_thread *thread = &still->threads[i];

		close_own(thread, __atomic_load_n(&thread->fd, __ATOMIC_ACQUIRE));
	}
}

void ky_still_release(struct ky_still_threads *still)
{
	for (uint32_t i = 0; i < KY_STILL_MAX; i++)
		drop(&still->threads[i]);
}

/* What the two readings and the two clocks may differ by each time that it got a CPU. */
#define SLACK_NS UINT64_C(2000)
#define CLOCKS_INVERSE 1000u /* of a length */

struct counts {
	uint64_t cpu_ns; /* UINT64_MAX: unreadable */
	uint64_t delay_ns, run_count;
};

static struct counts read_counts(int fd)
{
	struct counts out = {.cpu_ns = UINT64_MAX};
	char text[96], *at = text;
	ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);

	if (bytes <= 0)
		return out;
	text[bytes] = '\0';
	out.cpu_ns = strtoull(at, &at, 10);
	out.delay_ns = strtoull(at, &at, 10);
	out.run_count = strtoull(at, &at, 10);
	return out;
}

struct ky_still_thread *ky_still_note(struct ky_still_threads *still, uint32_t pid, uint32_t tid)
{
	struct ky_still_thread *oldest = &still->threads[0];
	struct stat about;
	char path[64];
	int fd;

	for (uint32_t i = 0; i < KY_STILL_MAX; i++) {
		struct ky_still_thread *thread = &still->threads[i];

		if (thread->tid == tid && thread->pid == pid) {
			thread->used = still->window;
			return thread;
		}
		if (oldest->tid && (!thread->tid || thread->used < oldest->used))
			oldest = thread;
	}
	/* All of them were seen just now: the thread that came first stays. */
	if (oldest->tid && oldest->used == still->window)
		return NULL;
	drop(oldest);
	(void)snprintf(path, sizeof(path), "/proc/%u/task/%u/schedstat", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (fstat(fd, &about) == 0) {
		oldest->device = (uint64_t)about.st_dev;
		oldest->inode = (uint64_t)about.st_ino;
	}
	__atomic_store_n(&oldest->fd, fd, __ATOMIC_RELEASE);
	oldest->pid = pid;
	oldest->tid = tid;
	oldest->cpu_ns = UINT64_MAX;
	oldest->used = still->window;
	return oldest;
}

void ky_still_begin(struct ky_still_threads *still, uint64_t series)
{
	still->window++;
	for (uint32_t i = 0; i < KY_STILL_MAX; i++) {
		struct ky_still_thread *thread = &still->threads[i];
		struct counts counts;

		if (!thread->tid)
			continue;
		counts = read_counts(thread->fd);
		if (counts.cpu_ns == UINT64_MAX) { /* it has ended */
			drop(thread);
			continue;
		}
		thread->cpu_ns = counts.cpu_ns;
		thread->delay_ns = counts.delay_ns;
		thread->run_count = counts.run_count;
		thread->sums = (struct ky_switch_sums){.series = series};
		thread->has_sums = true;
	}
}

/* The letter after the name, which may hold anything. */
static char state_of(const struct ky_still_thread *thread)
{
	char path[64], text[512], *end;
	ssize_t bytes;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", thread->pid, thread->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return 0;
	text[bytes] = '\0';
	end = strrchr(text, ')');
	return end && end[1] == ' ' ? end[2] : 0;
}

bool ky_still_is_still(const struct ky_still_thread *thread, uint8_t *reason)
{
	char state;

	if (!thread->tid || thread->cpu_ns == UINT64_MAX ||
	    read_counts(thread->fd).cpu_ns != thread->cpu_ns)
		return false;
	state = state_of(thread);
	*reason = state == 'R' ? KY_OFF_CPU_PREEMPTED : KY_OFF_CPU_SYSCALL;
	return state == 'R' || state == 'S' || state == 'D';
}

bool ky_still_waits(const struct ky_still_thread *thread)
{
	char state = state_of(thread);

	return state == 'S' || state == 'D';
}

bool ky_still_grow(struct ky_still_thread *thread, const struct ky_switch_sums *sums,
		   struct ky_still_growth *out)
{
	struct counts counts = read_counts(thread->fd);
	const struct ky_still_thread was = *thread;

	thread->has_sums = counts.cpu_ns != UINT64_MAX;
	thread->delay_ns = counts.delay_ns;
	thread->run_count = counts.run_count;
	thread->sums = *sums;
	if (!thread->has_sums || !was.has_sums || was.sums.series != sums->series)
		return false;
	out->delay_ns = counts.delay_ns - was.delay_ns;
	out->sums.in_count = sums->in_count - was.sums.in_count;
	out->sums.waited_ns = sums->waited_ns - was.sums.waited_ns;
	out->sums.preempted_ns = sums->preempted_ns - was.sums.preempted_ns;
	return counts.run_count - was.run_count == out->sums.in_count;
}

void ky_still_bound(const struct ky_still_growth *growth, struct ky_switch_interval *interval)
{
	const struct ky_switch_sums *sums = &growth->sums;
	uint64_t length = interval->end_ns - interval->begin_ns, most, least;
	uint64_t slack = sums->in_count * SLACK_NS + growth->delay_ns / CLOCKS_INVERSE;
	uint64_t others = sums->waited_ns > length ? sums->waited_ns - length : 0;
	uint64_t rest = growth->delay_ns > sums->preempted_ns ?
				growth->delay_ns - sums->preempted_ns :
				0;

	if (!sums->in_count || interval->reason == KY_OFF_CPU_PREEMPTED ||
	    interval->flags & KY_SWITCH_END_UNSEEN ||
	    interval->runnable_min_ns == interval->runnable_max_ns)
		return;
	/* More than there was room for: it was ready before the window already. */
	most = rest + slack < length ? rest + slack : length;
	least = rest > others + slack ? rest - others - slack : 0;
	interval->runnable_max_ns = most;
	interval->runnable_min_ns = least < most ? least : most;
}
