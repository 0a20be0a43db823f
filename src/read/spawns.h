/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* spawns.h - who spawned a task or submitted a closure, and when, from windows in which ids were
 * given out (SpawnWindowEvent).
 *
 * Ids ascend, so each window says that those before its first one were given out before it began,
 * and those after its last one after its end. An id that several windows have was given out in one
 * of them; one that none has by a thread outside of what is seen: before the first await of a
 * block_on, or a thread of the program's own.
 * Memory:      64 bytes a window, 32 a task where there are windows.
 */
#ifndef KY_READ_SPAWNS_H
#define KY_READ_SPAWNS_H

#include <read/trace.h>

struct ky_spawn_window {
	uint64_t begin_ns, end_ns; /* begin 0: not known */
	uint64_t first_id, last_id;
	uint64_t worker_id;
	uint32_t task; /* index: of the task, closure or root that ran */
	uint32_t tid;
	uint32_t outer; /* window of the same thread around this one; KY_NONE */
};

/* Of a task, by its index. */
struct ky_spawn {
	uint64_t from_ns, to_ns; /* given out between these; to 0: not known */
	uint32_t window;         /* of who did it, or may have; KY_NONE */
	uint16_t polls,
		runs; /* windows that have it: of polls and roots, of closures; saturating */
	/* Of its place are also tasks that no window has: a thread that is not seen spawns there,
	 * so a window that has this one may be of what ran meanwhile. */
	bool is_place_unseen;
};

/* NULL: nothing is known of its spawn. */
const struct ky_spawn *ky_trace_spawn(const struct ky_trace *trace, uint32_t task);
/* The task, closure or root that did it: the only one that can have. KY_NONE: several, or none,
 * or a thread that is not seen may have. */
uint32_t ky_trace_submitter(const struct ky_trace *trace, uint32_t task);
/* Those that can have, at most `max`, those of the shortest windows first. Returns how many. */
uint32_t ky_trace_submitters(const struct ky_trace *trace, uint32_t task, uint32_t *out,
			     uint32_t max);

#endif
