/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* exec_stage.h - a command as a destination: one process a segment, no shell.
 *
 * The segment is its standard input; what is known of it is in its environment, as KYMO_SEGMENT_
 * PATH, NAME, SERVICE, RUN, HOST, PID, NUMBER, BYTES, START_UNIX_NS, END_UNIX_NS and DUMP (a
 * ULID; empty: a segment of a stream). Exit status 0:
 * taken; 75: again later; any other, or a signal: refused, and the last line that it wrote is the
 * reason.
 * Invariants:  it has a process group of its own, which ends with it, or after the time limit. What
 *              it writes is read, however much it is, and at most its last line is kept.
 * Threads:     owner; finish: any.
 */
#ifndef KY_SEND_EXEC_STAGE_H
#define KY_SEND_EXEC_STAGE_H

#include <kymo/stage.h>

#define KY_EXEC_WORDS_MAX 64u
#define KY_EXEC_LIMIT_NS UINT64_C(120000000000)

/* command: words between blanks, without quotes; a program that needs other words is a script.
 * limit_ns: 0: KY_EXEC_LIMIT_NS. The caller calls out->close(out->ctx). Returns 0; -EINVAL, and
 * why (KYMO_STAGE_REASON_BYTES) says what is wrong; -ENOMEM. */
int ky_exec_stage_make(struct kymo_segment_stage *out, const char *command, uint64_t limit_ns,
		       char *why);

#endif
