/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_record.h - what stands in a perf_event record of one of the kernel's tracepoints, opened
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
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_CALLCHAIN |            \
	 PERF_SAMPLE_RAW)

struct ky_trace_record {
	uint32_t pid, tid; /* of who was on the processor */
	uint64_t ns;
	const uint64_t *chain; /* the kernel's frames, the innermost first */
	uint32_t chain_count;
	bool has_chain;     /* it was asked for; it may be empty all the same */
	const uint8_t *raw; /* as the tracepoint's `format` says */
	uint32_t raw_bytes;
};

/* words: a record, its header first, as long as that says. False: no sample, or one that does not
 * fit into itself. */
bool ky_trace_record_read(struct ky_trace_record *out, const uint64_t *words);

/* False: it is of another tracepoint. */
bool ky_trace_record_wake(const struct ky_trace_record *record, const struct ky_wake_format *format,
			  struct ky_perf_switch *out);

/* out->kind: OUT or PREEMPTED, of who goes; next_tid: who comes. tid 0: the idle thread, or one
 * that has ended. */
bool ky_trace_record_switch(const struct ky_trace_record *record,
			    const struct ky_switch_format *format, struct ky_perf_switch *out,
			    uint32_t *next_tid);

#endif
