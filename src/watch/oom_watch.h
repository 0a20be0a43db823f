/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* oom_watch.h - did the kernel kill a process for lack of memory?
 *
 * A SIGKILL does not say who sent it. Two things do: the kernel's log names each process it killed
 * for memory, and the memory cgroup counts such kills. The log is proof, where it can be read and
 * where its pids are ours (the first pid namespace); the count alone, grown shortly before the end,
 * makes it probable: it may have been another process of the cgroup. Without either nothing is
 * claimed.
 * Threads: owner.
 */
#ifndef KY_WATCH_OOM_WATCH_H
#define KY_WATCH_OOM_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <wire/ring_image.h>

struct ky_oom_watch {
	uint32_t pid;
	int log_fd;            /* the kernel's log, from our beginning on; -1: cannot be read */
	bool has_log_hole;     /* it was overwritten faster than we read it */
	char cgroup_file[640]; /* "": no memory cgroup that we can read */
	uint64_t counted;      /* kills in it at the last check */
	uint64_t grown_ns;     /* when a check saw that they had become more; 0: none did */
	uint64_t checked_ns;
};

/* Begins to watch, before there is a child: it may be dead by the time we next get to run. It
 * starts in the cgroup we are in. */
void ky_oom_watch_open(struct ky_oom_watch *watch);
void ky_oom_watch_child(struct ky_oom_watch *watch, uint32_t pid);
void ky_oom_watch_close(struct ky_oom_watch *watch);

/* Again and again while it runs: the nearer the last check is to its end, the better. */
void ky_oom_watch_check(struct ky_oom_watch *watch);

/* Once, when it was reaped. May wait a moment for the log, where the count grew.
 * Returns  enum ky_end_oom */
uint32_t ky_oom_watch_judge(struct ky_oom_watch *watch, int wait_status);

/* Does the log, as far as it reaches back, name this process of this user as killed for memory
 * since made_ns (CLOCK_MONOTONIC)? at_ns: when. */
bool ky_oom_log_names(uint32_t pid, uint32_t uid, uint64_t made_ns, uint64_t *at_ns);

/* ---- for tests ---- */

/* One record of /dev/kmsg, "PRIORITY,SEQUENCE,MICROSECONDS,…;TEXT": the process that it names as
 * killed for memory, 0 when it does not. uid: UINT32_MAX where it is not reported. */
uint32_t ky_oom_parse_record(const char *record, uint64_t *at_ns, uint32_t *uid);

/* A line of /proc/PID/cgroup as the file that counts kills; false: it is not about memory. */
bool ky_oom_parse_cgroup(const char *line, char *out, size_t out_bytes);

#endif
