/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* load.h - the inside of a trace and the steps that fill it; for src/read only.
 *
 * Order:  load.c turns frames into edges, wakes and tables, in whatever order they come; pair.c
 *         sorts the edges of each worker and makes polls and parks of them; delay.c walks polls
 *         and wakes of all workers by time and measures wake to poll.
 */
#ifndef KY_READ_LOAD_H
#define KY_READ_LOAD_H

#include <read/frame_reader.h>
#include <read/id_map.h>
#include <read/custom.h>
#include <read/labels.h>
#include <read/left_out.h>
#include <read/names.h>
#include <read/processes.h>
#include <read/queues.h>
#include <read/sort.h>
#include <read/requests.h>
#include <read/spans.h>
#include <read/trace.h>
#include <read/turns.h>

#define KY_SMALL_WORKERS 256u
#define KY_POOL_CACHE 65536u
#define KY_STACK_CACHE 4096u
#define KY_BUCKET_BYTES_MAX (256u << 10) /* of one histogram */
#define KY_ID_BLOCKING UINT64_C(254)
#define KY_ID_UNKNOWN UINT64_C(255)
#define KY_SAME_START_NS 1000u /* apart, of a start and its snapshot */

/* One moment of a worker while loading. Times within a column ascend after ky_column_sort(), and
 * equal times keep the order of the file. */
enum ky_edge_kind {
	KY_EDGE_START = 1, /* task; name */
	KY_EDGE_END,
	KY_EDGE_POLL,          /* a start and, nothing between them, its end: duration_ns */
	KY_EDGE_PARK,          /* task: tid; word: wait */
	KY_EDGE_UNPARK,        /* task: tid; word: what was ready */
	KY_EDGE_SCHED_WAIT,    /* of the unpark before: task: ns, saturating */
	KY_EDGE_DELAY,         /* of the start before: task: low, word: high bits of ns */
	KY_EDGE_SNAPSHOT,      /* task; name: a poll known to be open since this moment */
	KY_EDGE_SNAPSHOT_EXIT, /* the same, and the process ended inside it */
	KY_EDGE_MOVE /* block_in_place: to this thread (task), on its way for duration_ns */
};

struct ky_edge_row {
	uint32_t delta_ns;
	uint32_t task;
	uint32_t word; /* name or small number (24 bits) | kind << 24 */
	uint32_t duration_ns;
};

struct ky_interval {
	uint64_t from_ns, to_ns;
};

/* From this moment on the worker was served by this thread. */
struct ky_served {
	uint64_t from_ns;
	uint32_t worker, tid;
};

struct ky_trace_private {
	struct ky_names names;
	struct ky_id_map tasks, workers, threads, runtimes;
	uint32_t lane_of_worker[KY_SMALL_WORKERS]; /* index + 1 */
	uint64_t *long_durations;                  /* what does not fit 32 bits */
	uint32_t long_count, long_capacity;
	struct ky_id_map custom_types; /* hash of name and fields -> number in custom_types */
	struct ky_id_map queues;       /* name of a runtime -> number in queues */
	uint32_t runtime_queues, queue_rows;
	uint64_t left_out[KY_LEFT_KINDS];
	struct ky_id_map wake_sources; /* stack << 32 | tid -> number in trace->wake_sources */
	struct ky_id_map long_delays;  /* worker << 40 | row -> index in long_durations */
	struct ky_interval *gaps;      /* losses of any thread, merged, ascending */
	uint32_t gap_count, gap_capacity;
	uint64_t open_ns;    /* latest moment at which a poll or run was known to be open */
	uint32_t *open_runs; /* per thread: blocking run + 1 */
	uint32_t open_run_capacity;
	uint64_t *live_ready; /* pairs task, ready_ns of the first snapshot */
	uint32_t live_ready_count, live_ready_capacity;
	uint8_t *buckets; /* of all histograms */
	uint32_t bucket_bytes, bucket_capacity;
	struct ky_interval *held; /* polls or wakes are held back; ascending */
	uint32_t held_count, held_capacity;
	struct ky_served *served; /* by worker, then time */
	uint32_t served_count, served_capacity;
	struct ky_span_edge **span_pages; /* of KY_SPAN_PAGE events each */
	uint32_t span_edge_count, span_page_capacity;
	struct ky_id_map span_ids; /* -> number, from 1 */
	uint32_t span_id_count;
	bool has_closes;                  /* of spans */
	struct ky_process_key *processes; /* that files are of */
	uint32_t process_count, process_capacity;
	struct ky_interval *borders; /* between processes: borders.h; ascending */
	uint32_t border_count, border_capacity;
};

struct ky_load {
	struct ky_trace *trace;
	struct ky_trace_private *private;
	struct ky_frame_reader *reader;
	uint32_t file;
	struct ky_copies *copies; /* NULL: there are none */
	uint32_t *type_of_serial; /* index + 1 in trace->types */
	uint32_t serial_capacity;
	uint32_t *custom_of_serial; /* index + 1 in trace->custom_types */
	uint32_t custom_capacity;
	uint32_t *span_roles;          /* of the fields of span events: span_events.c */
	uint32_t *span_role_of_serial; /* index + 1 in span_roles */
	uint32_t span_role_count, span_role_capacity, span_serial_capacity;
	uint32_t list_rows_max;           /* of the options */
	uint32_t pool_serial;             /* grows with every change of the pools */
	uint32_t *pool_name;              /* cache: name by pool id ... */
	uint32_t *pool_stamp;             /* ... valid when equal to pool_serial */
	uint32_t *stack_of, *stack_stamp; /* the same of the pool of stacks: wake_sources.c */
	uint64_t last_ns, max_ns;         /* of this file, to count steps back */
	uint64_t stopped_at;              /* byte up to which this file was read */
	/* Last moment before bytes that could not be read; 0: none, or reported already. */
	uint64_t damage_from_ns;
	struct ky_processes processes;
	struct ky_symbol_table *symbols; /* NULL: nothing asked */
};

/* Rows of a list that has room for `count`, or for fewer where the options say so. */
static inline uint32_t ky_list_max(const struct ky_load *load, uint32_t count)
{
	return load->list_rows_max && load->list_rows_max < count ? load->list_rows_max : count;
}

/* load.c: one frame into the trace. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_load_frame(struct ky_load *load, const struct ky_frame *frame);
/* The same for events in plain numbers, in the order of the file; their times ascend. */
int ky_load_hot(struct ky_load *load, const struct ky_hot_event *events, uint32_t count);

/* load.c, for load_table.c: find or add; UINT32_MAX with pages.failed set. */
uint32_t ky_load_task(struct ky_load *load, uint64_t task_id, uint64_t time_ns);
uint32_t ky_load_lane(struct ky_load *load, uint64_t worker_id);
uint32_t ky_load_text(struct ky_load *load, const struct ky_frame *frame, uint32_t field);
bool ky_load_edge(struct ky_load *load, uint32_t lane, uint64_t time_ns, uint32_t kind,
		  uint32_t task, uint32_t word);

/* load_table.c: every event that is not a poll, park or wake of a worker. */
bool ky_load_table(struct ky_load *load, const struct ky_frame *frame);
/* Bytes that could not be read, up to this moment: a loss like any other. */
bool ky_load_damage(struct ky_load *load, uint64_t to_ns);

/* What lies between two traces of one process. */
bool ky_load_unrecorded(struct ky_load *load);

/* handovers.c. Ends of polls are noted once the list is sorted: of the rest of one that was handed
 * over then. */
bool ky_load_handover(struct ky_load *load, const struct ky_trace_handover *handover);
void ky_handovers_sort(struct ky_trace *trace);
void ky_handovers_end(struct ky_trace *trace, uint32_t tid, uint64_t start_ns, uint64_t end_ns);

/* A wake with an origin; stack: who issued it, in its field of this frame. */
bool ky_load_wake(struct ky_load *load, const struct ky_hot_event *wake,
		  const struct ky_frame *frame, uint32_t field);

/* wake_sources.c: a stack of the stream's pool; KY_NONE: it has no frames. And the number + 1 of
 * who issued a wake; 0: not known, or there is no room. */
uint32_t ky_load_pooled_stack(struct ky_load *load, uint32_t pool_id, uint64_t time_ns);
uint32_t ky_load_wake_source(struct ky_load *load, uint32_t stack, uint32_t tid);
/* load_samples.c: index of a stack, its frames as in the file; KY_NONE: it has none, or
 * trace->pages.failed is set. */
uint32_t ky_load_frames(struct ky_trace *trace, const uint8_t *frames, uint32_t count,
			uint64_t time_ns);

/* watched.c: rules that fired, stuck threads, crashes, what the kernel counted. */
bool ky_load_watched(struct ky_load *load, const struct ky_frame *frame);
bool ky_load_poll_cost(struct ky_load *load, const struct ky_frame *frame); /* poll_costs.c */

/* load_roots.c; what roots waited, once all is loaded. */
bool ky_load_root_poll(struct ky_load *load, const struct ky_frame *frame);
int ky_roots_finish(struct ky_trace *trace);
/* spawns.c; who spawned what, once all is loaded. */
bool ky_load_spawn_window(struct ky_load *load, const struct ky_frame *frame);
int ky_spawns_finish(struct ky_trace *trace);
int ky_run_waiters_finish(struct ky_trace *trace); /* run_waiters.c; of closures, the same */
bool ky_load_failed_calls(struct ky_load *load, const struct ky_frame *frame); /* failed_calls.c */
bool ky_load_socket_wait(struct ky_load *load, const struct ky_frame *frame);  /* load_sockets.c */
/* stops.c; of the last one as above: once polls are paired. */
bool ky_load_process_state(struct ky_load *load, const struct ky_frame *frame);
bool ky_load_throttled(struct ky_load *load, const struct ky_frame *frame);
int ky_stops_finish(struct ky_trace *trace);

bool ky_load_thread_use(struct ky_load *load, const struct ky_frame *frame); /* load_threads.c */

/* load_resources.c; passes on what is no resource. */
bool ky_load_resource(struct ky_load *load, const struct ky_frame *frame);

/* span_events.c: begins, ends, and what is open. spans.c: spans, once polls are paired. */
bool ky_load_span(struct ky_load *load, const struct ky_frame *frame,
		  const struct ky_event_type *type);
int ky_spans_finish(struct ky_trace *trace);
void ky_spans_release_events(struct ky_trace *trace);

/* requests.c: the waits of requests, and what is not seen of them; waits and begins of spans that
 * are not linked yet. */
bool ky_load_request_wait(struct ky_load *load, const struct ky_frame *frame);
bool ky_load_request_unseen(struct ky_load *load, const struct ky_frame *frame);
int ky_requests_finish(struct ky_trace *trace);

/* load_samples.c: events with stacks; samples that were lost, by the cause of the LossEvent. */
bool ky_load_sample(struct ky_load *load, const struct ky_frame *frame);
/* Index of the frames in this field, KY_NONE: there are none. *is_truncated: of more than are
 * kept. */
bool ky_load_stack(struct ky_load *load, const struct ky_frame *frame, uint32_t field,
		   uint32_t *stack, bool *is_truncated);
void ky_load_lost_samples(struct ky_load *load, const char *cause, uint64_t count);

/* retained.c: the events of a retention policy. */
bool ky_load_retained(struct ky_load *load, const struct ky_frame *frame);
/* Before pairing; after it; is anything of [from, to] in such a time? */
int ky_retained_finish(struct ky_trace *trace);
void ky_retained_workers(struct ky_trace *trace);
bool ky_retained_is_held(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns);

/* custom.c, labels.c: events of the program; counters and annotations. */
bool ky_load_custom(struct ky_load *load, const struct ky_frame *frame);
void ky_custom_finish(struct ky_trace *trace);
bool ky_load_counter(struct ky_load *load, const struct ky_frame *frame);
bool ky_load_annotation(struct ky_load *load, const struct ky_frame *frame);
void ky_labels_finish(struct ky_trace *trace);

/* queues.c: samples of a runtime's queue; of a worker's, where it is or was not empty. */
bool ky_load_runtime_metrics(struct ky_load *load, const struct ky_frame *frame);
bool ky_load_queue_sample(struct ky_load *load, const struct ky_frame *frame);
bool ky_load_depth_change(struct ky_load *load, struct ky_worker *worker, uint64_t time_ns,
			  uint8_t depth);
int ky_queues_finish(struct ky_trace *trace);
void ky_queues_release(struct ky_trace *trace);

static inline bool ky_load_depth(struct ky_load *load, uint32_t lane, uint64_t time_ns,
				 uint8_t depth)
{
	struct ky_worker *worker = &load->trace->workers[lane];

	worker->depth_count += worker->depth_count < UINT32_MAX;
	return !(depth | worker->queue_depth) || worker->is_shared ||
	       ky_load_depth_change(load, worker, time_ns, depth);
}

/* finish.c: orders the tables. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_load_finish(struct ky_trace *trace);

/* pair.c, delay.c. Return 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_pair(struct ky_trace *trace);
int ky_delay(struct ky_trace *trace);

/* turns.c: driver turns, notifications; and their order. */
bool ky_load_turn(struct ky_load *load, const struct ky_frame *frame);
bool ky_load_notify(struct ky_load *load, const struct ky_frame *frame);
bool ky_load_parked_on(struct ky_load *load, const struct ky_frame *frame, uint32_t lane);
int ky_turns_finish(struct ky_trace *trace);

/* samples.c, after pairing: orders the samples and finds whose they are. Returns as above. */
int ky_samples_finish(struct ky_trace *trace);

/* Index of a duration in the side table; UINT32_MAX with pages.failed set. */
uint32_t ky_long_duration(struct ky_trace *trace, uint64_t duration_ns);

#endif
