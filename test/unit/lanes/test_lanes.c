/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Over a trace that another project recorded: every layer of every lane against a look at all rows
 * of the trace, and the JSON of single things. */
#include "../../lib/cmocka_all.h"
#include "../read/dial9_case.h"

#include <base/alloc.h>
#include <errno.h>
#include <lanes/lanes_json.h>
#include <lanes/poll_facts.h>
#include <string.h>

#define VIEWS 1000u
#define PIXELS_MAX 40u

static struct ky_trace *trace;
static struct ky_symbol_table *symbols;
static struct ky_lanes *lanes;
static uint64_t random_state = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return below ? random_state % below : 0;
}

static int open_all(void **state)
{
	struct ky_trace_options options = {0};
	struct ky_byte_source source;
	size_t count;
	uint8_t *bytes = dial9_bytes(DIAL9_057, &count);
	int result;

	(void)state;
	if (!bytes || ky_symbol_table_open(&symbols, 0))
		return -1;
	options.symbols = symbols;
	result = ky_byte_source_memory(&source, bytes, count, "trace");
	if (!result)
		result = ky_trace_open(&trace, &source, 1, &options);
	source.close(source.ctx);
	free(bytes);
	return result ? result : ky_lanes_open(&lanes, trace);
}

static int close_all(void **state)
{
	(void)state;
	ky_lanes_close(lanes);
	ky_trace_close(trace);
	ky_symbol_table_close(symbols);
	return 0;
}

/* Length of the longest row of a layer in [from, to), by a look at all of them, and how many rows
 * are of that length. */
static uint64_t oracle(const struct ky_lane *lane, uint32_t layer, uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_forest *forest = &lane->layers[layer];
	uint64_t carried_ns = 0, carried_end = 0, longest_ns = 0;

	for (uint32_t row = 0; row < forest->row_count; row++) {
		uint64_t start_ns, length_ns;

		forest->row(forest->ctx, row, &start_ns, &length_ns);
		if (start_ns >= to_ns)
			break;
		if (start_ns >= from_ns) {
			longest_ns = length_ns > longest_ns ? length_ns : longest_ns;
		} else if (start_ns + length_ns > from_ns && start_ns + length_ns > carried_end) {
			carried_end = start_ns + length_ns;
			carried_ns = length_ns;
		}
	}
	return carried_ns > longest_ns ? carried_ns : longest_ns;
}

static void check_view(const struct ky_lane *lane, uint32_t layer, const struct ky_view *view)
{
	static struct ky_strip_pixel strip[PIXELS_MAX];
	uint32_t pixel = (uint32_t)draw(view->pixels);

	ky_strip_make(strip, &lane->layers[layer], view);
	assert_int_equal(strip[pixel].length_ns, oracle(lane, layer, ky_view_edge(view, pixel),
							ky_view_edge(view, pixel + 1)));
}

static void lanes__show_the_longest_of_each_pixel_at_any_zoom(void **state)
{
	uint64_t length_ns = trace->run_last_ns - trace->run_first_ns;

	(void)state;
	for (uint32_t i = 0; i < VIEWS; i++) {
		struct ky_view view = {.pixels = 1 + (uint32_t)draw(PIXELS_MAX)};
		uint64_t wide_ns = length_ns >> draw(24);

		view.from_ns = trace->run_first_ns + draw(length_ns);
		view.to_ns = view.from_ns + PIXELS_MAX + draw(wide_ns);
		check_view(&lanes->list[draw(lanes->count)], (uint32_t)draw(KY_LANE_LAYERS), &view);
	}
}

static void lanes__hold_every_poll_span_and_sample(void **state)
{
	uint64_t polls = 0, spans = 0, cpu = 0;

	(void)state;
	for (uint32_t i = 0; i < lanes->count; i++) {
		const struct ky_lane *lane = &lanes->list[i];

		cpu += lane->cpu_count;
		assert_int_equal(ky_lane_cpu_samples(lane, 0, UINT64_MAX), lane->cpu_count);
		if (lane->kind == KY_LANE_WORKER)
			polls += lane->layers[KY_LAYER_MAIN].row_count;
		else if (lane->kind == KY_LANE_SPANS)
			spans += lane->layers[KY_LAYER_MAIN].row_count;
	}
	assert_int_equal(polls, trace->polls);
	assert_int_equal(spans, trace->span_count);
	assert_true(cpu > 0 && cpu <= trace->samples.counts[KY_STACK_CPU]);
	assert_int_equal(lanes->list[lanes->count - 1].kind, KY_LANE_TASK);
}

static uint32_t busiest_task(void)
{
	uint32_t best = 0;

	for (uint32_t i = 0; i < trace->task_count; i++)
		if (trace->tasks[i].poll_count > trace->tasks[best].poll_count)
			best = i;
	return best;
}

static void lane_of_a_task__has_its_polls_of_all_workers(void **state)
{
	const struct ky_lane *lane = &lanes->list[lanes->count - 1];
	uint32_t task = busiest_task(), worker, workers = 0, last_worker = KY_NONE;
	struct ky_poll poll;

	(void)state;
	assert_int_equal(ky_lanes_choose_task(lanes, task), 0);
	assert_int_equal(lane->layers[KY_LAYER_MAIN].row_count, trace->tasks[task].poll_count);
	for (uint32_t row = 0; row < lanes->task_poll_count; row++) {
		uint32_t item = ky_lane_item(lane, KY_LAYER_MAIN, row, &worker);

		ky_trace_poll(trace, worker, item, &poll);
		assert_int_equal(poll.task, task);
		workers += worker != last_worker;
		last_worker = worker;
	}
	assert_true(workers > 1);
	for (uint32_t i = 0; i < 100; i++) {
		struct ky_view view = {.from_ns = trace->run_first_ns + draw(1u << 30),
				       .pixels = PIXELS_MAX};

		view.to_ns = view.from_ns + PIXELS_MAX + draw(1u << 28);
		check_view(lane, KY_LAYER_MAIN, &view);
		check_view(lane, KY_LAYER_DELAY, &view);
	}
	assert_int_equal(ky_lanes_choose_task(lanes, KY_NONE), 0);
	assert_int_equal(lane->layers[KY_LAYER_MAIN].row_count, 0);
}

static _Bool refuse(size_t bytes)
{
	(void)bytes;
	return draw(200) != 0;
}

/* Whatever allocation fails, nothing is lost or used after. */
static void lanes__open_or_say_that_memory_is_out(void **state)
{
	struct ky_lanes *other;
	uint32_t failed = 0;

	(void)state;
	for (uint32_t i = 0; i < 20; i++) {
		ky_alloc_hook = refuse;
		failed += ky_lanes_open(&other, trace) == -ENOMEM;
		ky_alloc_hook = NULL;
		ky_lanes_close(other);
	}
	assert_true(failed > 0);
}

static bool says(const struct ky_buf *json, const char *text)
{
	return memmem(json->bytes, json->used, text, strlen(text)) != NULL;
}

static void json__has_lanes_names_and_words(void **state)
{
	struct ky_buf json;

	(void)state;
	ky_buf_init(&json, 0);
	ky_lanes_json(&json, lanes);
	assert_int_equal(json.failed, 0);
	assert_true(says(&json, "\"events\":572815,\"polls\":99717"));
	assert_true(says(&json, "\"kind\":\"worker\",\"rows\":49094"));
	assert_true(says(&json, "\"runtime_name\":\"io\""));
	assert_true(says(&json, "\"text\":\"examples/metrics-service/src/main.rs:334:14\""));
	assert_true(says(&json, "\"start_unix_ns\":\"1"));
	assert_true(says(&json, "\"behind_poll.on_cpu\":\""));
	ky_buf_release(&json);
}

static void poll__is_found_by_its_task_and_time(void **state)
{
	uint32_t worker;
	uint64_t row;

	(void)state;
	for (uint32_t i = 0; i < 200; i++) {
		struct ky_poll poll, found;
		uint32_t of = (uint32_t)draw(2);
		uint64_t at = draw(trace->workers[of].polls.row_count);

		ky_trace_poll(trace, of, at, &poll);
		assert_true(ky_facts_find_poll(trace, trace->tasks[poll.task].id, poll.start_ns,
					       &worker, &row));
		ky_trace_poll(trace, worker, row, &found);
		assert_int_equal(found.start_ns, poll.start_ns);
		assert_int_equal(found.task, poll.task);
	}
	assert_false(ky_facts_find_poll(trace, 987654321, trace->run_first_ns, &worker, &row));
}

static void facts__name_the_poll_its_task_and_what_ran(void **state)
{
	struct ky_code_stacks stacks;
	struct ky_buf json;
	uint32_t worker, with_frames = 0;
	uint64_t row;

	(void)state;
	assert_int_equal(ky_code_stacks_make(&stacks, trace, symbols), 0);
	ky_buf_init(&json, 0);
	assert_true(ky_facts_find_poll(trace, 9, trace->run_first_ns, &worker, &row));
	ky_poll_facts_json(&json, trace, worker, row, &stacks);
	assert_int_equal(json.failed, 0);
	assert_true(says(&json, "\"duration_ns\":32334125"));
	assert_true(says(&json, "\"name\":\"examples/metrics-service/src/main.rs:334:14\""));
	for (uint32_t i = 0; i < 2000; i++) {
		ky_buf_clear(&json);
		ky_poll_facts_json(&json, trace, 0, i, &stacks);
		with_frames += says(&json, "\"frames\":[{\"name\":\"");
	}
	assert_int_equal(json.failed, 0);
	assert_true(with_frames > 0);
	ky_buf_clear(&json);
	ky_span_facts_json(&json, trace, 0);
	assert_true(says(&json, "\"id\":\"span:"));
	ky_buf_release(&json);
	ky_code_stacks_release(&stacks);
}

static void search__finds_tasks_places_spans_and_functions(void **state)
{
	struct ky_code_stacks stacks;
	struct ky_buf json;

	(void)state;
	assert_int_equal(ky_code_stacks_make(&stacks, trace, symbols), 0);
	ky_buf_init(&json, 0);
	ky_facts_search_json(&json, lanes, "9", &stacks);
	assert_true(says(&json, "\"kind\":\"task\""));
	ky_buf_clear(&json);
	ky_facts_search_json(&json, lanes, "MAIN.RS:334", &stacks);
	assert_true(says(&json, "\"kind\":\"kind\""));
	ky_buf_clear(&json);
	ky_facts_search_json(&json, lanes, "flush_to_ddb", &stacks);
	assert_true(says(&json, "\"kind\":\"spans\""));
	ky_buf_clear(&json);
	ky_facts_search_json(&json, lanes, "metrics_service", &stacks);
	assert_true(says(&json, "\"kind\":\"function\""));
	ky_buf_clear(&json);
	ky_facts_search_json(&json, lanes, "no such thing", &stacks);
	assert_int_equal(json.used, 2);
	ky_buf_release(&json);
	ky_code_stacks_release(&stacks);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lanes__show_the_longest_of_each_pixel_at_any_zoom),
		cmocka_unit_test(lanes__hold_every_poll_span_and_sample),
		cmocka_unit_test(lane_of_a_task__has_its_polls_of_all_workers),
		cmocka_unit_test(lanes__open_or_say_that_memory_is_out),
		cmocka_unit_test(json__has_lanes_names_and_words),
		cmocka_unit_test(poll__is_found_by_its_task_and_time),
		cmocka_unit_test(facts__name_the_poll_its_task_and_what_ran),
		cmocka_unit_test(search__finds_tasks_places_spans_and_functions),
	};

	return cmocka_run_group_tests_name("lanes", tests, open_all, close_all);
}
