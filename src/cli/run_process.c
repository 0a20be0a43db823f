/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/run_process.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fields of proc(5), counted from the one behind the command's closing parenthesis. */
enum {
	FIELD_STATE = 0,
	FIELD_NUM_THREADS = 17,
	FIELD_START_TIME = 19
};

bool ky_run_process_stat_is_alive(const char *text, uint64_t start_ticks)
{
	/* The command may hold blanks and parentheses itself: the last one closes it. */
	const char *at = strrchr(text, ')');
	uint64_t threads = 0, start = 0;
	char state = 'X';
	int field;

	if (at == NULL)
		return false;
	for (field = 0; field <= FIELD_START_TIME; field++) {
		at = strchr(at, ' ');
		if (at == NULL)
			return false;
		at++;
		if (field == FIELD_STATE)
			state = *at;
		else if (field == FIELD_NUM_THREADS)
			threads = strtoull(at, NULL, 10);
		else if (field == FIELD_START_TIME)
			start = strtoull(at, NULL, 10);
	}
	if (start != start_ticks || state == 'X')
		return false;
	/* A zombie leader whose other threads go on is a living process. */
	return state != 'Z' || threads > 1;
}

bool ky_run_process_is_alive(uint32_t pid, uint64_t start_ticks)
{
	char path[64], text[1024];
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return false;
	text[bytes] = '\0';
	return ky_run_process_stat_is_alive(text, start_ticks);
}
