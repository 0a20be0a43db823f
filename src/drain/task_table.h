/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_table.h - the live tasks, by id; for src/drain.
 *
 * Memory:      count_max entries; tasks beyond that are counted.
 * Threads:     owner.
 */
#ifndef KY_DRAIN_TASK_TABLE_H
#define KY_DRAIN_TASK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ky_drain_task {
	uint64_t key; /* task | KY_TASK_USED; 0: free */
	uint64_t last_poll_ns;
	uint64_t ready_ns; /* 0: not ready */
	uint32_t name;     /* 0: not known; with KY_TASK_NAME_IS_PLACE until its first poll */
	uint32_t held;     /* its wake waits at this place of retain.held; 0: none */
	/* Where it waits since then: a number in the ring's table of points; 0: not known. */
	uint32_t points;
	uint64_t older_ns; /* its older points were known then; 0: not known */
};
#define KY_TASK_USED ((uint64_t)1 << 63)
#define KY_TASK_NAME_IS_PLACE (UINT32_C(1) << 31) /* as its spawn said it */

/* Its first poll tells its name, or one that is better than what its spawn said. */
static inline bool ky_task_is_unnamed(const struct ky_drain_task *task)
{
	return (int32_t)task->name <= 0;
}

static inline uint32_t ky_task_name(const struct ky_drain_task *task)
{
	return task->name & ~KY_TASK_NAME_IS_PLACE;
}

/* Of a wait that long each point is told. */
#define KY_LONG_WAIT_NS UINT64_C(10000000)

/* One that ends now. */
static inline bool ky_waits_long(const struct ky_drain_task *task, uint64_t ns)
{
	return task->points && ns - task->last_poll_ns >= KY_LONG_WAIT_NS &&
	       ns > task->last_poll_ns;
}

struct ky_task_table {
	struct ky_drain_task *entries;
	uint32_t capacity; /* power of two */
	uint32_t count;
	uint32_t count_max;
	uint32_t ready_count;    /* of them, ready and not being polled */
	uint64_t untracked_high; /* largest id that found no room */
	uint64_t untracked_count;
	uint64_t *ended; /* tasks that ended lately, so that a late wake revives none */
};

int ky_task_table_init(struct ky_task_table *table, uint32_t count_max);
void ky_task_table_release(struct ky_task_table *table);
static inline uint32_t ky_task_place(uint64_t task, uint32_t capacity)
{
	/* Ids count up: the multiplication spreads them, the upper bits are the good ones. */
	return (uint32_t)((task * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (capacity - 1);
}
/* The entry, or NULL. */
static inline struct ky_drain_task *ky_task_table_find(const struct ky_task_table *table,
						       uint64_t task)
{
	uint64_t key = task | KY_TASK_USED;

	for (uint32_t i = ky_task_place(task, table->capacity);;
	     i = (i + 1) & (table->capacity - 1)) {
		if (__builtin_expect(table->entries[i].key == key, 1))
			return &table->entries[i];
		if (!table->entries[i].key)
			return NULL;
	}
}
/* The same; place: where it was a moment ago. */
static inline struct ky_drain_task *ky_task_table_find_at(const struct ky_task_table *table,
							  uint64_t task, uint32_t place)
{
	struct ky_drain_task *at = &table->entries[place & (table->capacity - 1)];

	return __builtin_expect(at->key == (task | KY_TASK_USED), 1) ?
		       at :
		       ky_task_table_find(table, task);
}
/* A new entry; NULL when full (then counted) or when the task ended lately. */
struct ky_drain_task *ky_task_table_add(struct ky_task_table *table, uint64_t task, uint32_t name);
void ky_task_table_end(struct ky_task_table *table, uint64_t task);
/* It is not known which of them are still there; those with a wake held back stay. */
void ky_task_table_forget(struct ky_task_table *table);

#endif
