/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace.h - one trace in memory: columns of polls, parks and wakes, and the tables beside them.
 *
 * Invariants:  after ky_trace_open() nothing changes: any number of threads may read. All times are
 *              CLOCK_MONOTONIC nanoseconds of the recorded process. Rows of a column ascend in
 *              time. Row numbers are for this run of the program only; what outlives it is
 *              `kind:worker:start`.
 * Input:       TRC version 1 from any writer, in any order of files; it is untrusted.
 *              A torn tail costs what is torn and one notice; a damaged middle costs what lies
 *              before the next stream header and one notice.
 * Memory:      at most options.memory_bytes_max; the bytes of the files are not kept.
 */
#ifndef KY_READ_TRACE_H
#define KY_READ_TRACE_H

#include <base/byte_source.h>
#include <read/column.h>
#include <read/samples.h>
#include <wire/resource_area.h>
#include <wire/trc_dec.h>

#define KY_NONE UINT32_MAX /* no task, no name, no worker */
#define KY_RAW_BYTES_MAX_DEFAULT (UINT64_C(16) << 30)
#define KY_MEMORY_BYTES_MAX_DEFAULT (UINT64_C(3) << 30)

struct ky_symbol_table;
struct ky_trace_handover; /* read/handovers.h */
struct ky_trace_state;    /* read/stops.h, and the next two */
struct ky_trace_stop;
struct ky_trace_throttle;
struct ky_spawn_window; /* read/spawns.h, and the next one */
struct ky_spawn;
struct ky_trace_queue;   /* read/queues.h */
struct ky_trace_counter; /* read/labels.h, and the next one */
struct ky_trace_annotation;
struct ky_custom_type; /* read/custom.h, and the next two */
struct ky_custom_field;
struct ky_custom_row;
struct ky_left_out; /* read/left_out.h */

struct ky_trace_options {
	/* Gets the modules and names of the trace on the way (read/symbol_table.h); may be NULL. */
	struct ky_symbol_table *symbols;
	uint64_t raw_bytes_max; /* of one source after decompression; 0: 16 GiB. Beyond: notice */
	uint64_t memory_bytes_max;   /* 0: 3 GiB. Beyond: KYMO_E_LIMIT */
	uint32_t list_rows_max;      /* of the lists of read/left_out.h; 0: the limit of each */
	const char *memory_option;   /* what raises it, for the sentence; NULL: its name here */
	struct ky_trc_limits limits; /* of the decoder; zeros: its defaults */
	char *errbuf;                /* one sentence when open fails */
	size_t errbuf_bytes;
};

/* How a poll ended and what is known about it: upper 8 bits of ky_poll_row.site. */
enum ky_poll_flags {
	KY_POLL_ENDED_BY_PARK = 1u
				<< 0, /* no PollEnd; the worker's park proves it was over by then */
	KY_POLL_END_UNPROVEN = 1u << 1,  /* neither; duration reaches to the worker's next poll */
	KY_POLL_OPEN = 1u << 2,          /* still open at the end of the trace; duration so far */
	KY_POLL_AT_EXIT = 1u << 3,       /* with OPEN: the process ended inside it */
	KY_POLL_FROM_SNAPSHOT = 1u << 4, /* its start is known from an OpenPollEvent only */
	KY_POLL_LONG = 1u << 5,          /* duration in the side table */
	KY_POLL_NESTED = 1u << 6,        /* inside another poll of the same thread */
	KY_POLL_GAP = 1u << 7            /* a loss of its thread lies inside: duration not safe */
};

struct ky_poll_row {
	uint32_t delta_ns;    /* see column.h */
	uint32_t duration_ns; /* with KY_POLL_LONG: an index in the side table */
	uint32_t task;        /* index in trace.tasks */
	uint32_t site;        /* name index (24 bits, 0xffffff none) | flags << 24 */
};

/* What a histogram counts, or a statement is about. */
enum ky_counted_kind {
	KY_COUNTED_OTHER = 0,
	KY_COUNTED_POLL,
	KY_COUNTED_DELAY,
	KY_COUNTED_BLOCKING,
	KY_COUNTED_PARK,
	KY_COUNTED_DRIVER,
	KY_COUNTED_MARK,
	KY_COUNTED_WAKE,
	KY_COUNTED_SPAN,
	KY_COUNTED_KINDS
};

/* `extra` of a poll's row: its wake-to-poll delay in ns, or one of these. */
#define KY_DELAY_LONG 0xfffffff0u     /* in the side table */
#define KY_DELAY_NO_WAKE 0xfffffff1u  /* nothing recorded made it ready */
#define KY_DELAY_WITHHELD 0xfffffff2u /* what is not here, between wake and poll, may change it */
#define KY_DELAY_COUNTED 0xfffffff3u  /* in a histogram, if it was known at all */

struct ky_park_row {
	uint32_t delta_ns;
	uint32_t duration_ns; /* with KY_PARK_LONG: as above, see ky_trace_park() */
	/* Saturating; UINT32_MAX: not sampled. With KY_PARK_TIMEOUT the time-out in ms + 1, and it
	 * is not. */
	uint32_t sched_wait_ns;
	uint32_t word; /* what was ready (KYMO_READY_*) | wait << 16 | flags << 24 */
};
enum ky_park_flags {
	KY_PARK_OPEN = 1u << 0,         /* no unpark: still parked at the end */
	KY_PARK_END_UNPROVEN = 1u << 1, /* no unpark seen; ended by the worker's next event */
	KY_PARK_MOVED = 1u << 2,        /* unparked on another thread: block_in_place */
	KY_PARK_LONG = 1u << 3,         /* duration in the side table */
	KY_PARK_GAP = 1u << 4,          /* a loss of its thread lies inside */
	KY_PARK_TIMEOUT = 1u << 5       /* it has a time-out; in struct ky_park_row alone */
};
#define KY_PARK_TIMEOUT_MAX 16382u /* in ms + 1: so long or longer */

struct ky_wake_row {
	uint32_t delta_ns;
	uint32_t woken; /* task index */
	uint32_t waker; /* task index or KY_NONE */
	/* target_worker (8 bits) | origin << 8 | has_origin << 16 | wake source + 1 << 17 */
	uint32_t word;
};

/* WakeEventEvent.origin: where it was issued, and two bits. */
#define KY_WAKE_ORIGIN 63u
#define KY_WAKE_AT_END 64u /* at the end of what issued it: who it wakes awaits that */
#define KY_WAKE_DERIVED 128u

/* Who issued a wake: a stack, and a thread where the worker does not tell it. */
struct ky_wake_source {
	uint32_t stack; /* index in samples.stacks; KY_NONE: not known */
	uint32_t tid;   /* 0: the worker's */
};
#define KY_WAKE_SOURCE_SHIFT 17
#define KY_WAKE_SOURCES_MAX 32767u

struct ky_worker {
	uint64_t id;      /* as in the trace */
	uint32_t runtime; /* index in runtimes or KY_NONE */
	uint32_t index;   /* the runtime's own index or KY_NONE */
	uint32_t tid;     /* last known; 0 unknown */
	bool is_index_exact;
	bool has_ended;
	bool is_worker;      /* polls, parks or a WorkerEvent; else it only issued wakes */
	bool is_thread_lane; /* no worker: nested polls of one thread (tid) */
	uint8_t queue_depth; /* loading only: the last one */
	bool is_shared;      /* 254, 255: several threads under one id; pairs only within a batch */
	uint32_t depth_count;       /* samples of its queue; saturating */
	uint64_t first_ns, last_ns; /* of its polls and parks */
	uint64_t poll_count, park_count, wake_count;
	uint64_t end_unproven_count; /* polls whose end was not recorded */
	uint64_t unknown_count;      /* polls and parks with an unproven end, or a gap inside */
	uint64_t end_without_start;  /* PollEnds with no open poll: start lies before the trace */
	uint64_t moved_count;        /* block_in_place: the worker changed its thread */
	uint64_t cpu_ns;             /* CPU time between unpark and park; 0 unknown */
	uint64_t cpu_span_ns;        /* wall time that cpu_ns covers */
	uint64_t cpu_mark_ns, cpu_mark_at_ns; /* loading only */
	uint32_t cpu_tid;                     /* loading only */
	uint32_t queue;                       /* number in queues, from 1; 0: none */
	uint64_t futex, eventfd_next; /* + 1; what it parks on, the last known; 0: not known */
	struct ky_column polls;       /* struct ky_poll_row, extra = delay */
	struct ky_column parks;       /* struct ky_park_row */
	struct ky_column wakes;       /* struct ky_wake_row: issued by this worker */
	struct ky_column turns;       /* struct ky_turn_row: read/turns.h */
	struct ky_column edges;       /* loading only */
};

struct ky_task {
	uint64_t id;
	uint32_t name;       /* index in names or KY_NONE */
	uint32_t parent;     /* what spawned it for sure: task index or KY_NONE */
	uint32_t flags;      /* enum ky_task_flags */
	uint32_t poll_count; /* saturating */
	uint32_t place;      /* name index of where it was spawned, as its spawn says; KY_NONE */
	uint64_t first_ns;   /* spawn or first sight */
	uint64_t end_ns;     /* 0: not seen to end */
	uint64_t busy_ns;    /* total of its polls */
	uint64_t poll_max_ns;
	uint64_t delay_ns; /* total of its measured delays */
	uint64_t wake_count;
	uint64_t redundant_count; /* of these: it was ready already */
	uint64_t long_wait_ns;    /* total of its waits of KY_LONG_WAIT_NS and more between polls */
};
enum ky_task_flags {
	KY_TASK_SPAWN_SEEN = 1u << 0,
	KY_TASK_ENDED = 1u << 1,
	KY_TASK_CANCELLED = 1u << 2,
	KY_TASK_LIVE_AT_START = 1u << 3,    /* from a live-task snapshot */
	KY_TASK_BLOCKING = 1u << 4,         /* a spawn_blocking closure */
	KY_TASK_NOT_INSTRUMENTED = 1u << 5, /* dial9: its wakes are not recorded */
	KY_TASK_ROOT = 1u << 6              /* the future of a block_on: root_polls */
};

struct ky_trace_thread {
	uint32_t tid;
	uint32_t name;             /* index in names or KY_NONE */
	uint64_t start_ns, end_ns; /* 0 unknown */
	uint64_t lost_count;
	bool has_exited;
};

/* What wakes a worker from its parks, from that moment on; WorkerEvent. */
struct ky_parked_on {
	uint64_t from_ns, target; /* as of a notification: read/turns.h */
	uint64_t worker_id;       /* loading only */
	uint32_t worker;          /* index */
	uint8_t via;
};

struct ky_trace_runtime {
	uint64_t id;
	uint32_t name;              /* KY_NONE unnamed */
	uint8_t flavor, copy_index; /* see RuntimeEvent */
};

/* Between two traces of a process: nothing was lost; nothing was recorded. */
#define KY_CAUSE_NOT_RECORDED "not recorded"

struct ky_trace_loss {
	uint64_t from_ns, to_ns, record_count;
	uint32_t tid;   /* 0: several */
	uint32_t cause; /* name index */
	bool is_exact;
};

/* A rule that fired: see TriggerEvent. */
struct ky_trace_trigger {
	uint64_t time_ns, value, threshold, task_id, suppressed_count, late_count;
	uint32_t tid;
	uint32_t rule, unit; /* name index */
};

/* A reading of a thread whose poll was open too long: see StuckThreadEvent. */
struct ky_trace_stuck {
	uint64_t time_ns, poll_start_ns, task_id, pc;
	uint64_t syscall;              /* UINT64_MAX: in none, or unreadable */
	uint64_t cpu_ns, run_delay_ns; /* since the thread began; UINT64_MAX: not reported */
	uint32_t tid;
	uint32_t wchan; /* name index */
	uint32_t stack; /* index in samples.stacks; KY_NONE: not reported */
	uint32_t guessed_count;
	uint8_t state;
	bool is_running, is_truncated;
};

/* What the kernel had counted for a worker's thread: see ThreadCpuEvent. */
struct ky_trace_thread_cpu {
	uint64_t time_ns, cpu_ns, run_delay_ns;
	uint64_t voluntary, involuntary; /* UINT64_MAX: not reported */
	uint64_t worker_id;
	uint32_t tid;
};

/* See read/spans.h. */
struct ky_trace_span {
	uint64_t start_ns, duration_ns;
	uint64_t active_ns; /* between enters and exits */
	uint64_t id, parent_id;
	uint64_t worker_id;             /* loading only */
	uint32_t name;                  /* KY_NONE unnamed */
	uint32_t task;                  /* index, of its first enter; KY_NONE */
	uint32_t parent;                /* index in spans; KY_NONE */
	uint32_t enter_count;           /* saturating */
	uint32_t field_at, field_count; /* in span_fields */
	bool is_open;                   /* its end is not in the trace */
	/* Of requests: read/requests.h. */
	uint8_t request;              /* enum ky_request_kind */
	uint32_t wait_at, wait_count; /* in request_waits */
	uint64_t idle_since_ns;       /* 0: not known */
	uint64_t lead_ns;             /* of its duration, before the first read */
};

/* The kernel's switch records were watched in [from, to), which stands for [stretch, to): see
 * OffCpuWindowEvent. Empty where only an end is reported, which a later window may go beyond. */
struct ky_trace_off_window {
	uint64_t stretch_ns, from_ns, to_ns;
	uint64_t lost_count; /* records */
	/* Waits that it saw whole, not of preempted threads; and those of them without a reported
	 * wake-up. The last window has those after it, too. */
	uint32_t wait_count, unwoken_count;
};

/* What the kernel has counted for a thread since it began; ThreadUsageEvent. */
struct ky_trace_thread_use {
	uint64_t time_ns;
	uint64_t cpu_ns, run_delay_ns;
	uint32_t name; /* index */
	uint32_t tid;
};

enum ky_cost_value {
	KY_COST_DELAY_NS,
	KY_COST_MINOR_FAULTS,
	KY_COST_MAJOR_FAULTS,
	KY_COST_VOLUNTARY,
	KY_COST_INVOLUNTARY,
	KY_COST_COUNTS_GAP_NS,
	KY_COST_WAKES,
	KY_COST_NESTED,
	KY_COST_VALUES
};

/* What a long poll cost; PollCostEvent. */
struct ky_trace_poll_cost {
	uint64_t start_ns; /* of the poll */
	uint64_t worker_id;
	uint64_t cpu_ns, gap_ns;
	uint64_t values[KY_COST_VALUES]; /* UINT64_MAX: not read */
	uint32_t tid;
	bool is_on_cpu;
};

/* What the process used, or what limited it: values as in wire/resource_area.h, UINT64_MAX: not
 * reported. */
struct ky_trace_resource {
	uint64_t time_ns;
	uint8_t kind; /* enum ky_resource_kind */
	uint8_t scope;
	uint32_t address; /* of a listener: name index */
	uint64_t values[KY_RESOURCE_VALUES];
};

/* A poll of a root by its bounds; RootPollEvent. */
struct ky_trace_root_poll {
	uint64_t begin_min_ns; /* 0: not known */
	uint64_t begin_max_ns, end_min_ns;
	uint64_t end_ns;   /* at the latest */
	uint64_t woken_ns; /* first wake since its poll before; 0: not known */
	uint64_t wait_ns;  /* since its poll before, at the least; 0: not known */
	uint32_t task, tid;
	bool is_pending; /* it waits then */
};

/* See FailedCallsEvent. */
struct ky_trace_failed_calls {
	uint64_t time_ns, count;
	uint64_t syscall, fd; /* fd UINT64_MAX: not known */
	uint32_t error, tid;
	uint32_t task; /* index; KY_NONE */
};

/* See SocketWaitEvent. */
struct ky_trace_socket_wait {
	uint64_t time_ns, since_ns;
	uint64_t syscall, fd;
	uint64_t unacked, retransmits;
	uint64_t send_queue; /* bytes; UINT64_MAX: not known */
	uint64_t silent_ns;  /* UINT64_MAX: not known */
	uint32_t tid;
	uint32_t task;                  /* index; KY_NONE */
	uint16_t local_port, peer_port; /* 0: not known */
	uint8_t tcp_state;
};

struct ky_trace_crash {
	uint64_t time_ns, address, pc;
	int64_t code;
	uint32_t signal_number, tid;
};

struct ky_blocking_run {
	uint64_t start_ns, duration_ns;
	/* In line, from its submission: at least, and at most; UINT64_MAX: not known. */
	uint64_t wait_ns, wait_max_ns;
	uint32_t task, tid, name;
	uint32_t waiter;   /* task that awaits it, which its end wakes: index; KY_NONE: not known */
	uint64_t woken_ns; /* when that one was woken; 0 */
	bool is_open;
	bool is_end_unproven; /* its end was not recorded; duration 0 */
	uint64_t seen_ns;     /* open by then, as events say */
};

/* How many events of one schema (by name and fields) the trace has. */
struct ky_event_type {
	const char *
		name; /* NUL-terminated; bytes outside printable ASCII and UTF-8 kept as they are */
	size_t name_bytes;
	uint32_t event;    /* KY_EV_ or KY_EV_UNKNOWN */
	uint8_t span_kind; /* enum ky_span_kind of read/spans.h; 0 */
	bool is_request_span;
	bool is_single_span; /* it is entered once */
	uint32_t span_name;
	uint64_t count;
	uint64_t first_ns, last_ns; /* 0: no event with a time */
};

struct ky_pair {
	uint32_t key, value; /* name indexes */
};

struct ky_clock_sync {
	uint64_t monotonic_ns, realtime_ns;
};

/* From here on only what is at least so long, and so many a second, is in the trace. */
struct ky_trace_retention {
	uint64_t from_ns, threshold_ns, throttle;
	uint32_t kind; /* enum ky_counted_kind */
	uint32_t name; /* the kind as written */
};

/* Values that are not in the trace one by one. */
struct ky_trace_histogram {
	uint64_t from_ns, to_ns;
	uint64_t count, sum, value_min, value_max;
	uint32_t kind;                     /* enum ky_counted_kind */
	uint32_t name;                     /* of the tasks; KY_NONE */
	uint32_t buckets_at, bucket_bytes; /* see ky_trace_buckets() */
};

/* ... by worker. */
struct ky_trace_sums {
	uint64_t worker_id;
	uint32_t worker; /* index, KY_NONE */
	uint64_t reported_ns;
	uint64_t from_ns, to_ns; /* of its polls and parks; 0: none */
	uint64_t poll_count, busy_ns, poll_max_ns, wake_count, park_count, parked_ns;
};

struct ky_notice {
	uint32_t file;    /* index in files */
	uint64_t offset;  /* of the decompressed bytes */
	int code;         /* KYMO_E_* or -errno */
	const char *text; /* one whole sentence with file and byte */
};

struct ky_trace_input {
	const char *name;
	const char *container;
	uint64_t stored_bytes, raw_bytes;
	uint64_t event_count, stream_count, chunk_count;
	uint64_t first_ns, last_ns; /* 0: none */
	uint64_t back_steps;        /* events earlier than their predecessor in the file */
	uint64_t zero_stamps;       /* events with time stamp 0, such as symbols */
	uint64_t reorder_ns;        /* how far back at most: what a sorting reader must hold */
	uint32_t process;           /* index of what it is of; KY_NONE: it does not say */
	bool is_sealed;             /* ends in an index */
	bool is_torn;
};

struct ky_trace_open_poll {
	uint32_t worker; /* index in workers */
	uint64_t row;    /* in its polls */
};

struct ky_trace {
	struct ky_pages pages;
	uint64_t event_count;
	uint64_t raw_bytes, stored_bytes;
	uint64_t back_steps; /* over files in the order of their first time stamp */
	uint64_t zero_stamps;
	uint64_t first_ns, last_ns; /* over all events with a time other than 0 */
	uint64_t run_first_ns,
		run_last_ns;    /* over polls, parks and wakes, which are no strays; where
					     * there are none as the two above */
	bool is_dial9, is_kymo; /* writers seen */
	struct ky_trace_input *files;
	uint32_t file_count;
	struct ky_event_type *types;
	uint32_t type_count, type_capacity;
	struct ky_worker *workers; /* ascending by id; thread lanes last */
	uint32_t worker_count, worker_capacity;
	struct ky_task *tasks;
	uint32_t task_count, task_capacity;
	struct ky_trace_thread *threads;
	uint32_t thread_count, thread_capacity;
	struct ky_trace_runtime *runtimes;
	uint32_t runtime_count, runtime_capacity;
	struct ky_trace_loss *losses; /* ascending by from_ns */
	uint32_t loss_count, loss_capacity;
	struct ky_blocking_run *blocking_runs; /* ascending by start_ns */
	uint32_t blocking_count, blocking_capacity;
	struct ky_samples samples;
	struct ky_wake_source *wake_sources;
	uint32_t wake_source_count, wake_source_capacity;
	uint64_t wake_sources_left_out; /* wakes: there was no room for who issued them */
	struct ky_pair *metadata;       /* last value of each key, ascending by key */
	uint32_t metadata_count, metadata_capacity;
	struct ky_clock_sync *clock_syncs;
	uint32_t clock_sync_count, clock_sync_capacity;
	struct ky_notice *notices;
	uint32_t notice_count, notice_capacity;
	struct ky_trace_open_poll *open_polls;
	uint32_t open_poll_count, open_poll_capacity;
	struct ky_trace_trigger *triggers; /* this and the next two in the order of the file */
	uint32_t trigger_count, trigger_capacity;
	struct ky_trace_stuck *stuck;
	uint32_t stuck_count, stuck_capacity;
	struct ky_trace_thread_cpu *thread_cpus; /* by time */
	uint32_t thread_cpu_count, thread_cpu_capacity;
	struct ky_trace_off_window *off_windows; /* by time */
	uint32_t off_window_count, off_window_capacity;
	struct ky_trace_thread_use *thread_uses; /* by time */
	uint32_t thread_use_count, thread_use_capacity;
	struct ky_trace_poll_cost *poll_costs; /* by start */
	uint32_t poll_cost_count, poll_cost_capacity;
	struct ky_trace_handover *handovers; /* by the thread that had the worker, then time */
	uint32_t handover_count, handover_capacity;
	struct ky_spawn_window *spawn_windows; /* by first id */
	uint32_t spawn_window_count, spawn_window_capacity;
	struct ky_spawn *spawns;               /* by task; NULL: none is known */
	struct ky_trace_root_poll *root_polls; /* by end */
	uint32_t root_poll_count, root_poll_capacity;
	struct ky_trace_resource *resources; /* by time */
	uint32_t resource_count, resource_capacity;
	struct ky_trace_state *states; /* by time */
	uint32_t state_count, state_capacity;
	struct ky_trace_stop *stops; /* ascending */
	uint32_t stop_count, stop_capacity;
	struct ky_trace_failed_calls *failed_calls; /* by time */
	uint32_t failed_count, failed_capacity;
	struct ky_trace_socket_wait *socket_waits; /* by time */
	uint32_t socket_wait_count, socket_wait_capacity;
	struct ky_trace_throttle *throttles; /* by begin */
	uint32_t throttle_count, throttle_capacity;
	bool has_processes; /* more than one: their rows are not distinguished */
	struct ky_trace_crash *crashes;
	uint32_t crash_count, crash_capacity;
	struct ky_trace_span *spans; /* by start */
	struct ky_pair *span_fields; /* of all spans: the key's and the value's name index */
	uint32_t span_field_count, span_field_capacity;
	uint32_t span_count, span_capacity;
	struct ky_request_wait *request_waits; /* by id of the span, then time */
	uint32_t request_wait_count, request_wait_capacity;
	uint64_t requests_unseen;
	struct ky_parked_on *parked_on; /* by via, target, time */
	uint32_t parked_on_count, parked_on_capacity;
	struct ky_trace_queue *queues; /* of runtimes by name, then of workers by id */
	uint32_t queue_count, queue_capacity;
	struct ky_trace_counter *counters; /* by time */
	uint32_t counter_count, counter_capacity;
	struct ky_trace_annotation *annotations; /* by time */
	uint32_t annotation_count, annotation_capacity;
	struct ky_custom_type *custom_types; /* in the order of their first event in the files */
	uint32_t custom_type_count, custom_type_capacity;
	struct ky_custom_field *custom_fields; /* of all types */
	uint32_t custom_field_count, custom_field_capacity;
	struct ky_custom_row *custom_rows; /* by time */
	uint32_t custom_row_count, custom_row_capacity;
	uint64_t *custom_values;
	uint32_t custom_value_count, custom_value_capacity;
	struct ky_left_out *left_outs; /* what there was no room for, by kind */
	uint32_t left_out_count, left_out_capacity;
	struct ky_column notifies;             /* struct ky_notify_row: read/turns.h */
	struct ky_trace_retention *retentions; /* ascending by time */
	uint32_t retention_count, retention_capacity;
	struct ky_trace_histogram *histograms;
	uint32_t histogram_count, histogram_capacity;
	struct ky_trace_sums *sums;
	uint32_t sums_count, sums_capacity;
	uint64_t counted[KY_COUNTED_KINDS]; /* values of all histograms; wakes: of all sums */
	uint64_t lost_records;              /* sum of losses */
	uint64_t copy_count;       /* events that several of the sources have, beyond the first */
	uint32_t unrecorded_count; /* losses of cause KY_CAUSE_NOT_RECORDED */
	uint64_t lost_samples;     /* stacks, not records: among no thread's losses */
	uint64_t unsent_segments;  /* deleted before a destination had them; no gap here */
	uint64_t polls, parks, wakes; /* rows */
	uint64_t end_unproven;
	uint64_t delays_measured, delays_recorded; /* recorded: from scheduling_delay_ns */
	uint64_t delays_no_wake, delays_withheld, delays_counted;
	uint64_t wakes_redundant, wakes_in_own_poll;
	uint64_t recorder_report[KY_F_RECORDER_REPORT_COUNT]; /* the last RecorderReportEvent */
	bool has_recorder_report;
	struct ky_trace_private *private; /* names, side tables, hash tables */
};

/* Reads all sources as one trace.
 *
 * sources  rewound where they can be; stay the caller's, who closes them after the trace
 * Returns  0, also when bytes were damaged or torn (trace->notices says so); KYMO_E_NOT_TRACE when
 *          not one source is a trace; KYMO_E_LIMIT; KYMO_E_VERSION; -ENOMEM; the source's error
 *          when nothing could be read.
 * Owner    ky_trace_close().
 */
int ky_trace_open(struct ky_trace **out, struct ky_byte_source *sources, size_t source_count,
		  const struct ky_trace_options *options);
void ky_trace_close(struct ky_trace *trace);

/* Text of a name index; "" for KY_NONE. Never NULL, NUL-terminated. */
const char *ky_trace_name(const struct ky_trace *trace, uint32_t name);
/* Name indexes are below this. */
uint32_t ky_trace_name_count(const struct ky_trace *trace);
/* Encoded buckets of a histogram: docs/format.md "What a policy holds back". */
const uint8_t *ky_trace_buckets(const struct ky_trace *trace, uint32_t histogram);
/* Last value of a metadata key, NULL when absent. */
const char *ky_trace_metadata(const struct ky_trace *trace, const char *key);
/* Of the poll of workers[worker] that began then; NULL: not known. */
const struct ky_trace_poll_cost *ky_trace_poll_cost(const struct ky_trace *trace, uint32_t worker,
						    uint64_t start_ns);
/* The kernel's switch records that were lost, in all windows. */
uint64_t ky_trace_lost_switches(const struct ky_trace *trace);
/* The window of switch records that ends at this moment or after it; NULL: it was lost. */
struct ky_trace_off_window *ky_trace_off_window_at(const struct ky_trace *trace, uint64_t ns);
/* A closure of the blocking pool, which is no task that is polled. */
bool ky_trace_is_run(const struct ky_task *task);
/* One that is polled by a worker: neither a closure nor a root. */
bool ky_trace_is_task(const struct ky_task *task);
/* The recorded process, by the metadata; 0: they do not say. */
uint32_t ky_trace_pid(const struct ky_trace *trace);
/* Name index of a thread; KY_NONE: none, or not known. */
uint32_t ky_trace_thread_name(const struct ky_trace *trace, uint32_t tid);
/* Index of a task by id, of a worker by id; KY_NONE. */
uint32_t ky_trace_task(const struct ky_trace *trace, uint64_t task_id);
uint32_t ky_trace_worker(const struct ky_trace *trace, uint64_t worker_id);

/* CLOCK_REALTIME of a moment, by the nearest ClockSync at or before it (the first one for earlier
 * moments). Returns 0 when the trace has none. */
uint64_t ky_trace_unix_ns(const struct ky_trace *trace, uint64_t time_ns);

/* One row in full. */
struct ky_poll {
	uint64_t start_ns, duration_ns;
	uint64_t delay_ns;    /* UINT64_MAX: none, see delay_state */
	uint32_t delay_state; /* 0 measured, or KY_DELAY_NO_WAKE, _WITHHELD, _COUNTED */
	uint32_t task, name, flags, worker;
};
void ky_trace_poll(const struct ky_trace *trace, uint32_t worker, uint64_t row,
		   struct ky_poll *out);
/* The same of a row whose beginning is known: to find that costs more than all the rest. */
void ky_trace_poll_began(const struct ky_trace *trace, uint32_t worker, uint64_t row,
			 uint64_t start_ns, struct ky_poll *out);
/* The row at which a walk over the worker's polls stands: for a third of the cost. */
void ky_trace_poll_at(const struct ky_trace *trace, uint32_t worker, const struct ky_cursor *cursor,
		      struct ky_poll *out);
/* Did it last longer than that? Cheaper than the whole row. */
bool ky_trace_poll_exceeds(const struct ky_trace *trace, uint32_t worker, uint64_t row,
			   uint64_t ns);

struct ky_park {
	uint64_t start_ns, duration_ns;
	/* When its time-out is over, which is in whole ms, rounded up; UINT64_MAX: it has none, or
	 * it is not known, or too far away. */
	uint64_t due_ns;
	uint32_t sched_wait_ns, ready_count, wait, flags;
	uint32_t ready_descriptor; /* of the one event; KY_NONE: none, several, or not known */
};
/* How long after its time-out it ended; UINT64_MAX: before, by an event, or that is not known. */
static inline uint64_t ky_park_late_ns(const struct ky_park *park)
{
	uint64_t end_ns = park->start_ns + park->duration_ns;

	if (park->flags & (KY_PARK_OPEN | KY_PARK_END_UNPROVEN | KY_PARK_MOVED | KY_PARK_GAP) ||
	    park->ready_count || park->due_ns == UINT64_MAX || end_ns < park->due_ns)
		return UINT64_MAX;
	return end_ns - park->due_ns;
}

/* May records of this worker be among the lost ones? */
bool ky_trace_is_loss_of(const struct ky_worker *worker, const struct ky_trace_loss *loss);
/* Are records of any thread missing in [from, to]? */
bool ky_trace_has_gap(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns);
void ky_trace_park(const struct ky_trace *trace, uint32_t worker, uint64_t row,
		   struct ky_park *out);

struct ky_wake {
	uint64_t time_ns;
	uint32_t woken, waker, worker;
	uint32_t stack; /* who issued it, index in samples.stacks; KY_NONE: not known */
	uint32_t tid;   /* of its thread, where the worker does not tell it; else 0 */
	uint8_t origin; /* WakeEventEvent.origin; dial9's: derived from the waker, + 128 */
};
void ky_trace_wake(const struct ky_trace *trace, uint32_t worker, uint64_t row,
		   struct ky_wake *out);
/* The row at which a walk over the worker's wakes stands. */
void ky_trace_wake_at(const struct ky_trace *trace, uint32_t worker, const struct ky_cursor *cursor,
		      struct ky_wake *out);

#endif
