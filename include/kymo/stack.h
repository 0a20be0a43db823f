/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stack.h - the stack of the calling thread, in a binary as it is shipped.
 *
 * By tables that the recorder process makes of the program's unwind data while it records: `kymo
 * run` and `kymo attach`, or the library's own thread. So the first captures of a process, and
 * those of code that has just been loaded, may end early, which `end` says. Frame pointers are used
 * only for code without any unwind data.
 *
 * No lock, no allocation; a system call only for a stack that is not the thread's own (a coroutine,
 * an alternate signal stack), and where a thread stands deeper than ever before.
 */
#ifndef KYMO_STACK_H
#define KYMO_STACK_H

#include <kymo/base.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum kymo_stack_end {
	KYMO_STACK_FIRST = 0,  /* the thread's first function was reached */
	KYMO_STACK_REACHED,    /* until_sp was reached */
	KYMO_STACK_UNKNOWN,    /* code without unwind data, or not known yet */
	KYMO_STACK_UNREADABLE, /* the stack ends, or makes no sense */
	KYMO_STACK_FULL,       /* there are more frames than room */
	KYMO_STACK_NO_TABLES   /* there are no tables yet, or this process does not record */
};

/* frames, frames_max and until_sp: by the caller. */
struct kymo_stack {
	uint64_t *frames;    /* the innermost first, as it stands; callers: the return address - 1,
			      * so that every address lies inside the instruction it names */
	uint32_t frames_max; /* more than 0 */
	uint32_t count;
	uint32_t end;           /* enum kymo_stack_end */
	uint32_t guessed_count; /* frames found by frame pointer */
	uint64_t until_sp;      /* only frames whose stack pointer is below; 0: all */
};

/* Registers of the function that is asking. */
struct kymo_stack_start {
	uint64_t pc, sp, fp, second;
};

#if defined(__x86_64__)
#define KYMO_STACK_HERE(start)                                                                     \
	__asm__ volatile("leaq 0(%%rip), %%rax\n\tmovq %%rax, 0(%0)\n\tmovq %%rsp, 8(%0)\n\t"      \
			 "movq %%rbp, 16(%0)\n\tmovq %%rbx, 24(%0)"                                \
			 :                                                                         \
			 : "r"(start)                                                              \
			 : "rax", "memory")
#elif defined(__aarch64__)
#define KYMO_STACK_HERE(start)                                                                     \
	__asm__ volatile("adr x9, .\n\tstr x9, [%0]\n\tmov x9, sp\n\tstr x9, [%0, #8]\n\t"         \
			 "stp x29, x30, [%0, #16]"                                                 \
			 :                                                                         \
			 : "r"(start)                                                              \
			 : "x9", "memory")
#else
#define KYMO_STACK_HERE(start) ((void)((start)->pc = 0))
#endif

/* The stack of the calling thread from `start` on, which is filled by KYMO_STACK_HERE() in the
 * function that makes this call, or in one that has called it.
 *
 * Returns  nothing: stack->count and stack->end have the result.
 * Threads  any.      Signals safe.      Cost some 30 ns a frame.      Since 0.1
 */
KYMO_API void kymo_stack_capture(struct kymo_stack *stack, const struct kymo_stack_start *start);

/* The same for what a signal has interrupted. context: the handler's third argument.
 * Threads any.      Signals safe.      Since 0.1
 */
KYMO_API void kymo_stack_capture_context(struct kymo_stack *stack, const void *context);

#ifdef __cplusplus
}
#endif

#endif
