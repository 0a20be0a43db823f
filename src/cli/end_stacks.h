/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* end_stacks.h - who called whom when a recovered process ended, by name: the stack of its crash,
 * the last one that was seen in each poll that was open, and where its tasks waited.
 *
 * Names are read out of files of any size, which may be anything by now. So that is done by a child
 * at low priority, and ended when it takes too long: the trace is on disk before.
 * Threads: owner; the process has no other one.
 */
#ifndef KY_CLI_END_STACKS_H
#define KY_CLI_END_STACKS_H

#include <base/buf.h>
#include <drain/cut.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_END_STACKS_MS_MAX 10000u

struct ky_end_stacks_options {
	const struct ky_cut_report *report; /* of what is at the path */
	bool is_json, wants_tasks;
	uint32_t tasks_max; /* see task_places.h */
	uint32_t ms_max;    /* 0: KY_END_STACKS_MS_MAX */
};

/* Appends what it says of the trace at `path`; JSON: members of the object that is open. Returns 0;
 * -ETIMEDOUT: it took too long, and nothing is appended; -errno; -EIO: the child failed. */
int ky_end_stacks(struct ky_buf *out, const char *path,
		  const struct ky_end_stacks_options *options);

/* JSON: its members, where there is nothing to say. */
void ky_end_stacks_none(struct ky_buf *out);

#endif
