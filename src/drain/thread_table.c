/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/thread_table.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>

struct ky_dthread *ky_thread_table_find(const struct ky_thread_table *table, uint32_t index)
{
	struct ky_dthread *thread = table->buckets[index % KY_DTHREAD_BUCKETS];

	while (thread && (thread->index != index || thread->is_done))
		thread = thread->next;
	return thread;
}

struct ky_dthread *ky_thread_table_find_tid(const struct ky_thread_table *table, uint32_t tid)
{
	for (uint32_t i = 0; i < table->count; i++) {
		if (table->list[i]->tid == tid && !table->list[i]->is_done)
			return table->list[i];
	}
	return NULL;
}

int ky_thread_table_take(struct ky_thread_table *table, uint32_t index, uint32_t tid,
			 struct ky_dthread **out)
{
	struct ky_dthread *thread = ky_thread_table_find(table, index);

	/* The kernel id distinguishes a reused index; the old thread lives on until its records
	 * are out. */
	*out = thread;
	if (thread && thread->tid == tid)
		return 0;
	*out = NULL;
	if (table->count >= KY_DTHREADS_MAX)
		return KYMO_E_LIMIT;
	if (ky_grow(&table->list, &table->capacity, table->count + 1, sizeof(*table->list)))
		return -ENOMEM;
	thread = ky_alloc(sizeof(*thread));
	if (!thread)
		return -ENOMEM;
	thread->index = index;
	thread->tid = tid;
	thread->worker = KY_NONE32;
	thread->next = table->buckets[index % KY_DTHREAD_BUCKETS];
	table->buckets[index % KY_DTHREAD_BUCKETS] = thread;
	table->list[table->count++] = thread;
	*out = thread;
	return 0;
}

void ky_thread_table_retire(struct ky_thread_table *table)
{
	for (uint32_t i = 0; i < table->count; i++) {
		struct ky_dthread *thread = table->list[i];

		if (!thread->cursor_count && ky_queue_is_empty(&thread->queue) && !thread->depth)
			thread->is_done = true;
	}
}

struct ky_dthread *ky_thread_table_over(const struct ky_thread_table *table, uint32_t *at)
{
	for (; *at < table->count; (*at)++) {
		struct ky_dthread *thread = table->list[*at];

		if (thread->is_done && !thread->cursor_count && ky_queue_is_empty(&thread->queue))
			return thread;
	}
	return NULL;
}

static void unlink_thread(struct ky_thread_table *table, const struct ky_dthread *thread)
{
	struct ky_dthread **at = &table->buckets[thread->index % KY_DTHREAD_BUCKETS];

	while (*at && *at != thread)
		at = &(*at)->next;
	if (*at)
		*at = thread->next;
}

void ky_thread_table_remove(struct ky_thread_table *table, uint32_t at)
{
	struct ky_dthread *thread = table->list[at];

	unlink_thread(table, thread);
	ky_queue_give_back(&thread->queue, &table->queues);
	table->list[at] = table->list[--table->count];
	ky_thread_free(thread);
}

void ky_thread_table_release(struct ky_thread_table *table)
{
	for (uint32_t i = 0; i < table->count; i++)
		ky_thread_free(table->list[i]);
	ky_free(table->list);
}

struct ky_dthread *ky_thread_make_source(void)
{
	struct ky_dthread *source = ky_alloc(sizeof(*source));

	if (!source)
		return NULL;
	source->worker = KY_NONE32;
	source->is_announced = true;
	return source;
}

void ky_thread_free(struct ky_dthread *thread)
{
	if (!thread)
		return;
	ky_free(thread->queue.recs);
	ky_free(thread->stack);
	ky_free(thread);
}

struct ky_drain_poll *ky_thread_push_poll_grow(struct ky_dthread *thread)
{
	if (thread->deeper || thread->depth == KY_STACK_MAX ||
	    ky_grow(&thread->stack, &thread->stack_capacity, thread->depth + 1u,
		    sizeof(*thread->stack))) {
		thread->deeper++;
		return NULL;
	}
	return &thread->stack[thread->depth++];
}
