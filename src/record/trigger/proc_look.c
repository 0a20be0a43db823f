/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/trigger/proc_look.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 64u
#define NANOSECONDS UINT64_C(1000000000)

/* The whole of a small file as text. Returns its bytes or -errno. */
static int read_text(int dir, const char *path, char *out, size_t out_bytes)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t count;
	int err;

	if (fd < 0)
		return -errno;
	do
		count = pread(fd, out, out_bytes - 1, 0);
	while (count < 0 && errno == EINTR);
	err = errno;
	close(fd);
	if (count < 0)
		return -err;
	out[count] = 0;
	return (int)count;
}

/* ---- cgroup ---- */

static const char *throttled_key(const struct ky_proc_look *look)
{
	return look->is_cgroup_v1 ? "throttled_time " : "throttled_usec ";
}

static bool read_throttled(const struct ky_proc_look *look, const char *path, uint64_t *ns)
{
	const char *key = throttled_key(look), *at;
	char text[1024];

	if (read_text(AT_FDCWD, path, text, sizeof(text)) < 0)
		return false;
	at = strstr(text, key);
	if (!at)
		return false;
	*ns = strtoull(at + strlen(key), NULL, 10) * (look->is_cgroup_v1 ? 1 : 1000);
	return true;
}

/* The folders from the process's own upwards that count throttling. */
static void add_levels(struct ky_proc_look *look, const char *mount, const char *hierarchy,
		       const char *from, size_t bytes)
{
	while (bytes && look->cgroup_levels < KY_CGROUP_LEVELS) {
		char *path = look->cgroup_path[look->cgroup_levels];
		uint64_t ns;
		int count = snprintf(path, KY_CGROUP_PATH_BYTES, "%s%s%.*s/cpu.stat", mount,
				     hierarchy, (int)bytes, from);

		if (count > 0 && (size_t)count < KY_CGROUP_PATH_BYTES &&
		    read_throttled(look, path, &ns))
			look->cgroup_levels++;
		do
			bytes--;
		while (bytes && from[bytes] != '/');
	}
}

static bool has_controller(const char *list, size_t bytes, const char *name)
{
	size_t name_bytes = strlen(name);

	while (bytes) {
		const char *comma = memchr(list, ',', bytes);
		size_t count = comma ? (size_t)(comma - list) : bytes;

		if (count == name_bytes && memcmp(list, name, count) == 0)
			return true;
		count += comma != NULL;
		list += count;
		bytes -= count;
	}
	return false;
}

/* One line of /proc/PID/cgroup, "0::/a/b" or "4:cpu,cpuacct:/a/b". */
static void take_line(struct ky_proc_look *look, const char *mount, const char *line, size_t bytes)
{
	const char *list = memchr(line, ':', bytes), *end = line + bytes, *path;

	if (!list)
		return;
	list++;
	path = memchr(list, ':', (size_t)(end - list));
	/* A path out of our namespace leads nowhere. */
	if (!path || end - path < 2 || path[1] != '/' || strncmp(path + 1, "/..", 3) == 0)
		return;
	if (path == list) {
		add_levels(look, mount, "", path + 1, (size_t)(end - path - 1));
		if (!look->cgroup_levels)
			add_levels(look, mount, "/unified", path + 1, (size_t)(end - path - 1));
	} else if (has_controller(list, (size_t)(path - list), "cpu")) {
		look->is_cgroup_v1 = true;
		add_levels(look, mount, "/cpu", path + 1, (size_t)(end - path - 1));
		if (!look->cgroup_levels)
			add_levels(look, mount, "/cpu,cpuacct", path + 1, (size_t)(end - path - 1));
		look->is_cgroup_v1 = look->cgroup_levels > 0;
	}
}

static void find_cgroup(struct ky_proc_look *look, const char *mount)
{
	char text[2048];
	int count = read_text(look->dir, "cgroup", text, sizeof(text));
	const char *line = text, *end = text + (count > 0 ? count : 0);

	while (line < end && !look->cgroup_levels) {
		size_t bytes = strcspn(line, "\n");

		take_line(look, mount, line, bytes);
		line += bytes + 1;
	}
}

bool ky_proc_look_throttled(const struct ky_proc_look *look, uint64_t ns[KY_CGROUP_LEVELS])
{
	bool any = false;

	memset(ns, 0, KY_CGROUP_LEVELS * sizeof(*ns));
	for (uint32_t i = 0; i < look->cgroup_levels; i++)
		any |= read_throttled(look, look->cgroup_path[i], &ns[i]);
	return any;
}

/* ---- the process ---- */

/* Whether there is a /proc here at all: then a process that is not in it is not there. */
static bool has_proc(const char *proc)
{
	char path[256];

	return snprintf(path, sizeof(path), "%s/self", proc) < (int)sizeof(path) &&
	       access(path, F_OK) == 0;
}

static bool is_in_other_namespace(const char *proc, uint64_t pid_namespace)
{
	char path[256], link[64];
	ssize_t count;

	if (!pid_namespace)
		return false;
	if (snprintf(path, sizeof(path), "%s/self/ns/pid", proc) >= (int)sizeof(path))
		return false;
	count = readlink(path, link, sizeof(link) - 1);
	if (count <= 5)
		return false;
	link[count] = 0;
	return strncmp(link, "pid:[", 5) == 0 && strtoull(link + 5, NULL, 10) != pid_namespace;
}

void ky_proc_look_open(struct ky_proc_look *look, const char *proc, const char *cgroup,
		       uint32_t pid, uint64_t pid_namespace)
{
	char path[512];
	long ticks = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
	int count;

	memset(look, 0, sizeof(*look));
	proc = proc ? proc : "/proc";
	look->clock_tick_ns = NANOSECONDS / (ticks > 0 ? (uint64_t)ticks : 100);
	look->page_bytes = page > 0 ? (uint64_t)page : 4096;
	if (pid)
		count = snprintf(path, sizeof(path), "%s/%u", proc, pid);
	else
		count = snprintf(path, sizeof(path), "%s/self", proc);
	look->dir = -1;
	if (count > 0 && (size_t)count < sizeof(path))
		look->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	look->is_foreign = is_in_other_namespace(proc, pid_namespace);
	look->is_missing = look->dir < 0 && !look->is_foreign && has_proc(proc);
	if (look->dir >= 0)
		find_cgroup(look, cgroup ? cgroup : "/sys/fs/cgroup");
}

void ky_proc_look_close(struct ky_proc_look *look)
{
	if (look->dir >= 0)
		close(look->dir);
	look->dir = -1;
}

/* Fields of a stat line behind the name, which may hold anything: field 3 is the first. */
static bool find_field(const char *text, uint32_t field, const char **out)
{
	const char *at = strrchr(text, ')');

	if (!at || at[1] != ' ')
		return false;
	at += 2;
	for (uint32_t i = 3; i < field; i++) {
		at = strchr(at, ' ');
		if (!at)
			return false;
		at++;
	}
	*out = at;
	return *at != 0;
}

bool ky_proc_look_cpu(const struct ky_proc_look *look, uint64_t *cpu_ns)
{
	const char *user, *kernel;
	char text[1024];

	if (read_text(look->dir, "stat", text, sizeof(text)) < 0 || !find_field(text, 14, &user) ||
	    !find_field(text, 15, &kernel))
		return false;
	*cpu_ns = (strtoull(user, NULL, 10) + strtoull(kernel, NULL, 10)) * look->clock_tick_ns;
	return true;
}

bool ky_proc_look_rss(const struct ky_proc_look *look, uint64_t *bytes)
{
	char text[256], *at;

	if (read_text(look->dir, "statm", text, sizeof(text)) < 0)
		return false;
	at = strchr(text, ' ');
	if (!at)
		return false;
	*bytes = strtoull(at + 1, NULL, 10) * look->page_bytes;
	return true;
}

enum ky_proc_life ky_proc_look_life(const struct ky_proc_look *look)
{
	const char *state, *threads;
	char text[1024];
	int count;

	if (look->dir < 0)
		return look->is_missing ? KY_PROC_GONE : KY_PROC_UNKNOWN;
	count = read_text(look->dir, "stat", text, sizeof(text));
	if (count == -ESRCH || count == -ENOENT)
		return KY_PROC_GONE;
	if (count < 0 || !find_field(text, 3, &state))
		return KY_PROC_UNKNOWN;
	if (*state == 'T' || *state == 't')
		return KY_PROC_STOPPED;
	/* A first thread that has ended is a zombie while the others go on. */
	if ((*state == 'Z' || *state == 'X') &&
	    (!find_field(text, 20, &threads) || strtoull(threads, NULL, 10) <= 1))
		return KY_PROC_GONE;
	return KY_PROC_RUNS;
}

/* ---- one thread ---- */

static int read_of_thread(const struct ky_proc_look *look, uint32_t tid, const char *name,
			  char *out, size_t out_bytes)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "task/%u/%s", tid, name);
	return read_text(look->dir, path, out, out_bytes);
}

/* "running"; "-1 SP PC"; "NUMBER ARGUMENT.. SP PC". */
static void take_syscall(const char *text, struct ky_stuck_note *note)
{
	const char *pc = strrchr(text, ' '), *sp = pc;
	char *end;
	long number = strtol(text, &end, 10);

	note->syscall = -1;
	if (end == text || !pc || number < -1 || number > INT32_MAX)
		return;
	while (sp > text && sp[-1] != ' ')
		sp--;
	note->syscall = (int32_t)number;
	note->sp = strtoull(sp, NULL, 16);
	note->pc = strtoull(pc + 1, NULL, 16);
}

bool ky_proc_look_thread(const struct ky_proc_look *look, uint32_t tid, struct ky_stuck_note *note)
{
	const char *state;
	char text[1024];
	int count;

	note->tid = tid;
	note->state = '?';
	note->syscall = -2;
	note->pc = note->sp = 0;
	note->wchan[0] = 0;
	note->frame_count = note->guessed_count = 0;
	note->is_truncated = false;
	if (look->dir < 0 || look->is_foreign)
		return true;
	count = read_of_thread(look, tid, "stat", text, sizeof(text));
	if (count == -ENOENT || count == -ESRCH)
		return false;
	if (count > 0 && find_field(text, 3, &state) && *state > ' ' && *state <= '~')
		note->state = *state;
	count = read_of_thread(look, tid, "syscall", text, sizeof(text));
	if (count > 0)
		take_syscall(text, note);
	count = read_of_thread(look, tid, "wchan", text, sizeof(text));
	for (int i = 0; i < count && i < (int)sizeof(note->wchan) - 1; i++) {
		bool is_text = text[i] > ' ' && text[i] <= '~';

		note->wchan[i] = is_text ? text[i] : 0;
		note->wchan[i + 1] = 0;
		if (!is_text)
			break;
	}
	return true;
}

bool ky_proc_look_stands(const struct ky_proc_look *look, uint32_t tid,
			 const struct ky_stuck_note *note)
{
	struct ky_stuck_note now;
	char text[1024];

	now.pc = now.sp = 0;
	if (!note->sp || read_of_thread(look, tid, "syscall", text, sizeof(text)) <= 0)
		return false;
	take_syscall(text, &now);
	return now.sp == note->sp && now.pc == note->pc && now.syscall == note->syscall;
}

bool ky_proc_look_run_delay(struct ky_proc_look *look, uint32_t tid, uint32_t *file,
			    uint64_t *delay_ns)
{
	char path[PATH_BYTES], text[128], *at;
	ssize_t count;

	if (look->dir < 0 || look->is_foreign)
		return false;
	if (!*file && look->sched_files < KY_SCHED_FILES_MAX) {
		int fd;

		snprintf(path, sizeof(path), "task/%u/schedstat", tid);
		fd = openat(look->dir, path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return false;
		*file = (uint32_t)fd + 1;
		look->sched_files++;
	}
	if (*file) {
		count = pread((int)*file - 1, text, sizeof(text) - 1, 0);
		if (count <= 0) {
			ky_proc_look_forget(look, file);
			return false;
		}
		text[count] = 0;
	} else if (read_of_thread(look, tid, "schedstat", text, sizeof(text)) < 0) {
		return false;
	}
	at = strchr(text, ' ');
	if (!at)
		return false;
	*delay_ns = strtoull(at + 1, NULL, 10);
	return true;
}

void ky_proc_look_forget(struct ky_proc_look *look, uint32_t *file)
{
	if (!*file)
		return;
	close((int)*file - 1);
	*file = 0;
	look->sched_files--;
}

static bool read_count(const char *text, const char *key, uint64_t *out)
{
	const char *at = strstr(text, key);

	if (!at)
		return false;
	*out = strtoull(at + strlen(key), NULL, 10);
	return true;
}

bool ky_proc_look_counts(const struct ky_proc_look *look, uint32_t tid, struct ky_thread_cpu *out)
{
	char text[3072], *at;

	memset(out, 0, sizeof(*out));
	out->tid = tid;
	if (look->dir < 0 || look->is_foreign ||
	    read_of_thread(look, tid, "schedstat", text, sizeof(text)) <= 0)
		return false;
	out->cpu_ns = strtoull(text, &at, 10);
	if (at == text || *at != ' ')
		return false;
	out->run_delay_ns = strtoull(at, NULL, 10);
	out->has_switches = read_of_thread(look, tid, "status", text, sizeof(text)) > 0 &&
			    read_count(text, "\nvoluntary_ctxt_switches:", &out->voluntary) &&
			    read_count(text, "\nnonvoluntary_ctxt_switches:", &out->involuntary);
	return true;
}
