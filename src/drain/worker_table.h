/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* worker_table.h - runtimes, their workers, and launches of workers that were read and not merged
 * yet; for src/drain. What records make of them is in worker_event.c.
 *
 * Threads:     owner.
 */
#ifndef KY_DRAIN_WORKER_TABLE_H
#define KY_DRAIN_WORKER_TABLE_H

#include <base/timeline.h>
#include <drain/thread_table.h>

#define KY_SETTLE_NS UINT64_C(20000000) /* how long workers of a new runtime gather */
#define KY_WORKERS_MAX 65536u
#define KY_RUNTIMES_MAX 65536u
#define KY_LAUNCHES_MAX 4096u
#define KY_WORKER_UNKNOWN 255u
#define KY_WORKER_BLOCKING_POOL 254u

struct ky_runtime {
	uint64_t key;
	uint32_t kind;
	uint32_t copy;
	char *name;
	bool is_described;
	bool is_announced;
	bool is_ended; /* its key may be another's by now */
	uint32_t live_workers;
	uint32_t next_index;
	uint64_t launch_max;
};

struct ky_drain_worker {
	uint32_t runtime; /* index in runtimes, KY_NONE32 */
	uint32_t index;   /* KY_NONE32: not known */
	bool is_exact;
	bool has_begun;
	bool is_ended;
	bool is_open; /* an outer poll of it is open */
	bool is_parked;
	struct ky_dthread *owner;
	uint32_t tid;
	uint32_t live_threads; /* between WORKER_BEGIN and WORKER_END */
	uint64_t losses;       /* gaps and drops so far, at its first launch */
	uint64_t runtime_key, identity, launch;
	/* Word of PARKED_ON: of the threads that served it, and as the last one says it. */
	uint64_t parked_on, parked_on_seen;
	uint64_t cpu_ns, active_since_ns; /* UINT64_MAX: it has ended */
	/* of the current chunk, when chunk_serial is that chunk's */
	uint64_t chunk_serial, busy_ns, longest_start_ns, longest_ns, longest_task;
	uint32_t poll_count;
};

/* A published WORKER_BEGIN that was not merged yet. */
struct ky_launch {
	uint64_t runtime_key, identity, task, ticks;
};

struct ky_runtime_table {
	struct ky_runtime *list;
	uint32_t count;
	bool is_out_of_memory; /* a runtime is missing for this reason */
	bool is_full;          /* or for this one */
};

struct ky_launch_list {
	struct ky_launch *list;
	uint32_t count, capacity;
};

struct ky_worker_table {
	struct ky_drain_worker *list;
	uint32_t count, capacity;
	uint32_t *touched; /* workers with a poll in this chunk */
	uint32_t touched_count;
};

/* The runtime of this key. KY_NONE32: no room. */
uint32_t ky_runtime_take(struct ky_runtime_table *runtimes, uint64_t key);
void ky_runtime_release(struct ky_runtime_table *runtimes);

/* Returns 0, -ENOMEM. */
int ky_launch_note(struct ky_launch_list *launches, const struct ky_launch *launch);
void ky_launch_release(struct ky_launch_list *launches);

/* KY_NONE32: no room. */
uint32_t ky_worker_add(struct ky_worker_table *workers, uint64_t runtime_key, uint64_t identity,
		       uint64_t launch);
/* The worker of a launch that has not ended, KY_NONE32. */
uint32_t ky_worker_find(const struct ky_worker_table *workers, uint64_t runtime_key,
			uint64_t identity);
/* The last one of a launch that has ended, KY_NONE32. */
uint32_t ky_worker_find_ended(const struct ky_worker_table *workers, uint64_t runtime_key,
			      uint64_t identity);
/* The stamp that workers of a new runtime hold the merge at; UINT64_MAX: none. now_ticks: of the
 * step. */
uint64_t ky_worker_settle_ticks(const struct ky_worker_table *workers,
				const struct ky_launch_list *launches,
				const struct ky_timeline *timeline, uint64_t now_ticks);
/* The thread is freed. */
void ky_worker_disown(struct ky_worker_table *workers, const struct ky_dthread *thread);
uint64_t ky_worker_cpu(const struct ky_drain_worker *worker, uint64_t ns);
void ky_worker_release(struct ky_worker_table *workers);

/* Ids of the trace leave out 254 and 255. */
static inline uint32_t ky_worker_id(uint32_t worker)
{
	return worker == KY_NONE32 ? KY_WORKER_UNKNOWN : worker < 254u ? worker : worker + 2u;
}

/* The worker begins to count in the chunk of this serial. */
void ky_worker_touch(struct ky_worker_table *workers, uint32_t index, uint64_t serial);

/* The open chunk, as bookings see it. */
struct ky_chunk_mark {
	uint64_t serial, first_ns;
};

/* Books a poll of this worker that ended at end_ns in that chunk. */
static inline void ky_worker_book(struct ky_worker_table *workers, uint32_t index,
				  struct ky_chunk_mark chunk, uint64_t start_ns, uint64_t end_ns,
				  uint64_t task)
{
	struct ky_drain_worker *worker = &workers->list[index];
	uint64_t from = start_ns > chunk.first_ns ? start_ns : chunk.first_ns;

	if (__builtin_expect(worker->chunk_serial != chunk.serial, 0))
		ky_worker_touch(workers, index, chunk.serial);
	if (end_ns > from)
		worker->busy_ns += end_ns - from;
	worker->poll_count++;
	if (__builtin_expect(end_ns - start_ns >= worker->longest_ns || worker->poll_count == 1,
			     0)) {
		worker->longest_start_ns = start_ns;
		worker->longest_ns = end_ns > start_ns ? end_ns - start_ns : 0;
		worker->longest_task = task;
	}
}

#endif
