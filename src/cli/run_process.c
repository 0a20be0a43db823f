/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/run_process.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fields of proc(5), counted from the one behind the command's closing parenthesis. */
enum {
	FIELD_STATE = 0,
	FIELD_NUM_THREADS = 17,
	FIELD_START_TIME = 19
};

struct status {
	char state;
	uint64_t threads, start;
};

static bool parse_stat(const char *text, struct status *out)
{
	/* The command may hold blanks and parentheses itself: the last one closes it. */
	const char *at = strrchr(text, ')');
	int field;

	for (field = 0; at != NULL && field <= FIELD_START_TIME; field++) {
		at = strchr(at, ' ');
		if (at == NULL)
			break;
		at++;
		if (field == FIELD_STATE)
			out->state = *at;
		else if (field == FIELD_NUM_THREADS)
			out->threads = strtoull(at, NULL, 10);
		else if (field == FIELD_START_TIME)
			out->start = strtoull(at, NULL, 10);
	}
	return at != NULL;
}

/* A zombie leader whose other threads go on is a living process. */
static bool has_ended(const struct status *status)
{
	return status->state == 'X' || (status->state == 'Z' && status->threads <= 1);
}

bool ky_run_process_stat_is_alive(const char *text, uint64_t start_ticks)
{
	struct status status = {0};

	return parse_stat(text, &status) && status.start == start_ticks && !has_ended(&status);
}

static bool read_stat(uint32_t pid, char *text, size_t text_bytes)
{
	char path[64];
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bytes = read(fd, text, text_bytes - 1);
	close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	return bytes > 0;
}

bool ky_run_process_is_alive(uint32_t pid, uint64_t start_ticks)
{
	char text[1024];

	return read_stat(pid, text, sizeof(text)) &&
	       ky_run_process_stat_is_alive(text, start_ticks);
}

uint64_t ky_run_process_start_ticks(uint32_t pid)
{
	struct status status = {0};
	char text[1024];

	return read_stat(pid, text, sizeof(text)) && parse_stat(text, &status) ? status.start : 0;
}

bool ky_run_process_is_zombie(uint32_t pid)
{
	struct status status = {0};
	char text[1024];

	return read_stat(pid, text, sizeof(text)) && parse_stat(text, &status) &&
	       has_ended(&status);
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

/* visit: false ends the walk. */
typedef bool (*visit_fn)(void *ctx, const char *pid);

static void walk(uint64_t session, visit_fn visit, void *ctx)
{
	DIR *stream = opendir("/proc");
	struct dirent *entry;
	char wanted[40];

	if (stream == NULL)
		return;
	snprintf(wanted, sizeof(wanted), "KYMO_SESSION=%016llx", (unsigned long long)session);
	while ((entry = readdir(stream)) != NULL)
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    is_of_session(entry->d_name, wanted) && !visit(ctx, entry->d_name))
			break;
	closedir(stream);
}

static bool note(void *ctx, const char *pid)
{
	(void)pid;
	*(bool *)ctx = true;
	return false;
}

bool ky_run_process_of_session_exists(uint64_t session)
{
	bool is_found = false;

	walk(session, note, &is_found);
	return is_found;
}

void ky_run_process_anonymous_rings_of(uint32_t pid, int open_flags, ky_run_descriptor_fn found,
				       void *ctx)
{
	char path[320], target[64];
	struct dirent *entry;
	ssize_t bytes;
	DIR *stream;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	stream = opendir(path);
	while (stream != NULL && (entry = readdir(stream)) != NULL) {
		bytes = readlinkat(dirfd(stream), entry->d_name, target, sizeof(target));
		if (bytes < (ssize_t)strlen(KY_RUN_ANONYMOUS_RING) ||
		    memcmp(target, KY_RUN_ANONYMOUS_RING, strlen(KY_RUN_ANONYMOUS_RING)) != 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%u/fd/%s", pid, entry->d_name);
		fd = open(path, open_flags | O_CLOEXEC | O_NONBLOCK);
		if (fd >= 0)
			found(ctx, fd, path);
	}
	if (stream != NULL)
		closedir(stream);
}

struct ring_search {
	ky_run_ring_fn found;
	void *ctx;
};

static void hand_on(void *ctx, int fd, const char *path)
{
	const struct ring_search *search = ctx;

	(void)path;
	search->found(search->ctx, fd);
}

static bool open_anonymous_rings(void *ctx, const char *pid)
{
	ky_run_process_anonymous_rings_of((uint32_t)strtoul(pid, NULL, 10), O_RDWR, hand_on, ctx);
	return true;
}

void ky_run_process_anonymous_rings(uint64_t session, ky_run_ring_fn found, void *ctx)
{
	struct ring_search search = {found, ctx};

	walk(session, open_anonymous_rings, &search);
}

uint64_t ky_run_process_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}
