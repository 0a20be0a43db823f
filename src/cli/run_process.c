/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/run_process.h>
#include <dirent.h>
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

/* Is "KYMO_SESSION=..." one of the variables? They stand one behind the other, each ended by a NUL.
 */
static bool has_session(const char *variables, size_t byte_count, const char *wanted)
{
	size_t wanted_bytes = strlen(wanted) + 1;
	const char *at = variables;

	while ((at = memmem(at, byte_count - (size_t)(at - variables), wanted, wanted_bytes)) !=
	       NULL) {
		if (at == variables || at[-1] == '\0')
			return true;
		at++;
	}
	return false;
}

static bool is_of_session(const char *pid, const char *wanted)
{
	static char variables[128 << 10];
	size_t used = 0;
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.20s/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while (used < sizeof(variables) &&
	       (got = read(fd, variables + used, sizeof(variables) - used)) > 0)
		used += (size_t)got;
	close(fd);
	return has_session(variables, used, wanted);
}

bool ky_run_process_of_session_exists(uint64_t session)
{
	DIR *stream = opendir("/proc");
	struct dirent *entry;
	bool is_found = false;
	char wanted[40];

	if (stream == NULL)
		return false;
	snprintf(wanted, sizeof(wanted), "KYMO_SESSION=%016llx", (unsigned long long)session);
	while (!is_found && (entry = readdir(stream)) != NULL)
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
			is_found = is_of_session(entry->d_name, wanted);
	closedir(stream);
	return is_found;
}
