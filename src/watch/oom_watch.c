/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <watch/oom_watch.h>

#include <base/now.h>
#include <proc/run_process.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOG_PATH "/dev/kmsg"
#define RECORD_BYTES 8192u
#define RECORDS_MAX 1000000u
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu /* PROC_PID_INIT_INO: no other file has this number */
/* The message comes after the signal, and a dying process is reaped within a millisecond. */
#define LOG_CHECKS 50
#define LOG_CHECKS_FEW 5 /* nothing points to it: a kill of the whole machine may not be counted */
#define LOG_PAUSE_NS 4000000
#define CHECK_NS UINT64_C(100000000)
/* The count grows before the victim is reaped: its memory is freed in between, late if busy. */
#define RECENT_NS UINT64_C(2000000000)
/* The log's clock is not corrected as CLOCK_MONOTONIC is: 500 parts in a million at most. */
#define DRIFT_SHARE 1000u
#define DRIFT_LEAST_NS UINT64_C(1000000000)

static bool are_pids_ours(void)
{
	return ky_run_process_namespace() == FIRST_PID_NAMESPACE;
}

static int open_log(void)
{
	return are_pids_ours() ? open(LOG_PATH, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
}

uint32_t ky_oom_parse_record(const char *record, uint64_t *at_ns, uint32_t *uid)
{
	const char *text = strchr(record, ';'), *killed, *field = record;
	unsigned long pid;
	char *end;

	for (int i = 0; field != NULL && i < 2; i++) {
		field = strchr(field, ',');
		field = field != NULL ? field + 1 : NULL;
	}
	/* Only the kernel's own records: those that a process wrote have another facility. */
	if (text == NULL || field == NULL || field > text || strtoul(record, NULL, 10) >= 8)
		return 0;
	text++;
	killed = strstr(text, "Killed process ");
	if (killed == NULL || (strncmp(text, "Out of memory", 13) != 0 &&
			       strncmp(text, "Memory cgroup out of memory", 27) != 0))
		return 0;
	pid = strtoul(killed + 15, &end, 10);
	if (*end != ' ' && *end != ',')
		return 0;
	*at_ns = strtoull(field, NULL, 10) * 1000u;
	killed = strstr(end, " UID:");
	*uid = killed != NULL ? (uint32_t)strtoul(killed + 5, NULL, 10) : UINT32_MAX;
	return pid <= INT32_MAX ? (uint32_t)pid : 0;
}

/* The next record that names a process; 0: none any more. */
static uint32_t next_named(int fd, bool *has_hole, uint64_t *at_ns, uint32_t *uid)
{
	static char record[RECORD_BYTES];
	uint32_t pid;

	for (uint32_t i = 0; i < RECORDS_MAX; i++) {
		ssize_t bytes = read(fd, record, sizeof(record) - 1);

		if (bytes < 0 && errno == EPIPE) { /* overwritten: it continues with the oldest */
			*has_hole = true;
			continue;
		}
		if (bytes < 0 && (errno == EINTR || errno == EINVAL))
			continue;
		if (bytes <= 0)
			return 0;
		record[bytes] = '\0';
		pid = ky_oom_parse_record(record, at_ns, uid);
		if (pid != 0)
			return pid;
	}
	return 0;
}

bool ky_oom_log_names(uint32_t pid, uint32_t uid, uint64_t made_ns, uint64_t *at_ns)
{
	uint64_t slack_ns = made_ns / DRIFT_SHARE + DRIFT_LEAST_NS;
	bool has_hole = false, is_named = false;
	uint32_t named, named_uid;
	int fd = open_log();

	if (fd < 0)
		return false;
	while (!is_named && (named = next_named(fd, &has_hole, at_ns, &named_uid)) != 0)
		is_named = named == pid && *at_ns + slack_ns >= made_ns &&
			   (named_uid == uid || named_uid == UINT32_MAX);
	close(fd);
	return is_named;
}

/* ---- the cgroup ---- */

bool ky_oom_parse_cgroup(const char *line, char *out, size_t out_bytes)
{
	const char *names = strchr(line, ':'),
		   *path = names != NULL ? strchr(names + 1, ':') : NULL;
	size_t path_bytes;
	int count;

	if (path == NULL || path[1] != '/')
		return false;
	path_bytes = strcspn(path + 1, "\n");
	if (path == names + 1) /* "0::/path": the second version has one tree */
		count = snprintf(out, out_bytes, "/sys/fs/cgroup%.*s/memory.events.local",
				 (int)path_bytes, path + 1);
	else if (path - names == 7 && strncmp(names, ":memory", 7) == 0)
		count = snprintf(out, out_bytes, "/sys/fs/cgroup/memory%.*s/memory.oom_control",
				 (int)path_bytes, path + 1);
	else
		return false;
	return count > 0 && (size_t)count < out_bytes;
}

/* Where kills of its cgroup are counted; both versions may be there, one of them with memory. */
static bool find_counter(uint32_t pid, char *out, size_t out_bytes)
{
	char name[32], line[640];
	bool is_found = false;
	FILE *file;

	(void)snprintf(name, sizeof(name), "/proc/%u/cgroup", pid);
	file = fopen(name, "re");
	if (file == NULL)
		return false;
	while (!is_found && fgets(line, sizeof(line), file) != NULL)
		is_found = ky_oom_parse_cgroup(line, out, out_bytes) && access(out, R_OK) == 0;
	(void)fclose(file);
	return is_found;
}

static bool read_count(const char *path, uint64_t *out)
{
	char line[128];
	bool is_there = false;
	FILE *file = path[0] != '\0' ? fopen(path, "re") : NULL;

	if (file == NULL)
		return false;
	while (!is_there && fgets(line, sizeof(line), file) != NULL) {
		is_there = strncmp(line, "oom_kill ", 9) == 0;
		if (is_there)
			*out = strtoull(line + 9, NULL, 10);
	}
	(void)fclose(file);
	return is_there;
}

/* ---- one child ---- */

static bool has_grown(const struct ky_oom_watch *watch, uint64_t *count)
{
	return read_count(watch->cgroup_file, count) && *count > watch->counted;
}

/* It may be moved at any time, and a process that ended may be reported in another cgroup than the
 * one it died in: that one is asked first. */
static void snapshot(struct ky_oom_watch *watch, uint64_t now_ns)
{
	char file[sizeof(watch->cgroup_file)];
	uint64_t count = watch->counted;

	watch->checked_ns = now_ns;
	if (has_grown(watch, &count))
		watch->grown_ns = now_ns;
	if (!find_counter(watch->pid, file, sizeof(file)))
		return;
	if (strcmp(file, watch->cgroup_file) == 0) {
		watch->counted = count;
		return;
	}
	memcpy(watch->cgroup_file, file, sizeof(file));
	(void)read_count(file, &watch->counted);
}

void ky_oom_watch_open(struct ky_oom_watch *watch)
{
	memset(watch, 0, sizeof(*watch));
	watch->pid = (uint32_t)getpid();
	watch->log_fd = open_log();
	if (watch->log_fd >= 0 && lseek(watch->log_fd, 0, SEEK_END) < 0) {
		close(watch->log_fd);
		watch->log_fd = -1;
	}
	snapshot(watch, ky_now_ns(CLOCK_MONOTONIC));
}

void ky_oom_watch_child(struct ky_oom_watch *watch, uint32_t pid)
{
	watch->pid = pid;
}

void ky_oom_watch_close(struct ky_oom_watch *watch)
{
	if (watch->log_fd >= 0)
		close(watch->log_fd);
	watch->log_fd = -1;
}

void ky_oom_watch_check(struct ky_oom_watch *watch)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	if (now_ns - watch->checked_ns >= CHECK_NS)
		snapshot(watch, now_ns);
}

static bool has_grown_lately(const struct ky_oom_watch *watch)
{
	uint64_t count;

	return has_grown(watch, &count) ||
	       (watch->grown_ns != 0 && ky_now_ns(CLOCK_MONOTONIC) - watch->grown_ns < RECENT_NS);
}

static bool is_named(struct ky_oom_watch *watch)
{
	uint32_t named, uid;
	uint64_t at_ns;

	while ((named = next_named(watch->log_fd, &watch->has_log_hole, &at_ns, &uid)) != 0)
		if (named == watch->pid)
			return true;
	return false;
}

uint32_t ky_oom_watch_judge(struct ky_oom_watch *watch, int wait_status)
{
	bool is_counted;

	if (!WIFSIGNALED(wait_status) || WTERMSIG(wait_status) != SIGKILL)
		return KY_OOM_NONE;
	is_counted = has_grown_lately(watch);
	if (watch->log_fd < 0)
		return is_counted ? KY_OOM_COUNTED : KY_OOM_NONE;
	for (int i = 0; i < (is_counted ? LOG_CHECKS : LOG_CHECKS_FEW); i++) {
		if (is_named(watch))
			return KY_OOM_NAMED;
		nanosleep(&(const struct timespec){.tv_nsec = LOG_PAUSE_NS}, NULL);
	}
	/* The log was there and names another process, or none. */
	return is_counted && watch->has_log_hole ? KY_OOM_COUNTED : KY_OOM_NONE;
}
