/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* perf_record.h - what a record of perf_event says: bytes to samples and switches, and nothing of
 * the system. The events that make them: perf_source.h.
 * Threads: any.
 */
#ifndef KY_PROBE_PERF_RECORD_H
#define KY_PROBE_PERF_RECORD_H

#include <linux/perf_event.h>
#include <probe/perf_source.h>
#include <stdbool.h>

#define KY_PERF_SWITCH_BYTES 32u

/* What the records hold: of samples, and of switches and faults. */
#define KY_PERF_SAMPLE_TYPE                                                                        \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |               \
	 PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)
#define KY_PERF_SWITCH_TYPE (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

/* Registers of user space that a sample holds. */
uint64_t ky_perf_record_registers(void);

/* Of a PERF_RECORD_SAMPLE. What is missing stays 0; pointers are into the record. */
void ky_perf_record_sample(const struct perf_event_header *record, struct ky_perf_sample *out);

/* Who, when and where: of a fault its sample, of a switch what stands at the end of every record.
 * False: it is none of these. */
bool ky_perf_record_switch(const struct perf_event_header *record, struct ky_perf_switch *out);

#endif
