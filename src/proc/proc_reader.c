/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <proc/proc_reader.h>

#include <base/kept_fd.h>
#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 64u
#define NANOSECONDS UINT64_C(1000000000)

/* ---- cgroup ---- */

static bool read_throttled(const char *path, bool is_v1, uint64_t *ns)
{
	char text[1024];

	if (ky_cgroup_read(path, "cpu.stat", text, sizeof(text)) < 0 ||
	    !ky_proc_number(text, is_v1 ? "throttled_time" : "throttled_usec", ns))
		return false;
	*ns *= is_v1 ? 1 : 1000;
	return true;
}

static bool counts_throttling(const char *path, bool is_v1)
{
	uint64_t ns;

	return read_throttled(path, is_v1, &ns);
}

bool ky_proc_reader_throttled(const struct ky_proc_reader *reader, uint64_t ns[KY_CGROUP_LEVELS])
{
	bool any = false;

	memset(ns, 0, KY_CGROUP_LEVELS * sizeof(*ns));
	for (uint32_t i = 0; i < reader->cgroup.levels; i++)
		any |= read_throttled(reader->cgroup.path[i], reader->cgroup.is_v1, &ns[i]);
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

void ky_proc_reader_open(struct ky_proc_reader *reader, const char *proc, const char *cgroup,
			 uint32_t pid, uint64_t pid_namespace)
{
	char path[512];
	long ticks = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
	int count;

	memset(reader, 0, sizeof(*reader));
	proc = proc ? proc : "/proc";
	reader->clock_tick_ns = NANOSECONDS / (ticks > 0 ? (uint64_t)ticks : 100);
	reader->page_bytes = page > 0 ? (uint64_t)page : 4096;
	if (pid)
		count = snprintf(path, sizeof(path), "%s/%u", proc, pid);
	else
		count = snprintf(path, sizeof(path), "%s/self", proc);
	reader->dir = -1;
	reader->pid = strcmp(proc, "/proc") == 0 ? pid : 0;
	if (count > 0 && (size_t)count < sizeof(path))
		reader->dir = ky_kept_fd_note(open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
	reader->is_foreign = is_in_other_namespace(proc, pid_namespace);
	reader->is_missing = reader->dir < 0 && !reader->is_foreign && has_proc(proc);
	if (reader->dir >= 0)
		ky_cgroup_find(&reader->cgroup, reader->dir, cgroup, "cpu", counts_throttling);
}

void ky_proc_reader_close(struct ky_proc_reader *reader)
{
	ky_kept_fd_close(reader->dir);
	reader->dir = -1;
}

/* Fields of a stat line after the name, which may hold anything: field 3 is the first. */
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

static uint64_t number_at(const char *text, uint32_t field)
{
	const char *at;

	return find_field(text, field, &at) ? strtoull(at, NULL, 10) : 0;
}

static bool take_stat(const struct ky_proc_reader *reader, const char *text,
		      struct ky_proc_stat *out)
{
	const char *at;

	if (!find_field(text, 20, &at))
		return false;
	out->minor_faults = number_at(text, 10);
	out->major_faults = number_at(text, 12);
	out->user_ns = number_at(text, 14) * reader->clock_tick_ns;
	out->kernel_ns = number_at(text, 15) * reader->clock_tick_ns;
	out->threads = number_at(text, 20);
	return true;
}

int ky_proc_reader_stat(const struct ky_proc_reader *reader, struct ky_proc_stat *out)
{
	char text[1024];
	int count = ky_proc_read_text(reader->dir, "stat", text, sizeof(text));

	if (count < 0)
		return count;
	return take_stat(reader, text, out) ? 0 : -ENODATA;
}

bool ky_proc_reader_clock(const struct ky_proc_reader *reader, uint64_t *ns)
{
	return !reader->is_foreign && ky_process_cpu_ns(reader->pid, ns);
}

/* To find a file of /proc takes longer than to read it. One that is open stays so: it stays
 * about this process, and says when it is gone. */
static int read_kept(const struct ky_proc_reader *reader, const char *name, uint32_t *file,
		     char *out, size_t out_bytes)
{
	ssize_t count;
	int fd;

	if (!file)
		return ky_proc_read_text(reader->dir, name, out, out_bytes);
	if (!*file) {
		fd = ky_kept_fd_note(openat(reader->dir, name, O_RDONLY | O_CLOEXEC));
		if (fd < 0)
			return -errno;
		*file = (uint32_t)fd + 1;
	}
	do
		count = pread((int)*file - 1, out, out_bytes - 1, 0);
	while (count < 0 && errno == EINTR);
	if (count < 0)
		return -errno;
	out[count] = 0;
	return (int)count;
}

void ky_proc_reader_drop(uint32_t *file)
{
	if (*file)
		ky_kept_fd_close((int)*file - 1);
	*file = 0;
}

bool ky_proc_reader_cpu(const struct ky_proc_reader *reader, uint32_t *file, uint64_t *cpu_ns)
{
	struct ky_proc_stat stat;
	char text[1024];

	if (read_kept(reader, "stat", file, text, sizeof(text)) < 0 ||
	    !take_stat(reader, text, &stat))
		return false;
	*cpu_ns = stat.user_ns + stat.kernel_ns;
	return true;
}

bool ky_proc_reader_rss(const struct ky_proc_reader *reader, uint32_t *file, uint64_t *bytes)
{
	char text[256], *at;

	if (read_kept(reader, "statm", file, text, sizeof(text)) < 0)
		return false;
	at = strchr(text, ' ');
	if (!at)
		return false;
	*bytes = strtoull(at + 1, NULL, 10) * reader->page_bytes;
	return true;
}

enum ky_proc_life ky_proc_reader_life(const struct ky_proc_reader *reader, uint32_t *file)
{
	const char *state, *threads;
	char text[1024];
	int count;

	if (reader->dir < 0)
		return reader->is_missing ? KY_PROC_GONE : KY_PROC_UNKNOWN;
	count = read_kept(reader, "stat", file, text, sizeof(text));
	if (count == -ESRCH || count == -ENOENT)
		return KY_PROC_GONE;
	if (count < 0 || !find_field(text, 3, &state))
		return KY_PROC_UNKNOWN;
	if (*state == 'T' || *state == 't')
		return KY_PROC_STOPPED;
	/* A first thread that has ended is a zombie while the others continue. */
	if ((*state == 'Z' || *state == 'X') &&
	    (!find_field(text, 20, &threads) || strtoull(threads, NULL, 10) <= 1))
		return KY_PROC_GONE;
	return KY_PROC_RUNS;
}

/* ---- one thread ---- */

static int read_of_thread(const struct ky_proc_reader *reader, uint32_t tid, const char *name,
			  char *out, size_t out_bytes)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), "task/%u/%s", tid, name);
	return ky_proc_read_text(reader->dir, path, out, out_bytes);
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

/* CPU time, and time runnable without running. */
static bool read_sched(const struct ky_proc_reader *reader, uint32_t tid, uint64_t *cpu_ns,
		       uint64_t *run_delay_ns)
{
	uint64_t cpu, delay;
	char text[128], *at, *end;

	if (read_of_thread(reader, tid, "schedstat", text, sizeof(text)) <= 0)
		return false;
	cpu = strtoull(text, &at, 10);
	if (at == text || *at != ' ')
		return false;
	delay = strtoull(at, &end, 10);
	if (end == at)
		return false;
	*cpu_ns = cpu;
	*run_delay_ns = delay;
	return true;
}

bool ky_proc_reader_thread(const struct ky_proc_reader *reader, uint32_t tid,
			   struct ky_stuck_note *note)
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
	note->is_truncated = note->has_counts = false;
	note->cpu_ns = note->run_delay_ns = 0;
	if (reader->dir < 0 || reader->is_foreign)
		return true;
	count = read_of_thread(reader, tid, "stat", text, sizeof(text));
	if (count == -ENOENT || count == -ESRCH)
		return false;
	if (count > 0 && find_field(text, 3, &state) && *state > ' ' && *state <= '~')
		note->state = *state;
	count = read_of_thread(reader, tid, "syscall", text, sizeof(text));
	if (count > 0)
		take_syscall(text, note);
	count = read_of_thread(reader, tid, "wchan", text, sizeof(text));
	for (int i = 0; i < count && i < (int)sizeof(note->wchan) - 1; i++) {
		bool is_text = text[i] > ' ' && text[i] <= '~';

		note->wchan[i] = is_text ? text[i] : 0;
		note->wchan[i + 1] = 0;
		if (!is_text)
			break;
	}
	note->has_counts = read_sched(reader, tid, &note->cpu_ns, &note->run_delay_ns);
	return true;
}

bool ky_proc_reader_stands(const struct ky_proc_reader *reader, uint32_t tid,
			   const struct ky_stuck_note *note)
{
	struct ky_stuck_note now;
	char text[1024];

	now.pc = now.sp = 0;
	if (!note->sp || read_of_thread(reader, tid, "syscall", text, sizeof(text)) <= 0)
		return false;
	take_syscall(text, &now);
	return now.sp == note->sp && now.pc == note->pc && now.syscall == note->syscall;
}

bool ky_proc_reader_run_delay(struct ky_proc_reader *reader, uint32_t tid, uint32_t *file,
			      uint64_t *delay_ns)
{
	char path[PATH_BYTES], text[128], *at;
	ssize_t count;

	if (reader->dir < 0 || reader->is_foreign)
		return false;
	if (!*file && reader->sched_files < KY_SCHED_FILES_MAX) {
		int fd;

		snprintf(path, sizeof(path), "task/%u/schedstat", tid);
		fd = ky_kept_fd_note(openat(reader->dir, path, O_RDONLY | O_CLOEXEC));
		if (fd < 0)
			return false;
		*file = (uint32_t)fd + 1;
		reader->sched_files++;
	}
	if (*file) {
		count = pread((int)*file - 1, text, sizeof(text) - 1, 0);
		if (count <= 0) {
			ky_proc_reader_forget(reader, file);
			return false;
		}
		text[count] = 0;
	} else if (read_of_thread(reader, tid, "schedstat", text, sizeof(text)) < 0) {
		return false;
	}
	at = strchr(text, ' ');
	if (!at)
		return false;
	*delay_ns = strtoull(at + 1, NULL, 10);
	return true;
}

void ky_proc_reader_forget(struct ky_proc_reader *reader, uint32_t *file)
{
	if (!*file)
		return;
	ky_kept_fd_close((int)*file - 1);
	*file = 0;
	reader->sched_files--;
}

bool ky_proc_reader_switches(const struct ky_proc_reader *reader, uint32_t tid, uint64_t *voluntary,
			     uint64_t *involuntary)
{
	char text[3072];

	return read_of_thread(reader, tid, "status", text, sizeof(text)) > 0 &&
	       ky_proc_number(text, "voluntary_ctxt_switches:", voluntary) &&
	       ky_proc_number(text, "nonvoluntary_ctxt_switches:", involuntary);
}

bool ky_proc_reader_counts(const struct ky_proc_reader *reader, uint32_t tid,
			   struct ky_thread_cpu *out)
{
	memset(out, 0, sizeof(*out));
	out->tid = tid;
	if (reader->dir < 0 || reader->is_foreign ||
	    !read_sched(reader, tid, &out->cpu_ns, &out->run_delay_ns))
		return false;
	out->has_switches = ky_proc_reader_switches(reader, tid, &out->voluntary,
						    &out->involuntary);
	return true;
}

bool ky_proc_reader_sched(const struct ky_proc_reader *reader, uint32_t tid, uint64_t *cpu_ns,
			  uint64_t *delay_ns)
{
	return reader->dir >= 0 && !reader->is_foreign && read_sched(reader, tid, cpu_ns, delay_ns);
}

void ky_proc_reader_thread_name(const struct ky_proc_reader *reader, uint32_t tid, char *out,
				size_t out_bytes)
{
	char text[64];

	if (read_of_thread(reader, tid, "comm", text, sizeof(text)) <= 0)
		text[0] = 0;
	text[strcspn(text, "\n")] = 0;
	memset(out, 0, out_bytes);
	memcpy(out, text, strnlen(text, out_bytes - 1));
}
