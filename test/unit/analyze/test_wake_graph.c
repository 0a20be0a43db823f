/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Over a trace that another project recorded: every edge against a look at all wakes and polls. */
#include "../../lib/cmocka_all.h"
#include "../read/dial9_case.h"

#include <analyze/poll_homes.h>
#include <analyze/wake_graph.h>
#include <read/symbol_table.h>
#include <stdlib.h>

static struct ky_trace *trace;

static int open_all(void **state)
{
	struct ky_trace_options options = {0};
	struct ky_byte_source source;
	size_t count;
	uint8_t *bytes = dial9_bytes(DIAL9_057, &count);
	int result;

	(void)state;
	if (!bytes)
		return -1;
	result = ky_byte_source_memory(&source, bytes, count, "trace");
	if (!result)
		result = ky_trace_open(&trace, &source, 1, &options);
	source.close(source.ctx);
	free(bytes);
	return result;
}

static int close_all(void **state)
{
	(void)state;
	ky_trace_close(trace);
	return 0;
}

static bool is_of(const struct ky_wake_edge *edge, const struct ky_wake *wake)
{
	uint32_t waker = wake->waker == KY_NONE ? KY_NONE : trace->tasks[wake->waker].name;

	return edge->woken == trace->tasks[wake->woken].name && edge->waker == waker &&
	       edge->is_task == (wake->waker != KY_NONE);
}

static uint64_t count_wakes(const struct ky_wake_edge *edge, uint64_t from_ns, uint64_t to_ns)
{
	struct ky_wake wake;
	uint64_t count = 0;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		for (uint64_t row = 0; row < trace->workers[worker].wakes.row_count; row++) {
			ky_trace_wake(trace, worker, row, &wake);
			count += wake.time_ns >= from_ns && wake.time_ns < to_ns &&
				 (!edge || is_of(edge, &wake));
		}
	return count;
}

static void wake_graph__has_every_wake_once(void **state)
{
	uint64_t middle = trace->run_first_ns + (trace->run_last_ns - trace->run_first_ns) / 2;
	const uint64_t ranges[][2] = {{0, 0}, {trace->run_first_ns, middle}, {middle, 0}};

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		uint64_t from_ns = ranges[i][0], to_ns = ranges[i][1] ? ranges[i][1] : UINT64_MAX;
		struct ky_wake_graph graph;
		uint64_t sum = 0;

		assert_int_equal(ky_wake_graph_make(&graph, trace, from_ns, ranges[i][1]), 0);
		assert_true(graph.count > 3);
		for (uint32_t edge = 0; edge < graph.count; edge++) {
			assert_int_equal(graph.edges[edge].wakes,
					 count_wakes(&graph.edges[edge], from_ns, to_ns));
			if (edge)
				assert_true(graph.edges[edge].wakes <= graph.edges[edge - 1].wakes);
			sum += graph.edges[edge].wakes;
		}
		assert_int_equal(sum, count_wakes(NULL, from_ns, to_ns));
		ky_wake_graph_release(&graph);
	}
}

/* The edge of the wake that is nearest to the moment; KY_NONE: there is none near. */
static uint32_t edge_at(const struct ky_wake_graph *graph, uint32_t task, uint64_t ready_ns)
{
	uint64_t nearest_ns = KY_WAKE_NEAR_NS;
	uint32_t found = KY_NONE;
	struct ky_wake wake;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		for (uint64_t row = 0; row < trace->workers[worker].wakes.row_count; row++) {
			uint64_t apart_ns;

			ky_trace_wake(trace, worker, row, &wake);
			apart_ns = wake.time_ns < ready_ns ? ready_ns - wake.time_ns :
							     wake.time_ns - ready_ns;
			if (wake.woken != task || apart_ns >= nearest_ns)
				continue;
			nearest_ns = apart_ns;
			for (found = 0; !is_of(&graph->edges[found], &wake); found++)
				;
		}
	return found;
}

/* Of every 97th poll, as all wakes are looked at for each. */
static void wake_graph__says_how_long_the_woken_ones_waited(void **state)
{
	struct ky_wake_graph graph;
	uint64_t delays = 0, found = 0;
	struct ky_poll poll;

	(void)state;
	assert_int_equal(ky_wake_graph_make(&graph, trace, 0, 0), 0);
	for (uint32_t i = 0; i < graph.count; i++) {
		const struct ky_wake_edge *edge = &graph.edges[i];

		assert_true(edge->delays <= edge->wakes);
		assert_true(edge->p50_ns <= edge->p99_ns && edge->p99_ns <= edge->max_ns);
		assert_true(edge->delay_ns >= edge->max_ns);
		if (edge->delays)
			assert_int_equal(edge_at(&graph, edge->max_task, edge->max_ready_ns), i);
		delays += edge->delays;
	}
	for (uint64_t row = 0; row < trace->workers[0].polls.row_count; row += 97) {
		uint32_t at;

		ky_trace_poll(trace, 0, row, &poll);
		if (poll.delay_state)
			continue;
		at = edge_at(&graph, poll.task, poll.start_ns - poll.delay_ns);
		if (at == KY_NONE)
			continue;
		found++;
		assert_true(graph.edges[at].delays && poll.delay_ns <= graph.edges[at].max_ns);
	}
	assert_true(found > 20 && delays > found);
	ky_wake_graph_release(&graph);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wake_graph__has_every_wake_once),
		cmocka_unit_test(wake_graph__says_how_long_the_woken_ones_waited),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("wake_graph", tests, open_all, close_all);
}
