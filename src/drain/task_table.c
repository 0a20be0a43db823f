/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Live tasks: open addressing, linear probing, removal by shifting back (no tombstones). */
#include <drain/task_table.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>

#define CAPACITY_MIN 1024u
#define ENDED_ENTRIES 16384u

int ky_task_table_init(struct ky_task_table *table, uint32_t count_max)
{
	memset(table, 0, sizeof(*table));
	table->count_max = count_max;
	table->entries = ky_alloc(CAPACITY_MIN * sizeof(*table->entries));
	table->ended = ky_alloc(ENDED_ENTRIES * sizeof(*table->ended));
	table->capacity = CAPACITY_MIN;
	return table->entries && table->ended ? 0 : -ENOMEM;
}

void ky_task_table_release(struct ky_task_table *table)
{
	ky_free(table->entries);
	ky_free(table->ended);
	memset(table, 0, sizeof(*table));
}

static bool enlarge(struct ky_task_table *table)
{
	struct ky_drain_task *old = table->entries;
	uint32_t old_capacity = table->capacity;
	struct ky_drain_task *entries = ky_alloc((size_t)old_capacity * 2 * sizeof(*entries));

	if (!entries)
		return false;
	table->entries = entries;
	table->capacity = old_capacity * 2;
	for (uint32_t i = 0; i < old_capacity; i++) {
		uint32_t at = ky_task_place(old[i].key & ~KY_TASK_USED, table->capacity);

		if (!old[i].key)
			continue;
		while (entries[at].key)
			at = (at + 1) & (table->capacity - 1);
		entries[at] = old[i];
	}
	ky_free(old);
	return true;
}

struct ky_drain_task *ky_task_table_add(struct ky_task_table *table, uint64_t task, uint32_t name)
{
	uint32_t at;

	if (table->ended[ky_task_place(task, ENDED_ENTRIES)] == (task | KY_TASK_USED))
		return NULL;
	if (table->count >= table->count_max ||
	    (table->count >= table->capacity / 2 && !enlarge(table))) {
		/* Ids count up, so each new maximum is one task more. */
		if (task > table->untracked_high) {
			table->untracked_high = task;
			table->untracked_count++;
		}
		return NULL;
	}
	at = ky_task_place(task, table->capacity);
	while (table->entries[at].key)
		at = (at + 1) & (table->capacity - 1);
	table->entries[at] = (struct ky_drain_task){.key = task | KY_TASK_USED, .name = name};
	table->count++;
	return &table->entries[at];
}

void ky_task_table_forget(struct ky_task_table *table)
{
	struct ky_drain_task *entries = table->entries;
	uint32_t capacity = table->capacity;
	struct ky_drain_task *fresh = ky_alloc((size_t)capacity * sizeof(*fresh));

	if (!fresh) /* then they stay, as after any other loss */
		return;
	table->entries = fresh;
	table->count = table->ready_count = 0;
	table->untracked_count = 0;
	for (uint32_t i = 0; i < capacity; i++) {
		uint32_t at = ky_task_place(entries[i].key & ~KY_TASK_USED, capacity);

		if (!entries[i].key || !entries[i].held)
			continue;
		while (fresh[at].key)
			at = (at + 1) & (capacity - 1);
		fresh[at] = entries[i];
		table->count++;
		table->ready_count += entries[i].ready_ns != 0;
	}
	ky_free(entries);
}

void ky_task_table_end(struct ky_task_table *table, uint64_t task)
{
	struct ky_drain_task *found = ky_task_table_find(table, task);
	uint32_t mask = table->capacity - 1, hole, i;

	table->ended[ky_task_place(task, ENDED_ENTRIES)] = task | KY_TASK_USED;
	if (!found)
		return;
	table->ready_count -= found->ready_ns != 0;
	hole = (uint32_t)(found - table->entries);
	for (i = (hole + 1) & mask; table->entries[i].key; i = (i + 1) & mask) {
		uint32_t home = ky_task_place(table->entries[i].key & ~KY_TASK_USED,
					      table->capacity);

		if (((i - home) & mask) < ((i - hole) & mask))
			continue; /* it would come before its home */
		table->entries[hole] = table->entries[i];
		hole = i;
	}
	memset(&table->entries[hole], 0, sizeof(table->entries[hole]));
	table->count--;
}
