/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fake_perf.h - a kernel's perf_event of the test's own, linked in place of perf_event.c: the test
 * writes the records, byte for byte as the kernel does, into rings of memory.
 *
 * As the kernel does: an event that is paused records nothing; a record goes to the ring of the
 * event that output is set to; one without room is counted, and a LOST record has the count
 * as soon as there is room; no ring is larger than may be locked.
 * An event of the caller itself (tid 0 or its own) answers the tests at opening, unless is_silent.
 * Threads: owner.
 */
#ifndef KY_TEST_FAKE_PERF_H
#define KY_TEST_FAKE_PERF_H

#include <linux/perf_event.h>
#include <probe/wake_format.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_PERF_EVENTS 128u
#define FAKE_PERF_FDS 1000 /* descriptors begin there */
#define FAKE_PERF_CPUS 2u
#define FAKE_WAKING 77u /* number of the tracepoint */

struct fake_perf_event {
	bool is_open, is_enabled;
	struct perf_event_attr attr;
	pid_t tid;
	int cpu;
	int output; /* descriptor; -1: its own ring */
	char filter[256];
	uint64_t words[2];                 /* as read: count, lost */
	struct perf_event_mmap_page *page; /* NULL: none */
	size_t ring_bytes;
	uint64_t unreported; /* lost, and not reported yet */
};

extern struct fake_perf {
	struct fake_perf_event events[FAKE_PERF_EVENTS];
	uint32_t cpus;
	uint32_t off_cpu;                          /* 1 + number of a CPU that is off; 0: none */
	size_t ring_bytes_most;                    /* that may be locked; 0: any */
	int open_error, pause_error, filter_error; /* -errno of every such call */
	bool is_kernel_refused; /* -EACCES to events that count the kernel, too */
	bool is_old;            /* before 6.0: no read_format LOST */
	bool is_silent;         /* nothing is recorded of the caller */
} fake_perf;

void fake_perf_reset(void);
uint32_t fake_perf_open_count(void);
/* The n-th open event of that config on a CPU, -1: any. NULL: none. */
struct fake_perf_event *fake_perf_find(uint32_t type, uint64_t config, int cpu, uint32_t n);

/* Writes a record of the event: words, the header first, whose size counts. Returns false where
 * it is paused or has no room. */
bool fake_perf_put(struct fake_perf_event *event, const uint64_t *words);

/* Switches and page faults, by the event of that CPU; misc: PERF_RECORD_MISC_SWITCH_OUT ... */
bool fake_perf_switch(int cpu, uint32_t pid, uint32_t tid, uint64_t ns, uint32_t misc);
bool fake_perf_fault(int cpu, uint32_t pid, uint32_t tid, uint64_t ns);

/* sched_waking: who is on the CPU (pid, tid) wakes `woken`; flags: common_flags. */
bool fake_perf_wake(int cpu, uint32_t pid, uint32_t tid, uint64_t ns, uint32_t woken,
		    uint8_t flags);

#endif
