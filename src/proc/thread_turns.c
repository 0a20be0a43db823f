/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <proc/thread_turns.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_BYTES 96

/* "CPU-ns delay-ns turns\n". */
static bool read_turns(int tasks, const char *tid, uint64_t *turns)
{
	char path[64], text[LINE_BYTES], *at = text;
	ssize_t bytes;
	int fd;

	(void)snprintf(path, sizeof(path), "%.20s/schedstat", tid);
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return false;
	text[bytes] = 0;
	for (int i = 0; i < 2; i++) {
		char *end;

		(void)strtoull(at, &end, 10);
		if (end == at)
			return false;
		at = end;
	}
	*turns = strtoull(at, NULL, 10);
	return true;
}

bool ky_thread_turns(const char *proc, uint32_t pid, uint64_t *turns)
{
	uint64_t sum = 0, one, all = 0, read_count = 0;
	struct dirent *entry;
	char path[128];
	DIR *tasks;

	(void)snprintf(path, sizeof(path), "%.64s/%u/task", proc, pid);
	tasks = opendir(path);
	if (!tasks)
		return false;
	while ((entry = readdir(tasks)) != NULL) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		all++;
		if (read_count == KY_THREAD_TURNS_MAX ||
		    !read_turns(dirfd(tasks), entry->d_name, &one))
			continue;
		read_count++;
		sum += one;
	}
	closedir(tasks);
	*turns = read_count ? sum / read_count * all + sum % read_count * all / read_count : 0;
	return read_count != 0;
}
