/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* reading_thread.h - takes the readings of what the processes of a `kymo run` use, and looks every
 * KY_LOOK_NS whether they were stopped, on a thread of its own: neither a drain that has much to
 * read nor a disk that is slow delays one.
 *
 * Threads: owner; the rest of a struct ky_reading is under the thread's lock once it was added.
 */
#ifndef KY_SESSION_READING_THREAD_H
#define KY_SESSION_READING_THREAD_H

#include <agent/probe_resources.h>
#include <probe/process_watch.h>
#include <session/child_states.h>

struct ky_reading_thread;

/* Of one ring. Zeros: not added. */
struct ky_reading {
	struct ky_reading_thread *thread;
	struct ky_reading *next;
	struct ky_probe_resources resources; /* filled in by the owner */
	struct ky_probe probe;
	struct ky_proc_reader process;
	struct ky_child_states *states; /* the owner's: of our own child; NULL: of another's */
	uint64_t since_ns;              /* the owner's: older changes are not this program's */
	uint64_t next_change;
	struct ky_process_watch watch;
	uint32_t wish_ms; /* atomic; of the ring's settings */
	uint64_t due_ns;
};

/* Begins with the first reading, at once. view: of the ring; resources.area.access.fd and
 * resources.interval_ns are the owner's, who keeps the descriptor open until it is removed. Without
 * memory there are no readings. */
void ky_reading_add(struct ky_reading_thread **thread, struct ky_reading *reading,
		    const struct ky_ring_view *view);
/* What the settings say now. */
void ky_reading_set(struct ky_reading *reading, uint32_t wish_ms);
/* The last reading, and no more of them; again: nothing. */
void ky_reading_end(struct ky_reading *reading);
/* The caller takes them from now on, by ky_reading_step(), or the thread does again: while nothing
 * else is to be done, one thread wakes in place of two. thread NULL: there is nothing to take. */
void ky_reading_lend(struct ky_reading_thread *thread, bool is_lent);
/* Takes what is due, while they are lent. Returns when the next one is, UINT64_MAX: none. */
uint64_t ky_reading_step(struct ky_reading_thread *thread);
/* No more readings; ends those that were added. */
void ky_reading_thread_close(struct ky_reading_thread *thread);

#endif
