/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* own_options.h - what kymo_recorder_open() was asked for beside the events: where the trace and
 * the dumps go, and which rules watch.
 * Threads: setup-only.
 */
#ifndef KY_AGENT_OWN_OPTIONS_H
#define KY_AGENT_OWN_OPTIONS_H

#include <agent/own_agent.h>
#include <kymo/recorder.h>

/* Before the engine opens. Texts are copied, and cleared in `taken` where they are the caller's.
 * is_open: a recorder is open, whose rules stay; this one is refused further on. Returns 0; an
 * error with a sentence in the options' errbuf. */
int ky_own_options_take(struct ky_own_agent *own, struct kymo_recorder_options *taken,
			bool is_open);

/* Once the engine has its texts. */
void ky_own_options_output(struct ky_own_agent *own, const struct kymo_recorder_options *taken);

#endif
