/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_process.h - the stack of a thread of another process, by the tables of its ring and the
 * memory it has now: for a thread that is blocked, or stopped. No signal, no tracing; it takes the
 * right to read the process's memory.
 *
 * A thread that runs on while it is read gives a short stack or an old one, never a fault.
 * Threads:     any.
 */
#ifndef KY_UNWIND_UNWIND_PROCESS_H
#define KY_UNWIND_UNWIND_PROCESS_H

#include <unwind/unwind_walk.h>
#include <wire/ring_image.h>

/* The tables in a ring's image; image_bytes: of the mapping. False: none (yet). */
bool ky_unwind_view_of(const uint8_t *image, uint64_t image_bytes, struct ky_unwind_view *out);

/* start: with what is known. Of a blocked thread /proc/PID/task/TID/syscall reports sp and pc alone
 * (is_fp_known = false): the first frame that is left by its frame pointer is then searched for,
 * see the walk's guessed_count. */
void ky_unwind_process(struct ky_walk *walk, const struct ky_unwind_view *view, uint32_t pid,
		       const struct ky_walk_start *start);

/* sp and pc of a line of /proc/PID/task/TID/syscall. False: the thread runs, or it is none. */
bool ky_unwind_syscall_line(const char *line, int64_t *number, struct ky_walk_start *out);

#endif
