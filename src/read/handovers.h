/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* handovers.h - polls that called block_in_place, whose worker another thread then had.
 *
 * Such a poll is two rows: on its worker until that moment, and the rest on its thread's lane,
 * where no worker waits for it.
 */
#ifndef KY_READ_HANDOVERS_H
#define KY_READ_HANDOVERS_H

#include <read/trace.h>

/* See BlockInPlaceEvent. */
struct ky_trace_handover {
	uint64_t time_ns;
	uint64_t launched_ns; /* the other thread was on its way since then; or time_ns */
	uint64_t until_ns;    /* end of the rest of the poll on the old thread; 0: none was open */
	uint64_t worker_id;
	uint32_t from_tid, to_tid;
};

/* Is it the rest of such a poll, or inside it? */
bool ky_trace_is_handed_over(const struct ky_trace *trace, const struct ky_poll *poll);
/* At whose end its worker went to another thread, while the poll itself continued; NULL: it did
 * not. */
const struct ky_trace_handover *ky_trace_handover(const struct ky_trace *trace,
						  const struct ky_poll *poll);

#endif
