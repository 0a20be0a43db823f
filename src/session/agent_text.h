/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* agent_text.h - what a session makes of its agents' events: one sentence on standard error, and
 * trouble with the output once for all processes.
 *
 * Threads: owner.
 */
#ifndef KY_SESSION_AGENT_TEXT_H
#define KY_SESSION_AGENT_TEXT_H

#include <agent/agent_event.h>
#include <base/buf.h>
#include <session/session_options.h>

struct ky_agent_text {
	const struct ky_session_options *options;
	int first_error; /* of the output; 0: none */
	bool has_said_trouble, has_said_full, has_said_latest;
};

/* A ky_agent_event_fn; ctx is the ky_agent_text. */
void ky_agent_say(void *ctx, const struct ky_agent_event *event);

/* The sentence, without its end; nothing where none is wanted. */
void ky_agent_text(struct ky_agent_text *text, struct ky_buf *out,
		   const struct ky_agent_event *event);

#endif
