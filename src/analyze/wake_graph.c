/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/wake_graph.h>

#include <analyze/poll_homes.h>
#include <base/alloc.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

#define SLOTS_MIN 64u

/* A measured delay, until its wake is found. */
struct ready_row {
	uint64_t ready_ns, delay_ns;
	uint32_t task, edge; /* edge KY_NONE: its wake is not among those of the range */
	uint32_t apart_ns;   /* from the wake that is nearest so far */
};

struct graph_making {
	struct ky_wake_graph *graph;
	const struct ky_trace *trace;
	uint64_t from_ns, to_ns;
	uint32_t *slots; /* number of an edge + 1 */
	uint32_t slot_count;
	struct ready_row *rows; /* by task, then ready_ns */
	uint64_t row_count;
};

static uint32_t slot_of(const struct graph_making *making, const struct ky_wake_edge *edge)
{
	uint64_t hash = ((uint64_t)edge->waker << 32 | edge->woken) * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t slot = (uint32_t)(hash >> 32) & (making->slot_count - 1);

	while (making->slots[slot]) {
		const struct ky_wake_edge *other = &making->graph->edges[making->slots[slot] - 1];

		if (other->waker == edge->waker && other->woken == edge->woken &&
		    other->is_task == edge->is_task)
			break;
		slot = (slot + 1) & (making->slot_count - 1);
	}
	return slot;
}

static bool grow_slots(struct graph_making *making)
{
	uint32_t count = making->slot_count ? making->slot_count * 2 : SLOTS_MIN;
	uint32_t *slots = ky_alloc(count * sizeof(*slots));

	if (!slots)
		return false;
	ky_free(making->slots);
	making->slots = slots;
	making->slot_count = count;
	for (uint32_t i = 0; i < making->graph->count; i++)
		making->slots[slot_of(making, &making->graph->edges[i])] = i + 1;
	return true;
}

/* Number of the edge; KY_NONE: memory is short. */
static uint32_t edge_of(struct graph_making *making, const struct ky_wake *wake)
{
	struct ky_wake_graph *graph = making->graph;
	const struct ky_task *tasks = making->trace->tasks;
	struct ky_wake_edge edge = {.woken = tasks[wake->woken].name,
				    .waker = KY_NONE,
				    .is_task = wake->waker != KY_NONE,
				    .max_task = KY_NONE};
	uint32_t slot;

	if (edge.is_task)
		edge.waker = tasks[wake->waker].name;
	if ((!making->slots || (graph->count + 1) * 2 > making->slot_count) && !grow_slots(making))
		return KY_NONE;
	slot = slot_of(making, &edge);
	if (!making->slots[slot]) {
		if (ky_grow(&graph->edges, &graph->capacity, graph->count + 1, sizeof(edge)))
			return KY_NONE;
		graph->edges[graph->count++] = edge;
		making->slots[slot] = graph->count;
	}
	return making->slots[slot] - 1;
}

/* ---- delays ---- */

static bool is_row_before(const void *a, const void *b, const void *ctx)
{
	const struct ready_row *one = a, *other = b;

	(void)ctx;
	if (one->task != other->task)
		return one->task < other->task;
	return one->ready_ns < other->ready_ns;
}

/* Polls from the first row on whose wake may lie in the range; rows NULL: counts them. */
static void collect(struct graph_making *making, struct ready_row *rows)
{
	const struct ky_trace *trace = making->trace;
	struct ky_poll poll;

	making->row_count = 0;
	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;

		for (uint64_t row = ky_column_find(polls, making->from_ns); row < polls->row_count;
		     row++) {
			uint64_t ready_ns;

			ky_trace_poll(trace, worker, row, &poll);
			ready_ns = poll.start_ns - poll.delay_ns;
			if (poll.delay_state || ready_ns < making->from_ns ||
			    ready_ns >= making->to_ns)
				continue;
			if (rows)
				rows[making->row_count] = (struct ready_row){
					ready_ns, poll.delay_ns, poll.task, KY_NONE, 0};
			making->row_count++;
		}
	}
}

static int collect_delays(struct graph_making *making)
{
	collect(making, NULL);
	making->rows = ky_alloc((making->row_count + 1) * sizeof(*making->rows));
	if (!making->rows)
		return -ENOMEM;
	collect(making, making->rows);
	ky_sort(making->rows, making->row_count, sizeof(*making->rows), is_row_before, NULL);
	return 0;
}

/* Gives the wake to the delays that begin near it, of which it is the nearest wake. */
static void take_delays(struct graph_making *making, const struct ky_wake *wake, uint32_t edge)
{
	const struct ready_row wanted = {.task = wake->woken,
					 .ready_ns = wake->time_ns < KY_WAKE_NEAR_NS ?
							     0 :
							     wake->time_ns - KY_WAKE_NEAR_NS + 1};
	uint64_t low = 0, high = making->row_count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (is_row_before(&making->rows[middle], &wanted, NULL))
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < making->row_count && making->rows[low].task == wake->woken &&
	       making->rows[low].ready_ns < wake->time_ns + KY_WAKE_NEAR_NS;
	     low++) {
		struct ready_row *row = &making->rows[low];
		uint32_t apart_ns = (uint32_t)(row->ready_ns < wake->time_ns ?
						       wake->time_ns - row->ready_ns :
						       row->ready_ns - wake->time_ns);

		if (row->edge == KY_NONE || apart_ns < row->apart_ns) {
			row->edge = edge;
			row->apart_ns = apart_ns;
		}
	}
}

static bool is_delay_before(const void *a, const void *b, const void *ctx)
{
	const struct ready_row *one = a, *other = b;

	(void)ctx;
	if (one->edge != other->edge)
		return one->edge < other->edge;
	if (one->delay_ns != other->delay_ns)
		return one->delay_ns < other->delay_ns;
	return one->ready_ns > other->ready_ns;
}

/* Smallest value that so many hundredths of the rows are not above. */
static uint64_t quantile(const struct ready_row *rows, uint64_t count, uint64_t hundredths)
{
	return rows[(count * hundredths + 99) / 100 - 1].delay_ns;
}

static void add_delays(struct graph_making *making)
{
	ky_sort(making->rows, making->row_count, sizeof(*making->rows), is_delay_before, NULL);
	for (uint64_t i = 0; i < making->row_count && making->rows[i].edge != KY_NONE;) {
		const struct ready_row *first = &making->rows[i], *last;
		struct ky_wake_edge *edge = &making->graph->edges[first->edge];

		for (; i < making->row_count && making->rows[i].edge == first->edge; i++)
			edge->delay_ns += making->rows[i].delay_ns;
		last = &making->rows[i - 1];
		edge->delays = (uint64_t)(last - first) + 1;
		edge->p50_ns = quantile(first, edge->delays, 50);
		edge->p99_ns = quantile(first, edge->delays, 99);
		edge->max_ns = last->delay_ns;
		edge->max_ready_ns = last->ready_ns;
		edge->max_task = last->task;
	}
}

/* ---- wakes ---- */

static int add_wakes(struct graph_making *making)
{
	const struct ky_trace *trace = making->trace;
	struct ky_wake wake;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *wakes = &trace->workers[worker].wakes;

		for (uint64_t row = ky_column_find(wakes, making->from_ns); row < wakes->row_count;
		     row++) {
			uint32_t edge;

			ky_trace_wake(trace, worker, row, &wake);
			if (wake.time_ns >= making->to_ns)
				break;
			edge = edge_of(making, &wake);
			if (edge == KY_NONE)
				return -ENOMEM;
			making->graph->edges[edge].wakes++;
			take_delays(making, &wake, edge);
		}
	}
	return 0;
}

static bool is_edge_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_wake_edge *one = a, *other = b;
	const struct ky_trace *trace = ctx;
	int order;

	if (one->wakes != other->wakes)
		return one->wakes > other->wakes;
	order = strcmp(ky_trace_name(trace, one->woken), ky_trace_name(trace, other->woken));
	if (!order)
		order = strcmp(ky_trace_name(trace, one->waker),
			       ky_trace_name(trace, other->waker));
	return order ? order < 0 : one->is_task > other->is_task;
}

int ky_wake_graph_make(struct ky_wake_graph *out, const struct ky_trace *trace, uint64_t from_ns,
		       uint64_t to_ns)
{
	struct graph_making making = {
		.graph = out, .trace = trace, .from_ns = from_ns, .to_ns = to_ns};
	int code;

	*out = (struct ky_wake_graph){0};
	if (!to_ns)
		making.to_ns = UINT64_MAX;
	code = collect_delays(&making);
	if (!code)
		code = add_wakes(&making);
	if (!code) {
		add_delays(&making);
		ky_sort(out->edges, out->count, sizeof(*out->edges), is_edge_before, trace);
	}
	ky_free(making.rows);
	ky_free(making.slots);
	if (code)
		ky_wake_graph_release(out);
	return code;
}

void ky_wake_graph_release(struct ky_wake_graph *graph)
{
	ky_free(graph->edges);
	*graph = (struct ky_wake_graph){0};
}
