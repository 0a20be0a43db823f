/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* call_filters.h - how many filters of system calls (seccomp(2)) a process runs under.
 *
 * Source: "Seccomp_filters" of /proc/PID/task/TID/status, since Linux 5.9; before, "Seccomp", which
 * says only whether there is one. Threads: any. Memory: none.
 */
#ifndef KY_PROC_CALL_FILTERS_H
#define KY_PROC_CALL_FILTERS_H

#include <stdbool.h>
#include <stdint.h>

/* process: a descriptor of /proc/PID. all_threads: the most of any thread; else of the main thread.
 * Returns the number; -1: unreadable. Cost: 20 us a thread. */
int ky_call_filters(int process, bool all_threads);

#endif
