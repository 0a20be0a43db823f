/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* perf_event.h - the kernel's side of perf_event, one function a system call, and no decision:
 * tests put a kernel of their own in its place, test/lib/fake_perf.h.
 * Threads: any.
 */
#ifndef KY_PROBE_PERF_EVENT_H
#define KY_PROBE_PERF_EVENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KY_PERF_PAGE_BYTES 4096u /* in front of the records */

/* CPUs of this machine, those that are off, too; 0: unknown. */
uint32_t ky_perf_event_cpus(void);

/* Takes attr->read_format back where the kernel does not know it. Returns a descriptor, -errno. */
int ky_perf_event_open(struct perf_event_attr *attr, pid_t tid, int cpu);
/* Not where the program has closed it, and has another file by that number. */
void ky_perf_event_close(int fd);
/* The same in a forked child, of its copy. Signals safe. */
void ky_perf_event_close_copy(int fd);
/* Whether it may be asked what a descriptor is, which takes an ioctl(): not in a process under a
 * filter of system calls of its own. */
void ky_perf_event_ask(bool may_ask);

/* The event's ring of ring_bytes, a power of two. Returns 0, -errno. */
int ky_perf_event_map(int fd, size_t ring_bytes, struct perf_event_mmap_page **page);
void ky_perf_event_unmap(struct perf_event_mmap_page *page, size_t ring_bytes);

/* Each returns 0, -errno. */
int ky_perf_event_pause(int fd, bool is_paused);
int ky_perf_event_set_output(int fd, int ring_fd);
int ky_perf_event_set_filter(int fd, const char *filter);

/* The event's counts, as its read_format has them. */
bool ky_perf_event_read(int fd, uint64_t *words, uint32_t count);

#endif
