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

/* A process may wait for the tables of this one, which it preloads, and of its program. */
#define KY_TABLE_THREAD_EARLY "libkymo-preload.so"

struct ky_table_thread; /* NULL, for all that follows: there is none yet */

/* Keeps tables in this ring from now on. Again for the same process: no-op; for another one, after
 * a fork, it begins anew. The first call makes the thread. header: of the ring, copied here. */
void ky_table_thread_add(struct ky_table_thread **thread, int ring_fd,
			 const struct ky_ring_header *header);
void ky_table_thread_remove(struct ky_table_thread *thread, int ring_fd);
/* The process has ended, and is about to be reaped: the tables stay as they are. Waits until the
 * thread reads nothing of it any more. */
void ky_table_thread_end(struct ky_table_thread *thread, uint32_t pid);
/* Now and then: of a process that has run, the mappings are read again, once a second at most. */
void ky_table_thread_look(struct ky_table_thread *thread, uint64_t now_ns);
void ky_table_thread_close(struct ky_table_thread *thread);

/* As ky_unwind_tables_text(); of a ring that it keeps none in, that there is no room for them. */
void ky_table_thread_text(struct ky_table_thread *thread, int ring_fd, char *out, size_t capacity);

#endif
