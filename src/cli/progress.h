/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* progress.h - a line on stderr that says what a command is at, once it works for longer than a
 * second and stderr is a terminal.
 *
 * A thread of its own repaints it, so that a step that counts nothing shows its seconds.
 * Invariants:  nothing is printed elsewhere than on a terminal, nor with --quiet. While it is quiet
 *              there is no line and none appears: so results and sentences stand alone. It stays
 *              quiet until the next step or count.
 * Threads:     owner.
 */
#ifndef KY_CLI_PROGRESS_H
#define KY_CLI_PROGRESS_H

#include <stdint.h>

struct ky_dump_job; /* agent/dump_writer.h */

/* The work begins, and the second counts from then on. */
void ky_progress_open(void);
/* what: "reading", a literal. */
void ky_progress_step(const char *what);
/* How far that step is; total 0: not known. */
void ky_progress_count(uint64_t done_bytes, uint64_t total_bytes);
void ky_progress_quiet(void);
/* The same for results on stdout: a line is in their way where that is the terminal, too. */
void ky_progress_result(void);
void ky_progress_close(void);

/* A line a second about this dump while it is written, unless none is wanted. */
void ky_progress_of_dump(struct ky_dump_job *job);

#endif
