/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fake_proc.h - a /proc and a cgroup tree in a folder of the test's own, for one process.
 * Threads: owner.
 */
#ifndef KY_TEST_FAKE_PROC_H
#define KY_TEST_FAKE_PROC_H

#include <stdbool.h>
#include <stdint.h>

struct fake_proc {
	char root[64]; /* proc/ and cgroup/ are in it */
	char proc[80], cgroup[80];
	uint32_t pid;
};

void fake_proc_open(struct fake_proc *fake, uint32_t pid);
void fake_proc_close(struct fake_proc *fake);

/* A file below /proc/PID ("stat", "task/7/wchan"); with a leading "/", below the cgroup mount. */
__attribute__((format(printf, 3, 4))) void fake_proc_write(struct fake_proc *fake, const char *path,
							   const char *format, ...);
void fake_proc_remove(struct fake_proc *fake, const char *path);

/* stat of the process: state, CPU time so far, and 9 threads. */
void fake_proc_stat(struct fake_proc *fake, char state, uint64_t cpu_ms);
/* stat, syscall and wchan of a thread. */
void fake_proc_thread(struct fake_proc *fake, uint32_t tid, char state, const char *syscall,
		      const char *wchan);

#endif
