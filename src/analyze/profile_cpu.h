/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* profile_cpu.h - the parts of a profile, for stack_profile.c only. They return 0, -ENOMEM. */
#ifndef KY_ANALYZE_PROFILE_CPU_H
#define KY_ANALYZE_PROFILE_CPU_H

#include <analyze/stack_profile.h>

#define KY_STACK_PROFILE_KIND_FUNCTIONS 10u

bool ky_stack_profile_has(const struct ky_stack_profile *profile, const struct ky_stack_row *row);

/* Weight of a CPU sample in this profile. */
double ky_stack_profile_weight(const struct ky_stack_profile *profile,
			       const struct ky_stack_row *row);

/* profile_cpu.c: cpu, long_polls, kinds. */
int ky_stack_profile_cpu(struct ky_stack_profile *profile, const struct ky_trace *trace);

/* profile_heap.c */
int ky_stack_profile_heap(struct ky_stack_profile *profile, const struct ky_trace *trace);

/* Rows of one kind in groups that read the same. */
struct ky_keyed_row {
	uint64_t extra; /* reason, kind of descriptor and system call */
	uint32_t site;  /* the stack; KY_NONE */
	uint32_t row;
};

/* profile_wakers.c: the wakers of a wait, of its rows. Returns 0, -ENOMEM. */
int ky_stack_profile_wakers(struct ky_stack_profile_wait *wait, const struct ky_trace *trace,
			    const struct ky_keyed_row *rows, uint32_t count);

/* profile_calls.c: the row is of them, too. */
void ky_stack_profile_calls_add(struct ky_stack_profile_calls *calls,
				const struct ky_stack_row *row);

/* waiting_kinds.c */
int ky_waiting_kinds_make(struct ky_stack_profile *profile, const struct ky_trace *trace);

/* profile_waits.c: waits, places; worst. */
int ky_stack_profile_waits(struct ky_stack_profile *profile, const struct ky_trace *trace);
void ky_stack_profile_worst(struct ky_stack_profile *profile, const struct ky_trace *trace,
			    const struct ky_report *report);

#endif
