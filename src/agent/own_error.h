/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_error.h - the first error of a part of the agent in the process, which kymo_status() has.
 * Threads: any.
 */
#ifndef KY_AGENT_OWN_ERROR_H
#define KY_AGENT_OWN_ERROR_H

#include <agent/agent_event.h>
#include <stdbool.h>

/* err: 0 and above is none. */
static inline void ky_own_error_note(int32_t *first, int err)
{
	int32_t none = 0;

	if (err < 0)
		__atomic_compare_exchange_n(first, &none, err, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

/* A ky_agent_event_fn. ctx: int32_t, the first error. */
static inline void ky_own_error_on_event(void *ctx, const struct ky_agent_event *event)
{
	ky_own_error_note(ctx, event->error);
}

#endif
