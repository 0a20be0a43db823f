/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* turns.h - when a worker looked for I/O and timers between two polls, and when a thread woke one
 * that was parked.
 *
 * Invariants:  rows ascend by time. The park of a worker in the driver is a turn, too, and is among
 *              its parks alone.
 * Memory:      12 bytes a turn, 16 a notification.
 */
#ifndef KY_READ_TURNS_H
#define KY_READ_TURNS_H

#include <read/trace.h>

/* Of a worker: the time is that of its return. */
struct ky_turn_row {
	uint32_t delta_ns;    /* see column.h */
	uint32_t duration_ns; /* saturating */
	uint32_t ready;       /* as of a park's row */
};

enum ky_notify_via {
	KY_NOTIFY_FUTEX = 2,
	KY_NOTIFY_EVENTFD = 3
};

struct ky_notify_row {
	uint32_t delta_ns;
	uint32_t tid; /* of the thread that notified */
	uint32_t target_low;
	uint32_t word; /* next 24 bits of the target | via << 24 */
};

struct ky_notify {
	uint64_t time_ns, target; /* futex address or descriptor */
	uint32_t tid;
	uint8_t via;
};

struct ky_turn {
	uint64_t start_ns, end_ns;
	uint32_t ready_count;
	uint32_t ready_descriptor; /* as of a park */
};

/* The worker that parks on this futex at that moment; of an eventfd, one of those that share the
 * driver. KY_NONE: not known. */
uint32_t ky_trace_notified_worker(const struct ky_trace *trace, const struct ky_notify *notify);
void ky_trace_notify(const struct ky_trace *trace, uint64_t row, struct ky_notify *out);
void ky_trace_turn(const struct ky_trace *trace, uint32_t worker, uint64_t row,
		   struct ky_turn *out);
/* What was ready, in 16 bits, as the ring has it: of one event its descriptor where it is known. */
uint32_t ky_ready_pack(uint64_t count, const struct ky_value *descriptor);
void ky_ready_take(uint32_t packed, uint32_t *count, uint32_t *descriptor);

/* The worker's last check for I/O and timers that began by that moment, a turn or a park in the
 * driver. False: there is none. */
bool ky_trace_driver_check(const struct ky_trace *trace, uint32_t worker, uint64_t ns,
			   struct ky_turn *out);
/* The last moment before `ns` at which the worker went to another thread; 0: none. */
uint64_t ky_trace_moved_before(const struct ky_trace *trace, uint32_t worker, uint64_t ns);
/* The thread that served the worker at that moment; of a thread's own lane: the thread. 0: not
 * known. */
uint32_t ky_trace_thread_at(const struct ky_trace *trace, uint32_t worker, uint64_t ns);

#endif
