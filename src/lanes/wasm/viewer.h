/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* viewer.h - what the viewer's worker calls in the WebAssembly build of the engine.
 *
 * Invariants:  one trace at a time; everything crosses as a number or as bytes in the module's
 *              memory, which are valid until the next call. Times are nanoseconds from the first
 *              poll, park or wake of the trace, as doubles: exact up to 104 days.
 * Reading:     the host gives windows of the file; the file as a whole is never in this memory.
 * Threads:     one.
 */
#ifndef KY_LANES_VIEWER_H
#define KY_LANES_VIEWER_H

#include <stdint.h>

#ifdef __wasm__
#define KY_FROM_HOST __attribute__((import_module("host"), import_name("read")))
#else
#define KY_FROM_HOST
#endif

/* Imported: up to `capacity` bytes of the file from `offset` on. Returns how many; negative: the
 * file cannot be read. */
KY_FROM_HOST int32_t kymo_host_read(double offset, uint8_t *out, uint32_t capacity);

/* Room for text from the host: at least 64 KiB. */
uint8_t *kymo_text(void);

/* Reads a trace of so many events that it makes itself: warm.h. What is open stays open. Returns
 * how many polls that had, or a negative error. */
int32_t kymo_warm(uint32_t events);

/* Reads the file of so many bytes, named by the text (so many bytes of it), packed by zstd or not
 * at all; then makes the lanes. Returns 0 or a negative error, whose sentence is the result. */
int32_t kymo_open(double file_bytes, uint32_t name_bytes);

/* Each writes JSON as the result. Return 0 or a negative error. */
int32_t kymo_lanes(void);
int32_t kymo_findings(void); /* makes the report, the profile and the findings first */
int32_t kymo_canonical(void);
/* Figures of a part of time, as the tables of `kymo report --json`: those of polls that start in
 * it; without stacks. */
int32_t kymo_period(double from_ns, double to_ns);
int32_t kymo_facts(uint32_t lane, uint32_t layer, uint32_t row);
int32_t kymo_why(uint32_t lane, uint32_t row);
int32_t kymo_task(uint32_t task, double from_ns, double to_ns, uint32_t limit);
int32_t kymo_search(uint32_t text_bytes);
/* Lines of a flame graph: kind as enum ky_stack_kind; is_live: of the heap what was not freed;
 * name: index of a kind of task, negative: all tasks. */
int32_t kymo_flame(uint32_t kind, double from_ns, double to_ns, double name, uint32_t is_live);
/* What a task's time depended on: kymo_task()'s times, links as `kymo task --chain` has them. */
int32_t kymo_chain(uint32_t task, double from_ns, double to_ns, uint32_t limit);
int32_t kymo_wake_graph(double from_ns, double to_ns);
int32_t kymo_span_names(double from_ns, double to_ns);
/* name, key, value: indexes of names; UINT32_MAX: none. */
int32_t kymo_span_name(uint32_t name, double from_ns, double to_ns, uint32_t pieces, uint32_t key,
		       uint32_t value);
int32_t kymo_span_tree(uint32_t span);
int32_t kymo_span(uint32_t span);
/* The span that begins at this moment, of this id. The result is that of kymo_span(). */
int32_t kymo_find_span(double time_ns, uint32_t id_bytes);
int32_t kymo_points_list(void);
int32_t kymo_points_facts(uint32_t kind, uint32_t index, uint32_t row);
/* ky_points_within_json(); not of a field, whose events are those of its type. */
int32_t kymo_points_within(uint32_t kind, uint32_t index, double from_ns, double to_ns,
			   uint32_t limit);
/* task: an id; negative: any. The result is that of kymo_facts(). */
int32_t kymo_find_poll(double task, double time_ns);

/* Puts a task's polls into the last lane, and says how many; UINT32_MAX: none. */
int32_t kymo_choose_task(uint32_t task);

/* One layer as pixels: arrays of `pixels` elements each, in this order: start (double), length
 * (double), row, name, task (uint32), flags, share (uint8). Returns where; 0: memory is out, or
 * there is no such lane. */
uint8_t *kymo_strip(uint32_t lane, uint32_t layer, double from_ns, double to_ns, uint32_t pixels);
/* CPU samples by pixel. kind 0: tasks alive, 1: ready tasks, in thousandths. */
uint32_t *kymo_sample_counts(uint32_t lane, double from_ns, double to_ns, uint32_t pixels);
/* A lane of points.h as pixels: arrays of low, high, last (double), count, row (uint32). */
uint8_t *kymo_points(uint32_t kind, uint32_t index, uint32_t field, double from_ns, double to_ns,
		     uint32_t pixels);
uint32_t *kymo_series(uint32_t kind, double from_ns, double to_ns, uint32_t pixels);

const uint8_t *kymo_result(void);
uint32_t kymo_result_bytes(void);

#endif
