/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/lanes.h>

#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>

#define ROWS_AT_ONCE 128u

uint32_t ky_lane_poll_name(const struct ky_trace *trace, const struct ky_poll *poll)
{
	uint32_t name = trace->tasks[poll->task].name;

	return name != KY_NONE ? name : poll->name;
}

/* ---- rows ---- */

static void poll_row(const void *ctx, uint32_t row, uint64_t *start_ns, uint64_t *length_ns)
{
	const struct ky_lane *lane = ctx;
	struct ky_poll poll;

	ky_trace_poll(lane->lanes->trace, lane->worker, row, &poll);
	*start_ns = poll.start_ns;
	*length_ns = poll.duration_ns;
}

static void delay_row(const void *ctx, uint32_t row, uint64_t *start_ns, uint64_t *length_ns)
{
	const struct ky_lane *lane = ctx;
	struct ky_poll poll;

	ky_trace_poll(lane->lanes->trace, lane->worker, row, &poll);
	*start_ns = poll.start_ns;
	*length_ns = poll.delay_state ? 0 : poll.delay_ns;
}

static void park_row(const void *ctx, uint32_t row, uint64_t *start_ns, uint64_t *length_ns)
{
	const struct ky_lane *lane = ctx;
	struct ky_park park;

	ky_trace_park(lane->lanes->trace, lane->worker, row, &park);
	*start_ns = park.start_ns;
	*length_ns = park.duration_ns;
}

/* At the end of the park, and inside it. */
static void run_delay_row(const void *ctx, uint32_t row, uint64_t *start_ns, uint64_t *length_ns)
{
	const struct ky_lane *lane = ctx;
	struct ky_park park;

	ky_trace_park(lane->lanes->trace, lane->worker, row, &park);
	*length_ns = park.sched_wait_ns == UINT32_MAX ? 0 : park.sched_wait_ns;
	if (*length_ns > park.duration_ns)
		*length_ns = park.duration_ns;
	*start_ns = park.start_ns + (park.duration_ns - *length_ns);
}

static void off_cpu_row(const void *ctx, uint32_t row, uint64_t *start_ns, uint64_t *length_ns)
{
	const struct ky_lane *lane = ctx;
	const struct ky_stack_row *sample = &lane->lanes->trace->samples.rows[lane->rows[row]];

	*start_ns = sample->time_ns;
	*length_ns = sample->value;
}

static void span_row(const void *ctx, uint32_t row, uint64_t *start_ns, uint64_t *length_ns)
{
	const struct ky_lane *lane = ctx;
	const struct ky_trace_span *span = &lane->lanes->trace->spans[lane->rows[row]];

	*start_ns = span->start_ns;
	*length_ns = span->duration_ns;
}

static void blocking_row(const void *ctx, uint32_t row, uint64_t *start_ns, uint64_t *length_ns)
{
	const struct ky_lane *lane = ctx;
	const struct ky_blocking_run *run = &lane->lanes->trace->blocking_runs[row];

	*start_ns = run->start_ns;
	*length_ns = run->duration_ns;
}

static void task_poll_row(const void *ctx, uint32_t row, uint64_t *start_ns, uint64_t *length_ns)
{
	const struct ky_lane *lane = ctx;
	const struct ky_lane_task_poll *poll = &lane->lanes->task_polls[row];

	*start_ns = poll->start_ns;
	*length_ns = poll->duration_ns;
}

/* A delay that began before the row before it is cut, so that begins ascend. */
static void task_delay_row(const void *ctx, uint32_t row, uint64_t *start_ns, uint64_t *length_ns)
{
	const struct ky_lane *lane = ctx;
	const struct ky_lane_task_poll *polls = lane->lanes->task_polls;
	uint64_t from_ns = row ? polls[row - 1].start_ns : 0;
	struct ky_poll poll;

	ky_trace_poll(lane->lanes->trace, polls[row].worker, polls[row].row, &poll);
	*start_ns = poll.start_ns;
	if (!poll.delay_state && poll.delay_ns <= poll.start_ns)
		*start_ns = poll.start_ns - poll.delay_ns;
	if (*start_ns < from_ns)
		*start_ns = from_ns;
	*length_ns = poll.start_ns - *start_ns;
}

/* ---- making ---- */

static uint32_t row_count_of(uint64_t count)
{
	return count < UINT32_MAX - 1 ? (uint32_t)count : UINT32_MAX - 1;
}

static int fill(struct ky_forest *forest, ky_forest_row_fn row, struct ky_lane *lane,
		uint64_t count)
{
	uint64_t start_ns, length_ns;
	uint32_t end = row_count_of(count);
	int result;

	ky_forest_init(forest, row, lane);
	result = ky_forest_reserve(forest, end);
	for (uint32_t i = 0; i < end && !result; i++) {
		row(lane, i, &start_ns, &length_ns);
		result = ky_forest_add(forest, &start_ns, &length_ns, 1);
	}
	return result ? result : ky_forest_finish(forest);
}

/* The next polls, into both layers that are made of them. Not inlined: see walk_batch() in
 * read/delay.c. */
__attribute__((noinline)) static int add_polls(struct ky_lane *lane, struct ky_cursor *cursor,
					       uint32_t count)
{
	uint64_t starts_ns[ROWS_AT_ONCE], lengths_ns[ROWS_AT_ONCE], delays_ns[ROWS_AT_ONCE];
	struct ky_poll poll;
	int result;

	for (uint32_t i = 0; i < count; i++) {
		ky_trace_poll_at(lane->lanes->trace, lane->worker, cursor, &poll);
		starts_ns[i] = poll.start_ns;
		lengths_ns[i] = poll.duration_ns;
		delays_ns[i] = poll.delay_state ? 0 : poll.delay_ns;
		ky_cursor_next(cursor);
	}
	result = ky_forest_add(&lane->layers[KY_LAYER_MAIN], starts_ns, lengths_ns, count);
	return result ? result :
			ky_forest_add(&lane->layers[KY_LAYER_DELAY], starts_ns, delays_ns, count);
}

static int fill_polls(struct ky_lane *lane, const struct ky_column *polls)
{
	uint32_t count, left = row_count_of(polls->row_count);
	struct ky_cursor cursor;
	int result;

	ky_forest_init(&lane->layers[KY_LAYER_MAIN], poll_row, lane);
	ky_forest_init(&lane->layers[KY_LAYER_DELAY], delay_row, lane);
	result = ky_forest_reserve(&lane->layers[KY_LAYER_MAIN], left);
	if (!result)
		result = ky_forest_reserve(&lane->layers[KY_LAYER_DELAY], left);
	ky_cursor_begin(&cursor, polls, 0);
	for (; left && !result; left -= count) {
		count = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
		result = add_polls(lane, &cursor, count);
	}
	if (!result)
		result = ky_forest_finish(&lane->layers[KY_LAYER_MAIN]);
	return result ? result : ky_forest_finish(&lane->layers[KY_LAYER_DELAY]);
}

static bool has_run_delay(const struct ky_trace *trace, uint32_t worker)
{
	struct ky_park park;

	for (uint64_t row = 0; row < trace->workers[worker].parks.row_count; row++) {
		ky_trace_park(trace, worker, row, &park);
		if (park.sched_wait_ns && park.sched_wait_ns != UINT32_MAX)
			return true;
	}
	return false;
}

static int make_worker(struct ky_lane *lane)
{
	const struct ky_trace *trace = lane->lanes->trace;
	const struct ky_worker *worker = &trace->workers[lane->worker];
	int result = fill_polls(lane, &worker->polls);

	if (!result)
		result = fill(&lane->layers[KY_LAYER_PARK], park_row, lane,
			      worker->parks.row_count);
	if (!result && has_run_delay(trace, lane->worker))
		result = fill(&lane->layers[KY_LAYER_RUN_DELAY], run_delay_row, lane,
			      worker->parks.row_count);
	if (!result)
		result = fill(&lane->layers[KY_LAYER_OFF_CPU], off_cpu_row, lane, lane->row_count);
	return result;
}

static int put(uint32_t **rows, uint32_t *count, uint32_t *capacity, uint32_t row)
{
	int result = ky_grow(rows, capacity, *count + 1, sizeof(**rows));

	if (!result)
		(*rows)[(*count)++] = row;
	return result;
}

/* Samples are those of the lane with the worker's index; lanes of workers are the first ones. */
static int sort_samples(struct ky_lanes *lanes)
{
	const struct ky_samples *samples = &lanes->trace->samples;
	int result = 0;

	for (uint32_t i = 0; i < samples->row_count && !result; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		struct ky_lane *lane;

		if (row->worker >= lanes->trace->worker_count)
			continue;
		lane = &lanes->list[row->worker];
		if (row->kind == KY_STACK_CPU)
			result = put(&lane->cpu_rows, &lane->cpu_count, &lane->cpu_capacity, i);
		else if (row->kind == KY_STACK_OFF_CPU && row->poll_start_ns)
			result = put(&lane->rows, &lane->row_count, &lane->row_capacity, i);
	}
	return result;
}

/* ---- spans ---- */

struct named_total {
	uint64_t ns;
	uint32_t name, count;
};

static bool is_more(const void *one, const void *other, const void *ctx)
{
	const struct named_total *a = one, *b = other;

	(void)ctx;
	return a->ns != b->ns ? a->ns > b->ns : a->name < b->name;
}

/* Totals by name, most time first; *count of them that have a span. NULL: no memory. */
static struct named_total *span_totals(const struct ky_trace *trace, uint32_t *count)
{
	uint32_t names = ky_trace_name_count(trace) + 1, used = 0;
	struct named_total *totals = ky_alloc(names * sizeof(*totals));

	if (!totals)
		return NULL;
	for (uint32_t i = 0; i < trace->span_count; i++) {
		const struct ky_trace_span *span = &trace->spans[i];
		struct named_total *total = &totals[span->name < names ? span->name : names - 1];

		total->name = span->name;
		total->count++;
		if (__builtin_add_overflow(total->ns, span->duration_ns, &total->ns))
			total->ns = UINT64_MAX;
	}
	for (uint32_t i = 0; i < names; i++)
		if (totals[i].count)
			totals[used++] = totals[i];
	ky_sort(totals, used, sizeof(*totals), is_more, NULL);
	*count = used;
	return totals;
}

static int make_spans(struct ky_lanes *lanes, struct ky_lane *first, uint32_t count)
{
	const struct ky_trace *trace = lanes->trace;
	int result = 0;

	for (uint32_t i = 0; i < trace->span_count && !result; i++)
		for (uint32_t at = 0; at < count; at++)
			if (first[at].name == trace->spans[i].name) {
				result = put(&first[at].rows, &first[at].row_count,
					     &first[at].row_capacity, i);
				break;
			}
	for (uint32_t at = 0; at < count && !result; at++)
		result = fill(&first[at].layers[KY_LAYER_MAIN], span_row, &first[at],
			      first[at].row_count);
	return result;
}

/* ---- all ---- */

static int make(struct ky_lanes *lanes, const struct named_total *totals, uint32_t span_lanes)
{
	const struct ky_trace *trace = lanes->trace;
	uint32_t at = trace->worker_count;
	int result = sort_samples(lanes);

	for (uint32_t i = 0; i < trace->worker_count && !result; i++)
		result = make_worker(&lanes->list[i]);
	if (!result && trace->blocking_count) {
		lanes->list[at].kind = KY_LANE_BLOCKING;
		result = fill(&lanes->list[at].layers[KY_LAYER_MAIN], blocking_row,
			      &lanes->list[at], trace->blocking_count);
		at++;
	}
	for (uint32_t i = 0; i < span_lanes; i++) {
		lanes->list[at + i].kind = KY_LANE_SPANS;
		lanes->list[at + i].name = totals[i].name;
		lanes->list[at + i].total_ns = totals[i].ns;
	}
	if (!result)
		result = make_spans(lanes, &lanes->list[at], span_lanes);
	lanes->list[at + span_lanes].kind = KY_LANE_TASK;
	lanes->count = at + span_lanes + 1;
	return result;
}

int ky_lanes_open(struct ky_lanes **out, const struct ky_trace *trace)
{
	struct ky_lanes *lanes = ky_alloc(sizeof(*lanes));
	struct named_total *totals = NULL;
	uint32_t names = 0, span_lanes, lane_max;
	int result = lanes ? 0 : -ENOMEM;

	*out = NULL;
	if (!result)
		totals = span_totals(trace, &names);
	if (!totals) {
		ky_free(lanes);
		return -ENOMEM;
	}
	span_lanes = names < KY_LANES_SPAN_NAMES ? names : KY_LANES_SPAN_NAMES;
	lanes->span_names_more = names - span_lanes;
	lanes->trace = trace;
	lanes->task = KY_NONE;
	lane_max = trace->worker_count + span_lanes + 2;
	lanes->list = ky_alloc(lane_max * sizeof(*lanes->list));
	if (lanes->list) {
		lanes->count = lane_max;
		for (uint32_t i = 0; i < lane_max; i++)
			lanes->list[i] = (struct ky_lane){
				.lanes = lanes,
				.kind = KY_LANE_WORKER,
				.worker = i < trace->worker_count ? i : KY_NONE,
				.name = KY_NONE};
		result = make(lanes, totals, span_lanes);
	} else {
		result = -ENOMEM;
	}
	ky_free(totals);
	if (result)
		ky_lanes_close(lanes);
	else
		*out = lanes;
	return result;
}

void ky_lanes_close(struct ky_lanes *lanes)
{
	if (!lanes)
		return;
	for (uint32_t i = 0; i < lanes->count; i++) {
		for (uint32_t layer = 0; layer < KY_LANE_LAYERS; layer++)
			ky_forest_release(&lanes->list[i].layers[layer]);
		ky_free(lanes->list[i].rows);
		ky_free(lanes->list[i].cpu_rows);
	}
	ky_free(lanes->list);
	ky_free(lanes->task_polls);
	ky_free(lanes);
}

/* ---- the lane of a task ---- */

static bool is_earlier(const void *one, const void *other, const void *ctx)
{
	const struct ky_lane_task_poll *a = one, *b = other;

	(void)ctx;
	return a->start_ns != b->start_ns ? a->start_ns < b->start_ns : a->worker < b->worker;
}

static int collect(struct ky_lanes *lanes, uint32_t worker, uint32_t task)
{
	const struct ky_column *polls = &lanes->trace->workers[worker].polls;
	struct ky_cursor cursor;
	struct ky_poll poll;

	if (!ky_cursor_begin(&cursor, polls, 0))
		return 0;
	do {
		const struct ky_poll_row *row = (const void *)cursor.at;

		if (row->task != task)
			continue;
		if (lanes->task_poll_count == KY_TASK_POLLS_SHOWN)
			return 0;
		if (ky_grow(&lanes->task_polls, &lanes->task_poll_capacity,
			    lanes->task_poll_count + 1, sizeof(*lanes->task_polls)))
			return -ENOMEM;
		ky_trace_poll(lanes->trace, worker, cursor.row, &poll);
		lanes->task_polls[lanes->task_poll_count++] = (struct ky_lane_task_poll){
			.start_ns = poll.start_ns,
			.duration_ns = poll.duration_ns,
			.worker = worker,
			.row = (uint32_t)cursor.row};
	} while (ky_cursor_next(&cursor));
	return 0;
}

int ky_lanes_choose_task(struct ky_lanes *lanes, uint32_t task)
{
	struct ky_lane *lane = &lanes->list[lanes->count - 1];
	int result = 0;

	ky_forest_release(&lane->layers[KY_LAYER_MAIN]);
	ky_forest_release(&lane->layers[KY_LAYER_DELAY]);
	lanes->task_poll_count = 0;
	lanes->task = task;
	if (task >= lanes->trace->task_count)
		return 0;
	for (uint32_t i = 0; i < lanes->trace->worker_count && !result; i++)
		result = collect(lanes, i, task);
	if (!result) {
		ky_sort(lanes->task_polls, lanes->task_poll_count, sizeof(*lanes->task_polls),
			is_earlier, NULL);
		result = fill(&lane->layers[KY_LAYER_MAIN], task_poll_row, lane,
			      lanes->task_poll_count);
	}
	return result ? result :
			fill(&lane->layers[KY_LAYER_DELAY], task_delay_row, lane,
			     lanes->task_poll_count);
}

/* ---- questions ---- */

uint32_t ky_lane_item(const struct ky_lane *lane, enum ky_lane_layer layer, uint32_t row,
		      uint32_t *worker)
{
	*worker = lane->worker;
	if (lane->kind == KY_LANE_TASK && row < lane->lanes->task_poll_count) {
		*worker = lane->lanes->task_polls[row].worker;
		return lane->lanes->task_polls[row].row;
	}
	if (lane->kind == KY_LANE_SPANS || layer == KY_LAYER_OFF_CPU)
		return row < lane->row_count ? lane->rows[row] : UINT32_MAX;
	return row;
}

static uint32_t find_sample(const struct ky_lane *lane, uint64_t time_ns)
{
	const struct ky_stack_row *rows = lane->lanes->trace->samples.rows;
	uint32_t low = 0, high = lane->cpu_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (rows[lane->cpu_rows[middle]].time_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t ky_lane_cpu_samples(const struct ky_lane *lane, uint64_t from_ns, uint64_t to_ns)
{
	if (!lane->cpu_count)
		return 0;
	return find_sample(lane, to_ns) - find_sample(lane, from_ns);
}
