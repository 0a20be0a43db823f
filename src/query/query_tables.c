/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The list of query_table.h. A new column is a line here; docs/sql.md is printed from it. */
#include <query/query_calls.h>

#include <analyze/findings/findings.h>
#include <analyze/span_tail.h>
#include <analyze/tokio_metrics.h>
#include <read/custom.h>
#include <read/labels.h>
#include <read/left_out.h>
#include <stddef.h>

#define ROW(name, unit, store, type, field, arg, doc)                                              \
	{                                                                                          \
		name, doc, KY_UNIT_##unit, KY_STORE_##store, offsetof(struct type, field), arg,    \
			NULL, false                                                                \
	}
#define CALL(name, unit, call, doc)                                                                \
	{                                                                                          \
		name, doc, KY_UNIT_##unit, KY_STORE_CALL, 0, 0, ky_value_##call, false             \
	}
#define CODE_AS(name, unit, call, doc)                                                             \
	{                                                                                          \
		name, doc, KY_UNIT_##unit, KY_STORE_CALL, 0, 0, ky_value_##call, true              \
	}
#define CODE(name, call, doc) CODE_AS(name, TEXT, call, doc)
#define SAMPLE(name, unit, store, field, arg, doc)                                                 \
	ROW(name, unit, store, ky_stack_row, field, arg, doc)
#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

#define CODE_COLUMNS                                                                               \
	CODE("function", function, "The program's own function, with its file and line"),          \
		CODE("leaf", leaf, "The innermost function"),                                      \
		CODE("stack", stack, "All functions, the innermost first")

static const struct ky_query_column polls[] = {
	ROW("start_ns", TIME, U64, ky_poll, start_ns, 0, "When it began"),
	ROW("duration_ns", NS, U64, ky_poll, duration_ns, 0, "How long it took"),
	CALL("end_ns", TIME, poll_end, "When it ended"),
	ROW("delay_ns", NS, U64_OR, ky_poll, delay_ns, UINT64_MAX,
	    "From wake to this poll; NULL: see delay_state"),
	CALL("delay_state", TEXT, poll_delay_state,
	     "measured, 'no wake' (none is recorded), withheld (records are missing), counted "
	     "(in a histogram)"),
	ROW("task", ID, TASK, ky_poll, task, 0, "Task"),
	CALL("site", TEXT, poll_site, "Spawn place of the task, or the type of its future"),
	ROW("worker", ID, WORKER, ky_poll, worker, 0, "Worker; NULL: a thread that is none"),
	CALL("cpu_ns", NS, poll_cpu, "CPU time inside, of long polls"),
	CALL("run_delay_ns", NS, poll_run_delay, "Inside, ready to run without a CPU"),
	CALL("major_faults", COUNT, poll_major_faults, "Page faults that read a disk"),
	CALL("wakes", COUNT, poll_wakes, "Wakes that it issued, of long polls"),
	ROW("is_open", FLAG, MASK, ky_poll, flags, KY_POLL_OPEN,
	    "Still open at the end of the trace"),
	ROW("is_unproven", FLAG, MASK, ky_poll, flags,
	    KY_POLL_END_UNPROVEN | KY_POLL_ENDED_BY_PARK | KY_POLL_GAP,
	    "Its end is not recorded, or records are missing inside"),
	ROW("is_nested", FLAG, MASK, ky_poll, flags, KY_POLL_NESTED,
	    "Inside another poll of its thread"),
};

static const struct ky_query_column parks[] = {
	ROW("start_ns", TIME, U64, ky_park_line, park.start_ns, 0, "When the worker parked"),
	ROW("duration_ns", NS, U64, ky_park_line, park.duration_ns, 0, "For how long"),
	CALL("end_ns", TIME, park_end, "When it was unparked"),
	ROW("worker", ID, WORKER, ky_park_line, worker, 0, "Worker"),
	ROW("ready_count", COUNT, U32, ky_park_line, park.ready_count, 0,
	    "Events that the driver's wait returned"),
	ROW("descriptor", ID, U32_OR, ky_park_line, park.ready_descriptor, KY_NONE,
	    "Of one event: what became ready; NULL: not known"),
	CALL("waits_in", TEXT, park_waits_in,
	     "driver: for I/O and timers; condvar: for another thread; NULL: not known"),
	ROW("due_ns", TIME, U64_OR, ky_park_line, park.due_ns, UINT64_MAX,
	    "When its time-out was over, in whole ms; NULL: none, or of 16 s and more, or not "
	    "recorded"),
	CALL("late_ns", NS, park_late,
	     "How long after that it ended, where no event of the driver ended it"),
	ROW("sched_wait_ns", NS, U32_OR, ky_park_line, park.sched_wait_ns, UINT32_MAX,
	    "In the run queue of a CPU since the park"),
	ROW("is_open", FLAG, MASK, ky_park_line, park.flags, KY_PARK_OPEN,
	    "Still parked at the end of the trace"),
	ROW("is_moved", FLAG, MASK, ky_park_line, park.flags, KY_PARK_MOVED,
	    "Unparked on another thread: block_in_place"),
	ROW("is_unproven", FLAG, MASK, ky_park_line, park.flags, KY_PARK_END_UNPROVEN | KY_PARK_GAP,
	    "Its end is not recorded, or records are missing inside"),
};

static const struct ky_query_column wakes[] = {
	ROW("time_ns", TIME, U64, ky_wake, time_ns, 0, "When"),
	ROW("task", ID, TASK, ky_wake, woken, 0, "Task that became ready"),
	ROW("site", TEXT, TASK_NAME, ky_wake, woken, 0, "Its spawn place"),
	ROW("waker", ID, TASK, ky_wake, waker, 0, "Task whose poll issued the wake"),
	ROW("waker_site", TEXT, TASK_NAME, ky_wake, waker, 0, "Its spawn place"),
	ROW("worker", ID, WORKER, ky_wake, worker, 0, "Worker on which it was issued"),
	CALL("origin", TEXT, wake_origin,
	     "'own poll', 'other poll', 'outside polls', 'off runtime'; NULL: not known"),
	CODE("cause", wake_cause,
	     "io, timer, deferred (a yield), driver (one of the three before), signal, join (the "
	     "end of what it joined), code, self; NULL: not known"),
	CODE("function", wake_function, "Of code: the function that woke, with its file and line"),
	CODE_AS("descriptor", ID, wake_descriptor, "Of io: what became ready; NULL: not known"),
	CODE_AS("is_inferred", FLAG, wake_is_inferred,
		"The driver's check brought several events, and all exact wakes of the task are of "
		"this descriptor; else it is exact"),
};

static const struct ky_query_column tasks[] = {
	ROW("first_ns", TIME, U64, ky_task, first_ns, 0, "Its spawn, or when it was seen first"),
	ROW("task", ID, U64, ky_task, id, 0, "Task"),
	ROW("site", TEXT, NAME, ky_task, name, 0, "Spawn place, or the type of its future"),
	ROW("spawned_at", TEXT, NAME, ky_task, place, 0,
	    "Where it was spawned, as its spawn says; NULL: that was not recorded"),
	ROW("parent", ID, TASK, ky_task, parent, 0,
	    "Task, closure or block_on that spawned it, where only one can have"),
	ROW("parent_site", TEXT, TASK_NAME, ky_task, parent, 0, "Its spawn place"),
	CALL("parents", COUNT, task_parents,
	     "How many can have: polls, closures and block_ons that were under way then, and a "
	     "thread that is not seen; NULL: not known"),
	CALL("spawned_from_ns", TIME, task_spawned_from, "Spawned at the earliest then"),
	CALL("spawned_to_ns", TIME, task_spawned_to, "... and at the latest then"),
	ROW("end_ns", TIME, U64_OR, ky_task, end_ns, 0, "Its end; NULL: not seen"),
	CALL("life_ns", NS, task_life, "From first_ns to its end"),
	ROW("polls", COUNT, U32, ky_task, poll_count, 0, "Polls"),
	ROW("busy_ns", NS, U64, ky_task, busy_ns, 0, "Sum of its polls"),
	ROW("poll_max_ns", NS, U64, ky_task, poll_max_ns, 0, "Its longest poll"),
	ROW("delay_ns", NS, U64, ky_task, delay_ns, 0, "Sum of its delays from wake to poll"),
	ROW("wakes", COUNT, U64, ky_task, wake_count, 0, "Wakes of it"),
	ROW("redundant_wakes", COUNT, U64, ky_task, redundant_count, 0,
	    "Of these: it was ready already, so they changed nothing"),
	ROW("long_wait_ns", NS, U64, ky_task, long_wait_ns, 0,
	    "Sum of its waits of 10 ms and more between polls"),
	ROW("is_spawn_seen", FLAG, MASK, ky_task, flags, KY_TASK_SPAWN_SEEN,
	    "Its spawn is in the trace"),
	ROW("is_ended", FLAG, MASK, ky_task, flags, KY_TASK_ENDED, "It ended in the trace"),
	ROW("is_cancelled", FLAG, MASK, ky_task, flags, KY_TASK_CANCELLED, "It was cancelled"),
	ROW("is_blocking", FLAG, MASK, ky_task, flags, KY_TASK_BLOCKING,
	    "A closure of the blocking pool"),
	ROW("is_root", FLAG, MASK, ky_task, flags, KY_TASK_ROOT, "The future of a block_on"),
};

static const struct ky_query_column workers[] = {
	ROW("first_ns", TIME, U64, ky_worker, first_ns, 0, "Its first poll or park"),
	ROW("worker", ID, U64, ky_worker, id, 0, "Worker"),
	CALL("runtime", TEXT, worker_runtime, "Name of its runtime"),
	ROW("place", COUNT, U32_OR, ky_worker, index, KY_NONE, "Its number in that runtime"),
	ROW("tid", ID, U32_OR, ky_worker, tid, 0, "Kernel thread id, the last known"),
	CALL("life_ns", NS, worker_life, "From its first to its last poll or park"),
	CALL("busy_ns", NS, worker_busy, "In polls, those inside polls left out"),
	CALL("parked_ns", NS, worker_parked, "Parked"),
	ROW("cpu_ns", NS, U64_OR, ky_worker, cpu_ns, 0, "CPU time between unparks and parks"),
	ROW("polls", COUNT, U64, ky_worker, poll_count, 0, "Polls"),
	ROW("parks", COUNT, U64, ky_worker, park_count, 0, "Parks"),
	ROW("wakes", COUNT, U64, ky_worker, wake_count, 0, "Wakes that it issued"),
	ROW("unproven", COUNT, U64, ky_worker, unknown_count, 0,
	    "Polls and parks whose end is not proven, or with records missing inside"),
	ROW("is_worker", FLAG, BOOL, ky_worker, is_worker, 0,
	    "0: a thread that polls or wakes and belongs to no runtime"),
	ROW("is_ended", FLAG, BOOL, ky_worker, has_ended, 0, "It ended in the trace"),
};

static const struct ky_query_column blocking[] = {
	ROW("start_ns", TIME, U64, ky_blocking_run, start_ns, 0, "When it began"),
	ROW("duration_ns", NS, U64, ky_blocking_run, duration_ns, 0, "How long it took"),
	CALL("end_ns", TIME, run_end, "When it ended; NULL: not recorded"),
	ROW("wait_ns", NS, U64_OR, ky_blocking_run, wait_ns, UINT64_MAX,
	    "From its submission to its begin, in the queue of the pool: at least"),
	ROW("wait_max_ns", NS, U64_OR, ky_blocking_run, wait_max_ns, UINT64_MAX, "... and at most"),
	ROW("task", ID, TASK, ky_blocking_run, task, 0, "Its task id"),
	CALL("parent", ID, run_parent,
	     "Task, closure or block_on that submitted it, where only one can have"),
	CALL("parent_site", TEXT, run_parent_site, "Its spawn place"),
	CALL("waiter", ID, run_waiter, "Task or block_on that awaited it, which its end woke"),
	CALL("waiter_site", TEXT, run_waiter_site, "Its spawn place"),
	ROW("site", TEXT, NAME, ky_blocking_run, name, 0, "Where it was spawned, or its closure"),
	ROW("tid", ID, U32_OR, ky_blocking_run, tid, 0, "Thread of the pool"),
	ROW("is_open", FLAG, BOOL, ky_blocking_run, is_open, 0,
	    "Still running at the end of the trace"),
};

static const struct ky_query_column spans[] = {
	ROW("start_ns", TIME, U64, ky_trace_span, start_ns, 0, "When it began"),
	ROW("duration_ns", NS, U64, ky_trace_span, duration_ns, 0, "How long it took"),
	CALL("end_ns", TIME, span_end, "When it ended; NULL: not in the trace"),
	ROW("name", TEXT, NAME, ky_trace_span, name, 0, "Name, with its module where it is known"),
	ROW("span", ID, U64, ky_trace_span, id, 0, "Its id; those of closed spans come back"),
	CALL("parent", ID, span_parent, "Id of the span that it is a part of"),
	CALL("parent_name", TEXT, span_parent_name, "Its name"),
	ROW("task", ID, TASK, ky_trace_span, task, 0, "Task that entered it first"),
	ROW("site", TEXT, TASK_NAME, ky_trace_span, task, 0, "Its spawn place"),
	ROW("enters", COUNT, U32, ky_trace_span, enter_count, 0, "How often it was entered"),
	ROW("active_ns", NS, U64, ky_trace_span, active_ns, 0, "Between enters and exits"),
	CALL("polls", COUNT, span_polls, "Polls of its task meanwhile"),
	CALL("cpu_ns", NS, span_cpu, "Of its duration: its task was polled, on CPU"),
	CALL("off_cpu_ns", NS, span_off_cpu, "... polled, and blocked or waiting for a CPU"),
	CALL("polled_ns", NS, span_polled, "... polled, and not known which"),
	CALL("ready_ns", NS, span_ready, "... ready and not polled"),
	CALL("waiting_ns", NS, span_waiting, "... waiting for something else"),
	CALL("client_ns", NS, span_client, "... waiting for more of the request to come in"),
	CALL("unknown_ns", NS, span_unknown, "... not known; the seven add up to duration_ns"),
	CALL("fields", TEXT, span_fields, "Its fields as JSON: json_extract(fields, '$.name')"),
	ROW("is_open", FLAG, BOOL, ky_trace_span, is_open, 0, "Its end is not in the trace"),
	CALL("request", TEXT, span_request,
	     "Of a request: 'in' on a connection that the program accepted, 'out' on one that it "
	     "made; else NULL"),
	CALL("idle_ns", NS, span_idle, "Of a request: nothing moved on its connection before"),
	CALL("lead_ns", NS, span_lead,
	     "Of its duration: from its task's wake by the driver to the first read"),
};

static const struct ky_query_column span_tail[] = {
	ROW("span", TEXT, NAME, ky_tail_row, name, 0, "Name of the spans"),
	CALL("kind", TEXT, tail_kind,
	     "'part' of their time, 'field', 'parent', spawn 'site' of the task, 'concurrency', "
	     "and a function of samples in them: 'cpu', 'off_cpu'"),
	CALL("what", TEXT, tail_what, "The part, the name of the field, or the function"),
	CALL("value", TEXT, tail_value,
	     "Value of the field, name of the parent, site; others open"),
	ROW("slow_spans", COUNT, U64, ky_tail_row, slow_count, 0,
	    "The longest 1 % of the name, at least 10"),
	ROW("typical_spans", COUNT, U64, ky_tail_row, typical_count, 0, "The middle half of them"),
	CALL("slow_ns", NS, tail_slow_ns, "Of a part or function: mean of a slow span"),
	CALL("typical_ns", NS, tail_typical_ns, "... and of a typical one"),
	CALL("explains_ppm", COUNT, tail_explains, "Of these: of the extra time of the slow ones"),
	CALL("slow_ppm", COUNT, tail_slow_ppm, "Not of a part: of the slow ones, how many have it"),
	CALL("typical_ppm", COUNT, tail_typical_ppm, "... and of the typical ones"),
	CALL("p_ppb", COUNT, tail_p,
	     "Chance of so many among the slow ones, in 1e-9, for all tests of the name together"),
};

static const struct ky_query_column off_cpu[] = {
	SAMPLE("start_ns", TIME, U64, time_ns, 0, "When the thread left its CPU"),
	SAMPLE("duration_ns", NS, U64, value, 0, "For how long"),
	SAMPLE("runnable_ns", NS, U64, runnable_min_ns, 0,
	       "Of it at least: ready to run without a CPU"),
	CALL("blocked_ns", NS, off_blocked, "Of it at least: waiting for something else"),
	CALL("reason", TEXT, off_reason, "call, futex, 'page fault', preempted, unknown"),
	CALL("syscall", TEXT, off_syscall, "System call"),
	SAMPLE("fd", ID, I32_OR, fd, UINT64_MAX, "Descriptor of the call"),
	SAMPLE("peer_port", ID, U16_OR, peer_port, 0, "Port at the other end of its socket"),
	SAMPLE("lock", ID, U64_OR, lock, 0, "Address of the futex"),
	SAMPLE("task", ID, TASK, task, 0, "Task whose poll was open"),
	SAMPLE("site", TEXT, NAME, name, 0, "Its spawn place"),
	SAMPLE("worker", ID, WORKER, worker, 0, "Worker"),
	SAMPLE("tid", ID, U32, tid, 0, "Thread"),
	CALL("thread", TEXT, thread_name, "Name of the thread"),
	SAMPLE("waker_tid", ID, U32_OR, waker_tid, 0, "Thread that ended the wait"),
	SAMPLE("waker_task", ID, TASK, waker_task, 0, "Task that it polled then"),
	SAMPLE("poll_start_ns", TIME, U64_OR, poll_start_ns, 0, "Begin of the open poll"),
	CODE_COLUMNS,
};

static const struct ky_query_column cpu[] = {
	SAMPLE("time_ns", TIME, U64, time_ns, 0, "When"),
	CALL("cpu_ns", NS, cpu_weighted, "CPU time that the sample stands for"),
	SAMPLE("task", ID, TASK, task, 0, "Task whose poll was open"),
	SAMPLE("site", TEXT, NAME, name, 0, "Its spawn place"),
	SAMPLE("worker", ID, WORKER, worker, 0, "Worker"),
	SAMPLE("tid", ID, U32, tid, 0, "Thread"),
	CALL("thread", TEXT, thread_name, "Name of the thread"),
	SAMPLE("poll_start_ns", TIME, U64_OR, poll_start_ns, 0, "Begin of the open poll"),
	SAMPLE("poll_ns", NS, U64_OR, poll_ns, 0, "How long that poll took"),
	SAMPLE("is_blocking", FLAG, MASK8, flags, KY_ROW_BLOCKING, "In a run of the blocking pool"),
	CODE_COLUMNS,
};

static const struct ky_query_column idle[] = {
	SAMPLE("time_ns", TIME, U64, time_ns, 0, "When the wait began, or was seen"),
	SAMPLE("wait_ns", NS, U64, value, 0, "Its length; so far, where it still waits"),
	CALL("is_counted", FLAG, idle_is_counted,
	     "1: add wait_ns up; 0: its time counts at another await point, or is not safe"),
	SAMPLE("is_waiting", FLAG, MASK8, flags, KY_ROW_WAITS, "Not polled since"),
	SAMPLE("task", ID, TASK, task, 0, "Task"),
	SAMPLE("site", TEXT, NAME, name, 0, "Its spawn place"),
	CODE_COLUMNS,
};

static const struct ky_query_column heap[] = {
	SAMPLE("time_ns", TIME, U64, time_ns, 0, "When"),
	SAMPLE("asked_bytes", BYTES, U64, value, 0, "Bytes asked for"),
	CALL("estimated_bytes", BYTES, heap_estimated,
	     "Bytes of allocations that the sample stands for"),
	CALL("freed_ns", TIME, heap_freed, "When it was freed; NULL: not in the trace"),
	SAMPLE("is_freed", FLAG, MASK8, flags, KY_ROW_FREED, "It was freed"),
	SAMPLE("address", ID, U64, address, 0, "Address"),
	SAMPLE("task", ID, TASK, task, 0, "Task whose poll was open"),
	SAMPLE("site", TEXT, NAME, name, 0, "Its spawn place"),
	SAMPLE("tid", ID, U32, tid, 0, "Thread"),
	CODE_COLUMNS,
};

#define RESOURCE(name, unit, index, doc)                                                           \
	ROW(name, unit, U64_OR, ky_trace_resource, values[index], UINT64_MAX, doc)
#define RESOURCE_TIME ROW("time_ns", TIME, U64, ky_trace_resource, time_ns, 0, "When it was read")

static const struct ky_query_column resources[] = {
	RESOURCE_TIME,
	RESOURCE("user_ns", NS, KY_USAGE_USER_NS, "CPU time in the program so far"),
	RESOURCE("system_ns", NS, KY_USAGE_SYSTEM_NS, "CPU time in the kernel so far"),
	RESOURCE("rss_bytes", BYTES, KY_USAGE_RSS, "Memory that is resident"),
	RESOURCE("rss_max_bytes", BYTES, KY_USAGE_MAX_RSS, "The most so far"),
	RESOURCE("threads", COUNT, KY_USAGE_THREADS, "Threads"),
	RESOURCE("fds", COUNT, KY_USAGE_FDS, "Open descriptors"),
	RESOURCE("fd_limit", COUNT, KY_USAGE_FD_LIMIT, "Descriptors allowed"),
	RESOURCE("minor_faults", COUNT, KY_USAGE_MINOR_FAULTS, "Page faults so far"),
	RESOURCE("major_faults", COUNT, KY_USAGE_MAJOR_FAULTS, "... that read a disk"),
	RESOURCE("voluntary", COUNT, KY_USAGE_VOLUNTARY, "Context switches that threads asked for"),
	RESOURCE("involuntary", COUNT, KY_USAGE_INVOLUNTARY, "Context switches by preemption"),
};

static const struct ky_query_column cgroups[] = {
	RESOURCE_TIME,
	ROW("level", COUNT, U8, ky_trace_resource, scope, 0, "0: the process's own; 1: its parent"),
	RESOURCE("cpu_ns", NS, KY_CGROUP_CPU_NS, "CPU time so far"),
	RESOURCE("cpu_limit_ns", NS, KY_CGROUP_CPU_LIMIT_NS, "CPU time allowed in a second"),
	RESOURCE("periods", COUNT, KY_CGROUP_PERIODS, "Periods of the limit so far"),
	RESOURCE("throttled_periods", COUNT, KY_CGROUP_THROTTLED_PERIODS, "... that met it"),
	RESOURCE("throttled_ns", NS, KY_CGROUP_THROTTLED_NS, "Throttled so far"),
	RESOURCE("memory_bytes", BYTES, KY_CGROUP_MEMORY, "Memory in use"),
	RESOURCE("memory_limit_bytes", BYTES, KY_CGROUP_MEMORY_LIMIT, "Memory allowed"),
	RESOURCE("oom_kills", COUNT, KY_CGROUP_OOM_KILLS, "Processes killed for memory"),
};

static const struct ky_query_column listeners[] = {
	RESOURCE_TIME,
	ROW("address", TEXT, NAME, ky_trace_resource, address, 0, "Address and port"),
	RESOURCE("port", ID, KY_LISTENER_PORT, "Port"),
	RESOURCE("pending", COUNT, KY_LISTENER_PENDING, "Connections that wait for accept"),
	RESOURCE("backlog", COUNT, KY_LISTENER_LIMIT, "Connections that may wait"),
	RESOURCE("drops", COUNT, KY_LISTENER_DROPS, "Connections dropped so far"),
};

static const struct ky_query_column losses[] = {
	ROW("from_ns", TIME, U64, ky_trace_loss, from_ns, 0, "Records are missing from here"),
	ROW("to_ns", TIME, U64, ky_trace_loss, to_ns, 0, "... to here"),
	ROW("records", COUNT, U64, ky_trace_loss, record_count, 0, "How many"),
	ROW("tid", ID, U32_OR, ky_trace_loss, tid, 0, "Thread; NULL: several"),
	ROW("cause", TEXT, NAME, ky_trace_loss, cause, 0, "Why"),
	ROW("is_exact", FLAG, BOOL, ky_trace_loss, is_exact, 0, "The number is exact"),
};

static const struct ky_query_column threads[] = {
	ROW("start_ns", TIME, U64_OR, ky_trace_thread, start_ns, 0, "When it began"),
	ROW("tid", ID, U32, ky_trace_thread, tid, 0, "Kernel thread id"),
	ROW("name", TEXT, NAME, ky_trace_thread, name, 0, "Name"),
	ROW("end_ns", TIME, U64_OR, ky_trace_thread, end_ns, 0, "When it ended"),
	ROW("lost", COUNT, U64, ky_trace_thread, lost_count, 0, "Records of it that are missing"),
	ROW("is_ended", FLAG, BOOL, ky_trace_thread, has_exited, 0, "It ended in the trace"),
};

static const struct ky_query_column triggers[] = {
	ROW("time_ns", TIME, U64, ky_trace_trigger, time_ns, 0, "When the rule held"),
	ROW("rule", TEXT, NAME, ky_trace_trigger, rule, 0, "Rule"),
	ROW("value", COUNT, U64, ky_trace_trigger, value, 0, "What it was"),
	ROW("threshold", COUNT, U64, ky_trace_trigger, threshold, 0, "What it has to exceed"),
	ROW("unit", TEXT, NAME, ky_trace_trigger, unit, 0, "Unit of both"),
	ROW("tid", ID, U32_OR, ky_trace_trigger, tid, 0, "Thread"),
	ROW("task", ID, U64_OR, ky_trace_trigger, task_id, 0, "Task"),
};

static const struct ky_query_column stuck[] = {
	ROW("time_ns", TIME, U64, ky_trace_stuck, time_ns, 0, "When the thread was read"),
	ROW("poll_start_ns", TIME, U64_OR, ky_trace_stuck, poll_start_ns, 0,
	    "Begin of its open poll"),
	ROW("task", ID, U64_OR, ky_trace_stuck, task_id, 0, "Task of that poll"),
	ROW("tid", ID, U32, ky_trace_stuck, tid, 0, "Thread"),
	CALL("state", TEXT, stuck_state, "State in the kernel: R, S, D .."),
	ROW("wchan", TEXT, NAME, ky_trace_stuck, wchan, 0, "What the kernel waits for"),
	ROW("cpu_ns", NS, U64_OR, ky_trace_stuck, cpu_ns, UINT64_MAX, "CPU time of the thread"),
};

static const struct ky_query_column findings[] = {
	CALL("finding", TEXT, finding_id, "What it is: docs/findings.md"),
	CALL("severity", TEXT, finding_severity, "info, warning or critical"),
	CALL("confidence", TEXT, finding_confidence, "possible, likely or proven"),
	ROW("score_ppm", PLAIN, U32, ky_finding, score_ppm, 0,
	    "Share that it explains, in parts per million"),
	CALL("culprit", TEXT, finding_kind, "What caused it: task, thread, process, machine .."),
	ROW("site", TEXT, NAME, ky_finding, culprit.task, 0, "... of tasks their kind"),
	CALL("function", TEXT, finding_function, "... its function"),
	ROW("thread", TEXT, NAME, ky_finding, culprit.thread, 0, "... the name of a thread"),
	CALL("resource", TEXT, finding_resource, "... what was short"),
	ROW("victims", COUNT, U64, ky_finding, victims, 0, "Delays, waits or tasks harmed"),
	ROW("delay_ns", NS, U64, ky_finding, delay_ns, 0, "... by so much in all"),
	ROW("worst_ns", NS, U64, ky_finding, worst_ns, 0, "The longest"),
	CALL("statement", TEXT, finding_statement, "What happened"),
	CALL("impact", TEXT, finding_impact, "Whom it harmed"),
	CALL("action", TEXT, finding_action, "What to do"),
};

#define METRIC_VALUES                                                                              \
	ROW("value", PLAIN, U64_OR, ky_metric_row, value, UINT64_MAX,                              \
	    "Its value, or what it is at least"),                                                  \
		ROW("value_max", PLAIN, U64_OR, ky_metric_row, value_max, UINT64_MAX,              \
		    "What it is at most; NULL: no bound is known"),                                \
		CALL("unit", TEXT, metric_unit, "count, ns, tasks, or ppm (millionths)"),          \
		CALL("state", TEXT, metric_state, "exact, bounded, 'not recorded'"),               \
		CALL("note", SENTENCE, metric_note,                                                \
		     "Why it is not exact, or what would record it; where what is counted differs")

static const struct ky_query_column task_metrics[] = {
	ROW("site", TEXT, NAME, ky_metric_row, subject, 0, "Spawn place, or type of the future"),
	CALL("metric", TEXT, metric_name, "Its name in tokio_metrics::TaskMetrics"),
	METRIC_VALUES,
};

static const struct ky_query_column runtime_metrics[] = {
	CALL("runtime", ID, metric_runtime, "Runtime; NULL: of workers that name none"),
	CALL("name", TEXT, metric_runtime_name, "Name of that runtime"),
	CALL("metric", TEXT, metric_name, "Its name in tokio_metrics::RuntimeMetrics"),
	ROW("bucket_ns", NS, U64_OR, ky_metric_row, bucket_ns, UINT64_MAX,
	    "Of a histogram: where the bucket begins"),
	METRIC_VALUES,
};

static const struct ky_query_column console_lints[] = {
	ROW("site", TEXT, NAME, ky_metric_row, subject, 0, "Spawn place, or type of the future"),
	CALL("lint", TEXT, metric_name, "Its name in tokio-console"),
	ROW("tasks", COUNT, U64, ky_metric_row, task_count, 0, "Tasks checked"),
	METRIC_VALUES,
};

static const struct ky_query_column custom[] = {
	ROW("first_ns", TIME, U64_OR, ky_custom_type, first_ns, 0, "Time of the first one"),
	ROW("last_ns", TIME, U64_OR, ky_custom_type, last_ns, 0, "Time of the last one"),
	ROW("event", TEXT, NAME, ky_custom_type, name, 0, "Name of the event: a view, too"),
	ROW("events", COUNT, U64, ky_custom_type, count, 0, "Events of it"),
	CALL("fields", SENTENCE, custom_fields, "Its fields, each with type and unit"),
	ROW("left_out", COUNT, U64, ky_custom_type, left_out, 0,
	    "Events that custom_values has no room for"),
};

static const struct ky_query_column custom_values[] = {
	CALL("time_ns", TIME, custom_time, "Time stamp; NULL: none"),
	CALL("event", TEXT, custom_event, "Name of the event"),
	CALL("field", TEXT, custom_field, "Name of the field"),
	CALL("type", TEXT, custom_type, "Its type: varint, i64, f64, bool, string .."),
	CALL("value", ANY, custom_value,
	     "Its value; of a list or a map JSON text, pairs as [key, value]; NULL: absent, "
	     "bytes, a stack, or a text without room"),
	CALL("unit", TEXT, custom_unit, "Its unit"),
};

static const struct ky_query_column counters[] = {
	ROW("time_ns", TIME, U64, ky_trace_counter, time_ns, 0, "When it was read"),
	ROW("counter", TEXT, NAME, ky_trace_counter, name, 0, "Its name"),
	ROW("value", PLAIN, I64, ky_trace_counter, value, 0, "Its value"),
};

static const struct ky_query_column annotations[] = {
	ROW("time_ns", TIME, U64, ky_trace_annotation, time_ns, 0, "When"),
	ROW("label", TEXT, NAME, ky_trace_annotation, label, 0, "Text"),
	ROW("tid", ID, U32_OR, ky_trace_annotation, tid, 0,
	    "Thread that set it; NULL: another process, by `kymo mark`"),
	CALL("thread", TEXT, annotation_thread, "Its name"),
};

static const struct ky_query_column queues[] = {
	CALL("kind", TEXT, queue_kind, "'runtime': the queue of all workers; 'worker'"),
	ROW("runtime", TEXT, NAME, ky_queue_fill, runtime, 0, "Name of the runtime"),
	CALL("worker", ID, queue_worker, "Worker whose queue it is"),
	ROW("samples", COUNT, U64, ky_queue_fill, sample_count, 0, "How often it was read"),
	ROW("min_tasks", PLAIN, U32, ky_queue_fill, min, 0, "Tasks that stood in it, at least"),
	ROW("p50_tasks", PLAIN, U32, ky_queue_fill, p50, 0, "... in half of the samples at most"),
	ROW("p90_tasks", PLAIN, U32, ky_queue_fill, p90, 0, "... in 90 % at most"),
	ROW("p99_tasks", PLAIN, U32, ky_queue_fill, p99, 0, "... in 99 % at most"),
	ROW("max_tasks", PLAIN, U32, ky_queue_fill, max, 0,
	    "... at most; of a worker's queue 255 stands for more, too"),
	ROW("max_ns", TIME, U64_OR, ky_queue_fill, max_ns, 0, "When it was so full first"),
};

static const struct ky_query_column queue_samples[] = {
	CALL("time_ns", TIME, sample_time, "When"),
	CALL("kind", TEXT, sample_kind, "'runtime': the queue of all workers; 'worker'"),
	CALL("runtime", TEXT, sample_runtime, "Name of the runtime"),
	CALL("worker", ID, sample_worker, "Worker whose queue it is"),
	CALL("tasks", PLAIN, sample_depth,
	     "Tasks that stood in it; of a worker's queue a row where that changed"),
	CALL("alive_tasks", PLAIN, sample_alive, "Tasks that the runtime had; NULL: not said"),
};

static const struct ky_query_column left_out[] = {
	CALL("list", TEXT, left_key, "What the list has"),
	ROW("rows", COUNT, U64, ky_left_out, count, 0, "How many there was no room for"),
	CALL("effect", SENTENCE, left_effect, "What follows"),
};

static const struct ky_query_column metadata[] = {
	CALL("key", TEXT, metadata_key, "Key"),
	ROW("value", TEXT, NAME, ky_pair, value, 0, "Its last value"),
};

static const struct ky_query_column event_types[] = {
	ROW("first_ns", TIME, U64_OR, ky_event_type, first_ns, 0, "Time of the first one"),
	ROW("last_ns", TIME, U64_OR, ky_event_type, last_ns, 0, "Time of the last one"),
	CALL("type", TEXT, event_type, "Name"),
	ROW("events", COUNT, U64, ky_event_type, count, 0, "Events of it"),
};

static const struct ky_query_column events[] = {
	CALL("time_ns", TIME, event_time, "Time stamp; NULL: none"),
	CALL("type", TEXT, event_name, "Name of the event"),
	CALL("fields", TEXT, event_fields,
	     "All fields as JSON: fields->>'name' is the value of one"),
};

#define ARRAY(type, array, count)                                                                  \
	.rows = KY_ROWS_ARRAY, .row_bytes = sizeof(struct type),                                   \
	.array_offset = offsetof(struct ky_trace, array),                                          \
	.count_offset = offsetof(struct ky_trace, count)
#define SAMPLES(of)                                                                                \
	ARRAY(ky_stack_row, samples.rows, samples.row_count),                                      \
		.filter_offset = offsetof(struct ky_stack_row, kind), .filter = (of)
#define RESOURCES(of)                                                                              \
	ARRAY(ky_trace_resource, resources, resource_count),                                       \
		.filter_offset = offsetof(struct ky_trace_resource, kind), .filter = (of)
#define COLUMNS(list) .columns = (list), .column_count = COUNT(list)

const struct ky_query_table ky_query_tables[] = {
	{.name = "tasks",
	 .doc = "Every task of the trace",
	 COLUMNS(tasks),
	 ARRAY(ky_task, tasks, task_count),
	 .order = "-busy_ns",
	 .shown = "task,site,polls,busy_ns,poll_max_ns,delay_ns,wakes,life_ns,is_ended"},
	{.name = "polls",
	 .doc = "Every poll",
	 COLUMNS(polls),
	 .rows = KY_ROWS_POLLS,
	 .keys = KY_KEY_SITE | KY_KEY_TASK | KY_KEY_WORKER,
	 .order = "-duration_ns",
	 .shown = "start_ns,duration_ns,delay_ns,cpu_ns,worker,task,site"},
	{.name = "wakes",
	 .doc = "Every wake of a task",
	 COLUMNS(wakes),
	 .rows = KY_ROWS_WAKES,
	 .keys = KY_KEY_SITE | KY_KEY_TASK | KY_KEY_WORKER,
	 .order = "time_ns"},
	{.name = "workers",
	 .doc = "Every worker, and threads that poll or wake",
	 COLUMNS(workers),
	 ARRAY(ky_worker, workers, worker_count),
	 .order = "worker",
	 .shown = "worker,runtime,tid,life_ns,busy_ns,parked_ns,cpu_ns,polls,parks,wakes"},
	{.name = "span_tail",
	 .doc = "What the slow spans of a name have that the typical ones have not; of names with "
		"100 spans and more",
	 COLUMNS(span_tail),
	 .rows = KY_ROWS_TAIL,
	 .row_bytes = sizeof(struct ky_tail_row),
	 .order = "span,-explains_ppm,p_ppb"},
	{.name = "spans",
	 .doc = "Every span",
	 COLUMNS(spans),
	 ARRAY(ky_trace_span, spans, span_count),
	 .order = "-duration_ns",
	 .shown = "start_ns,duration_ns,cpu_ns,off_cpu_ns,polled_ns,ready_ns,waiting_ns,unknown_ns,"
		  "task,name"},
	{.name = "blocking",
	 .doc = "Every closure that ran in the blocking pool",
	 COLUMNS(blocking),
	 ARRAY(ky_blocking_run, blocking_runs, blocking_count),
	 .order = "-duration_ns",
	 .shown = "start_ns,duration_ns,wait_ns,tid,task,site,waiter,waiter_site"},
	{.name = "parks",
	 .doc = "Every park of a worker",
	 COLUMNS(parks),
	 .rows = KY_ROWS_PARKS,
	 .keys = KY_KEY_WORKER,
	 .order = "-duration_ns",
	 .shown = "start_ns,duration_ns,worker,waits_in,ready_count,late_ns,is_moved"},
	{.name = "off_cpu",
	 .doc = "Times off CPU inside polls and runs, with stacks",
	 COLUMNS(off_cpu),
	 SAMPLES(KY_STACK_OFF_CPU),
	 .order = "-duration_ns",
	 .shown = "start_ns,duration_ns,runnable_ns,reason,syscall,task,site,function"},
	{.name = "cpu",
	 .doc = "Samples of what ran, with stacks",
	 COLUMNS(cpu),
	 SAMPLES(KY_STACK_CPU),
	 .order = "time_ns",
	 .shown = "time_ns,cpu_ns,worker,task,poll_ns,site,function"},
	{.name = "heap",
	 .doc = "Sampled allocations, with stacks",
	 COLUMNS(heap),
	 SAMPLES(KY_STACK_ALLOC),
	 .order = "-estimated_bytes",
	 .shown = "time_ns,asked_bytes,estimated_bytes,freed_ns,task,site,function"},
	{.name = "idle",
	 .doc = "Waits of tasks at their await points, with stacks",
	 COLUMNS(idle),
	 SAMPLES(KY_STACK_PLACE),
	 .order = "-wait_ns",
	 .shown = "time_ns,wait_ns,is_counted,is_waiting,task,site,function"},
	{.name = "resources",
	 .doc = "What the process used, reading by reading",
	 COLUMNS(resources),
	 RESOURCES(KY_RESOURCE_USAGE),
	 .order = "time_ns"},
	{.name = "cgroups",
	 .doc = "Limits and use of its control groups",
	 COLUMNS(cgroups),
	 RESOURCES(KY_RESOURCE_CGROUP),
	 .order = "time_ns"},
	{.name = "listeners",
	 .doc = "Accept queues of its listening sockets",
	 COLUMNS(listeners),
	 RESOURCES(KY_RESOURCE_LISTENER),
	 .order = "time_ns"},
	{.name = "losses",
	 .doc = "What is missing from the trace",
	 COLUMNS(losses),
	 ARRAY(ky_trace_loss, losses, loss_count),
	 .order = "from_ns"},
	{.name = "threads",
	 .doc = "Threads that wrote records",
	 COLUMNS(threads),
	 ARRAY(ky_trace_thread, threads, thread_count),
	 .order = "tid"},
	{.name = "triggers",
	 .doc = "Rules that held",
	 COLUMNS(triggers),
	 ARRAY(ky_trace_trigger, triggers, trigger_count),
	 .order = "time_ns"},
	{.name = "stuck",
	 .doc = "Readings of threads whose poll was open too long",
	 COLUMNS(stuck),
	 ARRAY(ky_trace_stuck, stuck, stuck_count),
	 .order = "time_ns"},
	{.name = "findings",
	 .doc = "What was concluded, worst first: `kymo report`",
	 COLUMNS(findings),
	 .rows = KY_ROWS_FINDINGS,
	 .row_bytes = sizeof(struct ky_finding),
	 .order = "-score_ppm",
	 .shown = "finding,severity,confidence,score_ppm,worst_ns,site,function"},
	{.name = "task_metrics",
	 .doc = "The metrics of tokio-metrics of each kind of task, over the time of the trace",
	 COLUMNS(task_metrics),
	 .rows = KY_ROWS_TASK_METRICS,
	 .row_bytes = sizeof(struct ky_metric_row)},
	{.name = "runtime_metrics",
	 .doc = "The metrics of tokio-metrics of each runtime, over the time of the trace",
	 COLUMNS(runtime_metrics),
	 .rows = KY_ROWS_RUNTIME_METRICS,
	 .row_bytes = sizeof(struct ky_metric_row),
	 .shown = "runtime,metric,bucket_ns,value,value_max,unit,state,note"},
	{.name = "console_lints",
	 .doc = "The lints of tokio-console: how many tasks of each kind have them",
	 COLUMNS(console_lints),
	 .rows = KY_ROWS_LINTS,
	 .row_bytes = sizeof(struct ky_metric_row)},
	{.name = "custom",
	 .doc = "The program's own events: their types, and how many of each. `kymo view NAME` has "
		"the events of one",
	 COLUMNS(custom),
	 ARRAY(ky_custom_type, custom_types, custom_type_count),
	 .order = "-events",
	 .shown = "event,events,first_ns,last_ns,fields"},
	{.name = "custom_values",
	 .doc = "The program's own events, a row for each field",
	 COLUMNS(custom_values),
	 .rows = KY_ROWS_CUSTOM_VALUES},
	{.name = "counters",
	 .doc = "Readings of the program's counters",
	 COLUMNS(counters),
	 ARRAY(ky_trace_counter, counters, counter_count),
	 .order = "time_ns"},
	{.name = "annotations",
	 .doc = "Labels that the program or `kymo mark` set",
	 COLUMNS(annotations),
	 ARRAY(ky_trace_annotation, annotations, annotation_count),
	 .order = "time_ns"},
	{.name = "queues",
	 .doc = "How many tasks stood in each queue of a runtime, where the trace has samples of "
		"that, as those of dial9",
	 COLUMNS(queues),
	 .rows = KY_ROWS_QUEUES,
	 .row_bytes = sizeof(struct ky_queue_fill)},
	{.name = "queue_samples",
	 .doc = "The same over time",
	 COLUMNS(queue_samples),
	 .rows = KY_ROWS_QUEUE_SAMPLES,
	 .order = "time_ns"},
	{.name = "left_out",
	 .doc = "What the trace has and these tables have not, because a list is full",
	 COLUMNS(left_out),
	 ARRAY(ky_left_out, left_outs, left_out_count)},
	{.name = "metadata",
	 .doc = "Keys and values of the trace",
	 COLUMNS(metadata),
	 ARRAY(ky_pair, metadata, metadata_count),
	 .order = "key"},
	{.name = "event_types",
	 .doc = "Types of events in the trace",
	 COLUMNS(event_types),
	 ARRAY(ky_event_type, types, type_count),
	 .order = "-events",
	 .shown = "type,events,first_ns,last_ns"},
	{.name = "events",
	 .doc = "Every event with all its fields, the program's own included; read from the file "
		"each time",
	 COLUMNS(events),
	 .rows = KY_ROWS_EVENTS,
	 .order = "time_ns"},
};
const uint32_t ky_query_table_count = COUNT(ky_query_tables);

#define REQUEST_PARTS                                                                              \
	"cpu_ns + off_cpu_ns + polled_ns + waiting_ns AS service_ns, ready_ns AS scheduler_ns, "   \
	"client_ns, unknown_ns, "

const struct ky_query_view ky_query_views[] = {
	{"requests", "Requests on connections (conn, conn_out), each split into who took the time",
	 "SELECT start_ns, duration_ns, " REQUEST_PARTS
	 "idle_ns, fields->>'connection' + 0 AS connection, fields->>'peer_port' + 0 AS peer_port, "
	 "fields->>'bytes_in' + 0 AS bytes_in, fields->>'bytes_out' + 0 AS bytes_out, task, "
	 "site, name, is_open FROM spans WHERE request IS NOT NULL",
	 "-duration_ns"},
	{"connections", "Connections by their requests; idle_ns: no request was open between them",
	 "SELECT count(*) AS requests, min(start_ns) AS first_ns, sum(duration_ns) AS duration_ns, "
	 "sum(service_ns) AS service_ns, sum(scheduler_ns) AS scheduler_ns, "
	 "sum(client_ns) AS client_ns, sum(unknown_ns) AS unknown_ns, sum(idle_ns) AS idle_ns, "
	 "sum(bytes_in) AS bytes_in, sum(bytes_out) AS bytes_out, connection, peer_port, name "
	 "FROM requests WHERE connection IS NOT NULL GROUP BY connection",
	 "-duration_ns"},
	{"spawn_sites", "Tasks by spawn place",
	 "SELECT count(*) AS tasks, sum(is_ended = 0) AS alive, sum(polls) AS polls, "
	 "sum(busy_ns) AS busy_ns, max(poll_max_ns) AS poll_max_ns, sum(delay_ns) AS delay_ns, "
	 "sum(wakes) AS wakes, sum(long_wait_ns) AS long_wait_ns, site FROM tasks GROUP BY site",
	 "-busy_ns"},
	{"spawns", "Who spawns what: tasks and closures by place, and by that of their submitter",
	 "SELECT count(*) AS tasks, sum(parent IS NOT NULL) AS exact, "
	 "sum(parents > 1) AS several, min(first_ns) AS first_ns, site, parent_site FROM tasks "
	 "WHERE is_root = 0 GROUP BY site, parent_site",
	 "-tasks"},
	{"wake_graph", "Who wakes whom: wakes by place, and by that of the task that issued them",
	 "SELECT count(*) AS wakes, count(DISTINCT task) AS tasks, min(time_ns) AS first_ns, site, "
	 "waker_site, origin FROM wakes GROUP BY site, waker_site, origin",
	 "-wakes"},
	{"wake_causes", "Wakes by what caused them",
	 "SELECT count(*) AS wakes, count(DISTINCT task) AS tasks, min(time_ns) AS first_ns, "
	 "cause, function FROM wakes GROUP BY cause, function",
	 "-wakes"},
	{"counter_ranges",
	 "Each counter of the program: its readings, and between which values they "
	 "lie",
	 "SELECT counter, count(*) AS readings, min(value) AS min_value, max(value) AS max_value, "
	 "max(time_ns) AS last_ns FROM counters GROUP BY counter",
	 "counter"},
	{"poll_sites", "Polls by spawn place, with percentiles",
	 "SELECT count(*) AS polls, sum(duration_ns) AS busy_ns, p50(duration_ns) AS p50_ns, "
	 "p90(duration_ns) AS p90_ns, p99(duration_ns) AS p99_ns, max(duration_ns) AS max_ns, "
	 "p99(delay_ns) AS delay_p99_ns, max(delay_ns) AS delay_max_ns, site FROM polls "
	 "WHERE is_unproven = 0 GROUP BY site",
	 "-busy_ns"},
	{"functions", "CPU time by the program's own function",
	 "SELECT count(*) AS samples, sum(cpu_ns) AS cpu_ns, function FROM cpu GROUP BY function",
	 "-samples"},
	{"await_points", "Waiting time by await point",
	 "SELECT count(*) AS waits, count(DISTINCT task) AS tasks, "
	 "sum(wait_ns) AS wait_ns, max(wait_ns) AS wait_max_ns, function FROM idle "
	 "WHERE is_counted GROUP BY function",
	 "-wait_ns"},
	{"live_heap", "Memory that was not freed, by function",
	 "SELECT count(*) AS samples, sum(estimated_bytes) AS estimated_bytes, function FROM heap "
	 "WHERE is_freed = 0 GROUP BY function",
	 "-estimated_bytes"},
};
const uint32_t ky_query_view_count = COUNT(ky_query_views);
