/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* export.h - the samples of a trace for other tools, one file per format.
 *
 *   folded      one line a stack: "root;...;leaf VALUE" (flamegraph.pl, inferno, speedscope)
 *   pprof       profile.proto of github.com/google/pprof, not packed: gzip is the caller's
 *   speedscope  file-format-schema.json of speedscope, "sampled" profiles, one a thread
 *   firefox     processed profile of profiler.firefox.com, version 48
 *
 * Values:      CPU and off-CPU: nanoseconds; CPU samples without weight (dial9): samples. Waiting:
 *              nanoseconds until the task's next poll. Heap: bytes. Each times the inverse of its
 *              chance, rounded row by row: so all formats have the same sum, and `kymo report` too.
 * Invariants:  deterministic; the order of rows is the trace's. Names of code are a trace's, so
 *              bytes that a format gives a meaning to are replaced.
 * Errors:      out->failed.
 * Threads:     owner.
 */
#ifndef KY_EXPORT_EXPORT_H
#define KY_EXPORT_EXPORT_H

#include <analyze/code_stacks.h>
#include <base/buf.h>

struct ky_export {
	const struct ky_trace *trace;
	const struct ky_code_stacks *code;
	struct ky_symbol_table *symbols; /* knows the modules */
	uint32_t kind;                   /* enum ky_stack_kind: CPU, OFF_CPU, PLACE or ALLOC */
	uint64_t from_ns, to_ns;         /* rows in [from, to); to 0: no end */
	uint32_t task, worker;           /* index; KY_NONE: any */
	bool is_live;                    /* ALLOC: only what was not freed by to_ns */
	bool is_counted;                 /* CPU: samples; set by ky_export_prepare() */
	uint64_t row_count, value_sum;   /* of what is exported; set by ky_export_prepare() */
};

void ky_export_prepare(struct ky_export *export);

bool ky_export_has(const struct ky_export *export, const struct ky_stack_row *row);
uint64_t ky_export_value(const struct ky_export *export, const struct ky_stack_row *row);

int ky_export_folded(struct ky_buf *out, const struct ky_export *export);
int ky_export_pprof(struct ky_buf *out, const struct ky_export *export);
int ky_export_speedscope(struct ky_buf *out, const struct ky_export *export);
int ky_export_firefox(struct ky_buf *out, const struct ky_export *export);

/* "cpu", "off-cpu", "waiting", "heap". */
const char *ky_export_kind_name(uint32_t kind);

/* Threads with rows, ascending. Returns how many, *tids is the caller's to ky_free(); negative:
 * -ENOMEM. */
int64_t ky_export_threads(const struct ky_export *export, uint32_t **tids);
/* "tokio-worker 12": for people. Returns cell, which has 96 bytes. */
const char *ky_export_thread_name(char *cell, const struct ky_export *export, uint32_t tid);

#endif
