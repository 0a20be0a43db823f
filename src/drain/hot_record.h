/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* hot_record.h - polls and wakes, nearly all of what a stream consists of, turned into events
 * without the questions that convert.c has to ask for each record; for merge_loop.c.
 *
 * Invariants:  ky_hot_record() either does exactly what convert.c would, or nothing at all
 *              and returns false: whatever is in any way out of the ordinary is convert.c's.
 *              Between ky_hot_begin() and ky_hot_settle() the drain's own figures (encoder, chunk,
 *              merge) are out of date: nothing else may read them.
 *              Stamps do not go back while a struct ky_hot lives: a late record is convert.c's.
 * Cost:        what changes with every record is in the caller's registers: bytes are stored
 *              through pointers that, for all the compiler knows, point to struct ky_drain.
 */
#ifndef KY_DRAIN_HOT_RECORD_H
#define KY_DRAIN_HOT_RECORD_H

#include <drain/convert_stage.h>
#include <drain/task_ready.h>
#include <drain/wake_stack.h>

#define KY_HOT_RECORD_BYTES (2u * KY_TRC_HOT_EVENT_BYTES) /* a poll's end may report a wake, too */
#define KY_HOT_EVENT_BYTES_MIN (KY_TRC_EVENT_HEAD_BYTES + 1u)
#define KY_HOT_EVENTS_MAX (KY_CHUNK_EVENTS_MAX - KY_RECORD_EVENTS_MAX - KY_TIES_EVENTS)

struct ky_hot {
	/* Stamps after last_ticks lie in another piece of the timeline or in another chunk; 0:
	 * none is taken now. */
	uint64_t last_ticks, piece_ticks, piece_q48, piece_ns, serial;
	/* the encoder; at_max: up to here there is room for one more record */
	uint8_t *at, *at_max;
	uint64_t base_ns;
	uint64_t poll_start, poll_end, wake, park, unpark; /* how these events begin */
	struct ky_drain_task *tasks;
	uint32_t task_mask;
	/* of the last record */
	uint64_t ticks, ns;
	/* since ky_hot_begin(); wakes that a poll's end reported beside its own event */
	uint32_t reported_count, more_count;
};

/* Whether trying again after the next record makes sense. */
static inline bool ky_hot_may_be(const struct ky_convert *convert)
{
	return !convert->chunk.is_muted && !convert->retain.is_on;
}

static inline uint64_t ky_hot_ns(const struct ky_hot *hot, uint64_t ticks)
{
	return (uint64_t)(((ky_wide)(ticks - hot->piece_ticks) * hot->piece_q48) >> 48) +
	       hot->piece_ns;
}

/* Stamps continue from the last record, in its piece. Returns false when there is none to take. */
static inline bool ky_hot_take_time(const struct ky_convert *convert, struct ky_hot *hot)
{
	const struct ky_timeline *line = &convert->common->timeline;
	const struct ky_open_chunk *chunk = &convert->chunk;
	uint64_t left_ns = chunk->span_ns, left_ticks, ns;

	if (convert->merged_ticks - line->piece_ticks >= line->piece_span)
		return false;
	hot->ticks = convert->merged_ticks;
	hot->piece_ticks = line->piece_ticks;
	hot->piece_q48 = line->piece_q48;
	hot->piece_ns = line->piece_ns;
	hot->last_ticks = line->piece_ticks + (line->piece_span - 1);
	/* No stamp of the piece needs the limit that ky_timeline_ns() reads. */
	if (ky_hot_ns(hot, hot->last_ticks) - line->piece_ns > line->piece_limit_ns)
		return false;
	ns = ky_hot_ns(hot, hot->ticks);
	if (convert->common->to_ns < chunk->first_ns)
		return false;
	if (convert->common->to_ns - chunk->first_ns < left_ns)
		left_ns = convert->common->to_ns - chunk->first_ns + 1;
	if (ns - chunk->first_ns >= left_ns) /* span_ns is 0 while no chunk is open */
		return false;
	/* Fewer than there are, for that is a division of small numbers; the next reading comes
	 * then. */
	left_ns -= ns - chunk->first_ns;
	left_ticks = (left_ns - 1) / ((hot->piece_q48 >> 48) + 1);
	if (hot->last_ticks - hot->ticks > left_ticks)
		hot->last_ticks = hot->ticks + left_ticks;
	return true;
}

static inline uint64_t ky_hot_start(const struct ky_convert *convert, enum ky_event_id event)
{
	return KY_TAG_EVENT | (uint64_t)convert->chunk.enc.type_id[event] << 8;
}

static __attribute__((noinline, unused)) struct ky_hot
ky_hot_begin(const struct ky_convert *convert)
{
	const struct ky_buf *out = &convert->chunk.out;
	struct ky_hot hot = {0}, none = {0};
	uint64_t events = convert->chunk.enc.event_count;
	size_t room = out->capacity;

	if (!ky_hot_may_be(convert) || out->failed ||
	    convert->chunk.last_ticks != convert->merged_ticks ||
	    convert->chunk.clock_serial != convert->chunk.serial ||
	    convert->chunk.clock_ticks != convert->common->timeline.piece_ticks ||
	    events >= KY_HOT_EVENTS_MAX || room < KY_HOT_RECORD_BYTES ||
	    !ky_hot_take_time(convert, &hot))
		return none;
	hot.serial = convert->chunk.serial;
	hot.at = out->bytes + out->used;
	hot.base_ns = convert->chunk.enc.base_ns;
	/* Up to where the chunk has room for bytes, and for events were each as short as can be:
	 * the next reading comes after that, so that no event has to be counted. */
	room -= KY_HOT_RECORD_BYTES;
	if (room > KY_CHUNK_BYTES_SOFT - KY_RECORD_BYTES_MAX - KY_TIES_BYTES)
		room = KY_CHUNK_BYTES_SOFT - KY_RECORD_BYTES_MAX - KY_TIES_BYTES;
	events = KY_HOT_EVENTS_MAX - 1 - events;
	if (room > out->used + events * KY_HOT_EVENT_BYTES_MIN)
		room = out->used + events * KY_HOT_EVENT_BYTES_MIN;
	hot.at_max = out->bytes + room;
	hot.poll_start = ky_hot_start(convert, KY_EV_POLL_START);
	hot.poll_end = ky_hot_start(convert, KY_EV_POLL_END);
	hot.wake = ky_hot_start(convert, KY_EV_WAKE);
	hot.park = ky_hot_start(convert, KY_EV_WORKER_PARK);
	hot.unpark = ky_hot_start(convert, KY_EV_WORKER_UNPARK);
	hot.tasks = convert->tasks.entries;
	hot.task_mask = convert->tasks.capacity - 1;
	return hot;
}

/* By value: were its address known elsewhere, it could not stay in registers. */
static __attribute__((noinline, unused)) void ky_hot_settle(struct ky_convert *convert,
							    struct ky_hot hot)
{
	if (!hot.reported_count)
		return;
	convert->chunk.out.used = (size_t)(hot.at - convert->chunk.out.bytes);
	convert->chunk.enc.base_ns = hot.base_ns;
	convert->chunk.enc.event_count += hot.reported_count + hot.more_count;
	if (hot.ns > convert->chunk.last_ns)
		convert->chunk.last_ns = hot.ns;
	convert->merged_ticks = convert->chunk.last_ticks = hot.ticks;
	convert->merged_ns = hot.ns;
	convert->chunk.last_ties = 1;
	convert->chunk.records_reported += hot.reported_count;
	convert->common->threads.queues.waiting -= hot.reported_count;
}

/* As ky_task_table_find(). */
static inline struct ky_drain_task *ky_hot_task(const struct ky_hot *hot, uint64_t id)
{
	uint64_t key = id | KY_TASK_USED;
	uint32_t at = ky_task_place(id, hot->task_mask + 1);

	for (; __builtin_expect(hot->tasks[at].key != key, 0); at = (at + 1) & hot->task_mask) {
		if (!hot->tasks[at].key)
			return NULL;
	}
	return &hot->tasks[at];
}

/* Where the fields go. The caller has seen that the event's schema is written, that there is room,
 * and that no time reset is needed. */
static inline uint8_t *ky_hot_head(struct ky_hot *hot, uint64_t start, uint64_t ns)
{
	ky_put_u64(hot->at, start | (ns - hot->base_ns) << 24);
	hot->base_ns = ns;
	return hot->at + KY_TRC_EVENT_HEAD_BYTES;
}

static inline uint8_t *ky_hot_wake(struct ky_hot *hot, const struct ky_dthread *thread,
				   uint64_t waker, uint64_t woken, uint32_t origin, uint32_t stack,
				   uint64_t ns)
{
	uint8_t *at = ky_hot_head(hot, hot->wake, ns);

	at = ky_varint_put(at, waker);
	at = ky_varint_put(at, woken);
	*at++ = ky_wake_worker(thread->worker);
	*at++ = (uint8_t)origin;
	return ky_varint_put(ky_put_u32(at, stack), ky_wake_tid(thread));
}

static inline bool ky_hot_on_wake(struct ky_convert *convert, struct ky_hot *hot,
				  const struct ky_dthread *thread, const struct ky_rec *rec,
				  uint64_t ns)
{
	uint64_t woken = ky_woken_task(rec->a);
	struct ky_drain_task *task = ky_hot_task(hot, woken);
	const struct ky_drain_poll *poll = thread->depth ? &thread->stack[thread->depth - 1] : NULL;
	uint64_t waker = poll ? poll->task : 0;
	uint32_t stack;

	if (__builtin_expect(!task || !convert->chunk.enc.has_schema[KY_EV_WAKE] ||
				     !ky_wake_stack_find(convert, ky_wake_stack_number(rec->arg),
							 &stack),
			     0))
		return false;
	ky_make_ready(convert, task, ns);
	hot->at = ky_hot_wake(hot, thread, waker, woken,
			      ky_wake_origin(thread, poll, woken, rec->arg), stack, ns);
	return true;
}

/* As the fast way of ky_convert_worker_take() with no poll open; thread->worker is not
 * KY_NONE32. */
static inline bool ky_hot_has_worker(const struct ky_dthread *thread,
				     const struct ky_drain_worker *worker)
{
	return worker->owner == thread && !worker->is_open &&
	       (thread->is_launched || worker->runtime_key == thread->runtime_key);
}

/* An outer poll of a task and by a worker that are known, of a name that this chunk has. */
static inline bool ky_hot_on_poll_begin(struct ky_convert *convert, struct ky_hot *hot,
					struct ky_dthread *thread, const struct ky_rec *rec,
					uint64_t ns)
{
	uint32_t name_id = (uint32_t)rec->a & KY_NAME_MASK, queue = rec->arg;
	struct ky_drain_poll *poll = thread->stack;
	const struct ky_name_entry *name;
	struct ky_drain_worker *worker;
	struct ky_drain_task *task;
	uint64_t id;
	uint8_t *at;

	if (__builtin_expect(name_id >= convert->common->names.count ||
				     thread->worker == KY_NONE32 || thread->depth ||
				     thread->deeper || !thread->stack_capacity ||
				     !convert->chunk.enc.has_schema[KY_EV_POLL_START],
			     0))
		return false;
	name = &convert->common->names.list[name_id];
	worker = &convert->workers.list[thread->worker];
	id = (rec->a >> KYMO_NAME_BITS) | (uint64_t)name->entry.copy << KY_TASK_COPY_SHIFT;
	task = ky_hot_task(hot, id);
	if (__builtin_expect(name->pool_serial != hot->serial || !task ||
				     ky_task_is_unnamed(task) || ky_waits_long(task, ns) ||
				     !ky_hot_has_worker(thread, worker),
			     0))
		return false;
	ky_take_ready(convert, task, ns);
	thread->depth = 1;
	*poll = (struct ky_drain_poll){.task = id,
				       .start_ns = ns,
				       .begin_ticks = rec->ticks,
				       .name = name_id,
				       .worker = thread->worker,
				       .kind = KY_POLL_OUTER,
				       .task_place = (uint32_t)(task - hot->tasks)};
	worker->is_open = true;
	at = ky_hot_head(hot, hot->poll_start, ns);
	at = ky_trc_enc_worker(at, ky_worker_id(thread->worker));
	*at++ = ky_poll_queue(queue);
	at = ky_varint_put(at, id);
	hot->at = ky_put_u32(at, name->pool_id);
	return true;
}

/* The end of an outer poll whose task continues. */
static inline bool ky_hot_on_poll_end(struct ky_convert *convert, struct ky_hot *hot,
				      struct ky_dthread *thread, uint32_t arg, uint64_t ns)
{
	uint32_t flags = arg & ((1u << KYMO_POLL_POINTS_SHIFT) - 1);
	struct ky_drain_poll *poll = thread->stack;
	struct ky_drain_task *task;
	uint32_t stack;
	uint8_t *at;

	if (__builtin_expect(thread->depth != 1 || thread->deeper || poll->kind != KY_POLL_OUTER ||
				     !convert->chunk.enc.has_schema[KY_EV_POLL_END],
			     0))
		return false;
	task = ky_task_table_find_at(&convert->tasks, poll->task, poll->task_place);
	if (flags) {
		if (flags != KYMO_POLL_SELF_WAKE || !convert->chunk.enc.has_schema[KY_EV_WAKE] ||
		    !ky_wake_stack_find(convert, 0, &stack))
			return false;
		hot->at = ky_hot_wake(hot, thread, poll->task, poll->task,
				      KY_ORIGIN_OWN_POLL | KY_ORIGIN_DERIVED, stack, ns);
		hot->more_count++;
		ky_make_ready(convert, task, ns);
	}
	thread->depth = 0;
	thread->boundary_ns = ns;
	if (task && task->points != arg >> KYMO_POLL_POINTS_SHIFT)
		ky_convert_points(convert, task, arg >> KYMO_POLL_POINTS_SHIFT);
	if (task)
		task->last_poll_ns = ns;
	at = ky_hot_head(hot, hot->poll_end, ns);
	hot->at = ky_trc_enc_worker(at, ky_worker_id(poll->worker));
	ky_worker_book(&convert->workers, poll->worker, ky_convert_mark(convert), poll->start_ns,
		       ns, poll->task);
	convert->workers.list[poll->worker].is_open = false;
	return true;
}

static inline bool ky_hot_on_park(struct ky_convert *convert, struct ky_hot *hot,
				  struct ky_dthread *thread, const struct ky_rec *rec, uint64_t ns)
{
	struct ky_drain_worker *worker;
	bool is_park = rec->type == KYMO_RECORD_PARK;
	uint32_t arg = rec->arg;
	uint8_t *at;

	if (__builtin_expect(thread->worker == KY_NONE32 || thread->depth ||
				     !convert->chunk.enc.has_schema[KY_EV_WORKER_PARK] ||
				     !convert->chunk.enc.has_schema[KY_EV_WORKER_UNPARK],
			     0))
		return false;
	worker = &convert->workers.list[thread->worker];
	if (__builtin_expect(!ky_hot_has_worker(thread, worker) ||
				     worker->parked_on_seen != thread->parked_on,
			     0))
		return false;
	worker->cpu_ns = ky_worker_cpu(worker, ns);
	worker->active_since_ns = ns;
	worker->is_parked = is_park;
	thread->boundary_ns = ns;
	at = ky_hot_head(hot, is_park ? hot->park : hot->unpark, ns);
	at = ky_trc_enc_worker_time(at, ky_worker_id(thread->worker), worker->cpu_ns);
	if (is_park) {
		at = ky_put_u32(at, thread->tid);
		hot->at = ky_trc_enc_park_wait(at, ky_park_wait(arg), ky_park_timeout(arg));
	} else {
		*at++ = 0; /* no sched_wait_ns */
		at = ky_put_u32(at, thread->tid);
		hot->at = ky_trc_enc_ready(at, ky_ready_count(arg), ky_ready_descriptor(arg));
	}
	return true;
}

/* rec->ticks <= hot->last_ticks. The caller counts it. */
static inline bool ky_hot_record(struct ky_convert *convert, struct ky_hot *hot,
				 struct ky_dthread *thread, const struct ky_rec *rec)
{
	uint64_t ticks = rec->ticks, ns;
	bool is_taken;

	/* One that shares its stamp with the last is late or has to be counted. */
	if (__builtin_expect(ticks <= hot->ticks || hot->at > hot->at_max, 0))
		return false;
	ns = ky_hot_ns(hot, ticks);
	if (__builtin_expect(ns - hot->base_ns > KY_TRC_DELTA_MAX, 0))
		return false;
	switch (rec->type) {
	case KYMO_RECORD_POLL_BEGIN:
		is_taken = ky_hot_on_poll_begin(convert, hot, thread, rec, ns);
		break;
	case KYMO_RECORD_POLL_END:
		is_taken = ky_hot_on_poll_end(convert, hot, thread, rec->arg, ns);
		break;
	case KYMO_RECORD_WAKE:
		is_taken = ky_hot_on_wake(convert, hot, thread, rec, ns);
		break;
	case KYMO_RECORD_PARK:
	case KYMO_RECORD_UNPARK:
		is_taken = ky_hot_on_park(convert, hot, thread, rec, ns);
		break;
	default:
		return false;
	}
	if (__builtin_expect(!is_taken, 0))
		return false;
	hot->ticks = ticks;
	hot->ns = ns;
	return true;
}

#endif
