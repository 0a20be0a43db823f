/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/wasm/viewer.h>

#include <analyze/canonical.h>
#include <analyze/chain.h>
#include <analyze/findings/findings.h>
#include <analyze/task_life.h>
#include <analyze/why.h>
#include <analyze/why_code.h>
#include <analyze/wake_graph.h>
#include <base/alloc.h>
#include <base/json_write.h>
#include <base/text.h>
#include <errno.h>
#include <kymo/base.h>
#include <lanes/facts_json.h>
#include <lanes/flame_json.h>
#include <lanes/lanes_json.h>
#include <lanes/points.h>
#include <lanes/poll_facts.h>
#include <lanes/series.h>
#include <lanes/span_json.h>
#include <lanes/wasm/unpack.h>
#include <lanes/wasm/warm.h>
#include <report/syscall_name.h>
#include <string.h>

#define MEMORY_BYTES_MAX (UINT64_C(3) << 30)
#define TEXT_BYTES 65536u
#define NO_ROW UINT32_MAX
#define POINTS_MAX 64u /* lanes of points that are kept; then the oldest goes */

static struct {
	struct ky_trace *trace;
	struct ky_symbol_table *symbols;
	struct ky_lanes *lanes;
	struct ky_report *report;
	struct ky_stack_profile *profile;
	struct ky_findings *findings;
	struct ky_series series[2];
	struct ky_span_split *splits;
	struct ky_span_tail tail;
	bool has_tail;
	struct ky_points points[POINTS_MAX];
	uint32_t points_next;
	struct ky_buf result;
	struct ky_strip_pixel *pixels;
	uint8_t *out; /* of a strip, of a series */
	uint32_t pixel_capacity;
	char text[TEXT_BYTES + 1], name[TEXT_BYTES + 1];
} page;

uint8_t *kymo_text(void)
{
	return (uint8_t *)page.text;
}

const uint8_t *kymo_result(void)
{
	return page.result.bytes;
}

uint32_t kymo_result_bytes(void)
{
	return (uint32_t)page.result.used;
}

static void clear(void)
{
	ky_buf_release(&page.result);
	ky_buf_init(&page.result, 0);
}

static void close_all(void)
{
	clear();
	ky_findings_free(page.findings);
	ky_stack_profile_free(page.profile);
	ky_report_free(page.report);
	ky_free(page.splits);
	page.splits = NULL;
	ky_span_tail_release(&page.tail);
	page.has_tail = false;
	for (uint32_t i = 0; i < POINTS_MAX; i++)
		ky_points_release(&page.points[i]);
	ky_series_release(&page.series[0]);
	ky_series_release(&page.series[1]);
	ky_lanes_close(page.lanes);
	ky_trace_close(page.trace);
	ky_symbol_table_close(page.symbols);
	page.findings = NULL;
	page.profile = NULL;
	page.report = NULL;
	page.lanes = NULL;
	page.trace = NULL;
	page.symbols = NULL;
}

static void take_text(char *out, uint32_t bytes)
{
	bytes = bytes < TEXT_BYTES ? bytes : TEXT_BYTES;
	memcpy(out, page.text, bytes);
	out[bytes] = '\0';
}

int32_t kymo_warm(uint32_t events)
{
	return ky_warm(events);
}

int32_t kymo_open(double file_bytes, uint32_t name_bytes)
{
	char error[512] = "";
	struct ky_trace_options options = {
		.memory_bytes_max = MEMORY_BYTES_MAX,
		.memory_option = "the memory of a page",
		.errbuf = error,
		.errbuf_bytes = sizeof(error),
	};
	struct ky_byte_source source;
	int code;

	close_all();
	take_text(page.name, name_bytes);
	code = ky_symbol_table_open(&page.symbols, 0);
	if (!code)
		code = ky_unpack_open(&source, (uint64_t)file_bytes, page.name);
	if (code)
		return code;
	options.symbols = page.symbols;
	code = ky_trace_open(&page.trace, &source, 1, &options);
	source.close(source.ctx);
	if (!code)
		code = ky_lanes_open(&page.lanes, page.trace);
	if (code < 0)
		ky_text(&page.result, error);
	return code;
}

int32_t kymo_lanes(void)
{
	clear();
	if (!page.lanes)
		return KYMO_E_CLOSED;
	ky_lanes_json(&page.result, page.lanes);
	return page.result.failed;
}

int32_t kymo_canonical(void)
{
	clear();
	if (!page.trace)
		return KYMO_E_CLOSED;
	return ky_canonical_json(&page.result, page.trace, page.symbols);
}

int32_t kymo_findings(void)
{
	const struct ky_findings_options options = {.call_name = ky_trace_call_name};
	int code = 0;

	clear();
	if (!page.trace)
		return KYMO_E_CLOSED;
	if (!page.report)
		code = ky_report_make(&page.report, page.trace, NULL);
	if (!code && !page.profile)
		code = ky_stack_profile_make(&page.profile, page.trace, page.report, page.symbols,
					     NULL);
	if (!code && !page.findings)
		code = ky_findings_make(&page.findings, page.trace, page.report, page.profile,
					&options);
	if (code)
		return code;
	ky_findings_report_json(&page.result, page.findings, page.report, page.profile);
	return page.result.failed;
}

static uint64_t absolute(double time_ns)
{
	int64_t time = (int64_t)page.trace->run_first_ns + (int64_t)time_ns;

	return time < 0 ? 0 : (uint64_t)time;
}

int32_t kymo_period(double from_ns, double to_ns)
{
	struct ky_report_options options = {.worst_count = 1};
	struct ky_report *report = NULL;
	int code;

	clear();
	if (!page.trace || !(to_ns > from_ns))
		return KYMO_E_CLOSED;
	options.from_ns = absolute(from_ns);
	options.to_ns = absolute(to_ns);
	if (options.to_ns <= options.from_ns)
		return KYMO_E_CLOSED;
	code = ky_report_make(&report, page.trace, &options);
	if (code)
		return code;
	ky_report_json(&page.result, page.trace, report, NULL);
	ky_report_free(report);
	return page.result.failed;
}

/* ---- one thing ---- */

static const struct ky_code_stacks *stacks(void)
{
	return page.profile ? &page.profile->code : NULL;
}

/* An index of the trace for a row of a lane; its worker. Returns false: there is no such row. */
static bool find_item(uint32_t lane, uint32_t layer, uint32_t row, uint32_t *worker, uint32_t *item)
{
	clear();
	if (!page.lanes || lane >= page.lanes->count || layer >= KY_LANE_LAYERS ||
	    row >= page.lanes->list[lane].layers[layer].row_count)
		return false;
	*item = ky_lane_item(&page.lanes->list[lane], layer, row, worker);
	return *item != UINT32_MAX;
}

static bool is_poll(uint32_t lane, uint32_t layer)
{
	uint8_t kind = page.lanes->list[lane].kind;

	return (kind == KY_LANE_WORKER || kind == KY_LANE_TASK) &&
	       (layer == KY_LAYER_MAIN || layer == KY_LAYER_DELAY);
}

int32_t kymo_facts(uint32_t lane, uint32_t layer, uint32_t row)
{
	uint32_t worker, item;

	if (!find_item(lane, layer, row, &worker, &item))
		return KYMO_E_CLOSED;
	if (is_poll(lane, layer))
		ky_poll_facts_json(&page.result, page.trace, worker, item, stacks());
	else if (page.lanes->list[lane].kind == KY_LANE_SPANS)
		ky_span_facts_json(&page.result, page.trace, item);
	else if (page.lanes->list[lane].kind == KY_LANE_BLOCKING)
		ky_run_facts_json(&page.result, page.trace, item);
	else
		return KYMO_E_CLOSED;
	return page.result.failed;
}

int32_t kymo_find_poll(double task, double time_ns)
{
	uint64_t id = task < 0 ? UINT64_MAX : (uint64_t)task, row;
	uint32_t worker;

	clear();
	if (!page.trace || !ky_facts_find_poll(page.trace, id, absolute(time_ns), &worker, &row))
		return KYMO_E_CLOSED;
	ky_poll_facts_json(&page.result, page.trace, worker, row, stacks());
	return page.result.failed;
}

int32_t kymo_why(uint32_t lane, uint32_t row)
{
	struct ky_why_options options = {.worst_count = 1, .has_task = true};
	struct ky_why *why;
	struct ky_poll poll;
	uint32_t worker, item;
	int code;

	if (!find_item(lane, KY_LAYER_MAIN, row, &worker, &item) || !is_poll(lane, KY_LAYER_MAIN))
		return KYMO_E_CLOSED;
	ky_trace_poll(page.trace, worker, item, &poll);
	options.task_id = page.trace->tasks[poll.task].id;
	options.from_ns = poll.start_ns;
	options.to_ns = poll.start_ns + 1;
	code = ky_why_make(&why, page.trace, &options);
	if (code)
		return code;
	if (stacks())
		ky_why_find_code(why, page.trace, stacks());
	ky_why_json(&page.result, page.trace, why, stacks(), NULL, NULL);
	ky_why_free(why);
	return page.result.failed;
}

int32_t kymo_task(uint32_t task, double from_ns, double to_ns, uint32_t limit)
{
	struct ky_task_life_options options = {.task = task};
	struct ky_task_life *life;
	int code;

	clear();
	if (!page.trace || task >= page.trace->task_count)
		return KYMO_E_CLOSED;
	options.from_ns = absolute(from_ns);
	options.to_ns = absolute(to_ns);
	code = ky_task_life_make(&life, page.trace, &options);
	if (code)
		return code;
	ky_task_life_json(&page.result, life, limit, stacks());
	ky_task_life_free(life);
	return page.result.failed;
}

int32_t kymo_search(uint32_t text_bytes)
{
	clear();
	if (!page.lanes)
		return KYMO_E_CLOSED;
	page.text[text_bytes < TEXT_BYTES ? text_bytes : TEXT_BYTES] = '\0';
	ky_facts_search_json(&page.result, page.lanes, page.text, stacks());
	return page.result.failed;
}

int32_t kymo_choose_task(uint32_t task)
{
	int code;

	clear();
	if (!page.lanes)
		return KYMO_E_CLOSED;
	code = ky_lanes_choose_task(page.lanes, task);
	if (code)
		return code;
	ky_json_open(&page.result, NULL, "{");
	ky_json_number(&page.result, "polls", page.lanes->task_poll_count);
	ky_json_close(&page.result, "}");
	return page.result.failed;
}

/* ---- flame graphs ---- */

int32_t kymo_flame(uint32_t kind, double from_ns, double to_ns, double name, uint32_t is_live)
{
	struct ky_export export = {
		.trace = page.trace,
		.code = stacks(),
		.symbols = page.symbols,
		.syscall_name = ky_syscall_name,
		.kind = kind,
		.task = KY_NONE,
		.worker = KY_NONE,
		.has_kind = name >= 0,
		.kind_name = name >= 0 ? (uint32_t)name : KY_NONE,
		.is_live = is_live != 0,
	};
	int code;

	clear();
	if (!export.trace || !export.code || kind > KY_STACK_ALLOC)
		return KYMO_E_CLOSED;
	export.from_ns = absolute(from_ns);
	export.to_ns = absolute(to_ns);
	code = ky_export_prepare(&export);
	if (!code)
		ky_flame_json(&page.result, &export);
	ky_export_release(&export);
	return code ? code : page.result.failed;
}

/* ---- wakes ---- */

int32_t kymo_chain(uint32_t task, double from_ns, double to_ns, uint32_t limit)
{
	struct ky_task_chain *chain;
	int code;

	clear();
	if (!page.trace || task >= page.trace->task_count)
		return KYMO_E_CLOSED;
	code = ky_chain_make(&chain, page.trace, task, absolute(from_ns), absolute(to_ns),
			     stacks());
	if (code)
		return code;
	ky_chain_json(&page.result, NULL, chain, limit);
	ky_chain_free(chain);
	return page.result.failed;
}

static void put_edge(const struct ky_wake_edge *edge)
{
	struct ky_buf *out = &page.result;

	ky_json_open(out, NULL, "{");
	ky_json_flag(out, "is_task", edge->is_task);
	ky_facts_name(out, "waker", page.trace, edge->waker);
	ky_facts_name(out, "woken", page.trace, edge->woken);
	ky_json_number(out, "wakes", edge->wakes);
	ky_json_number(out, "delays", edge->delays);
	ky_json_number(out, "delay_ns", edge->delay_ns);
	ky_json_number(out, "p50_ns", edge->p50_ns);
	ky_json_number(out, "p99_ns", edge->p99_ns);
	ky_json_number(out, "max_ns", edge->max_ns);
	if (edge->max_task != KY_NONE) {
		ky_json_number(out, "max_task", page.trace->tasks[edge->max_task].id);
		ky_facts_moment(out, "max_ready_ns", page.trace, edge->max_ready_ns);
	}
	ky_json_close(out, "}");
}

int32_t kymo_wake_graph(double from_ns, double to_ns)
{
	struct ky_wake_graph graph;
	int code;

	clear();
	if (!page.trace)
		return KYMO_E_CLOSED;
	code = ky_wake_graph_make(&graph, page.trace, absolute(from_ns), absolute(to_ns));
	if (code)
		return code;
	ky_json_open(&page.result, NULL, "[");
	for (uint32_t i = 0; i < graph.count; i++)
		put_edge(&graph.edges[i]);
	ky_json_close(&page.result, "]");
	ky_wake_graph_release(&graph);
	return page.result.failed;
}

/* ---- spans ---- */

int32_t kymo_span_names(double from_ns, double to_ns)
{
	clear();
	if (!page.trace)
		return KYMO_E_CLOSED;
	ky_span_names_json(&page.result, page.trace, absolute(from_ns), absolute(to_ns));
	return page.result.failed;
}

/* What all spans have in common is made once. */
static int make_span_view(struct ky_span_view *view)
{
	int code = 0;

	clear();
	if (!page.trace)
		return KYMO_E_CLOSED;
	if (!page.splits)
		code = ky_span_splits(page.trace, &page.splits);
	if (!code && !page.has_tail)
		code = ky_span_tail_make(&page.tail, page.trace, stacks());
	page.has_tail = page.has_tail || (!code && stacks());
	*view = (struct ky_span_view){
		.trace = page.trace, .splits = page.splits, .tail = &page.tail};
	return code;
}

int32_t kymo_span_name(uint32_t name, double from_ns, double to_ns, uint32_t pieces, uint32_t key,
		       uint32_t value)
{
	struct ky_span_view view;
	int code = make_span_view(&view);

	if (code)
		return code;
	view.from_ns = absolute(from_ns);
	view.to_ns = absolute(to_ns);
	view.name = name;
	view.key = key;
	view.value = value;
	view.pieces = pieces;
	if (!pieces || pieces > KY_SPAN_PIECES || view.from_ns >= view.to_ns)
		return KYMO_E_CLOSED;
	ky_span_name_json(&page.result, &view);
	return page.result.failed;
}

int32_t kymo_span_tree(uint32_t span)
{
	const struct ky_trace_span *root;
	struct ky_task_chain *chain = NULL;
	struct ky_span_view view;
	int code = make_span_view(&view);

	if (code)
		return code;
	if (span >= page.trace->span_count)
		return KYMO_E_CLOSED;
	root = &page.trace->spans[ky_span_root(page.trace, span)];
	if (root->task < page.trace->task_count && root->duration_ns)
		code = ky_chain_make(&chain, page.trace, root->task, root->start_ns,
				     root->start_ns + root->duration_ns, stacks());
	if (code)
		return code;
	ky_json_open(&page.result, NULL, "{");
	ky_span_tree_json(&page.result, &view, span);
	if (chain)
		ky_chain_json(&page.result, "chain", chain, KY_SPAN_TREE);
	ky_json_close(&page.result, "}");
	ky_chain_free(chain);
	return page.result.failed;
}

int32_t kymo_span(uint32_t span)
{
	clear();
	if (!page.trace || span >= page.trace->span_count)
		return KYMO_E_CLOSED;
	ky_span_facts_json(&page.result, page.trace, span);
	return page.result.failed;
}

int32_t kymo_find_span(double time_ns, uint32_t id_bytes)
{
	uint64_t id = 0, start_ns;

	clear();
	if (!page.trace)
		return KYMO_E_CLOSED;
	for (uint32_t i = 0; i < id_bytes && page.text[i] >= '0' && page.text[i] <= '9'; i++)
		id = id * 10 + (uint64_t)(page.text[i] - '0');
	start_ns = absolute(time_ns);
	for (uint32_t i = 0; i < page.trace->span_count; i++)
		if (page.trace->spans[i].start_ns == start_ns && page.trace->spans[i].id == id)
			return kymo_span(i);
	return KYMO_E_CLOSED;
}

/* ---- pixels ---- */

#define PIXEL_BYTES (8u + 8u + 4u + 4u + 4u + 1u + 1u)
#define POINT_BYTES (3 * 8u + 2 * 4u)
#define OUT_BYTES (POINT_BYTES > PIXEL_BYTES ? POINT_BYTES : PIXEL_BYTES)

static bool make_view(struct ky_view *view, double from_ns, double to_ns, uint32_t pixels)
{
	if (!page.trace || !pixels || pixels > KY_STRIP_PIXELS_MAX || !(to_ns > from_ns))
		return false;
	view->from_ns = absolute(from_ns);
	view->to_ns = absolute(to_ns);
	view->pixels = pixels;
	if (view->to_ns <= view->from_ns)
		return false;
	if (pixels <= page.pixel_capacity)
		return true;
	ky_free(page.pixels);
	ky_free(page.out);
	page.pixels = ky_alloc(pixels * sizeof(*page.pixels));
	page.out = ky_alloc(pixels * (size_t)OUT_BYTES);
	page.pixel_capacity = page.pixels && page.out ? pixels : 0;
	return page.pixel_capacity != 0;
}

static void describe(const struct ky_lane *lane, uint32_t layer, uint32_t row, uint32_t *name,
		     uint32_t *task, uint8_t *flags)
{
	const struct ky_trace *trace = page.trace;
	uint32_t worker, item = ky_lane_item(lane, layer, row, &worker);
	struct ky_poll poll;

	*name = *task = KY_NONE;
	*flags = 0;
	if (layer > KY_LAYER_DELAY)
		return;
	switch (lane->kind) {
	case KY_LANE_WORKER:
	case KY_LANE_TASK:
		ky_trace_poll(trace, worker, item, &poll);
		*name = ky_lane_poll_name(trace, &poll);
		*task = poll.task;
		*flags = (uint8_t)poll.flags;
		break;
	case KY_LANE_SPANS:
		*name = trace->spans[item].name;
		*task = trace->spans[item].task;
		*flags = trace->spans[item].is_open ? KY_POLL_OPEN : 0;
		break;
	default:
		*name = trace->blocking_runs[item].name;
		*task = trace->blocking_runs[item].task;
		*flags = trace->blocking_runs[item].is_open ? KY_POLL_OPEN : 0;
	}
}

/* A double relative to the trace's beginning, from a row that was found. */
static void put_times(const struct ky_strip_pixel *pixel, double *start, double *length)
{
	*start = (double)(int64_t)(pixel->start_ns - page.trace->run_first_ns);
	*length = (double)pixel->length_ns;
}

uint8_t *kymo_strip(uint32_t lane, uint32_t layer, double from_ns, double to_ns, uint32_t pixels)
{
	struct ky_view view;
	double *start, *length;
	uint32_t *row, *name, *task;
	uint8_t *flags, *share;

	if (!make_view(&view, from_ns, to_ns, pixels) || lane >= page.lanes->count ||
	    layer >= KY_LANE_LAYERS)
		return NULL;
	ky_strip_make(page.pixels, &page.lanes->list[lane].layers[layer], &view);
	start = (double *)(void *)page.out;
	length = start + pixels;
	row = (uint32_t *)(void *)(length + pixels);
	name = row + pixels;
	task = name + pixels;
	flags = (uint8_t *)(task + pixels);
	share = flags + pixels;
	for (uint32_t i = 0; i < pixels; i++) {
		const struct ky_strip_pixel *pixel = &page.pixels[i];

		row[i] = pixel->row;
		share[i] = (uint8_t)pixel->share;
		if (pixel->row == UINT32_MAX) {
			start[i] = length[i] = 0;
			name[i] = task[i] = KY_NONE;
			flags[i] = 0;
			continue;
		}
		put_times(pixel, &start[i], &length[i]);
		if (i && pixel->row == row[i - 1]) {
			name[i] = name[i - 1];
			task[i] = task[i - 1];
			flags[i] = flags[i - 1];
		} else {
			describe(&page.lanes->list[lane], layer, pixel->row, &name[i], &task[i],
				 &flags[i]);
		}
	}
	return page.out;
}

uint32_t *kymo_sample_counts(uint32_t lane, double from_ns, double to_ns, uint32_t pixels)
{
	uint32_t *out;
	struct ky_view view;

	if (!make_view(&view, from_ns, to_ns, pixels) || lane >= page.lanes->count)
		return NULL;
	out = (uint32_t *)(void *)page.out;
	for (uint32_t i = 0; i < pixels; i++)
		out[i] = ky_lane_cpu_samples(&page.lanes->list[lane], ky_view_edge(&view, i),
					     ky_view_edge(&view, i + 1));
	return out;
}

uint32_t *kymo_series(uint32_t kind, double from_ns, double to_ns, uint32_t pixels)
{
	struct ky_view view;
	int code = 0;

	if (kind > 1 || !make_view(&view, from_ns, to_ns, pixels))
		return NULL;
	if (!page.series[kind].times_ns)
		code = kind ? ky_series_ready(&page.series[1], page.trace) :
			      ky_series_alive(&page.series[0], page.trace);
	if (code)
		return NULL;
	ky_series_values((uint32_t *)(void *)page.out, &page.series[kind], &view);
	return (uint32_t *)(void *)page.out;
}

/* ---- points ---- */

int32_t kymo_points_list(void)
{
	clear();
	if (!page.trace)
		return KYMO_E_CLOSED;
	ky_points_list_json(&page.result, page.trace);
	return page.result.failed;
}

int32_t kymo_points_facts(uint32_t kind, uint32_t index, uint32_t row)
{
	clear();
	if (!page.trace || !ky_points_facts_json(&page.result, page.trace, kind, index, row))
		return KYMO_E_CLOSED;
	return page.result.failed;
}

/* Made when they are asked for first. NULL: there are none. */
static const struct ky_points *find_points(uint32_t kind, uint32_t index, uint32_t field)
{
	struct ky_points *points;

	for (uint32_t i = 0; i < POINTS_MAX; i++) {
		points = &page.points[i];
		if (points->times_ns && points->kind == kind && points->index == index &&
		    points->field == field)
			return points;
	}
	points = &page.points[page.points_next++ % POINTS_MAX];
	ky_points_release(points);
	return ky_points_make(points, page.trace, kind, index, field) ? NULL : points;
}

int32_t kymo_points_within(uint32_t kind, uint32_t index, double from_ns, double to_ns,
			   uint32_t limit)
{
	const struct ky_points *points;

	clear();
	points = page.trace && kind != KY_POINTS_FIELD ? find_points(kind, index, 0) : NULL;
	if (!points)
		return KYMO_E_CLOSED;
	ky_points_within_json(&page.result, page.trace, points, absolute(from_ns), absolute(to_ns),
			      limit);
	return page.result.failed;
}

uint8_t *kymo_points(uint32_t kind, uint32_t index, uint32_t field, double from_ns, double to_ns,
		     uint32_t pixels)
{
	const struct ky_points *points;
	struct ky_points_pixel *list;
	struct ky_view view;
	double *low = NULL;
	uint32_t *count;

	if (!make_view(&view, from_ns, to_ns, pixels))
		return NULL;
	points = find_points(kind, index, field);
	list = points ? ky_alloc(pixels * sizeof(*list)) : NULL;
	if (!list)
		return NULL;
	ky_points_pixels(list, points, &view);
	low = (double *)(void *)page.out;
	count = (uint32_t *)(void *)(low + 3 * (size_t)pixels);
	for (uint32_t i = 0; i < pixels; i++) {
		low[i] = list[i].low;
		low[pixels + i] = list[i].high;
		low[2 * (size_t)pixels + i] = list[i].last;
		count[i] = list[i].count;
		count[pixels + i] = list[i].row;
	}
	ky_free(list);
	return page.out;
}
