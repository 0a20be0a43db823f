/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_record.h - what stands in a perf_event record of the tracepoint sched_waking, opened
 * with KY_TRACE_SAMPLE_TYPE.
 * Threads: any.
 */
#ifndef KY_PROBE_TRACE_RECORD_H
#define KY_PROBE_TRACE_RECORD_H

#include <linux/perf_event.h>
#include <probe/perf_source.h>
#include <probe/wake_format.h>
#include <stdbool.h>
#include <stdint.h>

#define KY_TRACE_SAMPLE_TYPE                                                                       \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW)

/* words: a record, its header first, as long as that says. False: no sample, one that does not fit
 * into itself, or of another tracepoint. */
bool ky_trace_record_wake(const uint64_t *words, const struct ky_wake_format *format,
			  struct ky_perf_switch *out);

#endif
