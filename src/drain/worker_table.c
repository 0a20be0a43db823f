/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Workers and runtimes: which id a thread's polls have, and which index the runtime gave it.
 *
 * A runtime starts its workers by spawning their launch tasks one after the other, so the rank of a
 * launch among those of its runtime is the runtime's own index. All launches that were
 * published by the time the first of them is merged are ranked together (they wait for each
 * other up to KY_SETTLE_NS). */
#include <drain/worker_table.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>

/* ---- runtimes ---- */

uint32_t ky_runtime_take(struct ky_runtime_table *table, uint64_t key)
{
	struct ky_runtime *runtimes;

	for (uint32_t i = table->count; i-- > 0;) {
		if (table->list[i].key == key && !table->list[i].is_ended)
			return i;
	}
	if (table->count >= KY_RUNTIMES_MAX) {
		table->is_full = true;
		return KY_NONE32;
	}
	runtimes = ky_realloc(table->list, (table->count + 1) * sizeof(*runtimes));
	if (!runtimes) {
		table->is_out_of_memory = true;
		return KY_NONE32;
	}
	table->list = runtimes;
	memset(&runtimes[table->count], 0, sizeof(*runtimes));
	runtimes[table->count].key = key;
	return table->count++;
}

void ky_runtime_release(struct ky_runtime_table *table)
{
	for (uint32_t i = 0; i < table->count; i++)
		ky_free(table->list[i].name);
	ky_free(table->list);
}

/* ---- launches ---- */

int ky_launch_note(struct ky_launch_list *launches, const struct ky_launch *launch)
{
	int err;

	/* Beyond that a worker is ranked alone, by first sight. */
	if (launches->count == KY_LAUNCHES_MAX)
		return 0;
	err = ky_grow(&launches->list, &launches->capacity, launches->count + 1,
		      sizeof(*launches->list));
	if (!err)
		launches->list[launches->count++] = *launch;
	return err;
}

void ky_launch_release(struct ky_launch_list *launches)
{
	ky_free(launches->list);
}

/* ---- workers ---- */

uint32_t ky_worker_add(struct ky_worker_table *table, uint64_t runtime_key, uint64_t identity,
		       uint64_t launch)
{
	uint32_t capacity = table->capacity ? table->capacity * 2 : 16;
	struct ky_drain_worker *worker;

	if (table->count >= KY_WORKERS_MAX)
		return KY_NONE32;
	if (table->count == table->capacity) {
		struct ky_drain_worker *workers = ky_realloc(table->list,
							     capacity * sizeof(*workers));
		uint32_t *touched;

		if (!workers)
			return KY_NONE32;
		table->list = workers;
		touched = ky_realloc(table->touched, capacity * sizeof(*touched));
		if (!touched)
			return KY_NONE32;
		table->touched = touched;
		table->capacity = capacity;
	}
	worker = &table->list[table->count];
	memset(worker, 0, sizeof(*worker));
	worker->runtime = KY_NONE32;
	worker->index = KY_NONE32;
	worker->runtime_key = runtime_key;
	worker->identity = identity;
	worker->launch = launch;
	return table->count++;
}

/* Time it was awake: while CPU time is not measured, this is what keeps peers' tools from
 * finding threads that were "off the CPU" for the whole trace. */
uint64_t ky_worker_cpu(const struct ky_drain_worker *worker, uint64_t ns)
{
	if (worker->is_parked || ns < worker->active_since_ns)
		return worker->cpu_ns;
	return worker->cpu_ns + (ns - worker->active_since_ns);
}

void ky_worker_touch(struct ky_worker_table *table, uint32_t index, uint64_t serial)
{
	struct ky_drain_worker *worker = &table->list[index];

	if (worker->chunk_serial == serial)
		return;
	worker->chunk_serial = serial;
	worker->busy_ns = 0;
	worker->longest_start_ns = worker->longest_ns = worker->longest_task = 0;
	worker->poll_count = 0;
	table->touched[table->touched_count++] = index;
}

void ky_worker_disown(struct ky_worker_table *table, const struct ky_dthread *thread)
{
	for (uint32_t i = 0; i < table->count; i++) {
		if (table->list[i].owner == thread)
			table->list[i].owner = NULL;
	}
}

void ky_worker_release(struct ky_worker_table *table)
{
	ky_free(table->list);
	ky_free(table->touched);
}

/* ---- ranks ---- */

static bool has_ranked(const struct ky_worker_table *workers, uint64_t runtime_key)
{
	for (uint32_t i = workers->count; i-- > 0;) {
		const struct ky_drain_worker *worker = &workers->list[i];

		if (worker->runtime_key == runtime_key && worker->launch && !worker->is_ended)
			return true;
	}
	return false;
}

uint64_t ky_worker_settle_ticks(const struct ky_worker_table *workers,
				const struct ky_launch_list *launches,
				const struct ky_timeline *timeline, uint64_t now_ticks)
{
	uint64_t settle = ky_timeline_length_ticks(timeline, KY_SETTLE_NS), hold = UINT64_MAX;

	for (uint32_t i = 0; i < launches->count; i++) {
		const struct ky_launch *launch = &launches->list[i];

		if (launch->ticks >= hold || launch->ticks > now_ticks ||
		    now_ticks - launch->ticks >= settle)
			continue;
		if (!has_ranked(workers, launch->runtime_key))
			hold = launch->ticks;
	}
	return hold;
}

static uint32_t find_launched(const struct ky_worker_table *workers, uint64_t runtime_key,
			      uint64_t identity, bool is_ended)
{
	for (uint32_t i = workers->count; i-- > 0;) {
		const struct ky_drain_worker *worker = &workers->list[i];

		if (worker->runtime_key == runtime_key && worker->identity == identity &&
		    worker->launch && worker->is_ended == is_ended)
			return i;
	}
	return KY_NONE32;
}

uint32_t ky_worker_find(const struct ky_worker_table *workers, uint64_t runtime_key,
			uint64_t identity)
{
	return find_launched(workers, runtime_key, identity, false);
}

uint32_t ky_worker_find_ended(const struct ky_worker_table *workers, uint64_t runtime_key,
			      uint64_t identity)
{
	return find_launched(workers, runtime_key, identity, true);
}
