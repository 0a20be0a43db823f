/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cut_report.h - what one cut of a ring found, as numbers: the cut fills it, reports print it.
 */
#ifndef KY_WIRE_CUT_REPORT_H
#define KY_WIRE_CUT_REPORT_H

#include <stdint.h>

/* A poll that was open when the cut was made. */
struct ky_cut_poll {
	uint32_t worker_id, tid;
	uint64_t task;
	uint64_t start_ns;
	char name[256];
};

#define KY_CUT_POLLS_MAX 64u

struct ky_cut_report {
	uint64_t events_written, records_read, records_lost;
	uint64_t samples_lost;         /* by their sources, since the process started */
	uint64_t oldest_ns, newest_ns; /* of the events written; 0: none */
	/* Since when nothing was recorded any more because another process said so; 0: it
	 * continued. */
	uint64_t stopped_ns;
	uint64_t age_ns;     /* how far back the ring reached: newest - oldest record */
	uint64_t ring_bytes; /* of its sub-buffers */
	/* Of sub-buffers given out so far; less than ring_bytes: nothing was overwritten, and
	 * nothing older than age_ns ever was in this ring. */
	uint64_t ring_bytes_used;
	/* Ring size that would have held the range asked for, by the rate seen; 0: it did. */
	uint64_t ring_bytes_needed;
	uint64_t bytes_copied, copy_cpu_ns, encode_cpu_ns;
	/* Sub-buffers that the ring held at the start and that were overwritten before they were
	 * copied. */
	uint64_t slots_overwritten;
	uint32_t open_poll_count; /* all; the first KY_CUT_POLLS_MAX are listed, longest first */
	struct ky_cut_poll open_polls[KY_CUT_POLLS_MAX];
};

#endif
