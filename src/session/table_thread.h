/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* table_thread.h - a thread that keeps the unwind tables of the processes being recorded: what has
 * been mapped is read, what has gone is taken out. At low priority, beside the drain, which never
 * waits for it.
 *
 * Trouble never reaches CMD or the trace's events: a process without tables has short stacks, and
 * its trace says so ("unwind.tables").
 * Threads: one caller; the work is done in the thread, with all signals blocked.
 */
#ifndef KY_SESSION_TABLE_THREAD_H
#define KY_SESSION_TABLE_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wire/ring_image.h>

struct ky_run_unwind;
struct ky_run_unwound; /* the tables of one ring */

/* Begins with a ring that nobody records into yet; once is enough, more is nothing. What comes of
 * it is what ky_run_unwind_add() goes on with. */
void ky_run_unwind_ahead(struct ky_run_unwind **unwind, int ring_fd,
			 const struct ky_ring_header *header);
/* Nobody will. unwind may be NULL. */
void ky_run_unwind_forget(struct ky_run_unwind *unwind, int ring_fd);

/* The first call makes the thread. header: of the ring, copied here. NULL: no area, no thread. */
struct ky_run_unwound *ky_run_unwind_add(struct ky_run_unwind **unwind, int ring_fd,
					 const struct ky_ring_header *header);
void ky_run_unwind_remove(struct ky_run_unwind *unwind, struct ky_run_unwound *ring);
void ky_run_unwind_close(struct ky_run_unwind *unwind); /* NULL: no-op */

/* The tables of what is mapped now, made at once and in this thread, of a process that nobody will
 * stay with. pid: in our namespace. Returns 0, -errno, KYMO_E_*: the stacks are short. */
int ky_run_unwind_once(int ring_fd, const struct ky_ring_header *header, uint32_t pid);

/* "14 modules, 93120 rows" for the trace; of NULL that there are none. */
void ky_run_unwind_text(struct ky_run_unwind *unwind, struct ky_run_unwound *ring, char *out,
			size_t capacity);

#endif
