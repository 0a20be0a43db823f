/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fault_stacks.h - where in the program page faults came that a device had to answer: an event of
 * its own beside the switch records, whose samples have registers and a copy of the stack. It fires
 * in user space, so it takes no privilege that the switch records do not take.
 *
 * It is opened before the event of the switches, which reports faults, too. The kernel (6.18) gives
 * all events of one fault the same description, the latest made first; after one with a stack each
 * record is as long as that one's, and soon there is no room for switches. So the order is tried on
 * ourselves, and read as records come.
 *
 * While it counts, a switch takes KY_FAULT_SWITCH_NS more; shut, nothing that was measured. Where
 * switches are so many that windows have gaps, it is shut until a fault was reported, and again
 * some seconds after the last one.
 *
 * It has rings of its own: a storm of faults takes no room from switches. Stacks are walked within
 * a budget that asks for nothing but the time, so which of the faults have one says nothing of how
 * long they took.
 * Memory:  the kernel's rings; the latest KY_FAULT_STACKS stacks.
 * Threads: owner. Reading touches the tables of rings: inside ky_ring_guard().
 */
#ifndef KY_PROBE_FAULT_STACKS_H
#define KY_PROBE_FAULT_STACKS_H

#include <probe/perf_source.h>
#include <probe/switch_windows.h>
#include <stdbool.h>
#include <stdint.h>
#include <wire/sample_area.h>
#include <wire/switch_sample.h>

#define KY_FAULT_STACKS 256u
#define KY_FAULT_STACKS_HZ 100u
#define KY_FAULT_FRAMES_MAX (KY_SAMPLE_FRAMES_MAX - KY_SWITCH_FRAMES_MAX)
/* What a copy takes of the thread that it is made in, at most. */
#define KY_FAULT_COPY_NS UINT64_C(6000)
#define KY_FAULT_SWITCH_NS UINT64_C(350)

struct ky_fault_stack {
	uint64_t number; /* 0: none */
	uint32_t count;
	bool is_truncated;
	uint64_t frames[KY_SAMPLE_FRAMES_MAX];
};

struct ky_fault_stacks {
	struct ky_perf *perf; /* NULL: none */
	int refusal;          /* -errno; 0: not tried, or it is open */
	bool is_counting;
	bool has_gaps;        /* between windows */
	uint64_t reported_ns; /* of the last fault; 0: there was none */
	uint64_t newest;      /* number */
	uint64_t left_ns;     /* of the budget, and when it was filled up */
	uint64_t filled_ns;
	struct ky_fault_stack list[KY_FAULT_STACKS]; /* by number */
};

/* Whether it yields stacks of our own faults, beside the event of switches as it is. how: as the
 * switches are opened. Returns 0, -errno; -ENODATA: it opens and yields nothing; -E2BIG: switches
 * would have no room. */
int ky_fault_stacks_test(const struct ky_perf_options *how);

/* Before the switches. how: theirs. pid: as with ky_switch_windows_start(); is_running: as with
 * ky_switch_windows_attach(). */
void ky_fault_stacks_open(struct ky_fault_stacks *of, const struct ky_perf_options *how, pid_t pid,
			  bool is_running);
void ky_fault_stacks_close(struct ky_fault_stacks *of);

/* A fault was reported. */
void ky_fault_stacks_note(struct ky_fault_stacks *of, uint64_t ns);
/* Of rings that are held: the threads of this process. Returns 0, -errno. */
int ky_fault_stacks_attach(struct ky_fault_stacks *of, pid_t pid);
/* Lets it count, or shuts it. is_open: a window is. */
void ky_fault_stacks_follow(struct ky_fault_stacks *of, bool is_open, uint64_t now_ns);

/* Reports fn of those that have a stack, as KY_SWITCH_FAULT. Returns how many copies were made. */
uint32_t ky_fault_stacks_read(struct ky_fault_stacks *of, const struct ky_switch_places *places,
			      ky_perf_switch_fn fn, void *ctx);

/* Whether one more may be walked at that moment, CLOCK_MONOTONIC. */
bool ky_fault_stacks_may(struct ky_fault_stacks *of, uint64_t ns);
/* Keeps it. Returns its number. */
uint64_t ky_fault_stacks_add(struct ky_fault_stacks *of, const struct ky_fault_stack *stack);
/* NULL: there is none of this number, or not any more. */
const struct ky_fault_stack *ky_fault_stacks_find(const struct ky_fault_stacks *of,
						  uint64_t number);

#endif
