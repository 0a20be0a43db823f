/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <lanes/series.h>
#include <string.h>

static struct ky_task tasks[4];
static struct ky_trace trace;

static int setup(void **state)
{
	(void)state;
	memset(&trace, 0, sizeof(trace));
	memset(tasks, 0, sizeof(tasks));
	trace.tasks = tasks;
	trace.task_count = 4;
	trace.run_first_ns = 1000;
	trace.run_last_ns = 1000 + KY_READY_BUCKETS * 10;
	return 0;
}

static void alive__counts_tasks_between_spawn_and_end(void **state)
{
	struct ky_view view = {.from_ns = 1000, .to_ns = 1500, .pixels = 5};
	struct ky_series series;
	uint32_t values[5];

	(void)state;
	tasks[0].first_ns = 1000;
	tasks[1].first_ns = 1110;
	tasks[1].end_ns = 1250;
	tasks[2].first_ns = 1120;
	tasks[2].end_ns = 1130;
	tasks[3].first_ns = 1140;
	tasks[3].flags = KY_TASK_BLOCKING;
	assert_int_equal(ky_series_alive(&series, &trace), 0);
	ky_series_values(values, &series, &view);
	assert_int_equal(values[0], 1000);
	assert_int_equal(values[1], 3000);
	assert_int_equal(values[2], 2000);
	assert_int_equal(values[3], 1000);
	assert_int_equal(values[4], 1000);
	assert_int_equal(series.max, 3000);
	ky_series_release(&series);
}

static void alive__of_no_task_is_nothing(void **state)
{
	struct ky_view view = {.from_ns = 1000, .to_ns = 1500, .pixels = 1};
	struct ky_series series;
	uint32_t value = 7;

	(void)state;
	trace.task_count = 0;
	assert_int_equal(ky_series_alive(&series, &trace), 0);
	ky_series_values(&value, &series, &view);
	assert_int_equal(value, 0);
	ky_series_release(&series);
}

static void put_poll(struct ky_worker *worker, uint64_t start_ns, uint32_t delay_ns)
{
	struct ky_poll_row *row = ky_column_append(&worker->polls, start_ns);

	assert_non_null(row);
	row->duration_ns = 1;
	row->task = 0;
	row->site = 0xffffff;
	*ky_column_extra(&worker->polls, worker->polls.row_count - 1) = delay_ns;
}

/* Two tasks wait through one bucket, one through half of the next. */
static void ready__is_the_mean_of_known_delays(void **state)
{
	const uint64_t wide = 11; /* of a bucket */
	struct ky_worker worker = {.id = 1};
	struct ky_view view = {.from_ns = 1000, .to_ns = 1000 + 4 * 11, .pixels = 4};
	struct ky_series series;
	uint32_t values[4];

	(void)state;
	ky_pages_init(&trace.pages, 1u << 24);
	worker.polls.has_extra = true;
	ky_column_init(&worker.polls, &trace.pages, sizeof(struct ky_poll_row));
	worker.polls.has_extra = true;
	trace.workers = &worker;
	trace.worker_count = 1;
	put_poll(&worker, 1000 + 2 * wide, (uint32_t)wide);
	put_poll(&worker, 1000 + 3 * wide - 5, (uint32_t)(2 * wide - 5));
	put_poll(&worker, 1000 + 3 * wide, KY_DELAY_NO_WAKE);
	assert_int_equal(ky_series_ready(&series, &trace), 0);
	ky_series_values(values, &series, &view);
	assert_int_equal(values[0], 0);
	assert_int_equal(values[1], 2000);
	assert_int_equal(values[2], 6 * 1000 / 11);
	assert_int_equal(values[3], 0);
	ky_series_release(&series);
	ky_column_release(&worker.polls);
	ky_pages_release(&trace.pages);
}

#define WIDE 11u /* of a bucket */
#define BUCKETS 64u
#define WORKERS 3u

static uint32_t draw_below(uint32_t bound)
{
	static uint32_t state = 12345;

	state = state * 1664525u + 1013904223u;
	return (state >> 8) % bound;
}

/* What of [from, to) lies in a bucket. */
static uint64_t overlap(uint64_t from_ns, uint64_t to_ns, uint32_t bucket)
{
	uint64_t begin_ns = 1000 + (uint64_t)bucket * WIDE, end_ns = begin_ns + WIDE;

	from_ns = from_ns > begin_ns ? from_ns : begin_ns;
	to_ns = to_ns < end_ns ? to_ns : end_ns;
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

static void ready__is_what_a_look_at_every_delay_finds(void **state)
{
	struct ky_view view = {.from_ns = 1000, .to_ns = 1000 + BUCKETS * WIDE, .pixels = BUCKETS};
	struct ky_worker workers[WORKERS] = {{.id = 0}, {.id = 1}, {.id = 2}};
	uint64_t sums_ns[BUCKETS] = {0};
	uint32_t values[BUCKETS];
	struct ky_series series;

	(void)state;
	ky_pages_init(&trace.pages, 1u << 24);
	trace.workers = workers;
	trace.worker_count = WORKERS;
	for (uint32_t i = 0; i < WORKERS; i++) {
		uint64_t time_ns = 1000;

		ky_column_init(&workers[i].polls, &trace.pages, sizeof(struct ky_poll_row));
		workers[i].polls.has_extra = true;
		while (time_ns < 1000 + BUCKETS * WIDE) {
			uint32_t delay_ns = draw_below(draw_below(4) ? WIDE : 6 * WIDE);

			put_poll(&workers[i], time_ns, delay_ns);
			for (uint32_t at = 0; at < BUCKETS; at++)
				sums_ns[at] += overlap(time_ns - delay_ns, time_ns, at);
			time_ns += draw_below(draw_below(8) ? 4 : 3 * WIDE);
		}
	}
	assert_int_equal(ky_series_ready(&series, &trace), 0);
	ky_series_values(values, &series, &view);
	for (uint32_t at = 0; at < BUCKETS; at++)
		assert_int_equal(values[at], sums_ns[at] * 1000 / WIDE);
	ky_series_release(&series);
	for (uint32_t i = 0; i < WORKERS; i++)
		ky_column_release(&workers[i].polls);
	ky_pages_release(&trace.pages);
}

int main(void)
{
#define CASE(fn) cmocka_unit_test_setup(fn, setup)
	const struct CMUnitTest tests[] = {
		CASE(alive__counts_tasks_between_spawn_and_end),
		CASE(alive__of_no_task_is_nothing),
		CASE(ready__is_the_mean_of_known_delays),
		CASE(ready__is_what_a_look_at_every_delay_finds),
	};

	return cmocka_run_group_tests_name("series", tests, NULL, NULL);
}
