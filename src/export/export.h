/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* export.h - the samples of a trace for other tools, one file per format.
 *
 *   folded      one line a stack: "root;...;leaf VALUE" (flamegraph.pl, inferno, speedscope)
 *   pprof       profile.proto of github.com/google/pprof, not packed: gzip is the caller's
 *   speedscope  file-format-schema.json of speedscope, "sampled" profiles, one a thread
 *   firefox     processed profile of profiler.firefox.com, version 48
 *
 * and two that show what ran when, of polls, parks, wakes, tasks, spans, losses (track_events.h):
 *
 *   perfetto    trace packets with track events (ui.perfetto.dev, trace_processor)
 *   chrome      JSON of trace events (about:tracing)
 *
 * Values:      CPU and off-CPU: nanoseconds; CPU samples without weight (dial9): samples. Waiting:
 *              nanoseconds until the task's next poll. Heap: bytes. Each times the inverse of its
 *              chance, rounded row by row: so all formats have the same sum, and `kymo report` too.
 * Off-CPU:     why a thread was off, and in which state, stands above the leaf as frames of its
 *              own, "[futex]" and then "[blocked]" or "[runnable]" where that is known; in pprof
 *              as the labels "reason" and "state". An interval of which parts are known is several
 *              samples, and the largest one is counted.
 * Invariants:  deterministic; the order of rows is the trace's. Names of code are a trace's, so
 *              bytes that a format gives a meaning to are replaced.
 * Errors:      out->failed.
 * Threads:     owner.
 */
#ifndef KY_EXPORT_EXPORT_H
#define KY_EXPORT_EXPORT_H

#include <analyze/code_stacks.h>
#include <base/buf.h>

/* Of a machine's system call; NULL: it has none. */
typedef const char *(*ky_syscall_name_fn)(const char *machine, uint64_t number);

/* What a timeline has. */
struct ky_track_counts {
	uint64_t polls, parks, turns, wakes, tasks, spans, runs, losses, counter_values, instants;
	uint64_t counted_polls; /* in histograms: no slice each */
};

struct ky_export {
	const struct ky_trace *trace;
	const struct ky_code_stacks *code;
	struct ky_symbol_table *symbols; /* knows the modules */
	ky_syscall_name_fn syscall_name; /* NULL: they are numbers */
	uint32_t kind;                   /* enum ky_stack_kind: CPU, OFF_CPU, PLACE or ALLOC */
	uint64_t from_ns, to_ns;         /* rows in [from, to); to 0: no end */
	uint32_t task, worker;           /* index; KY_NONE: any */
	bool has_kind;                   /* only of tasks of this name */
	uint32_t kind_name;              /* ... index; KY_NONE: without a name */
	bool is_live;                    /* ALLOC: only what was not freed by to_ns */
	/* pprof: what stands for a text outside of this machine; NULL: itself. */
	const char *(*clean)(void *ctx, const char *text);
	void *clean_ctx;
	bool is_counted;               /* CPU: samples; set by ky_export_prepare() */
	uint64_t row_count, value_sum; /* of what is exported; set by ky_export_prepare() */
	uint64_t *reasons;             /* OFF_CPU: each once, ascending; by the same */
	uint32_t reason_count;
	/* Timelines: passes on what is in `out` and empties it; NULL: all stays there. */
	int (*flush)(void *ctx, struct ky_buf *out);
	void *flush_ctx;
	bool is_packed_later; /* perfetto: what is passed on is compressed, so it need not be */
	struct ky_track_counts counts; /* set by them */
};

/* Returns 0, -ENOMEM; either way ky_export_release() frees what it made. */
int ky_export_prepare(struct ky_export *export);
void ky_export_release(struct ky_export *export);
int ky_export_find_reasons(struct ky_export *export); /* part of ky_export_prepare() */

bool ky_export_has(const struct ky_export *export, const struct ky_stack_row *row);
uint64_t ky_export_value(const struct ky_export *export, const struct ky_stack_row *row);

/* What is known of why a thread did not run. */
enum ky_export_state {
	KY_STATE_EITHER = 0, /* blocked, the run queue after it included */
	KY_STATE_BLOCKED,
	KY_STATE_RUNNABLE,
	KY_STATES
};

struct ky_export_part {
	uint64_t value;
	uint64_t count;  /* of samples: the row's in its largest part, 0 in the others */
	uint32_t reason; /* index in reasons; KY_NONE: not OFF_CPU */
	uint32_t state;  /* enum ky_export_state */
};

/* The parts of a row, whose values sum to ky_export_value(). Returns how many, 1 to KY_STATES. */
uint32_t ky_export_parts(const struct ky_export *export, const struct ky_stack_row *row,
			 struct ky_export_part *parts);

/* Numbers of functions, u32 each, leaf first: the part's state and reason, the program's. Beyond
 * those of the code is what ky_export_function_name() has names for.
 * stack: KY_NONE: there is none. Errors: functions->failed. */
void ky_export_stack(struct ky_buf *functions, const struct ky_export *export, uint32_t stack,
		     const struct ky_export_part *part);

/* Functions of the code and ours. */
uint32_t ky_export_function_count(const struct ky_export *export);
/* "(no stack)", "[futex]", "[runnable]": of a function that is not the code's. Returns cell, which
 * has KY_EXPORT_CELL_BYTES. */
#define KY_EXPORT_CELL_BYTES 64u
const char *ky_export_function_name(char *cell, const struct ky_export *export, uint32_t function);
/* The reason that a function stands for; KY_NONE: another one. */
uint32_t ky_export_reason_of(const struct ky_export *export, uint32_t function);
/* "futex", "read", as in the report; OffCpuEvent.reason in *kind. Returns cell. */
const char *ky_export_reason_name(char *cell, const struct ky_export *export, uint32_t reason,
				  uint8_t *kind);
/* "blocked incl. run queue", "blocked", "runnable": enum ky_export_state. */
const char *ky_export_state_name(uint32_t state);

/* What stands for the same: one stack, reason and state. */
struct ky_export_line {
	uint64_t value;
	uint32_t stack; /* KY_NONE: without */
	uint32_t reason, state;
};

/* Returns how many there are, sorted and each once; *lines is the caller's to ky_free(); negative:
 * -ENOMEM. */
int64_t ky_export_lines(const struct ky_export *export, struct ky_export_line **lines);

int ky_export_folded(struct ky_buf *out, const struct ky_export *export);
int ky_export_pprof(struct ky_buf *out, const struct ky_export *export);
/* Appends a profile as one series of push.v1.PushRequest, which Pyroscope and Parca take. */
int ky_export_pprof_series(struct ky_buf *out, const struct ky_export *export);
int ky_export_speedscope(struct ky_buf *out, const struct ky_export *export);
int ky_export_firefox(struct ky_buf *out, const struct ky_export *export);
int ky_export_perfetto(struct ky_buf *out, struct ky_export *export);
int ky_export_chrome(struct ky_buf *out, struct ky_export *export);

/* "cpu", "off-cpu", "waiting", "heap". */
const char *ky_export_kind_name(uint32_t kind);

/* Threads with rows, ascending. Returns how many, *tids is the caller's to ky_free(); negative:
 * -ENOMEM. */
int64_t ky_export_threads(const struct ky_export *export, uint32_t **tids);
/* "tokio-worker 12": for people. Returns cell, which has 96 bytes. */
const char *ky_export_thread_name(char *cell, const struct ky_export *export, uint32_t tid);

#endif
