/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Live tasks: open addressing, linear probing, removal by shifting back (no tombstones). */
#include <drain/task_table.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>

#define CAPACITY_MIN 1024u
#define ENDED_SLOTS 16384u

int ky_task_table_init(struct ky_task_table *table, uint32_t count_max)
{
	memset(table, 0, sizeof(*table));
	table->count_max = count_max;
	table->slots = ky_alloc(CAPACITY_MIN * sizeof(*table->slots));
	table->ended = ky_alloc(ENDED_SLOTS * sizeof(*table->ended));
	table->capacity = CAPACITY_MIN;
	return table->slots && table->ended ? 0 : -ENOMEM;
}

void ky_task_table_release(struct ky_task_table *table)
{
	ky_free(table->slots);
	ky_free(table->ended);
	memset(table, 0, sizeof(*table));
}

static bool enlarge(struct ky_task_table *table)
{
	struct ky_drain_task *old = table->slots;
	uint32_t old_capacity = table->capacity;
	struct ky_drain_task *slots = ky_alloc((size_t)old_capacity * 2 * sizeof(*slots));

	if (!slots)
		return false;
	table->slots = slots;
	table->capacity = old_capacity * 2;
	for (uint32_t i = 0; i < old_capacity; i++) {
		uint32_t at = ky_task_place(old[i].key & ~KY_TASK_USED, table->capacity);

		if (!old[i].key)
			continue;
		while (slots[at].key)
			at = (at + 1) & (table->capacity - 1);
		slots[at] = old[i];
	}
	ky_free(old);
	return true;
}

struct ky_drain_task *ky_task_table_add(struct ky_task_table *table, uint64_t task, uint32_t name)
{
	uint32_t at;

	if (table->ended[ky_task_place(task, ENDED_SLOTS)] == (task | KY_TASK_USED))
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
	while (table->slots[at].key)
		at = (at + 1) & (table->capacity - 1);
	table->slots[at] = (struct ky_drain_task){.key = task | KY_TASK_USED, .name = name};
	table->count++;
	return &table->slots[at];
}

void ky_task_table_forget(struct ky_task_table *table)
{
	struct ky_drain_task *slots = table->slots;
	uint32_t capacity = table->capacity;
	struct ky_drain_task *fresh = ky_alloc((size_t)capacity * sizeof(*fresh));

	if (!fresh) /* then they stay, as after any other loss */
		return;
	table->slots = fresh;
	table->count = table->ready_count = 0;
	table->untracked_count = 0;
	for (uint32_t i = 0; i < capacity; i++) {
		uint32_t at = ky_task_place(slots[i].key & ~KY_TASK_USED, capacity);

		if (!slots[i].key || !slots[i].held)
			continue;
		while (fresh[at].key)
			at = (at + 1) & (capacity - 1);
		fresh[at] = slots[i];
		table->count++;
		table->ready_count += slots[i].ready_ns != 0;
	}
	ky_free(slots);
}

void ky_task_table_end(struct ky_task_table *table, uint64_t task)
{
	struct ky_drain_task *found = ky_task_table_find(table, task);
	uint32_t mask = table->capacity - 1, hole, i;

	table->ended[ky_task_place(task, ENDED_SLOTS)] = task | KY_TASK_USED;
	if (!found)
		return;
	table->ready_count -= found->ready_ns != 0;
	hole = (uint32_t)(found - table->slots);
	for (i = (hole + 1) & mask; table->slots[i].key; i = (i + 1) & mask) {
		uint32_t home = ky_task_place(table->slots[i].key & ~KY_TASK_USED, table->capacity);

		if (((i - home) & mask) < ((i - hole) & mask))
			continue; /* it would come before its home */
		table->slots[hole] = table->slots[i];
		hole = i;
	}
	memset(&table->slots[hole], 0, sizeof(table->slots[hole]));
	table->count--;
}
