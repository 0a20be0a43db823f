/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* process_watch.h - when a process was stopped as a whole: by a signal, or by the CPU limit of a
 * cgroup of its. Rows of the resource area, KY_RESOURCE_STATE and KY_RESOURCE_THROTTLED.
 *
 * A change of state is told (by waitid() of the parent, as it happens) or seen at a look, which
 * bounds it by the look before. A looker that was stopped together with the process hears of the
 * end alone: the last look before bounds the begin.
 * The kernel counts throttling when it ends, so an interval reaches back by what was counted.
 * Threads: owner. Memory: none but the structure, and a descriptor of the process's stat.
 */
#ifndef KY_PROBE_PROCESS_WATCH_H
#define KY_PROBE_PROCESS_WATCH_H

#include <probe/resource_source.h>

#define KY_LOOK_NS UINT64_C(50000000)
/* Of a process that did not run since its last reading, and that no CPU limit can hold up: there is
 * next to nothing to bound. */
#define KY_LOOK_IDLE_NS UINT64_C(1000000000)

struct ky_throttle_watch {
	uint64_t counted_ns;     /* at the last look */
	uint64_t from_ns, to_ns; /* of the interval that lasts */
	uint64_t sum_ns;         /* 0: none does */
};

/* Zeros: not looked yet. */
struct ky_process_watch {
	bool is_told; /* the owner's: changes of state are told, not seen */

	bool is_stopped;
	uint32_t file;                   /* of ky_proc_reader_life() */
	uint64_t look_ns, before_ns;     /* the last look, and the one before */
	uint64_t due_ns;                 /* the next one; 0: at once */
	uint64_t gap_from_ns, gap_to_ns; /* the last looks between which the looker stood */
	struct ky_throttle_watch levels[KY_CGROUP_LEVELS];
};

/* When due_ns is over; before what was told since the last look is passed on. */
void ky_process_watch_look(struct ky_process_watch *watch, struct ky_resource_source *source,
			   const struct ky_proc_reader *reader, uint64_t now_ns);
/* change: enum ky_process_change; detail: a signal, or the exit status. */
void ky_process_watch_tell(struct ky_process_watch *watch, struct ky_resource_source *source,
			   uint8_t change, uint32_t detail, uint64_t at_ns);
/* The end: an interval that lasts is over, and the descriptor closed. */
void ky_process_watch_end(struct ky_process_watch *watch, struct ky_resource_source *source);

#endif
