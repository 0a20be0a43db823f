/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One ring record in, the events it means out. */
#include <drain/convert_stage.h>

#include <drain/task_ready.h>
#include <drain/wake_stack.h>
#include <kymo/emit.h>
#include <string.h>

#define REASON_SYSCALL 1u
#define REASON_FUTEX 2u

/* ---- tasks ---- */

static inline uint64_t full_task(const struct ky_convert *convert, uint64_t word)
{
	uint32_t id = (uint32_t)word & KY_NAME_MASK;
	uint64_t copy = id < convert->common->names.count ?
				convert->common->names.list[id].entry.copy :
				0;

	return (word >> KYMO_NAME_BITS) | copy << KY_TASK_COPY_SHIFT;
}

static void write_first_seen(struct ky_convert *convert, uint64_t id, uint32_t name, uint64_t ns)
{
	uint32_t pool = ky_name_pool(&convert->common->names, &convert->chunk, name);

	ky_trc_enc_event(&convert->chunk.enc, KY_EV_TASK_FIRST_SEEN, ns);
	ky_trc_enc_varint(&convert->chunk.enc, id);
	ky_trc_enc_u32(&convert->chunk.enc, pool);
}

/* A task that shows up without a spawn is reported as first seen. */
static __attribute__((noinline)) struct ky_drain_task *
see_first(struct ky_convert *convert, uint64_t id, uint32_t name, uint64_t ns)
{
	if (!ky_task_table_add(&convert->tasks, id, name))
		return NULL;
	write_first_seen(convert, id, name, ns);
	return ky_task_table_find(&convert->tasks, id);
}

/* A wake before its first poll knows none. */
static __attribute__((noinline)) void
name_task(struct ky_convert *convert, struct ky_drain_task *task, uint32_t name, uint64_t ns)
{
	if (!name) /* a wake */
		return;
	if (ky_task_name(task) && ky_task_name(task) != name)
		write_first_seen(convert, task->key & ~KY_TASK_USED, name, ns);
	task->name = name;
}

/* The task's entry, NULL when there is no room for one. */
static inline struct ky_drain_task *see_task(struct ky_convert *convert, uint64_t id, uint32_t name,
					     uint64_t ns)
{
	struct ky_drain_task *task = ky_task_table_find(&convert->tasks, id);

	if (__builtin_expect(task == NULL, 0))
		return see_first(convert, id, name, ns);
	if (__builtin_expect(ky_task_is_unnamed(task), 0))
		name_task(convert, task, name, ns);
	return task;
}

static void end_task(struct ky_convert *convert, uint64_t id, bool is_cancelled, uint64_t ns)
{
	if (__builtin_expect(convert->retain.is_on, 0))
		ky_retain_task_end(convert, id, ns);
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_TASK_TERMINATE, ns);
	ky_trc_enc_varint(&convert->chunk.enc, id);
	ky_trc_enc_u8(&convert->chunk.enc, is_cancelled);
	ky_task_table_end(&convert->tasks, id);
}

/* stack: its number in the record. */
static void write_wake(struct ky_convert *convert, const struct ky_dthread *thread, uint64_t waker,
		       uint64_t woken, uint32_t origin, uint32_t stack, uint64_t ns)
{
	if (__builtin_expect(convert->chunk.is_muted || convert->retain.is_on, 0)) {
		if (convert->chunk.is_muted ||
		    !ky_retain_writes_wake(convert, thread, waker, woken, origin, stack, ns))
			return;
	}
	stack = ky_wake_stack_write(convert, stack);
	ky_trc_enc_wake(&convert->chunk.enc, ns, waker, woken, ky_wake_worker(thread->worker),
			(uint8_t)origin, stack, ky_wake_tid(thread));
}

static void on_wake(struct ky_convert *convert, struct ky_dthread *thread, const struct ky_rec *rec,
		    uint64_t ns)
{
	uint64_t woken = ky_woken_task(rec->a);
	const struct ky_drain_poll *poll = thread->depth ? &thread->stack[thread->depth - 1] : NULL;

	if (ky_is_root(woken))
		ky_convert_root_woken(convert, woken, ns);
	else
		ky_make_ready(convert, see_task(convert, woken, 0, ns), ns);
	write_wake(convert, thread, poll ? poll->task : 0, woken,
		   ky_wake_origin(thread, poll, woken, rec->arg), ky_wake_stack_number(rec->arg),
		   ns);
}

static void on_spawn(struct ky_convert *convert, struct ky_dthread *thread,
		     const struct ky_rec *rec, uint64_t ns)
{
	uint64_t id = full_task(convert, rec->a);
	uint32_t name = (uint32_t)rec->a & KY_NAME_MASK, pool;
	struct ky_drain_task *task = ky_task_table_find(&convert->tasks, id);
	uint64_t parent = thread->depth ? thread->stack[thread->depth - 1].task : 0;

	if (!task)
		task = ky_task_table_add(&convert->tasks, id, name | KY_TASK_NAME_IS_PLACE);
	ky_make_ready(convert, task, ns); /* a spawned task is ready at once */
	pool = ky_name_pool(&convert->common->names, &convert->chunk, name);
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_TASK_SPAWN, ns);
	ky_trc_enc_varint(&convert->chunk.enc, id);
	ky_trc_enc_u32(&convert->chunk.enc, pool);
	ky_trc_enc_u8(&convert->chunk.enc, 1);
	ky_trc_enc_opt_varint(&convert->chunk.enc, thread->worker != KY_NONE32,
			      ky_worker_id(thread->worker));
	ky_trc_enc_opt_varint(&convert->chunk.enc, parent != 0, parent);
}

/* ---- polls ---- */

static void write_nested(struct ky_convert *convert, const struct ky_dthread *thread, uint64_t task,
			 uint32_t name, uint32_t depth, uint64_t ns)
{
	uint32_t pool;

	pool = ky_name_pool(&convert->common->names, &convert->chunk, name);
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_NESTED_POLL_START, ns);
	ky_trc_enc_varint(&convert->chunk.enc, ky_worker_id(thread->worker));
	ky_trc_enc_u32(&convert->chunk.enc, thread->tid);
	ky_trc_enc_varint(&convert->chunk.enc, depth);
	ky_trc_enc_varint(&convert->chunk.enc, task);
	ky_trc_enc_u32(&convert->chunk.enc, pool);
}

/* The poll is open from here on. ns: when it is reported, which for one whose start lies before the
 * trace is not when it began. NULL: deeper than we keep, neither its start nor its end is
 * reported. */
static inline struct ky_drain_poll *push_poll(struct ky_convert *convert, struct ky_dthread *thread,
					      uint64_t word, uint64_t ticks, uint64_t start_ns,
					      uint64_t ns)
{
	uint64_t id = full_task(convert, word);
	uint32_t name = (uint32_t)word & KY_NAME_MASK;
	struct ky_drain_task *task = see_task(convert, id, name, ns);
	bool is_outer = !thread->depth && !thread->deeper &&
			ky_convert_worker_take(convert, thread, start_ns, ns);
	struct ky_drain_poll *poll = ky_thread_push_poll(thread);

	ky_take_ready(convert, task, start_ns);
	if (!poll)
		return NULL;
	poll->task = id;
	poll->start_ns = start_ns;
	poll->begin_ticks = ticks;
	poll->name = name;
	poll->worker = thread->worker;
	poll->kind = is_outer ? KY_POLL_OUTER : KY_POLL_NESTED;
	poll->task_place = task ? (uint32_t)(task - convert->tasks.entries) : 0;
	if (is_outer)
		convert->workers.list[thread->worker].is_open = true;
	return poll;
}

static void open_poll(struct ky_convert *convert, struct ky_dthread *thread, uint64_t word,
		      uint32_t queue, uint64_t ticks, uint64_t ns)
{
	const struct ky_drain_poll *poll = push_poll(convert, thread, word, ticks, ns, ns);
	uint32_t pool;

	if (!poll || convert->chunk.is_muted)
		return;
	if (poll->kind != KY_POLL_OUTER) {
		write_nested(convert, thread, poll->task, poll->name, thread->depth - 1, ns);
		return;
	}
	pool = ky_name_pool(&convert->common->names, &convert->chunk, poll->name);
	ky_trc_enc_poll_start(&convert->chunk.enc, ns, ky_worker_id(thread->worker),
			      ky_poll_queue(queue), poll->task, pool);
}

/* The same under a policy that may hold it back. */
static void open_retained(struct ky_convert *convert, struct ky_dthread *thread,
			  const struct ky_rec *rec, uint64_t ns)
{
	uint32_t name = (uint32_t)rec->a & KY_NAME_MASK, tid = 0;
	struct ky_retain_choice choice;
	struct ky_drain_poll *poll;

	ky_retain_choose(convert, thread, rec, full_task(convert, rec->a), ns, &choice);
	if (choice.is_kept) {
		open_poll(convert, thread, rec->a, rec->arg, rec->ticks, ns);
	} else {
		poll = push_poll(convert, thread, rec->a, rec->ticks, ns, ns);
		if (poll)
			ky_retain_poll_begin(convert, poll);
	}
	if (thread->depth && thread->stack[thread->depth - 1].kind == KY_POLL_NESTED)
		tid = thread->tid;
	ky_retain_delay(convert, &choice, name, thread->worker, tid, ns);
}

static void on_poll_end(struct ky_convert *convert, struct ky_dthread *thread, uint32_t arg,
			uint64_t ns)
{
	uint32_t flags = arg; /* the points lie above them */
	const struct ky_drain_poll *poll;
	struct ky_drain_task *task;

	if (thread->deeper) {
		thread->deeper--;
		return;
	}
	if (!thread->depth)
		return; /* its start was lost and it is unknown */
	poll = &thread->stack[--thread->depth];
	thread->boundary_ns = ns;
	if (flags & KYMO_POLL_SELF_WAKE)
		write_wake(convert, thread, poll->task, poll->task,
			   KY_ORIGIN_OWN_POLL | KY_ORIGIN_DERIVED, 0, ns);
	if (flags & KYMO_POLL_READY) {
		end_task(convert, poll->task, flags & KYMO_POLL_CANCELLED, ns);
	} else {
		task = ky_task_table_find_at(&convert->tasks, poll->task, poll->task_place);
		if (task && task->points != arg >> KYMO_POLL_POINTS_SHIFT)
			ky_convert_points(convert, task, arg >> KYMO_POLL_POINTS_SHIFT);
		if (task)
			task->last_poll_ns = ns;
		if (flags & KYMO_POLL_SELF_WAKE)
			ky_make_ready(convert, task, ns);
	}
	if (__builtin_expect(poll->kind >= KY_POLL_SILENT, 0)) {
		if (poll->kind != KY_POLL_SILENT)
			ky_retain_poll_end(convert, poll, ns);
		return;
	}
	if (convert->chunk.is_muted) {
		if (poll->kind == KY_POLL_OUTER)
			convert->workers.list[poll->worker].is_open = false;
		return;
	}
	if (poll->kind == KY_POLL_OUTER) {
		ky_trc_enc_poll_end(&convert->chunk.enc, ns, ky_worker_id(poll->worker));
		ky_worker_book(&convert->workers, poll->worker, ky_convert_mark(convert),
			       poll->start_ns, ns, poll->task);
		convert->workers.list[poll->worker].is_open = false;
		return;
	}
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_NESTED_POLL_END, ns);
	ky_trc_enc_varint(&convert->chunk.enc, ky_worker_id(poll->worker));
	ky_trc_enc_u32(&convert->chunk.enc, thread->tid);
}

static void on_blocking(struct ky_convert *convert, struct ky_dthread *thread,
			const struct ky_rec *rec, uint64_t ns)
{
	uint32_t name = (uint32_t)rec->a & KY_NAME_MASK, pool;
	uint64_t id = full_task(convert, rec->a);

	if (rec->type == KYMO_RECORD_BLOCKING_BEGIN) {
		thread->is_blocking = true;
		thread->blocking_task = id;
		thread->blocking_name = name;
		thread->blocking_start_ns = ns;
		thread->root_begin_ns = ns;
		thread->blocking_worker = thread->worker;
		thread->is_run_counted = convert->retain.is_on &&
					 !ky_retain_writes_run(convert, thread, rec, ns);
		if (thread->is_run_counted)
			return;
		pool = ky_name_pool(&convert->common->names, &convert->chunk, name);
		ky_trc_enc_event(&convert->chunk.enc, KY_EV_BLOCKING_START, ns);
		ky_trc_enc_u32(&convert->chunk.enc, thread->tid);
		ky_trc_enc_varint(&convert->chunk.enc, id);
		ky_trc_enc_u32(&convert->chunk.enc, pool);
		return;
	}
	if (!thread->is_blocking)
		return;
	thread->is_blocking = false;
	/* A runtime that the closure drove: whatever the thread does next is none of it. */
	if (thread->worker != thread->blocking_worker && !thread->is_launched)
		ky_convert_worker_end(convert, thread, ns);
	id = thread->blocking_task;
	/* Closures are reported by their runs; only one whose spawn was seen has an end of its
	 * own. */
	if ((rec->arg & KYMO_POLL_READY) && ky_task_table_find(&convert->tasks, id))
		end_task(convert, id, rec->arg & KYMO_POLL_CANCELLED, ns);
	if (thread->is_run_counted) {
		ky_retain_run_end(convert, thread->blocking_name, ns - thread->blocking_start_ns);
		return;
	}
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_BLOCKING_END, ns);
	ky_trc_enc_u32(&convert->chunk.enc, thread->tid);
	ky_trc_enc_varint(&convert->chunk.enc, id);
}

/* ---- parks, driver, waits ---- */

static void on_driver_turn(struct ky_convert *convert, struct ky_dthread *thread,
			   const struct ky_rec *rec, uint64_t ns)
{
	uint64_t length_ns = ky_timeline_length_ns(&convert->common->timeline, rec->a);

	thread->boundary_ns = ns;
	if (convert->chunk.is_muted ||
	    (convert->retain.is_on && !ky_retain_writes(convert, KY_RETAIN_DRIVER, length_ns, ns)))
		return;
	ky_trc_enc_driver_turn(&convert->chunk.enc, ns, ky_worker_id(thread->worker), length_ns,
			       ky_ready_count(rec->arg), ky_ready_descriptor(rec->arg));
}

static void on_wait(struct ky_convert *convert, struct ky_dthread *thread, const struct ky_rec *rec,
		    uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t no_name = ky_chunk_text(&convert->chunk, "");

	ky_trc_enc_event(enc, KY_EV_OFF_CPU, ns);
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_varint(enc, ky_worker_id(thread->worker));
	ky_trc_enc_varint(enc, thread->depth ? thread->stack[thread->depth - 1].task : 0);
	ky_trc_enc_varint(enc, ky_timeline_length_ns(&convert->common->timeline, rec->a));
	ky_trc_enc_u8(enc, rec->arg == KYMO_WAIT_FUTEX ? REASON_FUTEX : REASON_SYSCALL);
	ky_trc_enc_opt_varint(enc, false, 0);
	ky_trc_enc_frames(enc, NULL, 0);
	ky_trc_enc_f64(enc, 1.0);
	ky_trc_enc_varint(enc, thread->depth ? thread->stack[thread->depth - 1].start_ns : 0);
	ky_trc_enc_u8(enc, 0);
	ky_trc_enc_u8(enc, KY_SOURCE_CALLS);
	ky_trc_enc_u8(enc, 0);
	ky_trc_enc_opt_varint(enc, false, 0);
	ky_trc_enc_opt_varint(enc, false, 0);
	ky_trc_enc_u8(enc, KY_WOKEN_UNKNOWN);
	ky_trc_enc_opt_varint(enc, false, 0);
	ky_trc_enc_opt_varint(enc, false, 0);
	ky_trc_enc_u32(enc, no_name);
	ky_call_facts_write(enc, &(struct ky_call_facts){.fd = -1, .bytes = -1});
}

/* ---- loss ---- */

/* While threads and workers are as they were before the record. */
static inline bool takes_record(struct ky_convert *convert, uint64_t ns)
{
	struct ky_open_chunk *chunk = &convert->chunk;

	if (__builtin_expect(ky_chunk_takes(chunk, ns, KY_RECORD_EVENTS_MAX + KY_TIES_EVENTS,
					    KY_RECORD_BYTES_MAX + KY_TIES_BYTES),
			     1))
		return true;
	return convert->merged_ticks == chunk->last_ticks &&
	       ky_chunk_takes(chunk, ns, KY_RECORD_EVENTS_MAX, KY_RECORD_BYTES_MAX);
}

/* What was open before the gap is not known to be open after it; carried[] says what is. */
static void forget_polls(struct ky_convert *convert, struct ky_dthread *thread, uint32_t keep)
{
	for (uint32_t i = keep; i < thread->depth; i++) {
		if (ky_poll_is_outer(&thread->stack[i]) && thread->stack[i].worker != KY_NONE32)
			convert->workers.list[thread->stack[i].worker].is_open = false;
	}
	if (keep < thread->depth)
		thread->depth = keep;
	thread->deeper = 0;
}

static void on_gap(struct ky_convert *convert, struct ky_dthread *thread, const struct ky_rec *rec,
		   uint64_t ns)
{
	uint64_t from_ns = ky_timeline_ns(&convert->common->timeline, rec[1].ticks);

	ky_chunk_loss(&convert->chunk,
		      &(struct ky_loss){.tid = thread->tid,
					.cause = rec->arg & ~KY_GAP_INEXACT,
					.count = rec->a,
					.from_ns = from_ns,
					.to_ns = ns,
					.is_exact = !(rec->arg & KY_GAP_INEXACT)},
		      ns);
	convert->gap_count++;
	thread->is_blocking = false;
	thread->has_counts = false;
	/* What stands above the open polls is no poll that has just ended. */
	if (thread->depth < thread->stack_capacity)
		thread->stack[thread->depth].task = 0;
	if (thread->worker != KY_NONE32 && convert->workers.list[thread->worker].owner == thread)
		convert->workers.list[thread->worker].is_parked = false;
}

/* The poll was open already when the segment began. */
static bool is_older(const struct ky_convert *convert, uint64_t begin_ns)
{
	const struct ky_drain_common *common = convert->common;

	return (common->is_cut || common->has_flown) &&
	       (convert->chunk.is_muted || begin_ns < convert->chunk.segment_ns);
}

/* rec: one of the polls that were open when the sub-buffer after a gap began. A poll we know
 * continues; one whose start is lost is reported with its true start, out of order. Returns false
 * where this needs another chunk, of next_ns. */
static bool on_carried(struct ky_convert *convert, struct ky_dthread *thread,
		       const struct ky_rec *rec, uint64_t ns)
{
	uint32_t total = (uint32_t)rec[1].a, at = rec->arg;
	bool was_full = convert->full_for == KY_FULL_FOR_CARRIED;
	uint64_t begin = rec[1].ticks, begin_ns;

	convert->full_for = KY_FULL_FOR_NONE;
	if (total == 0) {
		forget_polls(convert, thread, 0);
		return true;
	}
	if (at < thread->depth && thread->stack[at].begin_ticks >> 3 == begin >> 3 &&
	    thread->stack[at].task == full_task(convert, rec->a)) {
		if (at + 1 == total)
			forget_polls(convert, thread, total);
	} else {
		forget_polls(convert, thread, at);
		begin_ns = ky_timeline_ns(&convert->common->timeline, begin);
		if (begin_ns > ns)
			begin_ns = ns;
		if (!was_full && is_older(convert, begin_ns)) {
			if (push_poll(convert, thread, rec->a, begin, begin_ns, ns))
				ky_convert_open_poll(convert, thread, thread->depth - 1, ns);
		} else if (!was_full && !takes_record(convert, begin_ns)) {
			convert->full_for = KY_FULL_FOR_CARRIED;
			convert->next_ns = begin_ns;
			return false;
		} else {
			open_poll(convert, thread, rec->a, KYMO_QUEUE_UNKNOWN, begin, begin_ns);
		}
	}
	if (at + 1 == KY_OPEN_DEPTH && total > KY_OPEN_DEPTH) {
		forget_polls(convert, thread, KY_OPEN_DEPTH);
		thread->deeper = total - KY_OPEN_DEPTH;
	}
	return true;
}

static void on_dropped(struct ky_convert *convert, struct ky_dthread *thread,
		       const struct ky_rec *rec, uint64_t ns)
{
	uint64_t count = rec->a, credit;
	uint32_t cause = rec->arg;

	if (cause < 1 || cause > 4 || !count)
		return;
	/* What a reading of the header's counters has reported already is not reported twice. */
	credit = convert->credited_drops[cause] < count ? convert->credited_drops[cause] : count;
	convert->credited_drops[cause] -= credit;
	convert->reported_drops[cause] += count - credit;
	if (count == credit)
		return;
	convert->common->stats.records_lost += count - credit;
	convert->common->stats.records_dropped += count - credit;
	ky_chunk_loss(&convert->chunk,
		      &(struct ky_loss){.tid = thread->tid,
					.cause = cause,
					.count = count - credit,
					.from_ns = thread->last_ns,
					.to_ns = ns,
					.is_exact = true},
		      ns);
}

/* Each sub-buffer says which gates were open when it was claimed, and records say when they change.
 * What the first of a thread says stands in the segment's metadata. */
static void on_gates(struct ky_convert *convert, struct ky_dthread *thread, uint64_t gates,
		     uint64_t ns)
{
	bool is_change = thread->has_gates && thread->gates != gates;

	thread->has_gates = true;
	thread->gates = gates;
	if (!is_change)
		return;
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_GATES, ns);
	ky_trc_enc_u32(&convert->chunk.enc, thread->tid);
	ky_trc_enc_varint(&convert->chunk.enc, gates);
}

bool ky_convert_header_drops(struct ky_convert *convert, uint32_t cause, struct ky_loss *loss,
			     uint64_t ns)
{
	const struct ky_ring_header *header = convert->common->ring.header;
	const _Atomic uint64_t *words[] = {&header->dropped_signal_count,
					   &header->dropped_no_slot_count,
					   &header->dropped_no_state_count,
					   &header->dropped_exited_count};
	uint64_t total = atomic_load_explicit(words[cause - 1], memory_order_relaxed);
	uint64_t missing = total - convert->reported_drops[cause];

	if (total <= convert->reported_drops[cause])
		return false;
	convert->reported_drops[cause] = total;
	convert->credited_drops[cause] += missing;
	convert->common->stats.records_lost += missing;
	convert->common->stats.records_dropped += missing;
	*loss = (struct ky_loss){.cause = cause,
				 .count = missing,
				 .from_ns = convert->drops_since_ns,
				 .to_ns = ns,
				 .is_exact = true};
	return true;
}

void ky_convert_drops_reported(struct ky_convert *convert, uint64_t ns)
{
	convert->drops_since_ns = ns;
}

/* ---- the rest ---- */

static void on_exit(struct ky_convert *convert, struct ky_dthread *thread, uint64_t ns)
{
	if (thread->worker != KY_NONE32)
		ky_convert_worker_end(convert, thread, ns);
	forget_polls(convert, thread, 0);
	thread->is_done = true;
	ky_convert_thread(convert, thread, ns);
}

static void on_rare(struct ky_convert *convert, struct ky_dthread *thread, const struct ky_rec *rec,
		    uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t pool;

	switch (rec->type) {
	case KYMO_RECORD_NOTIFY:
		ky_trc_enc_event(enc, KY_EV_WORKER_NOTIFY, ns);
		ky_trc_enc_u32(enc, thread->tid);
		ky_trc_enc_u8(enc, (uint8_t)rec->arg);
		ky_trc_enc_varint(enc, rec->a);
		break;
	case KYMO_RECORD_WAKER_CLONE:
		ky_trc_enc_event(enc, KY_EV_WAKER_CLONE, ns);
		ky_trc_enc_varint(enc, (rec->a >> KYMO_NAME_BITS) | (rec->a & 31u)
									    << KY_TASK_COPY_SHIFT);
		ky_trc_enc_varint(enc, ky_worker_id(thread->worker));
		break;
	case KYMO_RECORD_MARK:
		if (convert->retain.is_on && !ky_retain_writes(convert, KY_RETAIN_MARK, 0, ns))
			break;
		pool = ky_string_pool(&convert->common->names, &convert->chunk, rec->a);
		ky_trc_enc_event(enc, KY_EV_ANNOTATION, ns);
		ky_trc_enc_u32(enc, thread->tid);
		ky_trc_enc_u32(enc, pool);
		break;
	case KYMO_RECORD_GATES:
		on_gates(convert, thread, rec->a, ns);
		break;
	case KYMO_RECORD_ROOT_BEGIN:
		ky_convert_root_begin(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_ROOT_END:
		ky_convert_root_end(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_FAILED_CALLS:
		ky_convert_failed_calls(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_PARKED_ON:
		thread->parked_on = rec->a;
		break;
	case KYMO_RECORD_SPAWN_WINDOW:
		ky_convert_spawn_window(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_POLL_DELAY:
		ky_convert_poll_delay(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_SPAN_IN:
	case KYMO_RECORD_SPAN_OUT:
		ky_convert_span_run(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_SPAN_FOLLOWS:
		ky_convert_span_follows(convert, rec, ns);
		break;
	case KYMO_RECORD_CONN_BEGIN:
	case KYMO_RECORD_CONN_END:
	case KYMO_RECORD_CONN_WAIT:
	case KYMO_RECORD_CONN_UNSEEN:
		ky_convert_conn(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_CUSTOM:
		ky_convert_custom(convert, thread, rec, ns);
		break;
	default:
		break;
	}
}

static void dispatch(struct ky_convert *convert, struct ky_dthread *thread,
		     const struct ky_rec *rec, uint64_t ns)
{
	switch (rec->type) {
	case KYMO_RECORD_POLL_BEGIN:
		ky_convert_waited(convert, full_task(convert, rec->a), ns);
		if (__builtin_expect(convert->retain.is_on, 0))
			open_retained(convert, thread, rec, ns);
		else
			open_poll(convert, thread, rec->a, rec->arg, rec->ticks, ns);
		break;
	case KYMO_RECORD_POLL_END:
		on_poll_end(convert, thread, rec->arg, ns);
		break;
	case KYMO_RECORD_WAKE:
		on_wake(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_SPAWN:
		on_spawn(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_TASK_END:
		ky_convert_waited(convert, full_task(convert, rec->a), ns);
		end_task(convert, full_task(convert, rec->a), true, ns);
		break;
	case KYMO_RECORD_PARK:
	case KYMO_RECORD_UNPARK:
		ky_convert_park(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_DRIVER_TURN:
		on_driver_turn(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_WORKER_BEGIN:
		ky_convert_worker_begin(convert, thread,
					full_task(convert, rec->a) &
						~(~UINT64_C(0) << KY_TASK_COPY_SHIFT),
					rec[1].ticks, rec[1].a, ns);
		break;
	case KYMO_RECORD_WORKER_END:
		ky_convert_worker_end(convert, thread, ns);
		break;
	case KYMO_RECORD_RUNTIME:
		ky_convert_thread_runtime(convert, thread, rec->a);
		break;
	case KYMO_RECORD_BLOCKING_BEGIN:
	case KYMO_RECORD_BLOCKING_END:
		on_blocking(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_WAIT:
		on_wait(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_SPAN_BEGIN:
		ky_convert_span_begin(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_SPAN_END:
		ky_convert_span_end(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_POLL_COUNTS:
	case KYMO_RECORD_POLL_COST:
		ky_convert_poll_cost(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_DROPPED:
		on_dropped(convert, thread, rec, ns);
		break;
	default:
		on_rare(convert, thread, rec, ns);
		break;
	}
}

/* Entries after the first: records of more than one payload word take two, those of the application
 * one for each two words after the first. */
static inline uint32_t more_of(const struct ky_rec *rec)
{
	uint32_t type = rec->type;

	if (__builtin_expect(type == KYMO_RECORD_CUSTOM, 0))
		return rec->arg / 2;
	return type == KYMO_RECORD_WORKER_BEGIN || type == KYMO_RECORD_SPAN_BEGIN ||
	       type == KYMO_RECORD_SPAN_END || type == KYMO_RECORD_SPAN_FOLLOWS ||
	       type == KYMO_RECORD_POLL_COUNTS || type == KYMO_RECORD_POLL_COST ||
	       type == KYMO_RECORD_CONN_BEGIN || type == KYMO_RECORD_CONN_END ||
	       type == KYMO_RECORD_CONN_WAIT;
}

/* Returns entries of the queue taken; 0: it needs another chunk first. */
static inline uint32_t report(struct ky_convert *convert, struct ky_dthread *thread,
			      const struct ky_rec *rec, uint64_t ns)
{
	if (__builtin_expect(rec->type < KY_REC_MORE, 1)) {
		dispatch(convert, thread, rec, ns);
		convert->chunk.records_reported++;
		return 1u + more_of(rec);
	}
	switch (rec->type) {
	case KY_REC_GAP:
		on_gap(convert, thread, rec, ns);
		return 2;
	case KY_REC_CARRIED:
		return on_carried(convert, thread, rec, ns) ? 2 : 0;
	case KY_REC_GATES:
		on_gates(convert, thread, rec->a, ns);
		return 1;
	case KY_REC_WORKER:
		ky_convert_worker_known(convert, thread,
					full_task(convert, rec->a) &
						~(~UINT64_C(0) << KY_TASK_COPY_SHIFT),
					rec[1].ticks, rec[1].a, ns);
		return 2;
	case KY_REC_NOTE:
		ky_convert_note(convert, rec->a, ns);
		return 1;
	case KY_REC_SAMPLE:
		ky_convert_sample(convert, rec->a, ns);
		return 1;
	default:
		on_exit(convert, thread, ns);
		return 1;
	}
}

/* Of a stream that this cut continues from. By stamp, not by time, which several stamps share:
 * nothing that such a record brings along, be it a task seen for the first time, may end the
 * silence. */
static bool is_reported_before(struct ky_convert *convert, const struct ky_rec *rec)
{
	if (!convert->chunk.is_muted || rec->ticks > convert->common->from_ticks ||
	    (rec->ticks == convert->common->from_ticks && !convert->common->from_ties)) {
		if (convert->chunk.is_muted)
			convert->chunk.span_ns = convert->common->from_ns;
		return false;
	}
	if (rec->ticks == convert->common->from_ticks)
		convert->common->from_ties--;
	return true;
}

/* The room covers all events of the record at this time: writers do not ask again. */
static inline bool has_room(struct ky_convert *convert, const struct ky_rec *rec, uint64_t ns)
{
	return (__builtin_expect(convert->common->from_ticks != 0, 0) &&
		is_reported_before(convert, rec)) ||
	       takes_record(convert, ns);
}

int ky_convert_records(struct ky_convert *convert, struct ky_dthread *thread, uint64_t limit)
{
	struct ky_drain_common *common = convert->common;
	struct ky_open_chunk *chunk = &convert->chunk;
	/* Nothing below adds to a queue. */
	struct ky_queue *queue = &thread->queue;
	const struct ky_rec *rec = queue->recs + queue->head, *end = queue->recs + queue->tail;
	/* What a full chunk ended for goes into the next one, whatever room is left there. */
	const struct ky_rec *awaited = convert->full_for == KY_FULL_FOR_NONE ? NULL : rec;
	uint32_t taken;

	if (convert->full_for == KY_FULL_FOR_RECORD)
		convert->full_for = KY_FULL_FOR_NONE;
	while (rec < end && rec->ticks <= limit) {
		uint64_t ns = ky_timeline_ns(&common->timeline, rec->ticks);

		if (__builtin_expect(ns > common->to_ns, 0)) {
			rec = end; /* what comes after it is later still */
			break;
		}
		if (__builtin_expect(rec->ticks < convert->merged_ticks, 0)) {
			common->stats.records_late += rec != awaited;
			if (ns < common->from_ns && !chunk->is_muted)
				ns = common->from_ns;
		} else {
			convert->merged_ticks = rec->ticks;
			convert->merged_ns = ns;
		}
		chunk->record_ticks = rec->ticks;
		if (__builtin_expect(!has_room(convert, rec, ns), 0) && rec != awaited) {
			convert->full_for = KY_FULL_FOR_RECORD;
			convert->next_ns = ns;
			break;
		}
		ky_chunk_put_clock(chunk, rec->ticks, ns);
		if (__builtin_expect(!thread->is_announced, 0))
			ky_convert_thread(convert, thread, ns);
		taken = report(convert, thread, rec, ns);
		if (__builtin_expect(!taken, 0))
			break;
		rec += taken;
		thread->last_ns = ns;
		chunk->last_ties = convert->merged_ticks == chunk->last_ticks ?
					   chunk->last_ties + 1 :
					   1;
		chunk->last_ticks = convert->merged_ticks;
	}
	taken = (uint32_t)(rec - queue->recs) - queue->head;
	common->threads.queues.waiting -= taken;
	queue->head += taken;
	if (queue->head == queue->tail)
		queue->head = queue->tail = 0;
	return convert->full_for == KY_FULL_FOR_NONE ? 0 : KY_CONVERT_FULL;
}
