/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Workers and runtimes: which id a thread's polls carry, and which index the runtime gave it.
 *
 * A runtime starts its workers by spawning their launch tasks one after the other, so the rank of a
 * launch among those of its runtime is the runtime's own index. All launches that were
 * published by the time the first of them is merged are ranked together (they wait for each
 * other up to KY_SETTLE_NS). */
#include <drain/drain_state.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <stdlib.h>
#include <string.h>

/* ---- runtimes ---- */

uint32_t ky_drain_runtime(struct ky_drain *drain, uint64_t key)
{
	struct ky_runtime *runtimes;

	for (uint32_t i = drain->runtime_count; i-- > 0;) {
		if (drain->runtimes[i].key == key && !drain->runtimes[i].is_ended)
			return i;
	}
	if (drain->runtime_count >= KY_RUNTIMES_MAX)
		return KY_NONE32;
	runtimes = ky_realloc(drain->runtimes, (drain->runtime_count + 1) * sizeof(*runtimes));
	if (!runtimes) {
		drain->is_out_of_memory = true;
		return KY_NONE32;
	}
	drain->runtimes = runtimes;
	memset(&runtimes[drain->runtime_count], 0, sizeof(*runtimes));
	runtimes[drain->runtime_count].key = key;
	return drain->runtime_count++;
}

void ky_drain_runtime_event(struct ky_drain *drain, uint32_t index, uint64_t ns)
{
	struct ky_runtime *runtime = &drain->runtimes[index];
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t name;

	runtime->is_announced = true;
	if (runtime->kind == KYMO_RUNTIME_LOCAL_SET)
		return; /* it is none */
	ky_drain_ready(drain, ns);
	runtime = &drain->runtimes[index];
	name = ky_drain_text_pool(drain, runtime->name);
	ky_trc_enc_event(enc, KY_EV_RUNTIME, ns);
	ky_trc_enc_varint(enc, index);
	ky_trc_enc_u32(enc, name);
	ky_trc_enc_u8(enc, (uint8_t)runtime->kind);
	ky_trc_enc_u8(enc, (uint8_t)runtime->copy);
}

/* ---- workers ---- */

static uint32_t new_worker(struct ky_drain *drain, uint64_t runtime_key, uint64_t identity,
			   uint64_t launch)
{
	uint32_t capacity = drain->worker_capacity ? drain->worker_capacity * 2 : 16;
	struct ky_worker *worker;

	if (drain->worker_count >= KY_WORKERS_MAX)
		return KY_NONE32;
	if (drain->worker_count == drain->worker_capacity) {
		struct ky_worker *workers = ky_realloc(drain->workers, capacity * sizeof(*workers));
		uint32_t *touched;

		if (!workers)
			return KY_NONE32;
		drain->workers = workers;
		touched = ky_realloc(drain->chunk.touched, capacity * sizeof(*touched));
		if (!touched)
			return KY_NONE32;
		drain->chunk.touched = touched;
		drain->worker_capacity = capacity;
	}
	worker = &drain->workers[drain->worker_count];
	memset(worker, 0, sizeof(*worker));
	worker->runtime = KY_NONE32;
	worker->index = KY_NONE32;
	worker->runtime_key = runtime_key;
	worker->identity = identity;
	worker->launch = launch;
	drain->stats.workers++;
	return drain->worker_count++;
}

/* Ids count from where the ring begins; these are words of the runtime's own. */
static uint64_t identity_of(const struct ky_worker *worker)
{
	uint64_t hash = ky_hash_number(worker->runtime_key);

	hash = ky_hash_number(hash ^ worker->identity);
	return ky_hash_number(hash ^ worker->launch) >> 8 | 1u;
}

void ky_drain_worker_event(struct ky_drain *drain, uint32_t index, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	const struct ky_worker *worker;

	ky_drain_ready(drain, ns);
	worker = &drain->workers[index];
	ky_trc_enc_event(enc, KY_EV_WORKER, ns);
	ky_trc_enc_varint(enc, ky_worker_id(index));
	ky_trc_enc_opt_varint(enc, worker->runtime != KY_NONE32, worker->runtime);
	ky_trc_enc_opt_varint(enc, worker->index != KY_NONE32, worker->index);
	ky_trc_enc_u32(enc, worker->tid);
	ky_trc_enc_u8(enc, worker->is_exact);
	ky_trc_enc_u8(enc, worker->is_ended);
	ky_trc_enc_varint(enc, identity_of(worker));
}

/* Time it was awake: while nobody measures CPU time, this is what keeps peers' tools from finding
 * threads that were "off the CPU" for the whole trace. */
uint64_t ky_drain_worker_cpu(const struct ky_worker *worker, uint64_t ns)
{
	if (worker->is_parked || ns < worker->active_since_ns)
		return worker->cpu_ns;
	return worker->cpu_ns + (ns - worker->active_since_ns);
}

/* ---- ranks ---- */

int ky_drain_note_launch(struct ky_drain *drain, uint64_t runtime_key, uint64_t identity,
			 uint64_t task, uint64_t ticks)
{
	if (!drain->launches) {
		drain->launches = ky_alloc(KY_LAUNCHES_MAX * sizeof(*drain->launches));
		if (!drain->launches)
			return -ENOMEM;
	}
	/* Beyond that a worker is ranked alone, by first sight. */
	if (drain->launch_count < KY_LAUNCHES_MAX)
		drain->launches[drain->launch_count++] = (struct ky_launch){runtime_key, identity,
									    task, ticks};
	return 0;
}

static bool has_ranked(const struct ky_drain *drain, uint64_t runtime_key)
{
	for (uint32_t i = drain->worker_count; i-- > 0;) {
		const struct ky_worker *worker = &drain->workers[i];

		if (worker->runtime_key == runtime_key && worker->launch && !worker->is_ended)
			return true;
	}
	return false;
}

uint64_t ky_drain_settle_ticks(const struct ky_drain *drain)
{
	uint64_t settle = ky_timeline_length_ticks(&drain->timeline, KY_SETTLE_NS),
		 hold = UINT64_MAX;

	for (uint32_t i = 0; i < drain->launch_count; i++) {
		const struct ky_launch *launch = &drain->launches[i];

		if (launch->ticks >= hold || launch->ticks > drain->now_ticks ||
		    drain->now_ticks - launch->ticks >= settle)
			continue;
		if (!has_ranked(drain, launch->runtime_key))
			hold = launch->ticks;
	}
	return hold;
}

static uint32_t find_worker(const struct ky_drain *drain, uint64_t runtime_key, uint64_t identity)
{
	for (uint32_t i = drain->worker_count; i-- > 0;) {
		const struct ky_worker *worker = &drain->workers[i];

		if (worker->runtime_key == runtime_key && worker->identity == identity &&
		    worker->launch && !worker->is_ended)
			return i;
	}
	return KY_NONE32;
}

static int by_task(const void *a, const void *b)
{
	const struct ky_launch *left = a, *right = b;

	return left->task < right->task ? -1 : left->task > right->task;
}

static void forget_launch(struct ky_drain *drain, uint64_t runtime_key, uint64_t identity,
			  uint64_t task)
{
	for (uint32_t i = 0; i < drain->launch_count; i++) {
		const struct ky_launch *launch = &drain->launches[i];

		if (launch->runtime_key != runtime_key || launch->identity != identity ||
		    launch->task != task)
			continue;
		drain->launches[i] = drain->launches[--drain->launch_count];
		return;
	}
}

/* Gives every published launch of this runtime a worker, in the order of their tasks. A second
 * launch of the same identity is block_in_place and gets none. */
static void rank(struct ky_drain *drain, uint64_t runtime_key)
{
	uint32_t runtime = ky_drain_runtime(drain, runtime_key), index;
	struct ky_runtime *about = runtime == KY_NONE32 ? NULL : &drain->runtimes[runtime];

	if (drain->launch_count > 1)
		qsort(drain->launches, drain->launch_count, sizeof(*drain->launches), by_task);
	for (uint32_t i = 0; i < drain->launch_count; i++) {
		const struct ky_launch *launch = &drain->launches[i];
		struct ky_worker *worker;

		if (launch->runtime_key != runtime_key ||
		    find_worker(drain, runtime_key, launch->identity) != KY_NONE32)
			continue;
		index = new_worker(drain, runtime_key, launch->identity,
				   launch->task ? launch->task : 1);
		if (index == KY_NONE32)
			return;
		worker = &drain->workers[index];
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
static void end_runtime(struct ky_drain *drain, uint32_t runtime)
{
	struct ky_runtime *about;

	if (runtime == KY_NONE32)
		return;
	about = &drain->runtimes[runtime];
	if (about->live_workers && --about->live_workers == 0)
		about->is_ended = true;
}

/* ---- what records say ---- */

static void serve(struct ky_drain *drain, struct ky_dthread *thread, uint32_t index, uint64_t ns)
{
	struct ky_worker *worker = &drain->workers[index];

	worker->owner = thread;
	worker->tid = thread->tid;
	if (worker->active_since_ns)
		worker->cpu_ns = ky_drain_worker_cpu(worker, ns);
	worker->active_since_ns = ns;
	worker->is_parked = false;
	thread->worker = index;
}

/* The blocked thread's poll goes on, but no longer as a poll of the worker: the pair is closed
 * and the rest is told as a nested run, so that pairs of one worker never overlap. */
static void hand_over_poll(struct ky_drain *drain, uint32_t index, uint64_t ns)
{
	struct ky_worker *worker = &drain->workers[index];
	struct ky_dthread *owner = worker->owner;
	struct ky_trc_enc *enc = &drain->enc;
	struct ky_poll *poll;
	uint32_t name;

	if (!worker->is_open || !owner || !owner->depth || !ky_poll_is_outer(&owner->stack[0]))
		return;
	poll = &owner->stack[0];
	if (poll->kind == KY_POLL_COUNTED) {
		ky_retain_poll_moved(drain, poll, ns);
		return;
	}
	ky_drain_ready(drain, ns);
	ky_trc_enc_poll_end(enc, ns, ky_worker_id(index));
	ky_drain_book_poll(drain, index, poll->start_ns, ns, poll->task);
	worker->is_open = false;
	poll->kind = KY_POLL_NESTED;
	poll->start_ns = ns;
	ky_drain_ready(drain, ns);
	name = ky_drain_name_pool(drain, poll->name);
	ky_trc_enc_event(enc, KY_EV_NESTED_POLL_START, ns);
	ky_trc_enc_varint(enc, ky_worker_id(index));
	ky_trc_enc_u32(enc, owner->tid);
	ky_trc_enc_varint(enc, 0);
	ky_trc_enc_varint(enc, poll->task);
	ky_trc_enc_u32(enc, name);
}

static void move_worker(struct ky_drain *drain, struct ky_dthread *thread, uint32_t index,
			uint64_t ns)
{
	struct ky_worker *worker = &drain->workers[index];
	uint32_t from_tid = worker->tid;

	hand_over_poll(drain, index, ns);
	ky_drain_ready(drain, ns);
	ky_trc_enc_event(&drain->enc, KY_EV_BLOCK_IN_PLACE, ns);
	ky_trc_enc_varint(&drain->enc, ky_worker_id(index));
	ky_trc_enc_u32(&drain->enc, from_tid);
	ky_trc_enc_u32(&drain->enc, thread->tid);
	serve(drain, thread, index, ns);
}

void ky_drain_worker_begin(struct ky_drain *drain, struct ky_dthread *thread, uint64_t task,
			   uint64_t runtime_key, uint64_t identity, uint64_t ns)
{
	uint32_t index = find_worker(drain, runtime_key, identity), runtime;
	struct ky_worker *worker;

	if (index == KY_NONE32) {
		rank(drain, runtime_key);
		index = find_worker(drain, runtime_key, identity);
	}
	forget_launch(drain, runtime_key, identity, task);
	if (index == KY_NONE32) {
		/* Its launch was not noted (too many at once): ranked by first sight. */
		index = new_worker(drain, runtime_key, identity, task ? task : 1);
		if (index == KY_NONE32)
			return;
		runtime = ky_drain_runtime(drain, runtime_key);
		worker = &drain->workers[index];
		worker->runtime = runtime;
		if (runtime != KY_NONE32) {
			worker->index = drain->runtimes[runtime].next_index++;
			drain->runtimes[runtime].live_workers++;
		}
	}
	if (thread->worker != KY_NONE32 && thread->is_launched)
		ky_drain_worker_end(drain, thread, ns); /* its end was lost */
	worker = &drain->workers[index];
	worker->live_threads++;
	thread->is_launched = true;
	runtime = worker->runtime;
	if (worker->has_begun && worker->owner && worker->owner != thread) {
		move_worker(drain, thread, index, ns);
	} else {
		worker->has_begun = true;
		serve(drain, thread, index, ns);
	}
	if (runtime != KY_NONE32 && !drain->runtimes[runtime].is_announced)
		ky_drain_runtime_event(drain, runtime, ns);
	ky_drain_worker_event(drain, index, ns);
}

void ky_drain_worker_known(struct ky_drain *drain, struct ky_dthread *thread, uint64_t task,
			   uint64_t runtime_key, uint64_t identity, uint64_t ns)
{
	const struct ky_worker *worker = drain->workers;

	if (thread->worker != KY_NONE32 && thread->is_launched) {
		worker += thread->worker;
		if (worker->runtime_key == runtime_key && worker->identity == identity)
			return;
	}
	ky_drain_worker_begin(drain, thread, task, runtime_key, identity, ns);
}

static struct ky_dthread *other_server(const struct ky_drain *drain, uint32_t index,
				       const struct ky_dthread *than)
{
	for (uint32_t i = 0; i < drain->thread_count; i++) {
		struct ky_dthread *thread = drain->threads[i];

		if (thread != than && thread->worker == index && !thread->is_done)
			return thread;
	}
	return NULL;
}

void ky_drain_worker_end(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ns)
{
	uint32_t index = thread->worker;
	struct ky_dthread *heir;
	struct ky_worker *worker;

	if (index == KY_NONE32)
		return;
	worker = &drain->workers[index];
	thread->worker = KY_NONE32;
	if (thread->is_launched && worker->live_threads)
		worker->live_threads--;
	thread->is_launched = false;
	heir = worker->live_threads ? other_server(drain, index, thread) : NULL;
	if (heir) {
		if (worker->owner == thread) /* it took the worker and found nothing to do */
			serve(drain, heir, index, ns);
		return;
	}
	if (worker->owner == thread)
		worker->is_open = false;
	worker->cpu_ns = ky_drain_worker_cpu(worker, ns);
	worker->active_since_ns = UINT64_MAX;
	worker->owner = NULL;
	worker->is_ended = true;
	if (worker->launch)
		end_runtime(drain, worker->runtime);
	ky_drain_worker_event(drain, index, ns);
}

uint32_t ky_drain_worker_of(const struct ky_drain *drain, uint32_t tid)
{
	for (uint32_t i = 0; i < drain->thread_count; i++) {
		if (drain->threads[i]->tid == tid && !drain->threads[i]->is_done)
			return drain->threads[i]->worker;
	}
	return KY_NONE32;
}

static bool is_local_set(struct ky_drain *drain, uint64_t key)
{
	uint32_t runtime = key ? ky_drain_runtime(drain, key) : KY_NONE32;

	return runtime != KY_NONE32 && drain->runtimes[runtime].kind == KYMO_RUNTIME_LOCAL_SET;
}

/* A LocalSet is polled inside somebody's block_on: by the worker that this thread is, if it is one.
 */
void ky_drain_thread_runtime(struct ky_drain *drain, struct ky_dthread *thread, uint64_t key)
{
	if (thread->worker == KY_NONE32 || !is_local_set(drain, key))
		thread->runtime_key = key;
}

/* A current-thread runtime is one worker, whoever drives it, also when it goes on behind the end of
 * what drove it; any other runtime that polls here without a launch gets one worker per thread. */
static uint32_t own_worker(struct ky_drain *drain, struct ky_dthread *thread)
{
	uint32_t runtime = KY_NONE32, index;
	bool is_single = false;

	if (is_local_set(drain, thread->runtime_key))
		return KY_NONE32;
	if (thread->runtime_key) {
		runtime = ky_drain_runtime(drain, thread->runtime_key);
		is_single = runtime != KY_NONE32 &&
			    drain->runtimes[runtime].kind == KYMO_RUNTIME_CURRENT_THREAD;
	}
	for (uint32_t i = drain->worker_count; is_single && i-- > 0;) {
		struct ky_worker *worker = &drain->workers[i];

		if (worker->runtime == runtime && !worker->launch &&
		    (!worker->owner || worker->owner == thread || !worker->is_open))
			return i;
	}
	index = new_worker(drain, thread->runtime_key, thread->tid, 0);
	if (index == KY_NONE32)
		return index;
	drain->workers[index].runtime = runtime;
	if (is_single) {
		drain->workers[index].index = 0;
		drain->workers[index].is_exact = true;
	}
	return index;
}

bool ky_drain_worker_take_other(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ns)
{
	uint32_t index = thread->worker, runtime;
	struct ky_worker *worker;

	if (index != KY_NONE32 && !thread->is_launched &&
	    drain->workers[index].runtime_key != thread->runtime_key)
		index = KY_NONE32; /* it drives another runtime now */
	if (index != KY_NONE32) {
		worker = &drain->workers[index];
		if (worker->owner == thread)
			return !worker->is_open || thread->depth > 0;
		if (worker->is_open || worker->is_ended)
			return false;
		/* Back from block_in_place before the other thread did anything. */
		move_worker(drain, thread, index, ns);
		ky_drain_worker_event(drain, index, ns);
		return true;
	}
	index = own_worker(drain, thread);
	if (index == KY_NONE32)
		return false;
	worker = &drain->workers[index];
	if (worker->owner == thread && worker->has_begun) {
		thread->worker = index;
		return !worker->is_open;
	}
	worker->has_begun = true;
	worker->is_ended = false;
	if (worker->owner)
		worker->owner->worker = KY_NONE32;
	serve(drain, thread, index, ns);
	thread->is_launched = false;
	runtime = drain->workers[index].runtime;
	if (runtime != KY_NONE32 && !drain->runtimes[runtime].is_announced)
		ky_drain_runtime_event(drain, runtime, ns);
	ky_drain_worker_event(drain, index, ns);
	return true;
}
