/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* drain_state.h - what the parts of the drain share: threads, workers, runtimes, tasks, names,
 * chunk.
 *
 * One step runs through the files in this order: slot_cursor.c reads slots of the ring
 * (ring_view.c) into the queues of threads, ring_directory.c reads names, time_merge.c takes
 * records off the queues in the order of their stamps, convert.c (hot_record.h for frequent
 * ones) turns each into events with what task_table.c and worker_table.c know, segment.c cuts
 * events into chunks. Nothing here is shared between threads.
 */
#ifndef KY_DRAIN_DRAIN_STATE_H
#define KY_DRAIN_DRAIN_STATE_H

#include <base/buf.h>
#include <base/timeline.h>
#include <drain/cut.h>
#include <drain/retain.h>
#include <ring/ring_view.h>
#include <wire/ring_span.h>
#include <wire/switch_sample.h>
#include <wire/trc_enc.h>

#define KY_NONE32 UINT32_MAX
#define KY_MERGE_SLACK_NS UINT64_C(1000000) /* T = now - this */
#define KY_HOLD_MAX_NS UINT64_C(200000000)  /* how long a busy thread may hold the merge */
#define KY_SETTLE_NS UINT64_C(20000000)     /* how long workers of a new runtime gather */
#define KY_DTHREADS_MAX 65536u              /* alive at once */
#define KY_DTHREAD_BUCKETS 4096u
#define KY_WORKERS_MAX 65536u
#define KY_RUNTIMES_MAX 4096u
#define KY_LAUNCHES_MAX 4096u
#define KY_STACK_MAX 64u
#define KY_LIVE_TASKS_MAX 65536u
#define KY_METADATA_MAX 128u
#define KY_NAME_TEXT_MAX 2048u
#define KY_WORKER_UNKNOWN 255u
#define KY_WORKER_BLOCKING_POOL 254u

/* One record as it waits for its turn. A record of three words is followed by a KY_REC_MORE. */
struct ky_rec {
	uint64_t ticks;
	uint64_t a;
	uint32_t type; /* enum kymo_record or enum ky_rec_own */
	uint32_t arg;
};

enum ky_rec_own {
	KY_REC_MORE = 0x100, /* ticks = b, a = c of the record before */
	/* a: records lost; arg: enum ky_loss_cause | KY_GAP_INEXACT; MORE: ticks = last stamp */
	KY_REC_GAP,
	/* a: task word; arg: depth; MORE: ticks = begin ticks, a = polls open in all */
	KY_REC_CARRIED,
	KY_REC_EXIT, /* the thread is over */
	/* behind a gap it is this worker: a: task word; MORE: ticks = runtime, a = identity */
	KY_REC_WORKER,
	KY_REC_NOTE,   /* a: which of drain->notes */
	KY_REC_SAMPLE, /* a: which of drain->samples.waiting */
	KY_REC_GATES   /* a: gates, by the header of a sub-buffer */
};
#define KY_GAP_INEXACT 0x100u

enum ky_loss_cause {
	KY_LOSS_NONE = 0,
	KY_LOSS_SIGNAL = 1, /* 1..4 as enum kymo_drop_cause */
	KY_LOSS_NO_SLOT = 2,
	KY_LOSS_NO_STATE = 3,
	KY_LOSS_EXITED = 4,
	KY_LOSS_OVERWRITTEN = 5,
	KY_LOSS_CORRUPT = 6,
	KY_LOSS_WRITE_ERROR = 7,
	KY_LOSS_UNSUPPORTED = 8,
	/* a cut begins here: what the thread wrote before is not in the ring any more */
	KY_LOSS_HORIZON = 9,
	/* overwritten while nobody was to write it: in flight mode, before a stream began */
	KY_LOSS_FLIGHT = 10,
	KY_LOSS_SAMPLES = 11, /* + enum ky_sample_class */
	KY_LOSS_COUNT = KY_LOSS_SAMPLES + KY_SAMPLE_CLASSES
};

enum ky_poll_kind {
	KY_POLL_OUTER = 1, /* PollStart was written: ends with PollEnd */
	KY_POLL_NESTED,    /* NestedPollStart was written */
	KY_POLL_SILENT,    /* its start is unknown: its end is not written */
	KY_POLL_COUNTED,   /* an outer one that the policy holds back */
	KY_POLL_COUNTED_NESTED
};

struct ky_poll {
	uint64_t task;
	uint64_t start_ns;
	uint64_t begin_ticks;
	uint32_t name;
	uint32_t worker; /* index in workers or KY_NONE32 */
	uint32_t kind;
	uint32_t task_place; /* where the task's entry was when the poll began */
};

/* It is, or would be, the one open poll of its worker. */
static inline bool ky_poll_is_outer(const struct ky_poll *poll)
{
	return poll->kind == KY_POLL_OUTER || poll->kind == KY_POLL_COUNTED;
}

struct ky_dthread {
	struct ky_dthread *next; /* in its bucket */
	uint32_t index;
	uint32_t tid;
	char name[32];
	uint64_t start_ticks;
	uint64_t exit_ticks;
	uint64_t exit_step; /* step in which the directory told us; 0: alive */
	bool is_announced;
	bool is_exit_queued;
	bool is_done;        /* its KY_REC_EXIT was merged */
	uint64_t counted_ns; /* when the kernel's counts were read last; 0: never */
	/* reading */
	uint64_t record_next;  /* number of the next record expected */
	uint64_t read_ticks;   /* stamp of the last record read */
	uint32_t cursor_count; /* slots that hold or may get records of it */
	bool has_slot;
	bool ended_closed;  /* its last slot closed behind it: there must be another one */
	uint32_t gap_cause; /* something is missing, the next slot tells how much */
	uint64_t back_step; /* the last ky_drain_resume() that found a slot of it */
	struct ky_rec *recs;
	uint32_t head, tail, capacity;
	/* merging */
	uint64_t last_ns;
	uint32_t worker;      /* the worker it serves, KY_NONE32 */
	bool is_launched;     /* ... by a WORKER_BEGIN */
	uint64_t runtime_key; /* of its last RUNTIME record */
	struct ky_poll *stack;
	uint32_t depth, stack_capacity;
	uint32_t deeper; /* open polls beyond the stack */
	uint64_t blocking_task;
	uint64_t blocking_start_ns;
	uint32_t blocking_name;
	uint32_t blocking_worker; /* it served when the run began, KY_NONE32 */
	bool is_blocking;
	bool has_gates;
	uint64_t gates;      /* as last told */
	bool is_run_counted; /* the policy holds it back */
};

struct ky_slot_cursor {
	uint64_t number;        /* claim number + 1 that `offset` is about; 0: none yet */
	uint64_t expected;      /* a claim number + 1 that may still land here */
	uint64_t hold_since_ns; /* busy or filling since; 0: not */
	struct ky_dthread *thread;
	uint32_t offset; /* read up to here */
	uint32_t hold_offset;
	bool is_listed;
	bool is_complete; /* nothing more to come under this number */
	bool is_parked;   /* its thread left it, and we have everything */
};

struct ky_runtime {
	uint64_t key;
	uint32_t kind;
	uint32_t copy;
	char *name;
	bool is_described;
	bool is_announced;
	bool is_ended; /* its key may be somebody else's by now */
	uint32_t live_workers;
	uint32_t next_index;
	uint64_t launch_max;
};

struct ky_worker {
	uint32_t runtime; /* index in runtimes, KY_NONE32 */
	uint32_t index;   /* KY_NONE32: not known */
	bool is_exact;
	bool has_begun;
	bool is_ended;
	bool is_open; /* an outer poll of it is open */
	bool is_parked;
	struct ky_dthread *owner;
	uint32_t tid;
	uint32_t live_threads; /* between WORKER_BEGIN and WORKER_END */
	uint64_t runtime_key, identity, launch;
	uint64_t cpu_ns, active_since_ns; /* UINT64_MAX: it has ended */
	/* of the current chunk, when chunk_serial is that chunk's */
	uint64_t chunk_serial, busy_ns, longest_start_ns, longest_ns, longest_task;
	uint32_t poll_count;
};

/* A published WORKER_BEGIN that was not merged yet. */
struct ky_launch {
	uint64_t runtime_key, identity, task, ticks;
};

struct ky_task {
	uint64_t key; /* task | KY_TASK_USED; 0: free */
	uint64_t last_poll_ns;
	uint64_t ready_ns; /* 0: not ready */
	uint32_t name;
	uint32_t held; /* its wake waits at this place of retain.held; 0: none */
};
#define KY_TASK_USED ((uint64_t)1 << 63)

struct ky_task_table {
	struct ky_task *slots;
	uint32_t capacity; /* power of two */
	uint32_t count;
	uint32_t count_max;
	uint32_t ready_count;    /* of them, ready and not being polled */
	uint64_t untracked_high; /* largest id that found no room */
	uint64_t untracked_count;
	uint64_t *ended; /* tasks that ended lately, so that a late wake revives none */
};

struct ky_name {
	struct ky_entry_name entry;
	char *text;
	uint32_t text_bytes;
	uint32_t pool_id; /* in the stream `pool_serial` */
	uint64_t pool_serial;
	bool is_defined;
	bool is_resolved;
};

struct ky_string {
	char *text;
	uint32_t text_bytes;
};

struct ky_module {
	uint32_t id;
	struct ky_entry_module entry;
	uint8_t build_id[32];
	char *path;
	uint64_t gone_ticks; /* 0: still there */
	bool is_announced;
};

struct ky_pair {
	char *key;
	char *value;
};

struct ky_chunk_state {
	bool is_open;
	bool is_segment_start;
	uint64_t serial;
	uint64_t first_ns, last_ns;
	uint64_t span_ns;      /* it takes events of so long a time; 0: it is not open */
	uint64_t records_from; /* drain->records_told when it began */
	uint64_t lost_count;
	uint64_t told_count, told_from_ns; /* of them records; since when: ky_chunk */
	uint32_t loss_count;
	uint32_t *touched; /* workers with a poll in this chunk */
	uint32_t touched_count;
};

/* Something that did not come through a sub-buffer, waiting for its turn in the merge. */
enum ky_note_kind {
	KY_NOTE_FREE = 0,
	KY_NOTE_MARK,
	KY_NOTE_MARKS_LOST,
	KY_NOTE_COUNTER,
	KY_NOTE_CRASH,
	KY_NOTE_STUCK,
	KY_NOTE_TRIGGER,
	KY_NOTE_THREAD_CPU,
	KY_NOTE_RESOURCE
};

struct ky_note {
	enum ky_note_kind kind;
	uint32_t index;      /* counter */
	uint64_t value;      /* counter; marks lost */
	void *body;          /* text of a mark, struct ky_ring_crash, ..stuck.., ..resource_row */
	uint32_t body_bytes; /* of a text */
};
#define KY_NOTES_MAX 4096u

/* What the side area said so far. */
struct ky_side_state {
	uint64_t mark_next;     /* number of the next mark */
	uint64_t mark_since_ns; /* it is being written since; 0: it is not */
	bool has_crash;         /* told */
	uint64_t counters_ns;   /* last look at the counters */
	uint64_t counter_values[KY_COUNTERS];
	uint64_t counters_told; /* bit by index: this value is in the open segment */
	uint64_t resource_next; /* number of the next row */
};

/* Of one class of the sample area. */
struct ky_sample_cursor {
	uint64_t next;     /* claim */
	uint64_t since_ns; /* it is being written since; 0: it is not */
	uint64_t told_ns;  /* of the last look */
	uint32_t number;   /* of the next sample */
	bool has_number;
	uint64_t source_lost; /* told */
};

/* One that waits for its turn in the merge; frames behind it. */
struct ky_waiting_sample {
	uint8_t kind, flags;
	uint16_t cpu;
	int16_t syscall;
	uint32_t tid, frame_count;
	uint64_t value, more, other, task, weight;
	uint64_t runnable_min_ns, runnable_max_ns; /* of a switch */
	uint32_t by_pid, by_tid;                   /* who ended it */
	uint8_t by;                                /* enum ky_woken_by */
	uint64_t kernel;                           /* number of the kernel's stack, or 0 */
	bool is_truncated;                         /* its stack; of others `flags` say it */
	uint64_t frames[];
};
#define KY_SAMPLES_WAITING_MAX 16384u

#define KY_WAKER_NAMES 1024u

/* What threads are called that woke others; by hash, the latest stays. */
struct ky_waker_name {
	uint32_t tid, pid;
	char name[KY_WAKER_NAME_BYTES];
};

/* Stacks of the kernel by number, each near its place; the latest stay. */
#define KY_KERNEL_STACKS_TOLD 512u

struct ky_kernel_told_stack {
	uint64_t number; /* 0: none */
	uint32_t count;
	uint64_t frames[KY_SWITCH_STACK_MAX];
};

struct ky_sample_state {
	struct ky_dthread *queue; /* not in `threads` */
	struct ky_waker_name *wakers;
	struct ky_kernel_told_stack *kernel_stacks; /* NULL: none was told */
	struct ky_sample_cursor cursors[KY_SAMPLE_CLASSES];
	struct ky_waiting_sample **waiting;
	uint32_t *free_places;
	uint32_t free_count;
};

struct ky_merge_entry {
	uint64_t ticks; /* of the first record in the queue */
	struct ky_dthread *thread;
};

struct ky_drain {
	struct ky_drain_options options;
	char host[256];
	struct ky_ring_view ring;
	struct ky_timeline timeline;
	uint64_t step;
	uint64_t now_ns, now_ticks; /* of this step's anchor */
	uint64_t through_ticks;     /* T of this step */
	uint64_t through_before;    /* ... of the step before */
	bool is_final;
	bool is_out_of_memory;

	/* cutting (cut.c); a stream has neither */
	bool is_cut;
	bool is_dead;        /* polls that are open are told as open at the end */
	bool is_muted;       /* states are followed, nothing is written */
	uint64_t from_ns;    /* until then muted */
	uint64_t from_ticks; /* and for so many records of this stamp */
	uint32_t from_ties;
	uint64_t to_ns;    /* later records are dropped; UINT64_MAX: none */
	uint64_t end_ns;   /* time of the last words, where later than the last record's */
	uint64_t start_ns; /* of the segment */
	/* What the segment holds, in stamps: nothing before, all from there on, all up to. */
	uint64_t cover_from, cover_whole_from, cover_to;
	uint64_t busy_ticks;    /* cut: the least that a thread inside an event had published */
	uint64_t horizon_ticks; /* the ring's oldest sub-buffer began */
	uint32_t ring_slots;    /* of the ring that was copied; 0: it is drain->ring */
	uint32_t cut_off_count; /* slots that the file it was copied from lacks */
	const struct ky_cut_pair *cut_pairs;
	size_t cut_pair_count;

	/* what did not come through a sub-buffer */
	struct ky_dthread *outside; /* its queue; not in `threads` */
	struct ky_note *notes;
	uint32_t note_count;
	struct ky_side_state side;
	struct ky_sample_state samples;
	struct ky_event_sums sums;
	uint64_t late_wakes; /* polls so far that came KY_LATE_WAKE_NS and more behind their wake */
	uint64_t late_counted; /* of these, when the kernel's counts were read last */

	/* reading */
	struct ky_slot_cursor *cursors;
	uint32_t *listed; /* slots to look at in every step */
	uint32_t listed_count;
	struct ky_visit *visits;
	uint64_t hand; /* claims looked at */
	uint32_t usable_seen;
	uint64_t back_step;    /* ky_drain_resume() came before this step */
	uint64_t back_ticks;   /* ... at this moment; 0: never */
	bool has_flown;        /* a gap of cause KY_LOSS_FLIGHT was met */
	uint64_t flown_ticks;  /* the last of them ends here */
	bool has_lapped;       /* the hand went round between two steps */
	uint64_t hold_ticks;   /* the merge must not pass this */
	uint64_t queued_bytes; /* memory of all queues */
	uint64_t waiting;      /* records in them */
	uint64_t words[KY_SLOT_BYTES / 8];

	/* directory */
	uint64_t directory_at;
	bool is_directory_corrupt;
	struct ky_name *names;
	uint32_t name_count;
	struct ky_string *strings;
	uint32_t string_count;
	struct ky_module *modules;
	uint32_t module_count;
	struct ky_pair pairs[KY_METADATA_MAX];
	uint32_t pair_count;

	/* threads */
	struct ky_dthread **threads;
	uint32_t thread_count, thread_capacity;
	struct ky_dthread *buckets[KY_DTHREAD_BUCKETS];
	struct ky_merge_entry *heap;

	struct ky_runtime *runtimes;
	uint32_t runtime_count;
	struct ky_worker *workers;
	uint32_t worker_count, worker_capacity;
	struct ky_launch *launches;
	uint32_t launch_count;
	struct ky_task_table tasks;

	/* loss */
	uint64_t merged_ticks;      /* largest stamp merged */
	uint64_t told_ticks;        /* largest stamp whose record is written */
	uint32_t told_ties;         /* records of that stamp written */
	uint64_t merged_ns;         /* largest time written */
	uint64_t reported_drops[5]; /* by enum kymo_drop_cause, from DROPPED records */
	uint64_t credited_drops[5]; /* reported from the header before their record came */
	uint64_t drops_since_ns;
	uint64_t refused_records; /* waiting to be told as LossEvent write-error */
	uint64_t refused_first_ns, refused_last_ns;

	struct ky_retain retain;

	/* writing */
	struct ky_buf out;
	struct ky_trc_enc enc;
	struct ky_chunk_state chunk;
	bool is_segment_open;
	uint64_t first_now_ns; /* of the first step: tells streams of one process apart */
	/* Of the record that is being told, and the CounterClockEvent that holds for it. */
	uint64_t record_ticks, clock_ticks, clock_span, clock_serial;
	uint64_t segment_offset;
	uint64_t records_told; /* ring records that were turned into events */
	struct ky_buf index;
	uint32_t index_chunks;
	uint64_t cpu_ns;
	struct ky_drain_stats stats;
};

/* One slot to look at in this step. */
struct ky_visit {
	uint64_t number;
	uint64_t floor_ticks; /* no record of this or a later visit is older (memory is short) */
	uint64_t start_ticks; /* of the slot, once asked; UINT64_MAX: it is another claim's */
	uint32_t slot;
};

/* ---- drain.c ---- */
/* From here on states are followed and nothing is written, until an event at from_ns. */
void ky_drain_mute(struct ky_drain *drain, uint64_t from_ns);
/* The clocks of this machine; ctx: the ring's view. */
int ky_drain_own_anchor(void *ctx, struct ky_clock_anchor *out);

/* ---- ring_clock.c ---- */
/* Puts the timeline on the readings of the clocks that the ring holds, and on `now` where known.
 * Returns 0, -ENOMEM. */
int ky_drain_ring_clock(struct ky_drain *drain, const struct ky_clock_anchor *now);

/* ---- side.c ---- */
int ky_drain_side_open(struct ky_drain *drain);
void ky_drain_side_release(struct ky_drain *drain);
/* New marks, a crash, and once a second the counters. Returns 0, -ENOMEM. */
int ky_drain_read_side(struct ky_drain *drain);

/* thread_count.c: what the kernel has counted for the threads of workers, when it is time. */
int ky_drain_count_threads(struct ky_drain *drain);
/* resource.c: new rows of the resource area. Returns 0, -ENOMEM. */
int ky_drain_read_resources(struct ky_drain *drain);
int ky_drain_note_resource(struct ky_drain *drain, const struct ky_resource_row *row);
void ky_drain_write_resource(struct ky_drain *drain, const struct ky_resource_row *row,
			     uint64_t ns);
/* "cgroup memory: not there; ...". Empty: nothing is missing. Returns out. */
const char *ky_drain_resources_missing(const struct ky_resource_about *about, char *out,
				       size_t capacity);
/* Writes the counters that changed, or that this segment does not have, now. */
void ky_drain_write_counters(struct ky_drain *drain, uint64_t ns);
/* Writes the note of a KY_REC_NOTE. */
void ky_drain_write_note(struct ky_drain *drain, uint64_t index, uint64_t ns);
/* "signal 9 (SIGKILL)", "exit status 1", "unknown". */
void ky_drain_process_end(const struct ky_drain *drain, char *out, size_t capacity);

/* ---- sample.c ---- */
int ky_drain_sample_open(struct ky_drain *drain);
void ky_drain_sample_release(struct ky_drain *drain);
/* New samples of all classes into their queue. Returns 0, -ENOMEM. */
int ky_drain_read_samples(struct ky_drain *drain);
/* Writes the sample of a KY_REC_SAMPLE, with what its thread does at this moment. */
void ky_drain_write_sample(struct ky_drain *drain, uint64_t index, uint64_t ns);

/* ---- span.c ---- */
void ky_drain_span_begin(struct ky_drain *drain, const struct ky_dthread *thread,
			 const struct ky_rec *rec, uint64_t ns);
void ky_drain_span_end(struct ky_drain *drain, const struct ky_dthread *thread,
		       const struct ky_rec *rec, uint64_t ns);
/* Those that are open now. */
void ky_drain_write_open_spans(struct ky_drain *drain, uint64_t ns, bool is_at_exit);

/* ---- place.c ---- */
/* The last known place of every live task. */
void ky_drain_write_places(struct ky_drain *drain, uint64_t ns);
void ky_drain_write_allocs(struct ky_drain *drain, uint64_t ns);

/* ---- slot_cursor.c ---- */
/* Reads what was published since the last step into the threads' queues; sets hold_ticks. */
int ky_drain_read(struct ky_drain *drain);
/* At the end: what nobody can tell any more becomes inexact gaps. */
void ky_drain_close_gaps(struct ky_drain *drain);
int ky_drain_queue(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ticks, uint32_t type,
		   uint32_t arg, uint64_t a);

/* ---- ring_directory.c ---- */
int ky_drain_read_directory(struct ky_drain *drain);
void ky_drain_release_directory(struct ky_drain *drain);
int ky_drain_set_pair(struct ky_drain *drain, const char *key, size_t key_bytes, const char *value,
		      size_t value_bytes);
/* Pool id of a name's text in the open chunk. */
uint32_t ky_drain_name_pool_first(struct ky_drain *drain, uint32_t id);
static inline uint32_t ky_drain_name_pool(struct ky_drain *drain, uint32_t id)
{
	if (__builtin_expect(id < drain->name_count &&
				     drain->names[id].pool_serial == drain->chunk.serial,
			     1))
		return drain->names[id].pool_id;
	return ky_drain_name_pool_first(drain, id);
}
uint32_t ky_drain_string_pool(struct ky_drain *drain, uint64_t id);
uint32_t ky_drain_text_pool(struct ky_drain *drain, const char *text);
/* Text of a name, as far as it is known; never NULL. */
const char *ky_drain_name_text(struct ky_drain *drain, uint32_t id);

/* ---- thread_table.c ---- */
/* The thread of this index and kernel id; made when it is new. NULL: out of memory (then said in
 * is_out_of_memory) or too many. */
struct ky_dthread *ky_drain_thread(struct ky_drain *drain, uint32_t index, uint32_t tid);
struct ky_dthread *ky_drain_thread_find(const struct ky_drain *drain, uint32_t index);
void ky_drain_thread_sweep(struct ky_drain *drain); /* frees those that are over and empty */
void ky_drain_thread_release(struct ky_drain *drain);
/* Room for one more open poll; the caller sets every member. Returns NULL when it does not fit
 * (counted in thread->deeper). */
struct ky_poll *ky_drain_push_poll_grow(struct ky_dthread *thread);
static inline struct ky_poll *ky_drain_push_poll(struct ky_dthread *thread)
{
	if (__builtin_expect(thread->deeper || thread->depth == thread->stack_capacity, 0))
		return ky_drain_push_poll_grow(thread);
	return &thread->stack[thread->depth++];
}

/* ---- worker_table.c ---- */
uint32_t ky_drain_runtime(struct ky_drain *drain, uint64_t key); /* KY_NONE32: no room */
int ky_drain_note_launch(struct ky_drain *drain, uint64_t runtime_key, uint64_t identity,
			 uint64_t task, uint64_t ticks);
/* The stamp that workers of a new runtime hold the merge at; UINT64_MAX: none. */
uint64_t ky_drain_settle_ticks(const struct ky_drain *drain);
void ky_drain_worker_begin(struct ky_drain *drain, struct ky_dthread *thread, uint64_t task,
			   uint64_t runtime_key, uint64_t identity, uint64_t ns);
void ky_drain_worker_end(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ns);
void ky_drain_thread_runtime(struct ky_drain *drain, struct ky_dthread *thread, uint64_t key);
/* Behind a gap: it begins unless it is known to go on. */
void ky_drain_worker_known(struct ky_drain *drain, struct ky_dthread *thread, uint64_t task,
			   uint64_t runtime_key, uint64_t identity, uint64_t ns);
/* The worker a thread of this kernel id serves, KY_NONE32. */
uint32_t ky_drain_worker_of(const struct ky_drain *drain, uint32_t tid);
/* Makes sure the thread may write outer polls and parks of its worker. False: it must not. */
bool ky_drain_worker_take_other(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ns);
static inline bool ky_drain_worker_take(struct ky_drain *drain, struct ky_dthread *thread,
					uint64_t ns)
{
	const struct ky_worker *worker = drain->workers;

	if (__builtin_expect(thread->worker != KY_NONE32, 1)) {
		worker += thread->worker;
		/* It has that worker already. */
		if (__builtin_expect(worker->owner == thread &&
					     (thread->is_launched ||
					      worker->runtime_key == thread->runtime_key),
				     1))
			return !worker->is_open || thread->depth > 0;
	}
	return ky_drain_worker_take_other(drain, thread, ns);
}
void ky_drain_worker_event(struct ky_drain *drain, uint32_t worker, uint64_t ns);
void ky_drain_runtime_event(struct ky_drain *drain, uint32_t runtime, uint64_t ns);
uint64_t ky_drain_worker_cpu(const struct ky_worker *worker, uint64_t ns);
/* Ids of the trace leave out 254 and 255. */
static inline uint32_t ky_worker_id(uint32_t worker)
{
	return worker == KY_NONE32 ? KY_WORKER_UNKNOWN : worker < 254u ? worker : worker + 2u;
}

/* ---- task_table.c ---- */
int ky_task_table_init(struct ky_task_table *table, uint32_t count_max);
void ky_task_table_release(struct ky_task_table *table);
static inline uint32_t ky_task_place(uint64_t task, uint32_t capacity)
{
	/* Ids count up: the multiplication spreads them, the upper bits are the good ones. */
	return (uint32_t)((task * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (capacity - 1);
}
/* The entry, or NULL. */
static inline struct ky_task *ky_task_table_find(const struct ky_task_table *table, uint64_t task)
{
	uint64_t key = task | KY_TASK_USED;

	for (uint32_t i = ky_task_place(task, table->capacity);;
	     i = (i + 1) & (table->capacity - 1)) {
		if (__builtin_expect(table->slots[i].key == key, 1))
			return &table->slots[i];
		if (!table->slots[i].key)
			return NULL;
	}
}
/* The same; place: where it was a moment ago. */
static inline struct ky_task *ky_task_table_find_at(const struct ky_task_table *table,
						    uint64_t task, uint32_t place)
{
	struct ky_task *at = &table->slots[place & (table->capacity - 1)];

	return __builtin_expect(at->key == (task | KY_TASK_USED), 1) ?
		       at :
		       ky_task_table_find(table, task);
}
/* A new entry; NULL when full (then counted) or when the task ended lately. */
struct ky_task *ky_task_table_add(struct ky_task_table *table, uint64_t task, uint32_t name);
void ky_task_table_end(struct ky_task_table *table, uint64_t task);
/* Nobody knows which of them are still there; those with a wake held back stay. */
void ky_task_table_forget(struct ky_task_table *table);

/* ---- time_merge.c ---- */
/* Merges every queued record at or below `through`. Returns 0, -ENOMEM. */
int ky_drain_merge(struct ky_drain *drain, uint64_t through);

/* ---- convert.c ---- */
/* Turns the records at the head of the thread's queue up to and including the stamp `limit` into
 * events. */
void ky_drain_convert(struct ky_drain *drain, struct ky_dthread *thread, uint64_t limit);
void ky_drain_loss(struct ky_drain *drain, uint32_t tid, uint64_t count, bool is_exact,
		   uint64_t from_ns, uint64_t to_ns, uint32_t cause, uint64_t ns);
void ky_drain_header_drops(struct ky_drain *drain, uint64_t ns);
/* Sub-buffers behind the end of a file that was cut short: each held one record at least. */
void ky_drain_cut_off(struct ky_drain *drain, uint64_t ns);

/* ---- segment.c, segment_start.c ---- */
/* Tells which line of the timeline these ticks lie on, unless the chunk has told it. */
void ky_drain_write_clock(struct ky_drain *drain, uint64_t ticks, uint64_t ns);
static inline void ky_drain_tell_clock(struct ky_drain *drain, uint64_t ticks, uint64_t ns)
{
	if (__builtin_expect(ticks - drain->clock_ticks >= drain->clock_span ||
				     drain->clock_serial != drain->chunk.serial,
			     0))
		ky_drain_write_clock(drain, ticks, ns);
}
/* Cuts the open chunk and starts another where the next event at `ns` asks for it. */
void ky_drain_turn(struct ky_drain *drain, uint64_t ns);
void ky_drain_flush(struct ky_drain *drain);
void ky_drain_write_start(struct ky_drain *drain, uint64_t ns);
void ky_drain_write_open_polls(struct ky_drain *drain, uint64_t ns, bool is_at_exit);
/* One of the thread's open polls, with its true start. */
void ky_drain_write_open_poll(struct ky_drain *drain, const struct ky_dthread *thread,
			      uint32_t depth, uint64_t ns);
void ky_drain_write_metadata(struct ky_drain *drain, uint64_t ns, bool is_complete);
void ky_drain_write_thread(struct ky_drain *drain, struct ky_dthread *thread, uint64_t ns);
void ky_drain_write_module(struct ky_drain *drain, struct ky_module *module, uint64_t ns);
/* The worker begins to count in the open chunk. */
void ky_drain_touch_worker(struct ky_drain *drain, uint32_t index);
/* Books a poll of this worker that ended at end_ns in the open chunk. */
static inline void ky_drain_book_poll(struct ky_drain *drain, uint32_t index, uint64_t start_ns,
				      uint64_t end_ns, uint64_t task)
{
	struct ky_worker *worker = &drain->workers[index];
	uint64_t from = start_ns > drain->chunk.first_ns ? start_ns : drain->chunk.first_ns;

	if (__builtin_expect(worker->chunk_serial != drain->chunk.serial, 0))
		ky_drain_touch_worker(drain, index);
	if (end_ns > from)
		worker->busy_ns += end_ns - from;
	worker->poll_count++;
	if (__builtin_expect(end_ns - start_ns >= worker->longest_ns || worker->poll_count == 1,
			     0)) {
		worker->longest_start_ns = start_ns;
		worker->longest_ns = end_ns > start_ns ? end_ns - start_ns : 0;
		worker->longest_task = task;
	}
}

/* Room for the events of one record: a chunk must not end between them, because what it tells about
 * open polls at its start would be the state in the middle of the record. */
#define KY_RECORD_EVENTS_MAX 32u
#define KY_RECORD_BYTES_MAX 32768u
#define KY_CHUNK_BYTES_SOFT (KY_CHUNK_BYTES_MAX - 8192u)
/* And for some more of the same stamp, in whatever order the merge takes them: a recovery that goes
 * on between two of them may take them in another order than the stream did. */
#define KY_TIES_EVENTS 64u
#define KY_TIES_BYTES 4096u

static inline void ky_drain_ready_for(struct ky_drain *drain, uint64_t ns, uint32_t events,
				      uint32_t bytes)
{
	struct ky_chunk_state *chunk = &drain->chunk;

	/* Before first_ns is far ahead of it, too. */
	if (__builtin_expect(ns - chunk->first_ns >= chunk->span_ns ||
				     drain->enc.event_count >= KY_CHUNK_EVENTS_MAX - events ||
				     drain->out.used > KY_CHUNK_BYTES_SOFT - bytes,
			     0))
		ky_drain_turn(drain, ns);
	if (ns > chunk->last_ns)
		chunk->last_ns = ns;
}

/* Before every event: the chunk is open and takes one more event of this time. */
static inline void ky_drain_ready(struct ky_drain *drain, uint64_t ns)
{
	ky_drain_ready_for(drain, ns, 0, 0);
}

/* Before every record, while threads and workers are as they were before it. */
static inline void ky_drain_ready_record(struct ky_drain *drain, uint64_t ns)
{
	bool is_tied = drain->merged_ticks == drain->told_ticks;

	ky_drain_ready_for(drain, ns, KY_RECORD_EVENTS_MAX + (is_tied ? 0 : KY_TIES_EVENTS),
			   KY_RECORD_BYTES_MAX + (is_tied ? 0 : KY_TIES_BYTES));
}

#endif
