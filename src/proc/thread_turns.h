/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* thread_turns.h - how often the threads of a process were given a CPU, as the kernel counts it in
 * /proc/PID/task/TID/schedstat.
 *
 * Threads: any.      Cost: three system calls a thread.
 */
#ifndef KY_PROC_THREAD_TURNS_H
#define KY_PROC_THREAD_TURNS_H

#include <stdbool.h>
#include <stdint.h>

/* Threads that are read; where there are more, these stand for all. */
#define KY_THREAD_TURNS_MAX 64u

/* Of those that live: a thread that ended takes its turns along. proc: where /proc is. False: the
 * process is gone, or nothing is counted here. */
bool ky_thread_turns(const char *proc, uint32_t pid, uint64_t *turns);

#endif
