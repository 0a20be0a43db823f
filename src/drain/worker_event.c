/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which thread serves which worker, as records say it, and the events of it. */
#include <drain/convert_stage.h>
#include <drain/task_ready.h>

#include <base/hash.h>
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <stdlib.h>

#define FUTEX_MASK ((UINT64_C(1) << KYMO_PARKED_ON_FD_SHIFT) - 1)

bool ky_convert_is_runtime(struct ky_convert *convert, uint32_t index)
{
	struct ky_runtime *runtime = &convert->common->runtimes.list[index];

	runtime->is_announced = true;
	return runtime->kind != KYMO_RUNTIME_LOCAL_SET;
}

void ky_convert_runtime(struct ky_convert *convert, uint32_t index, uint64_t ns)
{
	const struct ky_runtime *runtime = &convert->common->runtimes.list[index];
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t name;

	if (!ky_convert_is_runtime(convert, index))
		return;
	name = ky_chunk_text(&convert->chunk, runtime->name);
	ky_trc_enc_event(enc, KY_EV_RUNTIME, ns);
	ky_trc_enc_varint(enc, index);
	ky_trc_enc_u32(enc, name);
	ky_trc_enc_u8(enc, (uint8_t)runtime->kind);
	ky_trc_enc_u8(enc, (uint8_t)runtime->copy);
}

/* Ids count from where the ring begins; these are words of the runtime's own. */
static uint64_t identity_of(const struct ky_drain_worker *worker)
{
	uint64_t hash = ky_hash_number(worker->runtime_key);

	hash = ky_hash_number(hash ^ worker->identity);
	return ky_hash_number(hash ^ worker->launch) >> 8 | 1u;
}

void ky_convert_worker(struct ky_convert *convert, uint32_t index, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	const struct ky_drain_worker *worker = &convert->workers.list[index];
	uint64_t futex = worker->parked_on & FUTEX_MASK;
	uint64_t fd = worker->parked_on >> KYMO_PARKED_ON_FD_SHIFT;

	ky_trc_enc_event(enc, KY_EV_WORKER, ns);
	ky_trc_enc_varint(enc, ky_worker_id(index));
	ky_trc_enc_opt_varint(enc, worker->runtime != KY_NONE32, worker->runtime);
	ky_trc_enc_opt_varint(enc, worker->index != KY_NONE32, worker->index);
	ky_trc_enc_u32(enc, worker->tid);
	ky_trc_enc_u8(enc, worker->is_exact);
	ky_trc_enc_u8(enc, worker->is_ended);
	ky_trc_enc_varint(enc, identity_of(worker));
	ky_trc_enc_opt_varint(enc, futex != 0, futex);
	ky_trc_enc_opt_varint(enc, fd != 0, fd - 1);
}

/* ---- ranks ---- */

static int by_task(const void *a, const void *b)
{
	const struct ky_launch *left = a, *right = b;

	return left->task < right->task ? -1 : left->task > right->task;
}

static void forget_launch(struct ky_convert *convert, uint64_t runtime_key, uint64_t identity,
			  uint64_t task)
{
	for (uint32_t i = 0; i < convert->common->launches.count; i++) {
		const struct ky_launch *launch = &convert->common->launches.list[i];

		if (launch->runtime_key != runtime_key || launch->identity != identity ||
		    launch->task != task)
			continue;
		convert->common->launches.list[i] =
			convert->common->launches.list[--convert->common->launches.count];
		return;
	}
}

/* Gaps that are known, and drops as the header counts them, which is before they are reported. */
static uint64_t losses_so_far(const struct ky_convert *convert)
{
	const struct ky_ring_header *header = convert->common->ring.header;

	return convert->gap_count +
	       atomic_load_explicit(&header->dropped_signal_count, memory_order_relaxed) +
	       atomic_load_explicit(&header->dropped_no_slot_count, memory_order_relaxed) +
	       atomic_load_explicit(&header->dropped_no_state_count, memory_order_relaxed) +
	       atomic_load_explicit(&header->dropped_exited_count, memory_order_relaxed);
}

/* An end ends the worker where no other launch of it is known: the record of one may be lost. Its
 * identity proves that it continues while its runtime lives, which keeps the key. */
static bool may_continue(const struct ky_convert *convert, uint32_t index)
{
	const struct ky_runtime_table *runtimes = &convert->common->runtimes;
	const struct ky_drain_worker *worker = &convert->workers.list[index];

	if (worker->runtime == KY_NONE32)
		return false;
	if (!runtimes->list[worker->runtime].is_ended)
		return true;
	for (uint32_t i = worker->runtime + 1; i < runtimes->count; i++) {
		if (runtimes->list[i].key == worker->runtime_key && runtimes->list[i].next_index)
			return false; /* it has workers of its own */
	}
	return worker->losses != losses_so_far(convert);
}

/* The worker of this identity: one that has not ended, or may continue. KY_NONE32: none. */
static uint32_t known_worker(const struct ky_convert *convert, uint64_t runtime_key,
			     uint64_t identity)
{
	uint32_t index = ky_worker_find(&convert->workers, runtime_key, identity);

	if (index != KY_NONE32)
		return index;
	index = ky_worker_find_ended(&convert->workers, runtime_key, identity);
	return index != KY_NONE32 && may_continue(convert, index) ? index : KY_NONE32;
}

/* Gives every published launch of this runtime a worker, in the order of their tasks. A second
 * launch of the same identity is block_in_place and gets none. */
static void rank(struct ky_convert *convert, uint64_t runtime_key)
{
	uint32_t runtime = ky_runtime_take(&convert->common->runtimes, runtime_key), index;
	struct ky_runtime *about = runtime == KY_NONE32 ? NULL :
							  &convert->common->runtimes.list[runtime];

	if (convert->common->launches.count > 1)
		qsort(convert->common->launches.list, convert->common->launches.count,
		      sizeof(*convert->common->launches.list), by_task);
	for (uint32_t i = 0; i < convert->common->launches.count; i++) {
		const struct ky_launch *launch = &convert->common->launches.list[i];
		struct ky_drain_worker *worker;

		if (launch->runtime_key != runtime_key ||
		    known_worker(convert, runtime_key, launch->identity) != KY_NONE32)
			continue;
		index = ky_worker_add(&convert->workers, runtime_key, launch->identity,
				      launch->task ? launch->task : 1);
		if (index == KY_NONE32)
			return;
		worker = &convert->workers.list[index];
		worker->runtime = runtime;
		if (!about)
			continue;
		worker->index = about->next_index++;
		worker->is_exact = launch->task > about->launch_max;
		if (launch->task > about->launch_max)
			about->launch_max = launch->task;
		about->live_workers++;
	}
}

/* The last worker of a runtime is gone: its key may come back as another runtime's. */
static void end_runtime(struct ky_convert *convert, uint32_t runtime)
{
	struct ky_runtime *about;

	if (runtime == KY_NONE32)
		return;
	about = &convert->common->runtimes.list[runtime];
	if (about->live_workers && --about->live_workers == 0)
		about->is_ended = true;
}

/* ---- what records say ---- */

static void serve(struct ky_convert *convert, struct ky_dthread *thread, uint32_t index,
		  uint64_t ns)
{
	struct ky_drain_worker *worker = &convert->workers.list[index];

	worker->owner = thread;
	worker->tid = thread->tid;
	if (worker->active_since_ns)
		worker->cpu_ns = ky_worker_cpu(worker, ns);
	worker->active_since_ns = ns;
	worker->is_parked = false;
	thread->worker = index;
}

/* The blocked thread's poll continues, but no longer as a poll of the worker: the pair is closed
 * and the rest is reported as a nested run, so that pairs of one worker never overlap. */
static void move_poll(struct ky_convert *convert, uint32_t index, uint64_t ns)
{
	struct ky_drain_worker *worker = &convert->workers.list[index];
	struct ky_dthread *owner = worker->owner;
	struct ky_trc_enc *enc = &convert->chunk.enc;
	struct ky_drain_poll *poll;
	uint32_t name;

	if (!worker->is_open || !owner || !owner->depth || !ky_poll_is_outer(&owner->stack[0]))
		return;
	poll = &owner->stack[0];
	if (poll->kind == KY_POLL_COUNTED) {
		ky_retain_poll_moved(convert, poll, ns);
		return;
	}
	ky_trc_enc_poll_end(enc, ns, ky_worker_id(index));
	ky_worker_book(&convert->workers, index, ky_convert_mark(convert), poll->start_ns, ns,
		       poll->task);
	worker->is_open = false;
	poll->kind = KY_POLL_NESTED;
	poll->start_ns = ns;
	name = ky_name_pool(&convert->common->names, &convert->chunk, poll->name);
	ky_trc_enc_event(enc, KY_EV_NESTED_POLL_START, ns);
	ky_trc_enc_varint(enc, ky_worker_id(index));
	ky_trc_enc_u32(enc, owner->tid);
	ky_trc_enc_varint(enc, 0);
	ky_trc_enc_varint(enc, poll->task);
	ky_trc_enc_u32(enc, name);
}

static void move_worker(struct ky_convert *convert, struct ky_dthread *thread, uint32_t index,
			uint64_t ns)
{
	struct ky_drain_worker *worker = &convert->workers.list[index];
	uint32_t from_tid = worker->tid;

	move_poll(convert, index, ns);
	ky_trc_enc_event(&convert->chunk.enc, KY_EV_BLOCK_IN_PLACE, ns);
	ky_trc_enc_varint(&convert->chunk.enc, ky_worker_id(index));
	ky_trc_enc_u32(&convert->chunk.enc, from_tid);
	ky_trc_enc_u32(&convert->chunk.enc, thread->tid);
	ky_trc_enc_opt_varint(&convert->chunk.enc, thread->launched_ns != 0, thread->launched_ns);
	thread->launched_ns = 0;
	serve(convert, thread, index, ns);
}

/* The thread polls or parks: it has the worker's core. Moves where another one served it last. */
static void take_over(struct ky_convert *convert, struct ky_dthread *thread, uint32_t index,
		      uint64_t ns)
{
	struct ky_drain_worker *worker = &convert->workers.list[index];

	if (worker->tid != thread->tid)
		move_worker(convert, thread, index, ns);
	else
		serve(convert, thread, index, ns);
	worker->is_open = false; /* whatever the other thread had open is not the worker's */
	ky_convert_worker(convert, index, ns);
}

static void continue_worker(struct ky_convert *convert, uint32_t index)
{
	struct ky_drain_worker *worker = &convert->workers.list[index];
	struct ky_runtime_table *runtimes = &convert->common->runtimes;
	struct ky_runtime *about = &runtimes->list[worker->runtime];

	worker->is_ended = false;
	/* What was taken for another runtime meanwhile was this one. */
	for (uint32_t i = worker->runtime + 1; about->is_ended && i < runtimes->count; i++) {
		if (runtimes->list[i].key == worker->runtime_key)
			runtimes->list[i].is_ended = true;
	}
	about->is_ended = false;
	about->live_workers++;
}

/* The worker of a launch: known, ranked now, or added by first sight. KY_NONE32: no room. */
static uint32_t worker_of_launch(struct ky_convert *convert, uint64_t task, uint64_t runtime_key,
				 uint64_t identity)
{
	uint32_t index = known_worker(convert, runtime_key, identity), runtime;
	struct ky_drain_worker *worker;

	if (index != KY_NONE32) {
		if (convert->workers.list[index].is_ended)
			continue_worker(convert, index);
		return index;
	}
	rank(convert, runtime_key);
	index = ky_worker_find(&convert->workers, runtime_key, identity);
	if (index != KY_NONE32)
		return index;
	/* Its launch was not noted (too many at once). */
	index = ky_worker_add(&convert->workers, runtime_key, identity, task ? task : 1);
	if (index == KY_NONE32)
		return index;
	runtime = ky_runtime_take(&convert->common->runtimes, runtime_key);
	worker = &convert->workers.list[index];
	worker->runtime = runtime;
	if (runtime != KY_NONE32) {
		worker->index = convert->common->runtimes.list[runtime].next_index++;
		convert->common->runtimes.list[runtime].live_workers++;
	}
	return index;
}

/* Another launch of a worker that has begun is block_in_place. Most of these come when the blocked
 * thread has its core back, and find nothing to do: the worker moves when the thread polls or
 * parks. */
void ky_convert_worker_begin(struct ky_convert *convert, struct ky_dthread *thread, uint64_t task,
			     uint64_t runtime_key, uint64_t identity, uint64_t ns)
{
	uint32_t index = worker_of_launch(convert, task, runtime_key, identity), runtime;
	struct ky_drain_worker *worker;

	forget_launch(convert, runtime_key, identity, task);
	if (index == KY_NONE32)
		return;
	if (thread->worker != index && thread->worker != KY_NONE32 && thread->is_launched)
		ky_convert_worker_end(convert, thread, ns); /* its end was lost */
	worker = &convert->workers.list[index];
	if (thread->worker != index || !thread->is_launched)
		worker->live_threads++;
	thread->worker = index;
	thread->is_launched = true;
	thread->launched_ns = ns;
	if (worker->has_begun)
		return;
	worker->has_begun = true;
	worker->losses = losses_so_far(convert);
	serve(convert, thread, index, ns);
	runtime = worker->runtime;
	if (runtime != KY_NONE32 && !convert->common->runtimes.list[runtime].is_announced)
		ky_convert_runtime(convert, runtime, ns);
	ky_convert_worker(convert, index, ns);
}

void ky_convert_worker_known(struct ky_convert *convert, struct ky_dthread *thread, uint64_t task,
			     uint64_t runtime_key, uint64_t identity, uint64_t ns)
{
	const struct ky_drain_worker *worker = convert->workers.list;

	if (thread->worker != KY_NONE32 && thread->is_launched) {
		worker += thread->worker;
		if (worker->runtime_key == runtime_key && worker->identity == identity)
			return;
		if (!identity)
			ky_convert_worker_end(convert, thread, ns);
	}
	if (!identity)
		return;
	ky_convert_worker_begin(convert, thread, task, runtime_key, identity, ns);
	thread->launched_ns = 0;
}

static bool has_other_launch(const struct ky_convert *convert, uint32_t index,
			     const struct ky_dthread *than)
{
	for (uint32_t i = 0; i < convert->common->threads.count; i++) {
		const struct ky_dthread *thread = convert->common->threads.list[i];

		if (thread != than && thread->worker == index && !thread->is_done)
			return true;
	}
	return false;
}

void ky_convert_worker_end(struct ky_convert *convert, struct ky_dthread *thread, uint64_t ns)
{
	uint32_t index = thread->worker;
	struct ky_drain_worker *worker;

	if (index == KY_NONE32)
		return;
	worker = &convert->workers.list[index];
	thread->worker = KY_NONE32;
	if (thread->is_launched && worker->live_threads)
		worker->live_threads--;
	thread->is_launched = false;
	if (worker->owner == thread) {
		worker->is_open = false;
		worker->owner = NULL;
	}
	/* The next of the others that polls or parks has it. */
	if (worker->live_threads && has_other_launch(convert, index, thread))
		return;
	worker->cpu_ns = ky_worker_cpu(worker, ns);
	worker->active_since_ns = UINT64_MAX;
	worker->owner = NULL;
	worker->is_ended = true;
	if (worker->launch)
		end_runtime(convert, worker->runtime);
	ky_convert_worker(convert, index, ns);
}

static bool is_local_set(struct ky_convert *convert, uint64_t key)
{
	uint32_t runtime = key ? ky_runtime_take(&convert->common->runtimes, key) : KY_NONE32;

	return runtime != KY_NONE32 &&
	       convert->common->runtimes.list[runtime].kind == KYMO_RUNTIME_LOCAL_SET;
}

/* A LocalSet is polled inside another's block_on: by the worker that this thread is, if it is one.
 */
void ky_convert_thread_runtime(struct ky_convert *convert, struct ky_dthread *thread, uint64_t key)
{
	if (thread->worker == KY_NONE32 || !is_local_set(convert, key))
		thread->runtime_key = key;
}

/* A thread without a launch polls for a runtime that launches its workers, or for one that is not
 * known. */
static bool is_launch_lost(const struct ky_convert *convert, uint64_t runtime_key)
{
	for (uint32_t i = convert->workers.count; i-- > 0;) {
		const struct ky_drain_worker *worker = &convert->workers.list[i];

		if (worker->launch && (!runtime_key || worker->runtime_key == runtime_key))
			return losses_so_far(convert) != 0;
	}
	return false;
}

/* A current-thread runtime is one worker, the thread that drives it, also when it outlives what
 * drove it; any other runtime that polls here without a launch gets one worker per
 * thread. */
static uint32_t own_worker(struct ky_convert *convert, struct ky_dthread *thread)
{
	uint32_t runtime = KY_NONE32, index;
	bool is_single = false;

	if (is_local_set(convert, thread->runtime_key) ||
	    is_launch_lost(convert, thread->runtime_key))
		return KY_NONE32;
	if (thread->runtime_key) {
		runtime = ky_runtime_take(&convert->common->runtimes, thread->runtime_key);
		is_single = runtime != KY_NONE32 && convert->common->runtimes.list[runtime].kind ==
							    KYMO_RUNTIME_CURRENT_THREAD;
	}
	for (uint32_t i = convert->workers.count; is_single && i-- > 0;) {
		struct ky_drain_worker *worker = &convert->workers.list[i];

		if (worker->runtime == runtime && !worker->launch &&
		    (!worker->owner || worker->owner == thread || !worker->is_open))
			return i;
	}
	index = ky_worker_add(&convert->workers, thread->runtime_key, thread->tid, 0);
	if (index == KY_NONE32)
		return index;
	convert->workers.list[index].runtime = runtime;
	if (is_single) {
		convert->workers.list[index].index = 0;
		convert->workers.list[index].is_exact = true;
	}
	return index;
}

/* Another thread served the worker after that moment. */
static bool is_served_since(const struct ky_drain_worker *worker, uint64_t since_ns)
{
	const struct ky_dthread *owner = worker->owner;

	return owner && (owner->boundary_ns > since_ns ||
			 (owner->depth && owner->stack[0].start_ns > since_ns));
}

bool ky_convert_worker_take_other(struct ky_convert *convert, struct ky_dthread *thread,
				  uint64_t since_ns, uint64_t ns)
{
	uint32_t index = thread->worker, runtime;
	struct ky_drain_worker *worker;

	if (index != KY_NONE32 && !thread->is_launched &&
	    convert->workers.list[index].runtime_key != thread->runtime_key)
		index = KY_NONE32; /* it drives another runtime now */
	if (index != KY_NONE32) {
		worker = &convert->workers.list[index];
		if (worker->owner == thread)
			return !worker->is_open || thread->depth > 0;
		if (worker->is_ended || (worker->is_open && !thread->is_launched) ||
		    is_served_since(worker, since_ns))
			return false;
		take_over(convert, thread, index, ns);
		return true;
	}
	index = own_worker(convert, thread);
	if (index == KY_NONE32)
		return false;
	worker = &convert->workers.list[index];
	if (worker->owner == thread && worker->has_begun) {
		thread->worker = index;
		return !worker->is_open;
	}
	worker->has_begun = true;
	worker->is_ended = false;
	if (worker->owner)
		worker->owner->worker = KY_NONE32;
	serve(convert, thread, index, ns);
	thread->is_launched = false;
	runtime = convert->workers.list[index].runtime;
	if (runtime != KY_NONE32 && !convert->common->runtimes.list[runtime].is_announced)
		ky_convert_runtime(convert, runtime, ns);
	ky_convert_worker(convert, index, ns);
	return true;
}

/* ---- parks ---- */

/* Each thread that serves it says what it has parked on so far: all of that is the worker's. */
static void note_parked_on(struct ky_convert *convert, const struct ky_dthread *thread, uint64_t ns)
{
	struct ky_drain_worker *worker = &convert->workers.list[thread->worker];
	uint64_t word = thread->parked_on, before = worker->parked_on;

	worker->parked_on_seen = word;
	if (!(word & FUTEX_MASK))
		word |= before & FUTEX_MASK;
	if (!(word >> KYMO_PARKED_ON_FD_SHIFT))
		word |= before & ~FUTEX_MASK;
	worker->parked_on = word;
	if (word != before && !convert->chunk.is_muted)
		ky_convert_worker(convert, thread->worker, ns);
}

void ky_convert_park(struct ky_convert *convert, struct ky_dthread *thread,
		     const struct ky_rec *rec, uint64_t ns)
{
	struct ky_drain_worker *worker;
	uint64_t cpu;

	thread->boundary_ns = ns;
	/* Only workers park; a thread without one just waits. */
	if (thread->worker == KY_NONE32 || thread->depth ||
	    !ky_convert_worker_take(convert, thread, ns, ns))
		return;
	worker = &convert->workers.list[thread->worker];
	if (worker->parked_on_seen != thread->parked_on)
		note_parked_on(convert, thread, ns);
	cpu = ky_worker_cpu(worker, ns);
	worker->cpu_ns = cpu;
	worker->active_since_ns = ns;
	worker->is_parked = rec->type == KYMO_RECORD_PARK;
	if (convert->chunk.is_muted ||
	    (convert->retain.is_on &&
	     !ky_retain_writes_park(convert, thread->worker, worker->is_parked, ns)))
		return;
	if (worker->is_parked)
		ky_trc_enc_park(&convert->chunk.enc, ns, ky_worker_id(thread->worker), cpu,
				thread->tid, ky_park_wait(rec->arg), ky_park_timeout(rec->arg));
	else
		ky_trc_enc_unpark(&convert->chunk.enc, ns, ky_worker_id(thread->worker), cpu,
				  thread->tid, ky_ready_count(rec->arg),
				  ky_ready_descriptor(rec->arg));
}
