/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* table_thread.h - a thread that keeps the unwind tables of all processes of a session, at low
 * priority: the drain never waits for it.
 *
 * Threads: one caller; the work is done in the thread, with all signals blocked.
 */
#ifndef KY_SESSION_TABLE_THREAD_H
#define KY_SESSION_TABLE_THREAD_H

#include <stddef.h>
#include <wire/ring_image.h>

struct ky_table_thread;
struct ky_thread_tables; /* the tables of one ring */

/* Makes tables in a ring that nothing is recorded into yet, unless it does so already.
 * ky_table_thread_add() takes them over. */
void ky_table_thread_ahead(struct ky_table_thread **thread, int ring_fd,
			   const struct ky_ring_header *header);
/* No process will record into it. thread may be NULL. */
void ky_table_thread_forget(struct ky_table_thread *thread, int ring_fd);

/* The first call makes the thread. header: of the ring, copied here. NULL: no area, no thread. */
struct ky_thread_tables *ky_table_thread_add(struct ky_table_thread **thread, int ring_fd,
					     const struct ky_ring_header *header);
void ky_table_thread_remove(struct ky_table_thread *thread, struct ky_thread_tables *ring);
void ky_table_thread_close(struct ky_table_thread *thread); /* NULL: no-op */

/* As ky_unwind_tables_text(), and of NULL that there is no room for tables. */
void ky_table_thread_text(struct ky_table_thread *thread, struct ky_thread_tables *ring, char *out,
			  size_t capacity);

#endif
