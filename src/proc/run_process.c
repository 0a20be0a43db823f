/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <proc/run_process.h>

#include <base/first_line.h>
#include <base/testpoint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Fields of proc(5), counted from the one after the command's closing parenthesis. */
enum {
	FIELD_STATE = 0,
	FIELD_FLAGS = 6,
	FIELD_NUM_THREADS = 17,
	FIELD_START_TIME = 19,
	FIELD_ENV_START = 47,
	FIELD_ENV_END = 48
};

#define FLAG_KERNEL_THREAD UINT64_C(0x00200000) /* PF_KTHREAD */
#define ENDED_MAX 4096u
#define YOUNG_NS UINT64_C(500000000)
#define NUMBERS_MIN 32768u
#define WALKS_MAX 8u
#define WANTED_BYTES 40u
/* So many numbers are asked one by one: /proc lists all processes, most of them older. */
#define NUMBERS_ASKED 256u

struct process_status {
	char state;
	uint64_t flags, threads, start;
	uint64_t variables, variables_end; /* addresses; 0: of an exec that is under way, too */
};

static bool parse_stat(const char *text, struct process_status *out)
{
	/* The command may hold blanks and parentheses itself: the last one closes it. */
	const char *at = strrchr(text, ')');
	int field;

	for (field = 0; at != NULL && field <= FIELD_ENV_END; field++) {
		at = strchr(at, ' ');
		if (at == NULL)
			break;
		at++;
		if (field == FIELD_STATE)
			out->state = *at;
		else if (field == FIELD_FLAGS)
			out->flags = strtoull(at, NULL, 10);
		else if (field == FIELD_NUM_THREADS)
			out->threads = strtoull(at, NULL, 10);
		else if (field == FIELD_START_TIME)
			out->start = strtoull(at, NULL, 10);
		else if (field == FIELD_ENV_START)
			out->variables = strtoull(at, NULL, 10);
		else if (field == FIELD_ENV_END)
			out->variables_end = strtoull(at, NULL, 10);
	}
	return field > FIELD_START_TIME;
}

/* A zombie leader whose other threads continue is a living process. */
static bool has_ended(const struct process_status *status)
{
	return status->state == 'X' || (status->state == 'Z' && status->threads <= 1);
}

bool ky_run_process_stat_is_alive(const char *text, uint64_t start_ticks)
{
	struct process_status status = {0};

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

bool ky_run_process_is_zombie(uint32_t pid)
{
	struct process_status status = {0};
	char text[1024];

	return read_stat(pid, text, sizeof(text)) && parse_stat(text, &status) &&
	       has_ended(&status);
}

/* Is "KYMO_SESSION=..." one of the variables? They stand one after the other, each ended by a NUL.
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

/* ---- all of them ---- */

enum sight {
	OTHER,
	OURS,
	UNKNOWN /* may have been, or may become, one of ours */
};

/* Seen to have ended. A walk that begins after that still meets their children. */
struct ended {
	uint32_t count;
	struct {
		uint32_t pid;
		uint64_t start;
	} list[ENDED_MAX];
};

/* In an earlier walk; else it is known from now on. */
static bool had_ended(struct ended *ended, uint32_t pid, uint64_t start)
{
	for (uint32_t i = 0; ended != NULL && i < ended->count; i++)
		if (ended->list[i].pid == pid && ended->list[i].start == start)
			return true;
	if (ended != NULL && ended->count < ENDED_MAX) {
		ended->list[ended->count].pid = pid;
		ended->list[ended->count++].start = start;
	}
	return false;
}

bool ky_run_process_stat_has_no_variables(const char *text)
{
	struct process_status status = {0};

	return parse_stat(text, &status) &&
	       ((status.flags & FLAG_KERNEL_THREAD) != 0 ||
		(status.variables != 0 && status.variables == status.variables_end));
}

/* It shows no variables: it has none, is about to get them, or has ended. */
static enum sight check_stat(uint32_t pid, struct ended *ended)
{
	struct process_status status = {0};
	char text[1024];

	if (!read_stat(pid, text, sizeof(text)) || !parse_stat(text, &status))
		return UNKNOWN;
	if (has_ended(&status) || status.state == 'Z')
		return had_ended(ended, pid, status.start) ? OTHER : UNKNOWN;
	return ky_run_process_stat_has_no_variables(text) ? OTHER : UNKNOWN;
}

/* By its variables. UNKNOWN: it shows none; *error why. */
static enum sight read_variables(uint32_t pid, const char *wanted, int *error)
{
	static char variables[128 << 10];
	size_t used = 0;
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	*error = fd < 0 ? errno : 0;
	if (*error == EACCES || *error == EPERM)
		return OTHER;
	while (fd >= 0 && used < sizeof(variables) &&
	       (got = read(fd, variables + used, sizeof(variables) - used)) > 0)
		used += (size_t)got;
	if (fd >= 0)
		close(fd);
	if (used == 0)
		return UNKNOWN;
	return has_session(variables, used, wanted) ? OURS : OTHER;
}

static enum sight look_at(const char *name, const char *wanted, struct ended *ended)
{
	uint32_t pid = (uint32_t)strtoul(name, NULL, 10);
	int error;
	enum sight sight = read_variables(pid, wanted, &error);

	return sight == UNKNOWN ? check_stat(pid, ended) : sight;
}

/* One that has ended has left its children higher numbers, which are looked at after it. */
static enum sight look_at_number(uint32_t pid, const char *wanted)
{
	struct process_status status = {0};
	char text[1024];
	int error;
	enum sight sight = read_variables(pid, wanted, &error);

	if (sight != UNKNOWN)
		return sight;
	if (error == ENOENT || !read_stat(pid, text, sizeof(text)) || !parse_stat(text, &status) ||
	    has_ended(&status) || status.state == 'Z' || ky_run_process_stat_has_no_variables(text))
		return OTHER;
	return UNKNOWN;
}

static void put_wanted(char *out, uint64_t session)
{
	snprintf(out, WANTED_BYTES, "KYMO_SESSION=%016llx", (unsigned long long)session);
}

/* visit: false ends the walk. */
typedef bool (*visit_fn)(void *ctx, const char *pid);

/* Returns false when it may have missed one: a process that ends once it is listed, and before it
 * is read, may leave a child that is not listed. ended: NULL where that does not matter. */
static bool walk(uint64_t session, uint32_t first, struct ended *ended, visit_fn visit, void *ctx)
{
	DIR *stream = opendir("/proc");
	bool is_going = true, is_sure = true;
	struct dirent *entry;
	char wanted[WANTED_BYTES];

	put_wanted(wanted, session);
	while (stream != NULL && is_going && (entry = readdir(stream)) != NULL) {
		enum sight sight;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
		    strtoul(entry->d_name, NULL, 10) < first)
			continue;
		KY_TESTPOINT("process.listed");
		sight = look_at(entry->d_name, wanted, ended);
		is_sure = is_sure && sight != UNKNOWN;
		is_going = sight != OURS || visit(ctx, entry->d_name);
	}
	if (stream != NULL)
		closedir(stream);
	return is_sure;
}

/* The number that was given last. They come in the order of /proc, until they begin anew. */
static uint64_t newest_pid(void)
{
	char text[128];
	const char *at;

	(void)ky_read_first_line("/proc/loadavg", text, sizeof(text));
	at = strrchr(text, ' ');
	return at != NULL ? strtoull(at, NULL, 10) : 0;
}

static bool note(void *ctx, const char *pid)
{
	(void)pid;
	*(bool *)ctx = true;
	return false;
}

uint32_t ky_run_process_first(uint32_t pid, uint64_t age_ns)
{
	char text[32];

	if (age_ns > YOUNG_NS || newest_pid() < pid)
		return 0;
	/* So many processes are not made in that time. */
	(void)ky_read_first_line("/proc/sys/kernel/pid_max", text, sizeof(text));
	return strtoull(text, NULL, 10) >= NUMBERS_MIN ? pid : 0;
}

/* From `first` up to the newest, also of those that come meanwhile. UNKNOWN: of some it is not
 * known yet, or they are too many. */
static enum sight look_at_numbers(uint64_t session, uint32_t first)
{
	enum sight all = OTHER;
	char wanted[WANTED_BYTES];
	uint64_t next = first, newest;

	put_wanted(wanted, session);
	while ((newest = newest_pid()) >= next) {
		if (newest - first >= NUMBERS_ASKED)
			return UNKNOWN;
		for (; next <= newest; next++) {
			enum sight sight = look_at_number((uint32_t)next, wanted);

			if (sight == OURS)
				return OURS;
			all = sight == UNKNOWN ? UNKNOWN : all;
		}
	}
	/* They may have begun anew. */
	return newest >= first ? all : UNKNOWN;
}

bool ky_run_process_of_session_exists(uint64_t session, uint32_t first)
{
	static struct ended ended;
	bool is_found = false;
	enum sight sight = first ? look_at_numbers(session, first) : UNKNOWN;

	if (sight != UNKNOWN)
		return sight == OURS;
	ended.count = 0;
	for (uint32_t i = 0; i < WALKS_MAX; i++) {
		uint64_t pid = newest_pid();
		bool is_sure = walk(session, first, &ended, note, &is_found);

		if (is_found || (is_sure && newest_pid() >= pid))
			return is_found;
	}
	return true; /* it is not known yet */
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

static void pass_on(void *ctx, int fd, const char *path)
{
	const struct ring_search *search = ctx;

	(void)path;
	search->found(search->ctx, fd);
}

static bool open_anonymous_rings(void *ctx, const char *pid)
{
	ky_run_process_anonymous_rings_of((uint32_t)strtoul(pid, NULL, 10), O_RDWR, pass_on, ctx);
	return true;
}

void ky_run_process_anonymous_rings(uint64_t session, ky_run_ring_fn found, void *ctx)
{
	struct ring_search search = {found, ctx};

	(void)walk(session, 0, NULL, open_anonymous_rings, &search);
}

uint64_t ky_run_process_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}
