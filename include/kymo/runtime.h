/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* runtime.h - numbers of a runtime, as it counts them itself, recorded from time to time: from a
 * source (source.h), for example.
 */
#ifndef KYMO_RUNTIME_H
#define KYMO_RUNTIME_H

#include <kymo/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KYMO_RUNTIME_NUMBER_UNKNOWN UINT64_MAX

struct kymo_runtime_metrics {
	size_t size;      /* sizeof(struct kymo_runtime_metrics) */
	const char *name; /* of the runtime, UTF-8; NULL: it has none */
	/* Now. */
	uint64_t global_queue_depth, alive_tasks;
	/* The same; KYMO_RUNTIME_NUMBER_UNKNOWN: the runtime does not say it. */
	uint64_t workers, local_queue_depth, local_queue_depth_max;
	uint64_t blocking_threads, blocking_threads_idle, blocking_queue_depth;
	/* Since the runtime began; KYMO_RUNTIME_NUMBER_UNKNOWN likewise. */
	uint64_t spawned_count, steal_count, steal_operation_count, overflow_count;
	uint64_t budget_yield_count, io_ready_count, park_count, busy_ns;
};

/* Records them as a RuntimeMetricsEvent. Gate: KYMO_GATE_CUSTOM.
 *
 * Errors   another size, or a name for which there is no room: nothing, or no name, is recorded
 * Threads  any; takes a lock for the name.      Signals: unsafe.      Since 0.1
 */
KYMO_API void kymo_runtime_metrics_record(const struct kymo_runtime_metrics *metrics);

#ifdef __cplusplus
}
#endif

#endif
