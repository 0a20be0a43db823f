/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <cli/still_threads.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wire/sample_area.h>

void ky_still_init(struct ky_still_threads *still)
{
	memset(still, 0, sizeof(*still));
	for (uint32_t i = 0; i < KY_STILL_MAX; i++)
		still->threads[i].fd = -1;
}

static void drop(struct ky_still_thread *thread)
{
	if (thread->fd >= 0)
		close(thread->fd);
	*thread = (struct ky_still_thread){.fd = -1};
}

void ky_still_release(struct ky_still_threads *still)
{
	for (uint32_t i = 0; i < KY_STILL_MAX; i++)
		drop(&still->threads[i]);
}

/* The first number of the file: nanoseconds on a processor. */
static uint64_t read_cpu(int fd)
{
	char text[64];
	ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);

	if (bytes <= 0)
		return UINT64_MAX;
	text[bytes] = '\0';
	return strtoull(text, NULL, 10);
}

void ky_still_note(struct ky_still_threads *still, uint32_t pid, uint32_t tid)
{
	struct ky_still_thread *oldest = &still->threads[0];
	char path[64];

	for (uint32_t i = 0; i < KY_STILL_MAX; i++) {
		struct ky_still_thread *thread = &still->threads[i];

		if (thread->tid == tid && thread->pid == pid) {
			thread->used = still->window;
			return;
		}
		if (oldest->tid && (!thread->tid || thread->used < oldest->used))
			oldest = thread;
	}
	/* All of them were seen just now: whoever came first stays. */
	if (oldest->tid && oldest->used == still->window)
		return;
	drop(oldest);
	(void)snprintf(path, sizeof(path), "/proc/%u/task/%u/schedstat", pid, tid);
	oldest->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (oldest->fd < 0)
		return;
	oldest->pid = pid;
	oldest->tid = tid;
	oldest->cpu_ns = UINT64_MAX;
	oldest->used = still->window;
}

void ky_still_begin(struct ky_still_threads *still)
{
	still->window++;
	for (uint32_t i = 0; i < KY_STILL_MAX; i++) {
		struct ky_still_thread *thread = &still->threads[i];

		if (!thread->tid)
			continue;
		thread->cpu_ns = read_cpu(thread->fd);
		if (thread->cpu_ns == UINT64_MAX) /* it has ended */
			drop(thread);
	}
}

/* The letter behind the name, which may hold anything. */
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

	if (!thread->tid || thread->cpu_ns == UINT64_MAX || read_cpu(thread->fd) != thread->cpu_ns)
		return false;
	state = state_of(thread);
	*reason = state == 'R' ? KY_OFF_CPU_PREEMPTED : KY_OFF_CPU_SYSCALL;
	return state == 'R' || state == 'S' || state == 'D';
}
