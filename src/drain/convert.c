/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One ring record in, the events it means out. */
#include <drain/drain_state.h>

#include <drain/task_ready.h>
#include <kymo/emit.h>
#include <string.h>

#define REASON_SYSCALL 1u
#define REASON_FUTEX 2u

static const char *const loss_names[KY_LOSS_COUNT] = {
	[KY_LOSS_NONE] = "corrupt",
	[KY_LOSS_SIGNAL] = "signal",
	[KY_LOSS_NO_SLOT] = "no-slot",
	[KY_LOSS_NO_STATE] = "no-state",
	[KY_LOSS_EXITED] = "exited",
	[KY_LOSS_OVERWRITTEN] = "overwritten",
	[KY_LOSS_CORRUPT] = "corrupt",
	[KY_LOSS_WRITE_ERROR] = "write-error",
	[KY_LOSS_UNSUPPORTED] = "unsupported",
	[KY_LOSS_HORIZON] = "horizon",
	[KY_LOSS_FLIGHT] = "flight",
	[KY_LOSS_SAMPLES + KY_SAMPLES_CPU] = "cpu-samples",
	[KY_LOSS_SAMPLES + KY_SAMPLES_OFF_CPU] = "off-cpu-samples",
	[KY_LOSS_SAMPLES + KY_SAMPLES_MEMORY] = "memory-samples",
	[KY_LOSS_SAMPLES + KY_SAMPLES_PLACE] = "place-samples",
};

/* ---- tasks ---- */

static inline uint64_t full_task(const struct ky_drain *drain, uint64_t word)
{
	uint32_t id = (uint32_t)word & KY_NAME_MASK;
	uint64_t copy = id < drain->name_count ? drain->names[id].entry.copy : 0;

	return (word >> KYMO_NAME_BITS) | copy << KY_COPY_SHIFT;
}

/* A task that shows up without a spawn is told as first seen. */
static __attribute__((noinline)) struct ky_task *see_first(struct ky_drain *drain, uint64_t id,
							   uint32_t name, uint64_t ns)
{
	struct ky_task *task;
	uint32_t pool;

	task = ky_task_table_add(&drain->tasks, id, name);
	if (!task)
		return NULL;
	ky_drain_ready(drain, ns);
	pool = ky_drain_name_pool(drain, name);
	ky_trc_enc_event(&drain->enc, KY_EV_TASK_FIRST_SEEN, ns);
	ky_trc_enc_varint(&drain->enc, id);
	ky_trc_enc_u32(&drain->enc, pool);
	return ky_task_table_find(&drain->tasks, id);
}

/* The task's entry, NULL when there is no room for one. */
static inline struct ky_task *see_task(struct ky_drain *drain, uint64_t id, uint32_t name,
				       uint64_t ns)
{
	struct ky_task *task = ky_task_table_find(&drain->tasks, id);

	if (__builtin_expect(task == NULL, 0))
		return see_first(drain, id, name, ns);
	if (!task->name)
		task->name = name;
	return task;
}

static void end_task(struct ky_drain *drain, uint64_t id, bool is_cancelled, uint64_t ns)
{
	if (__builtin_expect(drain->retain.is_on, 0))
		ky_retain_task_end(drain, id, ns);
	ky_drain_ready(drain, ns);
	ky_trc_enc_event(&drain->enc, KY_EV_TASK_TERMINATE, ns);
	ky_trc_enc_varint(&drain->enc, id);
	ky_trc_enc_u8(&drain->enc, is_cancelled);
	ky_task_table_end(&drain->tasks, id);
}

static void write_wake(struct ky_drain *drain, const struct ky_dthread *thread, uint64_t waker,
		       uint64_t woken, uint32_t origin, uint64_t ns)
{
	if (__builtin_expect(drain->is_muted || drain->retain.is_on, 0)) {
		if (drain->is_muted ||
		    !ky_retain_writes_wake(drain, thread, waker, woken, origin, ns))
			return;
	}
	ky_trc_enc_wake(&drain->enc, ns, waker, woken, ky_wake_worker(thread->worker),
			(uint8_t)origin);
}

static void on_wake(struct ky_drain *drain, struct ky_dthread *thread, const struct ky_rec *rec,
		    uint64_t ns)
{
	uint64_t woken = ky_woken_task(rec->a);
	const struct ky_poll *poll = thread->depth ? &thread->stack[thread->depth - 1] : NULL;

	ky_make_ready(drain, see_task(drain, woken, 0, ns), ns);
	write_wake(drain, thread, poll ? poll->task : 0, woken,
		   ky_wake_origin(thread, poll, woken, rec->arg), ns);
}

static void on_spawn(struct ky_drain *drain, struct ky_dthread *thread, const struct ky_rec *rec,
		     uint64_t ns)
{
	uint64_t id = full_task(drain, rec->a);
	uint32_t name = (uint32_t)rec->a & KY_NAME_MASK, pool;
	struct ky_task *task = ky_task_table_find(&drain->tasks, id);
	uint64_t parent = thread->depth ? thread->stack[thread->depth - 1].task : 0;

	if (!task)
		task = ky_task_table_add(&drain->tasks, id, name);
	ky_make_ready(drain, task, ns); /* a spawned task is ready at once */
	ky_drain_ready(drain, ns);
	pool = ky_drain_name_pool(drain, name);
	ky_trc_enc_event(&drain->enc, KY_EV_TASK_SPAWN, ns);
	ky_trc_enc_varint(&drain->enc, id);
	ky_trc_enc_u32(&drain->enc, pool);
	ky_trc_enc_u8(&drain->enc, 1);
	ky_trc_enc_opt_varint(&drain->enc, thread->worker != KY_NONE32,
			      ky_worker_id(thread->worker));
	ky_trc_enc_opt_varint(&drain->enc, parent != 0, parent);
}

/* ---- polls ---- */

static void write_nested(struct ky_drain *drain, const struct ky_dthread *thread, uint64_t task,
			 uint32_t name, uint32_t depth, uint64_t ns)
{
	uint32_t pool;

	ky_drain_ready(drain, ns);
	pool = ky_drain_name_pool(drain, name);
	ky_trc_enc_event(&drain->enc, KY_EV_NESTED_POLL_START, ns);
	ky_trc_enc_varint(&drain->enc, ky_worker_id(thread->worker));
	ky_trc_enc_u32(&drain->enc, thread->tid);
	ky_trc_enc_varint(&drain->enc, depth);
	ky_trc_enc_varint(&drain->enc, task);
	ky_trc_enc_u32(&drain->enc, pool);
}

/* The poll is open from here on. ns: when it is told, which for one whose start lies before the
 * trace is not when it began. NULL: deeper than we keep, neither its start nor its end is told. */
static inline struct ky_poll *push_poll(struct ky_drain *drain, struct ky_dthread *thread,
					uint64_t word, uint64_t ticks, uint64_t start_ns,
					uint64_t ns)
{
	uint64_t id = full_task(drain, word);
	uint32_t name = (uint32_t)word & KY_NAME_MASK;
	struct ky_task *task = see_task(drain, id, name, ns);
	bool is_outer = !thread->depth && !thread->deeper &&
			ky_drain_worker_take(drain, thread, ns);
	struct ky_poll *poll = ky_drain_push_poll(thread);

	ky_take_ready(drain, task, start_ns);
	if (!poll)
		return NULL;
	poll->task = id;
	poll->start_ns = start_ns;
	poll->begin_ticks = ticks;
	poll->name = name;
	poll->worker = thread->worker;
	poll->kind = is_outer ? KY_POLL_OUTER : KY_POLL_NESTED;
	poll->task_place = task ? (uint32_t)(task - drain->tasks.slots) : 0;
	if (is_outer)
		drain->workers[thread->worker].is_open = true;
	return poll;
}

static void open_poll(struct ky_drain *drain, struct ky_dthread *thread, uint64_t word,
		      uint32_t queue, uint64_t ticks, uint64_t ns)
{
	const struct ky_poll *poll = push_poll(drain, thread, word, ticks, ns, ns);
	uint32_t pool;

	if (!poll || drain->is_muted)
		return;
	if (poll->kind != KY_POLL_OUTER) {
		write_nested(drain, thread, poll->task, poll->name, thread->depth - 1, ns);
		return;
	}
	pool = ky_drain_name_pool(drain, poll->name);
	ky_trc_enc_poll_start(&drain->enc, ns, ky_worker_id(thread->worker), ky_poll_queue(queue),
			      poll->task, pool);
}

/* The same under a policy that may hold it back. */
static void open_retained(struct ky_drain *drain, struct ky_dthread *thread,
			  const struct ky_rec *rec, uint64_t ns)
{
	uint32_t name = (uint32_t)rec->a & KY_NAME_MASK, tid = 0;
	struct ky_retain_choice choice;
	struct ky_poll *poll;

	ky_retain_choose(drain, thread, rec, full_task(drain, rec->a), ns, &choice);
	if (choice.is_kept) {
		open_poll(drain, thread, rec->a, rec->arg, rec->ticks, ns);
	} else {
		poll = push_poll(drain, thread, rec->a, rec->ticks, ns, ns);
		if (poll)
			ky_retain_poll_begin(drain, poll);
	}
	if (thread->depth && thread->stack[thread->depth - 1].kind == KY_POLL_NESTED)
		tid = thread->tid;
	ky_retain_delay(drain, &choice, name, thread->worker, tid, ns);
}

static void on_poll_end(struct ky_drain *drain, struct ky_dthread *thread, uint32_t flags,
			uint64_t ns)
{
	const struct ky_poll *poll;
	struct ky_task *task;

	if (thread->deeper) {
		thread->deeper--;
		return;
	}
	if (!thread->depth)
		return; /* its start was lost and nothing told us about it */
	poll = &thread->stack[--thread->depth];
	if (flags & KYMO_POLL_SELF_WAKE)
		write_wake(drain, thread, poll->task, poll->task,
			   KY_ORIGIN_OWN_POLL | KY_ORIGIN_DERIVED, ns);
	if (flags & KYMO_POLL_READY) {
		end_task(drain, poll->task, flags & KYMO_POLL_CANCELLED, ns);
	} else {
		task = ky_task_table_find_at(&drain->tasks, poll->task, poll->task_place);
		if (task)
			task->last_poll_ns = ns;
		if (flags & KYMO_POLL_SELF_WAKE)
			ky_make_ready(drain, task, ns);
	}
	if (__builtin_expect(poll->kind >= KY_POLL_SILENT, 0)) {
		if (poll->kind != KY_POLL_SILENT)
			ky_retain_poll_end(drain, poll, ns);
		return;
	}
	if (drain->is_muted) {
		if (poll->kind == KY_POLL_OUTER)
			drain->workers[poll->worker].is_open = false;
		return;
	}
	if (poll->kind == KY_POLL_OUTER) {
		ky_trc_enc_poll_end(&drain->enc, ns, ky_worker_id(poll->worker));
		ky_drain_book_poll(drain, poll->worker, poll->start_ns, ns, poll->task);
		drain->workers[poll->worker].is_open = false;
		return;
	}
	ky_trc_enc_event(&drain->enc, KY_EV_NESTED_POLL_END, ns);
	ky_trc_enc_varint(&drain->enc, ky_worker_id(poll->worker));
	ky_trc_enc_u32(&drain->enc, thread->tid);
}

static void on_blocking(struct ky_drain *drain, struct ky_dthread *thread, const struct ky_rec *rec,
			uint64_t ns)
{
	uint32_t name = (uint32_t)rec->a & KY_NAME_MASK, pool;
	uint64_t id = full_task(drain, rec->a);

	if (rec->type == KYMO_RECORD_BLOCKING_BEGIN) {
		thread->is_blocking = true;
		thread->blocking_task = id;
		thread->blocking_name = name;
		thread->blocking_start_ns = ns;
		thread->blocking_worker = thread->worker;
		thread->is_run_counted = drain->retain.is_on &&
					 !ky_retain_writes_run(drain, thread, rec, ns);
		if (thread->is_run_counted)
			return;
		ky_drain_ready(drain, ns);
		pool = ky_drain_name_pool(drain, name);
		ky_trc_enc_event(&drain->enc, KY_EV_BLOCKING_START, ns);
		ky_trc_enc_u32(&drain->enc, thread->tid);
		ky_trc_enc_varint(&drain->enc, id);
		ky_trc_enc_u32(&drain->enc, pool);
		return;
	}
	if (!thread->is_blocking)
		return;
	thread->is_blocking = false;
	/* A runtime that the closure drove: whatever the thread does next is none of it. */
	if (thread->worker != thread->blocking_worker && !thread->is_launched)
		ky_drain_worker_end(drain, thread, ns);
	id = thread->blocking_task;
	/* Closures are told by their runs; only one whose spawn was seen has an end of its own. */
	if ((rec->arg & KYMO_POLL_READY) && ky_task_table_find(&drain->tasks, id))
		end_task(drain, id, rec->arg & KYMO_POLL_CANCELLED, ns);
	if (thread->is_run_counted) {
		ky_retain_run_end(drain, thread->blocking_name, ns - thread->blocking_start_ns);
		return;
	}
	ky_drain_ready(drain, ns);
	ky_trc_enc_event(&drain->enc, KY_EV_BLOCKING_END, ns);
	ky_trc_enc_u32(&drain->enc, thread->tid);
	ky_trc_enc_varint(&drain->enc, id);
}

/* ---- parks, driver, waits ---- */

static void on_park(struct ky_drain *drain, struct ky_dthread *thread, const struct ky_rec *rec,
		    uint64_t ns)
{
	struct ky_worker *worker;
	uint64_t cpu;

	/* Only workers park; a thread without one just waits. */
	if (thread->worker == KY_NONE32 || thread->depth ||
	    !ky_drain_worker_take(drain, thread, ns))
		return;
	worker = &drain->workers[thread->worker];
	cpu = ky_drain_worker_cpu(worker, ns);
	worker->cpu_ns = cpu;
	worker->active_since_ns = ns;
	worker->is_parked = rec->type == KYMO_RECORD_PARK;
	if (drain->is_muted ||
	    (drain->retain.is_on &&
	     !ky_retain_writes_park(drain, thread->worker, worker->is_parked, ns)))
		return;
	if (worker->is_parked)
		ky_trc_enc_park(&drain->enc, ns, ky_worker_id(thread->worker), cpu, thread->tid,
				ky_park_wait(rec->arg));
	else
		ky_trc_enc_unpark(&drain->enc, ns, ky_worker_id(thread->worker), cpu, thread->tid,
				  ky_ready_count(rec->arg));
}

static void on_driver_turn(struct ky_drain *drain, struct ky_dthread *thread,
			   const struct ky_rec *rec, uint64_t ns)
{
	uint64_t length_ns = ky_timeline_length_ns(&drain->timeline, rec->a);

	if (drain->is_muted ||
	    (drain->retain.is_on && !ky_retain_writes(drain, KY_RETAIN_DRIVER, length_ns, ns)))
		return;
	ky_trc_enc_driver_turn(&drain->enc, ns, ky_worker_id(thread->worker), length_ns,
			       ky_ready_count(rec->arg));
}

static void on_wait(struct ky_drain *drain, struct ky_dthread *thread, const struct ky_rec *rec,
		    uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	const uint64_t no_frame = 0;
	uint32_t no_name, no_stack;

	ky_drain_ready(drain, ns);
	no_name = ky_drain_text_pool(drain, "");
	no_stack = ky_trc_enc_stack(enc, &no_frame, 0);
	ky_trc_enc_event(enc, KY_EV_OFF_CPU, ns);
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_varint(enc, ky_worker_id(thread->worker));
	ky_trc_enc_varint(enc, thread->depth ? thread->stack[thread->depth - 1].task : 0);
	ky_trc_enc_varint(enc, ky_timeline_length_ns(&drain->timeline, rec->a));
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
	ky_trc_enc_u32(enc, no_stack);
}

/* ---- loss ---- */

void ky_drain_loss(struct ky_drain *drain, uint32_t tid, uint64_t count, bool is_exact,
		   uint64_t from_ns, uint64_t to_ns, uint32_t cause, uint64_t ns)
{
	uint32_t pool;

	ky_drain_ready(drain, ns);
	pool = ky_drain_text_pool(drain, loss_names[cause < KY_LOSS_COUNT ? cause : 0]);
	ky_trc_enc_event(&drain->enc, KY_EV_LOSS, ns);
	ky_trc_enc_u32(&drain->enc, tid);
	ky_trc_enc_varint(&drain->enc, count);
	ky_trc_enc_u8(&drain->enc, is_exact);
	ky_trc_enc_varint(&drain->enc, from_ns);
	ky_trc_enc_varint(&drain->enc, to_ns);
	ky_trc_enc_u32(&drain->enc, pool);
	drain->chunk.lost_count += count;
	drain->chunk.loss_count++;
	if (cause >= KY_LOSS_SAMPLES || !count)
		return;
	drain->chunk.told_count += count;
	if (!drain->chunk.told_from_ns || from_ns < drain->chunk.told_from_ns)
		drain->chunk.told_from_ns = from_ns;
}

/* What was open before the gap is not known to be open behind it; carried[] says what is. */
static void forget_polls(struct ky_drain *drain, struct ky_dthread *thread, uint32_t keep)
{
	for (uint32_t i = keep; i < thread->depth; i++) {
		if (ky_poll_is_outer(&thread->stack[i]) && thread->stack[i].worker != KY_NONE32)
			drain->workers[thread->stack[i].worker].is_open = false;
	}
	if (keep < thread->depth)
		thread->depth = keep;
	thread->deeper = 0;
}

static void on_gap(struct ky_drain *drain, struct ky_dthread *thread, const struct ky_rec *rec,
		   uint64_t ns)
{
	uint32_t cause = rec->arg & ~KY_GAP_INEXACT;
	uint64_t from_ns = ky_timeline_ns(&drain->timeline, rec[1].ticks);

	ky_drain_loss(drain, thread->tid, rec->a, !(rec->arg & KY_GAP_INEXACT), from_ns, ns, cause,
		      ns);
	thread->is_blocking = false;
	if (thread->worker != KY_NONE32 && drain->workers[thread->worker].owner == thread)
		drain->workers[thread->worker].is_parked = false;
}

/* rec: one of the polls that were open when the sub-buffer behind a gap began. A poll we know
 * goes on; one whose start is lost is told with its true start, out of order. */
static void on_carried(struct ky_drain *drain, struct ky_dthread *thread, const struct ky_rec *rec,
		       uint64_t ns)
{
	uint32_t total = (uint32_t)rec[1].a, at = rec->arg;
	uint64_t begin = rec[1].ticks, begin_ns;

	if (total == 0) {
		forget_polls(drain, thread, 0);
		return;
	}
	if (at < thread->depth && thread->stack[at].begin_ticks >> 3 == begin >> 3 &&
	    thread->stack[at].task == full_task(drain, rec->a)) {
		if (at + 1 == total)
			forget_polls(drain, thread, total);
	} else {
		forget_polls(drain, thread, at);
		begin_ns = ky_timeline_ns(&drain->timeline, begin);
		if (begin_ns > ns)
			begin_ns = ns;
		if ((drain->is_cut || drain->has_flown) &&
		    (drain->is_muted || begin_ns < drain->start_ns)) {
			if (push_poll(drain, thread, rec->a, begin, begin_ns, ns))
				ky_drain_write_open_poll(drain, thread, thread->depth - 1, ns);
		} else {
			ky_drain_ready_record(drain, begin_ns);
			open_poll(drain, thread, rec->a, KYMO_QUEUE_UNKNOWN, begin, begin_ns);
		}
	}
	if (at + 1 == KY_OPEN_DEPTH && total > KY_OPEN_DEPTH) {
		forget_polls(drain, thread, KY_OPEN_DEPTH);
		thread->deeper = total - KY_OPEN_DEPTH;
	}
}

static void on_dropped(struct ky_drain *drain, struct ky_dthread *thread, const struct ky_rec *rec,
		       uint64_t ns)
{
	uint64_t count = rec->a, credit;
	uint32_t cause = rec->arg;

	if (cause < 1 || cause > 4 || !count)
		return;
	/* What a look at the header's counters has told already is not told twice. */
	credit = drain->credited_drops[cause] < count ? drain->credited_drops[cause] : count;
	drain->credited_drops[cause] -= credit;
	drain->reported_drops[cause] += count - credit;
	if (count == credit)
		return;
	drain->stats.records_lost += count - credit;
	drain->stats.records_dropped += count - credit;
	ky_drain_loss(drain, thread->tid, count - credit, true, thread->last_ns, ns, cause, ns);
}

/* Each sub-buffer says which gates were open when it was claimed, and records say when they change.
 * What the first of a thread says stands in the segment's metadata. */
static void on_gates(struct ky_drain *drain, struct ky_dthread *thread, uint64_t gates, uint64_t ns)
{
	bool is_change = thread->has_gates && thread->gates != gates;

	thread->has_gates = true;
	thread->gates = gates;
	if (!is_change)
		return;
	ky_trc_enc_event(&drain->enc, KY_EV_GATES, ns);
	ky_trc_enc_u32(&drain->enc, thread->tid);
	ky_trc_enc_varint(&drain->enc, gates);
}

void ky_drain_header_drops(struct ky_drain *drain, uint64_t ns)
{
	const struct ky_ring_header *header = drain->ring.header;
	const _Atomic uint64_t *words[] = {&header->dropped_signal_count,
					   &header->dropped_no_slot_count,
					   &header->dropped_no_state_count,
					   &header->dropped_exited_count};

	for (uint32_t cause = 1; cause <= 4; cause++) {
		uint64_t total = atomic_load_explicit(words[cause - 1], memory_order_relaxed);
		uint64_t missing = total - drain->reported_drops[cause];

		if (total <= drain->reported_drops[cause])
			continue;
		drain->reported_drops[cause] = total;
		drain->credited_drops[cause] += missing;
		drain->stats.records_lost += missing;
		drain->stats.records_dropped += missing;
		ky_drain_loss(drain, 0, missing, true, drain->drops_since_ns, ns, cause, ns);
	}
	drain->drops_since_ns = ns;
}

void ky_drain_cut_off(struct ky_drain *drain, uint64_t ns)
{
	uint64_t slots = ky_ring_view_cut_off(&drain->ring) + drain->cut_off_count;

	if (!slots)
		return;
	drain->stats.records_lost += slots;
	ky_drain_loss(drain, 0, slots, false, drain->start_ns, ns, KY_LOSS_CORRUPT, ns);
}

/* ---- the rest ---- */

static void on_exit(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ns)
{
	if (thread->worker != KY_NONE32)
		ky_drain_worker_end(drain, thread, ns);
	forget_polls(drain, thread, 0);
	thread->is_done = true;
	ky_drain_write_thread(drain, thread, ns);
}

static void on_rare(struct ky_drain *drain, struct ky_dthread *thread, const struct ky_rec *rec,
		    uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t pool;

	ky_drain_ready(drain, ns);
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
									    << KY_COPY_SHIFT);
		ky_trc_enc_varint(enc, ky_worker_id(thread->worker));
		break;
	case KYMO_RECORD_MARK:
		if (drain->retain.is_on && !ky_retain_writes(drain, KY_RETAIN_MARK, 0, ns))
			break;
		pool = ky_drain_string_pool(drain, rec->a);
		ky_trc_enc_event(enc, KY_EV_ANNOTATION, ns);
		ky_trc_enc_u32(enc, thread->tid);
		ky_trc_enc_u32(enc, pool);
		break;
	case KYMO_RECORD_GATES:
		on_gates(drain, thread, rec->a, ns);
		break;
	case KYMO_RECORD_CUSTOM:
		/* Nothing registers schemas yet, so nobody can say what the words mean. */
		drain->stats.records_lost++;
		ky_drain_loss(drain, thread->tid, 1, true, ns, ns, KY_LOSS_UNSUPPORTED, ns);
		break;
	default:
		break;
	}
}

static void dispatch(struct ky_drain *drain, struct ky_dthread *thread, const struct ky_rec *rec,
		     uint64_t ns)
{
	switch (rec->type) {
	case KYMO_RECORD_POLL_BEGIN:
		if (__builtin_expect(drain->retain.is_on, 0))
			open_retained(drain, thread, rec, ns);
		else
			open_poll(drain, thread, rec->a, rec->arg, rec->ticks, ns);
		break;
	case KYMO_RECORD_POLL_END:
		on_poll_end(drain, thread, rec->arg, ns);
		break;
	case KYMO_RECORD_WAKE:
		on_wake(drain, thread, rec, ns);
		break;
	case KYMO_RECORD_SPAWN:
		on_spawn(drain, thread, rec, ns);
		break;
	case KYMO_RECORD_TASK_END:
		end_task(drain, full_task(drain, rec->a), true, ns);
		break;
	case KYMO_RECORD_PARK:
	case KYMO_RECORD_UNPARK:
		on_park(drain, thread, rec, ns);
		break;
	case KYMO_RECORD_DRIVER_TURN:
		on_driver_turn(drain, thread, rec, ns);
		break;
	case KYMO_RECORD_WORKER_BEGIN:
		ky_drain_worker_begin(drain, thread,
				      full_task(drain, rec->a) & ~(~UINT64_C(0) << KY_COPY_SHIFT),
				      rec[1].ticks, rec[1].a, ns);
		break;
	case KYMO_RECORD_WORKER_END:
		ky_drain_worker_end(drain, thread, ns);
		break;
	case KYMO_RECORD_RUNTIME:
		ky_drain_thread_runtime(drain, thread, rec->a);
		break;
	case KYMO_RECORD_BLOCKING_BEGIN:
	case KYMO_RECORD_BLOCKING_END:
		on_blocking(drain, thread, rec, ns);
		break;
	case KYMO_RECORD_WAIT:
		on_wait(drain, thread, rec, ns);
		break;
	case KYMO_RECORD_SPAN_BEGIN:
		ky_drain_span_begin(drain, thread, rec, ns);
		break;
	case KYMO_RECORD_SPAN_END:
		ky_drain_span_end(drain, thread, rec, ns);
		break;
	case KYMO_RECORD_DROPPED:
		on_dropped(drain, thread, rec, ns);
		break;
	default:
		on_rare(drain, thread, rec, ns);
		break;
	}
}

/* Records of more than one payload word take two entries. */
static inline uint32_t is_pair(uint32_t type)
{
	return type == KYMO_RECORD_WORKER_BEGIN || type == KYMO_RECORD_SPAN_BEGIN ||
	       type == KYMO_RECORD_SPAN_END;
}

/* Returns entries of the queue taken. */
static inline uint32_t tell(struct ky_drain *drain, struct ky_dthread *thread,
			    const struct ky_rec *rec, uint64_t ns)
{
	if (__builtin_expect(rec->type < KY_REC_MORE, 1)) {
		dispatch(drain, thread, rec, ns);
		drain->records_told++;
		return 1u + is_pair(rec->type);
	}
	switch (rec->type) {
	case KY_REC_GAP:
		on_gap(drain, thread, rec, ns);
		return 2;
	case KY_REC_CARRIED:
		on_carried(drain, thread, rec, ns);
		return 2;
	case KY_REC_GATES:
		on_gates(drain, thread, rec->a, ns);
		return 1;
	case KY_REC_WORKER:
		ky_drain_worker_known(drain, thread,
				      full_task(drain, rec->a) & ~(~UINT64_C(0) << KY_COPY_SHIFT),
				      rec[1].ticks, rec[1].a, ns);
		return 2;
	case KY_REC_NOTE:
		ky_drain_write_note(drain, rec->a, ns);
		return 1;
	case KY_REC_SAMPLE:
		ky_drain_write_sample(drain, rec->a, ns);
		return 1;
	default:
		on_exit(drain, thread, ns);
		return 1;
	}
}

/* Of a stream that this cut goes on from. By stamp, not by time, which several stamps share:
 * nothing that such a record brings along, be it a task seen for the first time, may end the
 * silence. */
static bool is_told_before(struct ky_drain *drain, const struct ky_rec *rec)
{
	if (!drain->is_muted || rec->ticks > drain->from_ticks ||
	    (rec->ticks == drain->from_ticks && !drain->from_ties)) {
		if (drain->is_muted)
			drain->chunk.span_ns = drain->from_ns;
		return false;
	}
	if (rec->ticks == drain->from_ticks)
		drain->from_ties--;
	return true;
}

void ky_drain_convert(struct ky_drain *drain, struct ky_dthread *thread, uint64_t limit)
{
	/* Nothing below adds to a queue. */
	const struct ky_rec *rec = thread->recs + thread->head;
	const struct ky_rec *end = thread->recs + thread->tail;
	uint32_t taken;

	while (rec < end && rec->ticks <= limit) {
		uint64_t ns = ky_timeline_ns(&drain->timeline, rec->ticks);

		if (__builtin_expect(ns > drain->to_ns, 0)) {
			rec = end; /* what comes behind it is later still */
			break;
		}
		if (__builtin_expect(rec->ticks < drain->merged_ticks, 0)) {
			drain->stats.records_late++;
			if (ns < drain->from_ns && !drain->is_muted)
				ns = drain->from_ns;
		} else {
			drain->merged_ticks = rec->ticks;
			drain->merged_ns = ns;
		}
		drain->record_ticks = rec->ticks;
		/* Covers all events of the record at this time: frequent ones do not ask again. */
		if (__builtin_expect(!drain->from_ticks || !is_told_before(drain, rec), 1))
			ky_drain_ready_record(drain, ns);
		ky_drain_tell_clock(drain, rec->ticks, ns);
		if (__builtin_expect(!thread->is_announced, 0))
			ky_drain_write_thread(drain, thread, ns);
		rec += tell(drain, thread, rec, ns);
		thread->last_ns = ns;
		drain->told_ties = drain->merged_ticks == drain->told_ticks ? drain->told_ties + 1 :
									      1;
		drain->told_ticks = drain->merged_ticks;
	}
	taken = (uint32_t)(rec - thread->recs) - thread->head;
	drain->waiting -= taken;
	thread->head += taken;
	if (thread->head == thread->tail)
		thread->head = thread->tail = 0;
}
