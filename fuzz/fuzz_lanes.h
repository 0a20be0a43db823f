/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* fuzz_lanes.h - the lanes of any trace: rows are rows of the trace, each pixel shows the longest
 * row that begins in it or one no shorter, JSON is made of whatever the trace says. */
#ifndef KY_FUZZ_LANES_H
#define KY_FUZZ_LANES_H

#include "fuzz_target.h"

#include <analyze/wake_graph.h>
#include <base/alloc.h>
#include <base/json_write.h>
#include <lanes/flame_json.h>
#include <lanes/lanes_json.h>
#include <lanes/points.h>
#include <lanes/poll_facts.h>
#include <lanes/series.h>
#include <lanes/span_json.h>
#include <read/labels.h>

#define FUZZ_PIXELS 33u

static inline void check_strip(const struct ky_lane *lane, enum ky_lane_layer layer,
			       const struct ky_view *view)
{
	const struct ky_forest *forest = &lane->layers[layer];
	struct ky_strip_pixel strip[FUZZ_PIXELS];
	uint32_t pixel = 0;

	ky_strip_make(strip, forest, view);
	for (uint32_t row = 0; row < forest->row_count; row++) {
		uint64_t start_ns, length_ns;
		uint32_t worker;

		forest->row(forest->ctx, row, &start_ns, &length_ns);
		FUZZ_CHECK(ky_lane_item(lane, layer, row, &worker) != UINT32_MAX);
		if (start_ns < view->from_ns || start_ns >= view->to_ns)
			continue;
		while (ky_view_edge(view, pixel + 1) <= start_ns)
			pixel++;
		FUZZ_CHECK(strip[pixel].row != UINT32_MAX && strip[pixel].share > 0);
		FUZZ_CHECK(strip[pixel].length_ns >= length_ns);
	}
}

static inline void check_series(const struct ky_trace *trace, const struct ky_view *view)
{
	struct ky_series series;
	uint32_t values[FUZZ_PIXELS];

	FUZZ_CHECK(ky_series_alive(&series, trace) == 0);
	FUZZ_CHECK(series.max <= trace->task_count * UINT64_C(1000));
	ky_series_values(values, &series, view);
	ky_series_release(&series);
	FUZZ_CHECK(ky_series_ready(&series, trace) == 0);
	ky_series_values(values, &series, view);
	ky_series_release(&series);
}

static inline void check_lanes(const struct ky_trace *trace)
{
	struct ky_view view = {.from_ns = trace->run_first_ns,
			       .to_ns = trace->run_last_ns + FUZZ_PIXELS,
			       .pixels = FUZZ_PIXELS};
	struct ky_lanes *lanes;
	struct ky_buf json;
	uint32_t worker;
	uint64_t row;

	FUZZ_CHECK(ky_lanes_open(&lanes, trace) == 0);
	FUZZ_CHECK(ky_lanes_choose_task(lanes, 0) == 0);
	if (view.to_ns < view.from_ns)
		view.to_ns = UINT64_MAX;
	if (view.to_ns - view.from_ns < FUZZ_PIXELS)
		view.from_ns -= FUZZ_PIXELS;
	for (uint32_t i = 0; i < lanes->count; i++)
		for (uint32_t layer = 0; layer < KY_LANE_LAYERS; layer++)
			check_strip(&lanes->list[i], (enum ky_lane_layer)layer, &view);
	check_series(trace, &view);
	ky_buf_init(&json, 0);
	ky_lanes_json(&json, lanes);
	ky_facts_search_json(&json, lanes, "1", NULL);
	for (uint32_t i = 0; i < trace->worker_count; i++)
		for (uint64_t poll = 0; poll < trace->workers[i].polls.row_count && poll < 4;
		     poll++)
			ky_poll_facts_json(&json, trace, i, poll, NULL);
	for (uint32_t i = 0; i < trace->span_count && i < 4; i++)
		ky_span_facts_json(&json, trace, i);
	for (uint32_t i = 0; i < trace->blocking_count && i < 4; i++)
		ky_run_facts_json(&json, trace, i);
	FUZZ_CHECK(!json.failed);
	(void)ky_facts_find_poll(trace, UINT64_MAX, trace->run_first_ns, &worker, &row);
	ky_buf_release(&json);
	ky_lanes_close(lanes);
}

/* Every point of a lane is in one pixel of a view that holds them all. */
static inline void check_points(const struct ky_trace *trace, struct ky_buf *json)
{
	const struct ky_view view = {.to_ns = UINT64_MAX, .pixels = FUZZ_PIXELS};
	const uint32_t counts[KY_POINTS_KINDS] = {
		[KY_POINTS_EVENTS] = trace->custom_type_count,
		[KY_POINTS_FIELD] = trace->custom_type_count,
		[KY_POINTS_COUNTER] = trace->counter_count ? 1 : 0,
		[KY_POINTS_NOTES] = 1,
		[KY_POINTS_QUEUE] = trace->queue_count,
	};
	struct ky_points_pixel pixels[FUZZ_PIXELS];
	struct ky_points points;

	for (uint32_t kind = 0; kind < KY_POINTS_KINDS; kind++)
		for (uint32_t i = 0; i < counts[kind] && i < 8; i++) {
			uint32_t index = kind == KY_POINTS_COUNTER ? trace->counters->name : i;
			uint64_t seen = 0;

			FUZZ_CHECK(ky_points_make(&points, trace, kind, index, i) == 0);
			ky_points_pixels(pixels, &points, &view);
			for (uint32_t at = 0; at < FUZZ_PIXELS; at++)
				seen += pixels[at].count;
			for (uint32_t at = 0; at < points.count; at++)
				seen += points.times_ns[at] == UINT64_MAX;
			FUZZ_CHECK(seen == points.count);
			if (points.count)
				FUZZ_CHECK(ky_points_facts_json(json, trace, kind, index,
								points.rows[points.count - 1]));
			ky_points_release(&points);
		}
	ky_points_list_json(json, trace);
}

static inline void check_span_view(const struct ky_trace *trace, const struct ky_code_stacks *code,
				   struct ky_buf *json)
{
	struct ky_span_view view = {
		.trace = trace, .to_ns = UINT64_MAX, .key = KY_NONE, .pieces = 7};
	struct ky_span_split *splits;
	struct ky_span_tail tail;

	FUZZ_CHECK(ky_span_splits(trace, &splits) == 0);
	FUZZ_CHECK(ky_span_tail_make(&tail, trace, code) == 0);
	view.splits = splits;
	view.tail = &tail;
	for (uint32_t i = 0; i < trace->span_count && i < 4; i++) {
		view.name = trace->spans[i].name;
		ky_span_name_json(json, &view);
		ky_json_open(json, NULL, "{");
		ky_span_tree_json(json, &view, i);
		ky_json_close(json, "}");
	}
	ky_span_names_json(json, trace, 0, 0);
	ky_span_tail_release(&tail);
	ky_free(splits);
}

/* What the viewer's panels ask of a trace. */
static inline void check_panels(const struct ky_trace *trace, struct ky_symbol_table *symbols)
{
	struct ky_wake_graph graph;
	struct ky_code_stacks code;
	uint64_t wakes = 0;
	struct ky_buf json;

	ky_buf_init(&json, 0);
	FUZZ_CHECK(ky_code_stacks_make(&code, trace, symbols) == 0);
	for (uint32_t kind = 0; kind <= KY_STACK_ALLOC; kind++) {
		struct ky_export export = {.trace = trace,
					   .code = &code,
					   .symbols = symbols,
					   .kind = kind,
					   .task = KY_NONE,
					   .worker = KY_NONE};

		FUZZ_CHECK(ky_export_prepare(&export) == 0);
		ky_flame_json(&json, &export);
		ky_export_release(&export);
	}
	check_points(trace, &json);
	check_span_view(trace, &code, &json);
	FUZZ_CHECK(ky_wake_graph_make(&graph, trace, 0, 0) == 0);
	for (uint32_t i = 0; i < graph.count; i++)
		wakes += graph.edges[i].wakes;
	FUZZ_CHECK(wakes <= trace->wakes);
	ky_wake_graph_release(&graph);
	FUZZ_CHECK(!json.failed);
	ky_code_stacks_release(&code);
	ky_buf_release(&json);
}

#endif
