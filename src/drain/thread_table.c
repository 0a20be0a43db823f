/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/drain_state.h>

#include <base/alloc.h>
#include <string.h>

static bool room_for_thread(struct ky_drain *drain)
{
	uint32_t capacity = drain->thread_capacity ? drain->thread_capacity * 2 : 64;
	struct ky_merge_entry *heap;
	struct ky_dthread **grown;

	if (drain->thread_count < drain->thread_capacity)
		return true;
	grown = ky_realloc(drain->threads, capacity * sizeof(*grown));
	if (!grown)
		return false;
	drain->threads = grown;
	/* Two more: what comes from outside the threads, and samples. */
	heap = ky_realloc(drain->heap, (capacity + 2) * sizeof(*heap));
	if (!heap)
		return false;
	drain->heap = heap;
	drain->thread_capacity = capacity;
	return true;
}

struct ky_dthread *ky_drain_thread_find(const struct ky_drain *drain, uint32_t index)
{
	struct ky_dthread *thread = drain->buckets[index % KY_DTHREAD_BUCKETS];

	while (thread && (thread->index != index || thread->is_done))
		thread = thread->next;
	return thread;
}

/* Threads whose exit nobody told (the directory was full) must not fill the table for ever. */
static void retire_idle(struct ky_drain *drain)
{
	for (uint32_t i = 0; i < drain->thread_count; i++) {
		struct ky_dthread *thread = drain->threads[i];

		if (!thread->cursor_count && thread->head == thread->tail && !thread->depth)
			thread->is_done = true;
	}
	ky_drain_thread_sweep(drain);
}

struct ky_dthread *ky_drain_thread(struct ky_drain *drain, uint32_t index, uint32_t tid)
{
	struct ky_dthread *thread = ky_drain_thread_find(drain, index);

	/* The kernel id tells a reused index apart; the old thread lives on until its records
	 * are out. */
	if (thread && thread->tid == tid)
		return thread;
	if (drain->thread_count >= KY_DTHREADS_MAX)
		retire_idle(drain);
	if (drain->thread_count >= KY_DTHREADS_MAX)
		return NULL;
	thread = room_for_thread(drain) ? ky_alloc(sizeof(*thread)) : NULL;
	if (!thread) {
		drain->is_out_of_memory = true;
		return NULL;
	}
	thread->index = index;
	thread->tid = tid;
	thread->worker = KY_NONE32;
	thread->next = drain->buckets[index % KY_DTHREAD_BUCKETS];
	drain->buckets[index % KY_DTHREAD_BUCKETS] = thread;
	drain->threads[drain->thread_count++] = thread;
	drain->stats.threads++;
	return thread;
}

static void unlink_thread(struct ky_drain *drain, const struct ky_dthread *thread)
{
	struct ky_dthread **at = &drain->buckets[thread->index % KY_DTHREAD_BUCKETS];

	while (*at && *at != thread)
		at = &(*at)->next;
	if (*at)
		*at = thread->next;
}

static void free_thread(struct ky_dthread *thread)
{
	ky_free(thread->recs);
	ky_free(thread->stack);
	ky_free(thread);
}

static void disown_workers(struct ky_drain *drain, const struct ky_dthread *thread)
{
	for (uint32_t i = 0; i < drain->worker_count; i++) {
		if (drain->workers[i].owner == thread)
			drain->workers[i].owner = NULL;
	}
}

void ky_drain_thread_sweep(struct ky_drain *drain)
{
	for (uint32_t i = 0; i < drain->thread_count;) {
		struct ky_dthread *thread = drain->threads[i];

		if (!thread->is_done || thread->cursor_count || thread->head < thread->tail) {
			i++;
			continue;
		}
		disown_workers(drain, thread);
		unlink_thread(drain, thread);
		drain->queued_bytes -= (uint64_t)thread->capacity * sizeof(*thread->recs);
		drain->threads[i] = drain->threads[--drain->thread_count];
		free_thread(thread);
	}
}

void ky_drain_thread_release(struct ky_drain *drain)
{
	for (uint32_t i = 0; i < drain->thread_count; i++)
		free_thread(drain->threads[i]);
	ky_free(drain->threads);
	ky_free(drain->heap);
}

struct ky_poll *ky_drain_push_poll_grow(struct ky_dthread *thread)
{
	if (thread->deeper || thread->depth == KY_STACK_MAX) {
		thread->deeper++;
		return NULL;
	}
	if (thread->depth == thread->stack_capacity) {
		uint32_t capacity = thread->stack_capacity ? thread->stack_capacity * 4 : 4;
		struct ky_poll *stack = ky_realloc(thread->stack, capacity * sizeof(*stack));

		if (!stack) {
			thread->deeper++;
			return NULL;
		}
		thread->stack = stack;
		thread->stack_capacity = capacity;
	}
	return &thread->stack[thread->depth++];
}
