/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kernel_stacks.h - where in the kernel threads left their processors: each stack kept once, and
 * put beside the times that have its number. There are some fifteen in a process.
 * Memory:  KY_KERNEL_STACKS of them; when that is full, it begins anew, and times that wait to be
 *          put lose theirs.
 * Threads: owner. What touches a ring's area runs inside ky_ring_guard().
 */
#ifndef KY_PROBE_KERNEL_STACKS_H
#define KY_PROBE_KERNEL_STACKS_H

#include <stdint.h>
#include <wire/sample_area.h>
#include <wire/switch_sample.h>

#define KY_KERNEL_STACKS 512u

struct ky_kernel_stack {
	uint64_t number; /* 0: free */
	uint32_t count;
	uint64_t frames[KY_SWITCH_STACK_MAX];
};

struct ky_kernel_stacks {
	struct ky_kernel_stack list[KY_KERNEL_STACKS]; /* a hash table */
	uint32_t count;
	struct ky_kernel_told {
		uint64_t number, ns;
		uint32_t pid;
	} told[KY_KERNEL_STACKS]; /* lately, by hash */
};

/* chain: as the kernel told it, the innermost first, return addresses. Returns its number, 0: it is
 * empty. */
uint64_t ky_kernel_stacks_add(struct ky_kernel_stacks *stacks, const uint64_t *chain,
			      uint32_t count);

/* NULL: there is none of this number. */
const struct ky_kernel_stack *ky_kernel_stacks_find(const struct ky_kernel_stacks *stacks,
						    uint64_t number);

/* Puts it into the area of a process, unless that was done lately. */
void ky_kernel_stacks_tell(struct ky_kernel_stacks *stacks, const struct ky_sample_ring *ring,
			   uint32_t pid, uint64_t number, uint64_t now_ns);

#endif
