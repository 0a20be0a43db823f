/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Over a trace that another project recorded: every pixel against a look at all points. */
#include "../../lib/cmocka_all.h"
#include "../read/dial9_case.h"

#include <errno.h>
#include <lanes/points.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIXELS 37u

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

static void compare(const struct ky_points *points, const struct ky_view *view)
{
	struct ky_points_pixel pixels[PIXELS];

	ky_points_pixels(pixels, points, view);
	for (uint32_t i = 0; i < PIXELS; i++) {
		uint64_t from_ns = ky_view_edge(view, i), to_ns = ky_view_edge(view, i + 1);
		uint32_t count = 0, row = UINT32_MAX;
		double low = 0, high = 0, last = 0;
		bool has_any = false;

		for (uint32_t k = 0; k < points->count && points->times_ns[k] < to_ns; k++) {
			double value = points->values[k];
			bool is_in = points->times_ns[k] >= from_ns;

			if (is_in && !count++)
				row = points->rows[k];
			low = !is_in || !has_any || value < low ? value : low;
			high = !is_in || !has_any || value > high ? value : high;
			last = value;
			has_any = true;
		}
		assert_int_equal(pixels[i].count, count);
		assert_int_equal(pixels[i].row, row);
		assert_int_equal(pixels[i].last == pixels[i].last, has_any);
		if (!has_any)
			continue;
		assert_true(pixels[i].low == low && pixels[i].high == high);
		assert_true(pixels[i].last == last);
	}
}

static void points__of_a_pixel_are_what_a_look_at_all_finds(void **state)
{
	uint64_t span = trace->run_last_ns - trace->run_first_ns;
	uint32_t seen = 0;

	(void)state;
	for (uint32_t index = 0; index < trace->queue_count; index++) {
		struct ky_points points;

		assert_int_equal(ky_points_make(&points, trace, KY_POINTS_QUEUE, index, 0), 0);
		seen += points.count;
		for (uint64_t part = 1; part < 300; part *= 3) {
			struct ky_view view = {trace->run_first_ns + span / 3,
					       trace->run_first_ns + span / 3 + span / part,
					       PIXELS};

			compare(&points, &view);
		}
		ky_points_release(&points);
	}
	assert_true(seen > 100);
}

static uint32_t count_of(const char *text, const char *part)
{
	uint32_t count = 0;

	while ((text = strstr(text, part)) != NULL) {
		text += strlen(part);
		count++;
	}
	return count;
}

static void points__within_a_time_are_counted_and_the_first_listed(void **state)
{
	uint64_t span = trace->run_last_ns - trace->run_first_ns;
	struct ky_points points;
	struct ky_buf out;

	(void)state;
	ky_buf_init(&out, 0);
	assert_int_equal(ky_points_make(&points, trace, KY_POINTS_EVENTS, 0, 0), 0);
	assert_true(points.count > 10);
	for (uint64_t part = 1; part < 300; part *= 3) {
		uint64_t from_ns = trace->run_first_ns + span / 3, to_ns = from_ns + span / part;
		uint32_t count = 0;
		char said[32];

		for (uint32_t i = 0; i < points.count; i++)
			count += points.times_ns[i] >= from_ns && points.times_ns[i] <= to_ns;
		ky_buf_clear(&out);
		ky_points_within_json(&out, trace, &points, from_ns, to_ns, 5);
		assert_int_equal(ky_buf_append(&out, "", 1), 0);
		snprintf(said, sizeof(said), "{\"count\":%u,", count);
		assert_memory_equal(out.bytes, said, strlen(said));
		assert_int_equal(count_of((const char *)out.bytes, "\"row\":"),
				 count < 5 ? count : 5);
	}
	/* A moment belongs to both ends; a time that ends before it begins has none. */
	ky_buf_clear(&out);
	ky_points_within_json(&out, trace, &points, points.times_ns[3], points.times_ns[3], 5);
	assert_memory_equal(out.bytes, "{\"count\":1,", 11);
	ky_buf_clear(&out);
	ky_points_within_json(&out, trace, &points, points.times_ns[3], 0, 5);
	assert_memory_equal(out.bytes, "{\"count\":0,", 11);
	ky_points_release(&points);
	ky_buf_release(&out);
}

static void points__of_what_is_not_there_are_refused(void **state)
{
	struct ky_points points;
	struct ky_buf out;

	(void)state;
	assert_int_equal(ky_points_make(&points, trace, KY_POINTS_KINDS, 0, 0), -EINVAL);
	assert_int_equal(ky_points_make(&points, trace, KY_POINTS_EVENTS, trace->custom_type_count,
					0),
			 -EINVAL);
	assert_int_equal(ky_points_make(&points, trace, KY_POINTS_QUEUE, trace->queue_count, 0),
			 -EINVAL);
	ky_buf_init(&out, 0);
	assert_false(
		ky_points_facts_json(&out, trace, KY_POINTS_EVENTS, 0, trace->custom_row_count));
	assert_false(ky_points_facts_json(&out, trace, KY_POINTS_COUNTER, 0, trace->counter_count));
	assert_false(
		ky_points_facts_json(&out, trace, KY_POINTS_NOTES, 0, trace->annotation_count));
	assert_false(ky_points_facts_json(&out, trace, KY_POINTS_QUEUE, trace->queue_count, 0));
	ky_buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points__of_a_pixel_are_what_a_look_at_all_finds),
		cmocka_unit_test(points__within_a_time_are_counted_and_the_first_listed),
		cmocka_unit_test(points__of_what_is_not_there_are_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("points", tests, open_all, close_all);
}
