/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* proc_reader.h - reads /proc and the cgroup of one process, without any privilege. What cannot be
 * read is reported as unreadable, never as an error.
 *
 * The process is held by a descriptor of its folder: another one under the same pid is never taken
 * for it. Threads: owner. Memory: none but the structure.
 */
#ifndef KY_PROC_PROC_READER_H
#define KY_PROC_PROC_READER_H

#include <proc/cgroup_files.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wire/watch_note.h>

#define KY_SCHED_FILES_MAX 128u /* kept open; those of more threads are opened each time */

struct ky_proc_reader {
	int dir;         /* of /proc/PID; -1: unreadable */
	bool is_missing; /* there was no such process when it was opened */
	bool is_foreign; /* its thread ids count in another pid namespace than ours */
	uint32_t pid;    /* of the clock of its CPU time; 0: it has none for us */
	uint64_t clock_tick_ns, page_bytes;
	uint32_t sched_files;
	struct ky_cgroup cgroup; /* with a count of throttling */
};

enum ky_proc_life {
	KY_PROC_UNKNOWN, /* unreadable */
	KY_PROC_RUNS,
	KY_PROC_STOPPED, /* by a signal or a debugger */
	KY_PROC_GONE
};

/* proc, cgroup: NULL for the usual places. pid 0: the calling process. pid_namespace: inode of the
 * namespace in which the thread ids count, 0 unknown. Never fails. */
void ky_proc_reader_open(struct ky_proc_reader *reader, const char *proc, const char *cgroup,
			 uint32_t pid, uint64_t pid_namespace);
void ky_proc_reader_close(struct ky_proc_reader *reader);

/* CPU time of all threads it ever had, by its clock: a nanosecond more says that it has run. Up to
 * a tick late on CPU where it runs right now. False: there is no such clock. */
bool ky_proc_reader_clock(const struct ky_proc_reader *reader, uint64_t *ns);

/* Each returns false where it cannot be read. file: of /proc/PID/stat or of statm, a descriptor + 1
 * that is kept from call to call, 0 at first; NULL: it is opened each time, which takes longer than
 * to read it. */
bool ky_proc_reader_cpu(const struct ky_proc_reader *reader, uint32_t *file, uint64_t *cpu_ns);
bool ky_proc_reader_rss(const struct ky_proc_reader *reader, uint32_t *file, uint64_t *bytes);
void ky_proc_reader_drop(uint32_t *file);
/* Some of /proc/PID/stat. Returns 0 or -errno. */
struct ky_proc_stat {
	uint64_t user_ns, kernel_ns, minor_faults, major_faults, threads;
};
int ky_proc_reader_stat(const struct ky_proc_reader *reader, struct ky_proc_stat *out);
/* For how long each cgroup from the process's own upwards was throttled since it exists. */
bool ky_proc_reader_throttled(const struct ky_proc_reader *reader, uint64_t ns[KY_CGROUP_LEVELS]);
/* Time that the thread was runnable without running. file: kept from call to call, 0 at first. */
bool ky_proc_reader_run_delay(struct ky_proc_reader *reader, uint32_t tid, uint32_t *file,
			      uint64_t *delay_ns);
void ky_proc_reader_forget(struct ky_proc_reader *reader, uint32_t *file);

/* What the kernel has counted for the thread; two small files. False: unreadable, or gone. */
bool ky_proc_reader_counts(const struct ky_proc_reader *reader, uint32_t tid,
			   struct ky_thread_cpu *out);

/* Time on CPU, and runnable without one. False: unreadable, or gone. */
bool ky_proc_reader_sched(const struct ky_proc_reader *reader, uint32_t tid, uint64_t *cpu_ns,
			  uint64_t *delay_ns);
/* "": unreadable. */
void ky_proc_reader_thread_name(const struct ky_proc_reader *reader, uint32_t tid, char *out,
				size_t out_bytes);

/* Voluntary and involuntary switches alone. */
bool ky_proc_reader_switches(const struct ky_proc_reader *reader, uint32_t tid, uint64_t *voluntary,
			     uint64_t *involuntary);

/* file: of stat, as above. */
enum ky_proc_life ky_proc_reader_life(const struct ky_proc_reader *reader, uint32_t *file);

/* Fills in what the thread does now, without its stack. False: there is no such thread any more. */
bool ky_proc_reader_thread(const struct ky_proc_reader *reader, uint32_t tid,
			   struct ky_stuck_note *note);

/* Whether the thread still stands where the note says. */
bool ky_proc_reader_stands(const struct ky_proc_reader *reader, uint32_t tid,
			   const struct ky_stuck_note *note);

#endif
