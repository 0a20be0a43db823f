/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* send_thread.h - a sender in a thread of its own, at nice 10, while a recorder writes.
 *
 * It reads the directory's times each second, and the files only where something is new or a
 * destination wants to be asked again.
 * Threads: owner.
 */
#ifndef KY_SEND_SEND_THREAD_H
#define KY_SEND_SEND_THREAD_H

#include <send/sender.h>
#include <stdbool.h>

struct ky_send_thread;

/* is_ready: NULL, or asked by the thread until it is true: nothing is sent before. Returns 0;
 * -ENOMEM; -EAGAIN: no thread can be made. */
int ky_send_thread_open(struct ky_send_thread **out, const struct ky_sender_options *options,
			bool (*is_ready)(void *ctx), void *ready_ctx);

/* No segment comes any more: sends what is there until deadline_ns of CLOCK_MONOTONIC. May come
 * again, with another time. Does not wait. */
void ky_send_thread_finish(struct ky_send_thread *thread, uint64_t deadline_ns);
bool ky_send_thread_is_done(const struct ky_send_thread *thread);
/* Waits for the end, and then gives what was done. */
const struct ky_sender *ky_send_thread_join(struct ky_send_thread *thread);
void ky_send_thread_close(struct ky_send_thread *thread); /* NULL: no-op */

#endif
