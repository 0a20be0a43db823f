/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* root_list.h - the futures of block_on that records named, by id; for src/drain. What records make
 * of them is in root_event.c.
 *
 * Memory:      KY_ROOTS_MAX entries; of more the one that was silent longest is forgotten.
 * Threads:     owner.
 */
#ifndef KY_DRAIN_ROOT_LIST_H
#define KY_DRAIN_ROOT_LIST_H

#include <drain/task_table.h>
#include <kymo/emit.h>

/* The future of a block_on: kymo/emit.h KYMO_ROOT_BIT. */
struct ky_drain_root {
	uint64_t id;
	struct ky_drain_task task;           /* where it waits, since when; in no table of tasks */
	uint64_t begin_min_ns, begin_max_ns; /* of its open poll */
	uint64_t end_min_ns;
	uint64_t woken_ns;        /* since its last poll; 0: not */
	uint64_t polled_woken_ns; /* before its open poll */
	uint64_t last_ns;         /* of what was said of it */
	bool is_open;
	bool waits; /* after its last poll, else its block_on may be over */
};
#define KY_ROOTS_MAX 1024u

struct ky_root_list {
	struct ky_drain_root *list;
	uint32_t count, capacity;
};

enum ky_root_now {
	KY_ROOT_UNKNOWN,
	KY_ROOT_WAITS,
	KY_ROOT_POLLED /* or its block_on is over */
};

static inline bool ky_is_root(uint64_t task)
{
	return (task & KYMO_ROOT_BIT) != 0;
}
/* The root of this id, made where there is none. NULL: no memory. Valid until the next call. */
struct ky_drain_root *ky_root_list_take(struct ky_root_list *roots, uint64_t id);
enum ky_root_now ky_root_list_now(const struct ky_root_list *roots, uint64_t id);
void ky_root_list_release(struct ky_root_list *roots);

#endif
