/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* perf_source.h - CPU samples by perf_event: the kernel stops a thread rate_hz times
 * per second of its CPU time and leaves registers and a copy of its stack in a ring of its own.
 * Or, with is_switches, a record each time that a thread loses a CPU, gets one, or has waited
 * for a page from a disk. Nothing runs in the sampled process, and its signals are untouched.
 *
 * One event for each CPU, inherited by every thread and child made later, so one ring for
 * each CPU whatever the number of threads.
 * What opens need not yield anything: ky_perf_test() finds out on ourselves, before it is believed.
 * Memory:      the rings, which the kernel counts against RLIMIT_MEMLOCK of the unprivileged; made
 *              smaller until they are allowed.
 * Threads:     owner.
 */
#ifndef KY_PROBE_PERF_SOURCE_H
#define KY_PROBE_PERF_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KY_PERF_SWITCH_RING_BYTES (1u << 19) /* at most, a CPU */

struct ky_perf;

struct ky_perf_options {
	uint32_t rate_hz;
	uint32_t stack_bytes;    /* of each thread's stack, from sp upwards; a multiple of 8 */
	bool has_kernel;         /* time in the kernel, with the kernel's frames */
	bool is_at_exec;         /* counting begins when the process calls exec */
	bool is_of_threads;      /* children of the process are not sampled */
	uint32_t ring_bytes_max; /* a power of two; 0: 1 MiB for samples, 512 KiB for switches */
	uint32_t fds_max;        /* descriptors that may be taken; 0: any number */
	/* Records of switches and of page faults in place of samples; rate_hz, stack_bytes and
	 * is_at_exec are 0. Opened paused. */
	bool is_switches;
	/* A sample each time that a thread has waited for a page from a disk, without the kernel's
	 * frames; rate_hz is 0. Opened paused. */
	bool is_faults;
	bool is_minor; /* of both, for a test: every fault */
	/* Rings alone, of events of the calling thread that never count. The threads that are added
	 * write into them, until ky_perf_leave(). */
	bool is_held;
	uint32_t without_tid; /* ky_perf_add_all() leaves this thread out; 0: none */
};

enum ky_perf_switch_kind {
	KY_SWITCH_IN = 0,
	KY_SWITCH_OUT,       /* it waits for something */
	KY_SWITCH_PREEMPTED, /* it would continue */
	KY_SWITCH_FAULT,     /* a page fault that took a device is over */
	KY_SWITCH_WOKEN      /* a waker makes it ready to run: wake_source.h */
};

struct ky_perf_switch {
	uint32_t pid, tid; /* pid 0: unknown, of WOKEN */
	uint64_t ns;       /* CLOCK_MONOTONIC */
	uint32_t kind;     /* enum ky_perf_switch_kind */
	/* Of WOKEN: by whom; 0: an interrupt, or a thread of another pid namespace. */
	uint32_t by_pid, by_tid;
	bool is_by_interrupt;
	/* Of FAULT: number of the program's stack, fault_stacks.h; 0: none. */
	uint64_t user;
	/* Of FAULT: as long as the record of another event of the same one: fault_stacks.h. */
	bool is_swollen;
};

typedef void (*ky_perf_switch_fn)(void *ctx, const struct ky_perf_switch *what);

struct ky_perf_sample {
	uint32_t pid, tid, cpu;
	uint64_t ns; /* CLOCK_MONOTONIC */
	uint64_t period_ns;
	const uint64_t *kernel; /* frames, the innermost first */
	uint32_t kernel_count;
	bool has_registers; /* of user space */
	uint64_t pc, sp, fp, second;
	const uint8_t *stack; /* from sp upwards; 8-byte aligned */
	uint32_t stack_bytes;
};

typedef void (*ky_perf_sample_fn)(void *ctx, const struct ky_perf_sample *sample);

struct ky_perf_about {
	uint32_t cpu_count;    /* rings */
	size_t ring_bytes;     /* of each */
	uint32_t record_bytes; /* of one sample in it */
	uint64_t sample_count, lost_count;
};

/* Whether these options yield samples of ourselves, stack and all, within 30 milliseconds of CPU
 * time. Takes has_kernel back where only that is refused. Returns 0; -errno; -ENODATA: it opens and
 * yields nothing. */
int ky_perf_test(struct ky_perf_options *options);

/* Whether switches of ourselves are reported, both ways. cost_ns: what one record takes of the
 * CPU. Takes has_kernel back where only that is refused. Returns as ky_perf_test(). */
int ky_perf_test_switches(struct ky_perf_options *options, uint64_t *cost_ns);

/* What a short sleep takes of our CPU time, in ns: the switches of it are in that. */
uint64_t ky_perf_time_sleeps(void);

/* Of process `pid`, which waits for its exec (is_at_exec), or of its first thread: ky_perf_add()
 * takes others that exist already. Returns 0, -errno. */
int ky_perf_open(struct ky_perf **out, const struct ky_perf_options *options, pid_t pid);

/* One more thread that runs already. Returns 0, -errno. */
int ky_perf_add(struct ky_perf *perf, pid_t tid);

/* Gives out what is there, CPU by CPU: in the order of time within each. A sample's
 * stack lies in the kernel's ring, and only until fn returns. An fn that leaves by longjmp() loses
 * its sample, counted. Returns the number of samples. */
uint32_t ky_perf_read(struct ky_perf *perf, ky_perf_sample_fn fn, void *ctx);

/* The same of switches. */
uint32_t ky_perf_read_switches(struct ky_perf *perf, ky_perf_switch_fn fn, void *ctx);

/* Every thread of a process that is there, listed first: one made by a thread that is watched
 * already inherits that, and must not be taken twice. *perf: NULL opens it with these
 * options. Returns 0, -errno; then
 * what is open is the caller's to close. */
int ky_perf_add_all(struct ky_perf **perf, const struct ky_perf_options *options, pid_t pid);

/* Closes the events of all threads that were added, where these are `most` at most. Of rings that
 * are held; they stay, with what they hold. Returns whether it did. */
bool ky_perf_leave(struct ky_perf *perf, uint32_t most);

/* Its descriptors. Returns how many there are, max at most. */
uint32_t ky_perf_fds(const struct ky_perf *perf, int *out, uint32_t max);

/* Stops the counting, or lets it continue, for all threads. The rate cannot be changed: threads
 * that exist would keep the old one. Returns 0, -errno. */
int ky_perf_pause(struct ky_perf *perf, bool is_paused);

/* A ring reports what it had no room for once it has room again, so not at the end. This asks each
 * event, which the kernel answers from 6.0 on. */
void ky_perf_count_lost(struct ky_perf *perf);

void ky_perf_about(const struct ky_perf *perf, struct ky_perf_about *out);
void ky_perf_close(struct ky_perf *perf); /* NULL: no-op */

#endif
