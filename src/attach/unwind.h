/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind.h - who called whom on a thread that sleeps, by the call frame information of its modules.
 *
 * Exact or not at all: where a frame has no information, or one that we do not know, the walk ends
 * there and says so. Nothing is guessed from what lies on the stack.
 *
 * Threads:     owner.
 */
#ifndef KY_ATTACH_UNWIND_H
#define KY_ATTACH_UNWIND_H

#include <attach/attach_arch.h>
#include <attach/process.h>

#define KY_UNWIND_FRAMES_MAX 256u

enum ky_unwind_end {
	KY_UNWIND_OUTERMOST = 0, /* the thread's first frame */
	KY_UNWIND_UNKNOWN,       /* code without information, or beyond what we know */
	KY_UNWIND_TOO_DEEP
};

struct ky_unwind {
	uint64_t pcs[KY_UNWIND_FRAMES_MAX]; /* the innermost first; callers: the return address */
	uint32_t count;
	enum ky_unwind_end end;
};

/* registers: of the stopped or sleeping thread; a copy is walked. */
void ky_unwind_thread(struct ky_unwind *out, const struct ky_process *process,
		      const struct ky_arch_frame *registers);

#endif
