/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* end_stacks.h - who called whom when a recovered process ended, by name: the stack of its crash,
 * and the last one that was seen in each poll that was open.
 *
 * Every event of the trace goes through ky_end_stacks_event() before the text is made.
 * Threads: owner.
 */
#ifndef KY_REPORT_END_STACKS_H
#define KY_REPORT_END_STACKS_H

#include <base/buf.h>
#include <read/code_names.h>
#include <read/event_stream.h>

#define KY_END_POLLS_MAX 8u
#define KY_END_CRASHES_MAX 4u
#define KY_END_FRAMES_MAX 64u

/* The last stack of a poll that was open at the end. */
struct ky_end_poll {
	uint64_t task, start_ns;
	uint64_t frames[KY_END_FRAMES_MAX];
	uint64_t seen_ns;
	uint32_t tid, frame_count;
	uint8_t how; /* of end_stacks.c: by which event; 0: no stack */
	bool is_truncated;
};

struct ky_end_crash {
	uint64_t time_ns, pc, signal;
	uint32_t tid;
};

/* The caller sets newest_ns, and task, start_ns and tid of the polls; the rest is 0. */
struct ky_end_stacks {
	uint64_t newest_ns;
	struct ky_end_poll polls[KY_END_POLLS_MAX];
	struct ky_end_crash crashes[KY_END_CRASHES_MAX];
	uint32_t poll_count, crash_count;
};

void ky_end_stacks_event(struct ky_end_stacks *end, const struct ky_event *event);

/* Appends what was seen; JSON: members of the object that is open. */
void ky_end_stacks_put(struct ky_buf *out, const struct ky_end_stacks *end,
		       const struct ky_code_names *names, bool is_json);

#endif
