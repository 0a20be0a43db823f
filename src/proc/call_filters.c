/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <proc/call_filters.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STATUS_BYTES 4096u
#define PATH_BYTES 64u

static int number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? (int)strtol(at + strlen(key), NULL, 10) : -1;
}

static int filters_of(int process, const char *path)
{
	char text[STATUS_BYTES];
	int fd = openat(process, path, O_RDONLY | O_CLOEXEC), count;
	ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (bytes <= 0)
		return -1;
	text[bytes] = '\0';
	count = number_after(text, "\nSeccomp_filters:");
	return count >= 0 ? count : number_after(text, "\nSeccomp:");
}

static int most_of_threads(int process)
{
	int fd = openat(process, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), most = -1;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!stream) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while ((entry = readdir(stream)) != NULL) {
		char path[PATH_BYTES];
		int count;

		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "task/%.16s/status", entry->d_name);
		count = filters_of(process, path);
		if (count > most)
			most = count;
	}
	closedir(stream);
	return most;
}

int ky_call_filters(int process, bool all_threads)
{
	return all_threads ? most_of_threads(process) : filters_of(process, "status");
}
