/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads come and go: state from a bounded pool, an entry in the directory, a sub-buffer. */
#include <base/gnu.h>

#include <record/emit/emit_engine.h>

#include <base/testpoint.h>
#include <record/sample/chain_memo.h>
#include <record/sample/poll_readings.h>
#include <string.h>
#include <sys/prctl.h>

struct kymo_thread ky_thread_none;
struct kymo_thread ky_thread_busy = {.flags = 1u};
struct kymo_thread ky_thread_exited;

__thread struct kymo_thread *kymo_thread_self KYMO_TLS_MODEL = &ky_thread_none;

#define COMM_BYTES 16

/* Set by kymo_thread_name(): a filter of system calls may kill for PR_GET_NAME. */
static __thread char reported_name[COMM_BYTES] KYMO_TLS_MODEL;

void kymo_thread_name(const char *name)
{
	size_t bytes = strnlen(name, COMM_BYTES - 1);

	memcpy(reported_name, name, bytes);
	reported_name[bytes] = 0;
}

static struct ky_thread *take_state(void)
{
	struct ky_engine *engine = &ky_engine;
	uint32_t idx;

	if (engine->free_count)
		idx = engine->free_states[--engine->free_count];
	else if (engine->state_count < KY_THREADS_MAX)
		idx = engine->state_count++;
	else
		return NULL;
	memset(&engine->pool->threads[idx], 0, sizeof(engine->pool->threads[idx]));
	return &engine->pool->threads[idx];
}

static void give_back(struct ky_thread *thread)
{
	struct ky_engine *engine = &ky_engine;

	engine->free_states[engine->free_count++] = (uint16_t)(thread - engine->pool->threads);
}

/* Directory entry and number. Under the lock, LIVE. */
static void announce(struct ky_thread *thread)
{
	struct ky_engine *engine = &ky_engine;
	struct ky_entry_thread fixed = {0};
	char comm[COMM_BYTES] = "";
	struct ky_directory_item item = {.kind = KY_ENTRY_THREAD,
					 .fixed = &fixed,
					 .fixed_bytes = sizeof(fixed),
					 .text = comm};

	thread->ring = engine->ring;
	thread->tid = ky_engine_tid_locked();
	thread->hot.index = ++engine->thread_number;
	thread->generation = engine->generation;
	fixed.tid = thread->tid;
	fixed.start_ticks = ky_clock_ticks(&thread->ring->clock);
	memcpy(comm, reported_name, sizeof(comm));
	if (!comm[0] && !__atomic_load_n(&engine->is_confined, __ATOMIC_RELAXED))
		prctl(PR_GET_NAME, comm);
	item.id = thread->hot.index;
	item.text_bytes = strnlen(comm, sizeof(comm));
	ky_directory_thread(&engine->directory, &item);
	atomic_store_explicit(&engine->ring->header->thread_count, engine->thread_number,
			      memory_order_release);
}

/* The rest of an exited thread's sub-buffer, where there is one. Under the lock. */
static bool continue_parked(struct ky_thread *thread)
{
	struct ky_engine *engine = &ky_engine;

	while (engine->parked_count)
		if (ky_slot_continue(thread, &engine->parked[--engine->parked_count]))
			return true;
	return false;
}

/* Says in the continued sub-buffer who writes from here on, and with which full stamp. */
static void write_thread_change(struct ky_thread *thread)
{
	uint64_t ticks = ky_clock_ticks(&thread->ring->clock);
	uint64_t *at = thread->hot.cursor;

	__atomic_store_n(&at[1], (uint64_t)thread->hot.index << 32 | thread->tid, __ATOMIC_RELAXED);
	__atomic_store_n(&at[2], ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&at[3], thread->hot.record_count, __ATOMIC_RELAXED);
	__atomic_store_n(&at[0], kymo_header_word(ticks, KYMO_RECORD_THREAD_CHANGE, 0),
			 __ATOMIC_RELAXED);
	thread->hot.cursor = at + 4;
	thread->hot.record_count++;
	thread->hot.epoch = (uint32_t)(ticks >> 32);
	__atomic_store_n(&thread->hot.sub->published, (uint32_t)(uintptr_t)thread->hot.cursor,
			 __ATOMIC_RELEASE);
}

struct ky_thread *ky_thread_attach(void)
{
	struct ky_engine *engine = &ky_engine;
	void (*on_thread)(void) = __atomic_load_n(&engine->on_thread, __ATOMIC_ACQUIRE);
	struct ky_thread *thread = NULL;
	struct ky_lock_mark mark;

	if (on_thread)
		on_thread();
	mark = ky_engine_lock();
	if (__atomic_load_n(&engine->phase, __ATOMIC_ACQUIRE) == KY_LAZY)
		ky_engine_start_locked();
	if (__atomic_load_n(&engine->phase, __ATOMIC_ACQUIRE) == KY_LIVE) {
		thread = take_state();
		if (thread && pthread_setspecific(engine->key, thread) != 0) {
			give_back(thread);
			thread = NULL;
		}
	}
	KY_TESTPOINT("thread.registering");
	if (thread) {
		thread->hot.flags = 1u;
		announce(thread);
		if (continue_parked(thread))
			write_thread_change(thread);
		mark.self = &thread->hot;
		mark.flags = 1u;
	}
	ky_engine_unlock(mark);
	if (thread && ky_engine_sampler())
		ky_engine_sampler()->thread_begin(thread->tid);
	return thread;
}

/* The ring this state points into is gone; another is live. Called inside an event. */
void ky_thread_reattach(struct ky_thread *thread)
{
	struct ky_lock_mark mark = ky_engine_lock();

	/* A handler must not find the state while it says that the thread is inside no event: it
	 * would come here again, and wait for the lock that its own thread has. */
	kymo_thread_self = &ky_thread_busy;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memset(&thread->hot, 0, sizeof(thread->hot));
	memset(&thread->claim, 0, sizeof(*thread) - offsetof(struct ky_thread, claim));
	KY_TESTPOINT("thread.reattaching");
	thread->hot.flags = 1u;
	thread->ring = ky_engine.ring;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	kymo_thread_self = &thread->hot;
	if (__atomic_load_n(&ky_engine.phase, __ATOMIC_ACQUIRE) == KY_LIVE) {
		announce(thread);
		if (continue_parked(thread))
			write_thread_change(thread);
	}
	mark.flags = 1u;
	ky_engine_unlock(mark);
}

/* pthread key destructor: runs after the C++ and Rust thread-local destructors, which may emit. */
void ky_thread_exit(void *value)
{
	struct ky_engine *engine = &ky_engine;
	struct ky_thread *thread = value;
	struct ky_directory_item item = {.kind = KY_ENTRY_THREAD_EXIT, .text = ""};
	struct ky_parked *parked;
	struct ky_lock_mark mark;
	uint64_t ticks;

	kymo_thread_self = &ky_thread_exited;
	ky_poll_cost_thread_end();
	ky_chain_memo_thread_end();
	if (!__atomic_load_n(&engine->pool->is_alive, __ATOMIC_ACQUIRE))
		return; /* a forked child: the state was the parent's */
	if (ky_engine_sampler())
		ky_engine_sampler()->thread_end(thread->tid);
	mark = ky_engine_lock();
	if (__atomic_load_n(&engine->phase, __ATOMIC_ACQUIRE) == KY_LIVE &&
	    thread->generation == engine->generation) {
		ticks = ky_clock_ticks(&thread->ring->clock);
		item.id = thread->hot.index;
		item.fixed = &ticks;
		item.fixed_bytes = sizeof(ticks);
		parked = engine->parked_count < KY_PARKED_MAX ?
				 &engine->parked[engine->parked_count] :
				 NULL;
		engine->parked_count += ky_slot_leave(thread, parked);
		ky_directory_thread(&engine->directory, &item);
	}
	memset(thread, 0, sizeof(*thread));
	give_back(thread);
	ky_engine_unlock(mark);
}
