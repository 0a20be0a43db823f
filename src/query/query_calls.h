/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* query_calls.h - values of the tables that stand in no field of their row. Each fills `out`, which
 * is NULL at first.
 * Threads: owner.
 */
#ifndef KY_QUERY_QUERY_CALLS_H
#define KY_QUERY_QUERY_CALLS_H

#include <query/query_table.h>
#include <read/event_stream.h>

/* A row of the table events. */
struct ky_event_line {
	struct ky_event_stream *stream;
	const struct ky_event *event;
};

#define KY_CALL(name)                                                                              \
	void ky_value_##name(const struct ky_query_source *source, const void *row,                \
			     struct ky_query_value *out)

KY_CALL(poll_end);
KY_CALL(poll_site);
KY_CALL(poll_delay_state);
KY_CALL(poll_cpu);
KY_CALL(poll_run_delay);
KY_CALL(poll_major_faults);
KY_CALL(poll_wakes);
KY_CALL(park_end);
KY_CALL(park_waits_in);
KY_CALL(park_late);
KY_CALL(wake_origin);
KY_CALL(wake_cause);
KY_CALL(wake_descriptor);
KY_CALL(wake_is_inferred);
KY_CALL(wake_function);
KY_CALL(task_life);
KY_CALL(task_parents);
KY_CALL(task_spawned_from);
KY_CALL(task_spawned_to);
KY_CALL(run_parent);
KY_CALL(run_parent_site);
KY_CALL(run_waiter);
KY_CALL(run_waiter_site);
KY_CALL(worker_busy);
KY_CALL(worker_parked);
KY_CALL(worker_life);
KY_CALL(worker_runtime);
KY_CALL(run_end);
KY_CALL(span_end);
KY_CALL(span_parent);
KY_CALL(span_parent_name);
KY_CALL(span_polls);
KY_CALL(span_cpu);
KY_CALL(span_off_cpu);
KY_CALL(span_polled);
KY_CALL(span_ready);
KY_CALL(span_waiting);
KY_CALL(span_client);
KY_CALL(span_unknown);
KY_CALL(span_request);
KY_CALL(span_idle);
KY_CALL(span_lead);
KY_CALL(span_fields);
KY_CALL(tail_kind);
KY_CALL(tail_what);
KY_CALL(tail_value);
KY_CALL(tail_slow_ns);
KY_CALL(tail_typical_ns);
KY_CALL(tail_explains);
KY_CALL(tail_slow_ppm);
KY_CALL(tail_typical_ppm);
KY_CALL(tail_p);
KY_CALL(off_reason);
KY_CALL(off_syscall);
KY_CALL(off_blocked);
KY_CALL(thread_name);
KY_CALL(cpu_weighted);
KY_CALL(heap_estimated);
KY_CALL(heap_freed);
KY_CALL(idle_is_counted);
KY_CALL(function);
KY_CALL(leaf);
KY_CALL(stack);
KY_CALL(stuck_state);
KY_CALL(metadata_key);
KY_CALL(finding_id);
KY_CALL(finding_severity);
KY_CALL(finding_confidence);
KY_CALL(finding_statement);
KY_CALL(finding_function);
KY_CALL(finding_kind);
KY_CALL(finding_resource);
KY_CALL(finding_impact);
KY_CALL(finding_action);
KY_CALL(metric_name);
KY_CALL(metric_unit);
KY_CALL(metric_state);
KY_CALL(metric_note);
KY_CALL(metric_runtime);
KY_CALL(metric_runtime_name);
KY_CALL(custom_fields);
KY_CALL(custom_time);
KY_CALL(custom_event);
KY_CALL(custom_field);
KY_CALL(custom_type);
KY_CALL(custom_value);
KY_CALL(custom_unit);
KY_CALL(annotation_thread);
KY_CALL(queue_kind);
KY_CALL(queue_worker);
KY_CALL(sample_time);
KY_CALL(sample_kind);
KY_CALL(sample_runtime);
KY_CALL(sample_worker);
KY_CALL(sample_depth);
KY_CALL(sample_alive);
KY_CALL(left_key);
KY_CALL(left_effect);
KY_CALL(event_type);
KY_CALL(event_time);
KY_CALL(event_name);
KY_CALL(event_fields);

#endif
