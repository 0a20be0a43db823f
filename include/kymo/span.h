/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* span.h - stretches of work that may go over many polls, tasks and threads: a request, a query.
 *
 * A span begins once and ends once, on any threads. The caller keeps its struct kymo_span as long
 * as it is open; copying it is fine, ending it twice is not. Up to 1,023 open spans are seen by the
 * watchdog while they are open (rule `span`); more are recorded all the same and judged when they
 * end. Gate: KYMO_GATE_SPAN; an end is recorded exactly when its begin was.
 * Threads: any.      Signals: unsafe.      Since 0.1
 */
#ifndef KYMO_SPAN_H
#define KYMO_SPAN_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kymo_span {
	uint64_t id; /* unique in the process, below 2^40; 0: it is not recorded */
	uint64_t begin_ticks;
	uint32_t name;
	uint32_t slot; /* where the watchdog finds it; 0: nowhere */
};

/* A span begins here: inside the open poll of this thread it is that task's.
 *
 * span    filled
 * name    from kymo_name_intern(), once per place in the program; 0: none
 * parent  id of another span, 0: none
 * Cost    no lock, no allocation, no system call; two locked instructions. Gate closed: a call
 *         and a predicted branch.
 */
KYMO_API void kymo_span_begin(struct kymo_span *span, uint32_t name, uint64_t parent);

/* It ends, here or on another thread. A span that is not recorded, or was ended: nothing. Leaves id
 * 0. Cost: no lock, no allocation, no system call, no locked instruction but one exchange. */
KYMO_API void kymo_span_end(struct kymo_span *span);

/* This thread works for the span from here on, until kymo_span_leave() by the same thread: what a
 * span that waits does not need, and what says of one that spans several polls which of the time
 * was its own. Any number of times, in any order with those of other spans, and on several threads
 * at once. A span that is never entered counts as entered from its begin to its end.
 *
 * id    struct kymo_span.id; 0: nothing
 * Cost  one record, as a wake; no locked instruction. Gate closed: a call and a predicted branch.
 */
KYMO_API void kymo_span_enter(uint64_t id);
KYMO_API void kymo_span_leave(uint64_t id);

/* The span is there because of another one, which is not its parent. 0 for one of them: nothing. */
KYMO_API void kymo_span_follows(uint64_t id, uint64_t other);

#ifdef __cplusplus
}
#endif

#endif
