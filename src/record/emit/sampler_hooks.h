/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sampler_hooks.h - what the engine calls of a sampler. Each may be called from inside an event,
 * never from a signal handler. */
#ifndef KY_RECORD_EMIT_SAMPLER_HOOKS_H
#define KY_RECORD_EMIT_SAMPLER_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

struct ky_sampler_hooks {
	/* A ring is live, or its settings changed; rate_hz: as the options say. */
	void (*apply)(uint32_t rate_hz);
	void (*thread_begin)(uint32_t tid); /* the calling thread records for the first time */
	void (*thread_end)(uint32_t tid);   /* it is about to end */
	void (*stop)(void);   /* no sample after it: the ring is given up, or the code goes away */
	void (*forget)(void); /* in a forked child, which has no timers */
	bool (*is_on)(void);  /* it wants to know each thread from its start on */
	void (*leave_signal)(void); /* the program wants the signal that is sent for samples */
	/* At once in a forked child, before it runs anything of its own; NULL: nothing to do.
	 * Signal-safe. */
	void (*fork_child)(void);
};

#endif
