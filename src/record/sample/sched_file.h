/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sched_file.h - the run delay of the calling thread, from a descriptor of its schedstat file that
 * is kept open.
 *
 * The descriptors are in a process that is not ours: at most KY_SCHED_FILES of them, none where the
 * program may have no more than KY_SCHED_LIMIT_MIN or uses three quarters of what it may have. The
 * program may have closed one and opened another file under its number: what does not read as this
 * thread's is not used again, and only what is still our file is closed.
 * Threads: each has its own. Memory: none but the structure.
 */
#ifndef KY_RECORD_SAMPLE_SCHED_FILE_H
#define KY_RECORD_SAMPLE_SCHED_FILE_H

#include <stdbool.h>
#include <stdint.h>

#define KY_SCHED_FILES 64u
#define KY_SCHED_LIMIT_MIN 256u

struct ky_sched_file {
	uint32_t place; /* among those of the process, + 1; 0: none */
};

void ky_sched_file_open(struct ky_sched_file *file);
/* cpu_ns: of the thread, just read. False: not known. */
bool ky_sched_file_read(struct ky_sched_file *file, uint64_t cpu_ns, uint64_t *delay_ns);
void ky_sched_file_close(struct ky_sched_file *file);
/* Any thread: the files of all are closed, and read as nothing until they are opened again. */
void ky_sched_file_close_all(void);
/* In a forked child, by its only thread: closes the copies of all, which are nobody's. */
void ky_sched_file_fork_child(void);

#endif
