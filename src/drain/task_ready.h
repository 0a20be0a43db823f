/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_ready.h - what a wake means, and how long tasks are ready before their poll begins; for
 * src/drain.
 *
 * Threads: owner.
 */
#ifndef KY_DRAIN_TASK_READY_H
#define KY_DRAIN_TASK_READY_H

#include <drain/convert_stage.h>
#include <kymo/emit.h>

#define KY_NAME_MASK 0xffffffu
#define KY_ORIGIN_OWN_POLL 1u
#define KY_ORIGIN_OTHER_POLL 2u
#define KY_ORIGIN_DRIVER 3u
#define KY_ORIGIN_ELSEWHERE 4u
#define KY_ORIGIN_AT_END 64u
#define KY_ORIGIN_DERIVED 128u

/* The task of a WAKE, whose word has its copy of Tokio where others have a name. */
static inline uint64_t ky_woken_task(uint64_t word)
{
	return (word >> KYMO_NAME_BITS) | (word & 31u) << KY_TASK_COPY_SHIFT;
}

/* poll: the thread's innermost, NULL; arg: of the WAKE. */
static inline uint32_t ky_wake_origin(const struct ky_dthread *thread,
				      const struct ky_drain_poll *poll, uint64_t woken,
				      uint32_t arg)
{
	uint32_t at_end = arg & KYMO_WAKE_AT_END ? KY_ORIGIN_AT_END : 0;

	if (poll)
		return at_end + (poll->task == woken ? KY_ORIGIN_OWN_POLL : KY_ORIGIN_OTHER_POLL);
	if ((arg & KYMO_WAKE_ON_DRIVER) || thread->worker != KY_NONE32)
		return at_end + KY_ORIGIN_DRIVER;
	return at_end + KY_ORIGIN_ELSEWHERE;
}

/* As a WakeEvent has room for it. */
static inline uint8_t ky_wake_worker(uint32_t worker)
{
	uint32_t id = ky_worker_id(worker);

	return (uint8_t)(id > 253 ? KY_WORKER_UNKNOWN : id);
}

/* Of a thread that target_worker does not name; else 0. */
static inline uint32_t ky_wake_tid(const struct ky_dthread *thread)
{
	return ky_wake_worker(thread->worker) == KY_WORKER_UNKNOWN ? thread->tid : 0;
}

/* As a PollStartEvent has room for it. */
static inline uint8_t ky_poll_queue(uint32_t queue)
{
	if (queue == KYMO_QUEUE_UNKNOWN)
		return 0;
	return (uint8_t)(queue < 255 ? queue : 255);
}

/* As a WorkerParkEvent has room for it. */
static inline uint8_t ky_park_wait(uint32_t arg)
{
	arg &= KYMO_PARK_WAIT_MASK;
	return (uint8_t)(arg <= KYMO_WAIT_FUTEX ? arg : 0);
}

/* In ms; UINT32_MAX: none, or not known. */
static inline uint32_t ky_park_timeout(uint32_t arg)
{
	uint32_t code = (arg & 0xffffu) >> KYMO_PARK_TIMEOUT_SHIFT;

	return code >= KYMO_PARK_TIMEOUT_ZERO ? code - KYMO_PARK_TIMEOUT_ZERO : UINT32_MAX;
}

/* Of an UNPARK or DRIVER_TURN. */
static inline uint32_t ky_ready_count(uint32_t arg)
{
	if (arg <= KYMO_READY_MAX)
		return arg;
	return arg == KYMO_READY_FAILED ? 0 : 1;
}

/* The descriptor of the one event; UINT32_MAX: there were others, or it is not known. */
static inline uint32_t ky_ready_descriptor(uint32_t arg)
{
	return arg > KYMO_READY_MAX && arg != KYMO_READY_FAILED ? arg & KYMO_READY_MAX : UINT32_MAX;
}

static inline void ky_make_ready(struct ky_convert *convert, struct ky_drain_task *task,
				 uint64_t ns)
{
	/* A task that is ready already stays ready since then. */
	if (!task || task->ready_ns)
		return;
	task->ready_ns = ns ? ns : 1;
	convert->tasks.ready_count++;
}

/* What the kernel counts is read sooner. */
#define KY_LATE_WAKE_NS UINT64_C(10000000)

/* Its poll begins: for so long it has waited. */
static inline void ky_take_ready(struct ky_convert *convert, struct ky_drain_task *task,
				 uint64_t ns)
{
	uint64_t since_ns = task ? task->ready_ns : 0;

	if (!since_ns)
		return;
	task->ready_ns = 0;
	convert->tasks.ready_count--;
	convert->late_wakes += ns > since_ns && ns - since_ns >= KY_LATE_WAKE_NS;
	if (ns > since_ns && ns - since_ns > convert->sums.wake_delay_max_ns) {
		convert->sums.wake_delay_max_ns = ns - since_ns;
		convert->sums.wake_delay_task = task->key & ~KY_TASK_USED;
	}
}

#endif
