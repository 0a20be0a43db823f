/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* end_stacks.h - who called whom when a recovered process ended, by name: the stack of its crash,
 * and the last one that was seen in each poll that was open.
 *
 * Names come as for every other command: trace_symbols.h. They take their time, so the trace is on
 * disk and its ring removed before.
 * Threads: owner.
 */
#ifndef KY_REPORT_END_STACKS_H
#define KY_REPORT_END_STACKS_H

#include <base/buf.h>
#include <drain/cut.h>
#include <stdbool.h>

/* Appends what the trace at `path` says, which `report` is of; JSON: members of the object that is
 * open. Trouble has been said; JSON then has its members without anything. */
void ky_end_stacks(struct ky_buf *out, const char *path, const struct ky_cut_report *report,
		   bool is_json);

/* JSON: its members, where there is nothing to say. */
void ky_end_stacks_none(struct ky_buf *out);

#endif
