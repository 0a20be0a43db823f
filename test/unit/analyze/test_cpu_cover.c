/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A trace that is nothing but readings, samples, and what it says of its sampler. */
#include "../../lib/cmocka_all.h"

#include <analyze/cpu_cover.h>
#include <string.h>

#define MS UINT64_C(1000000)

static struct ky_trace_resource readings[8];
static struct ky_stack_row rows[512];
static struct ky_trace trace;
static const char *source, *kernel;
static struct ky_cpu_cover cover;

const char *ky_trace_metadata(const struct ky_trace *of, const char *key)
{
	assert_ptr_equal(of, &trace);
	return strcmp(key, "sampling.cpu") == 0 ? source : kernel;
}

static int setup(void **state)
{
	(void)state;
	memset(&trace, 0, sizeof(trace));
	trace.resources = readings;
	trace.samples.rows = rows;
	source = "perf_event";
	kernel = NULL;
	return 0;
}

static void reading(uint64_t ms, uint64_t user_ms, uint64_t system_ms)
{
	struct ky_trace_resource *row = &readings[trace.resource_count++];

	memset(row, 0xff, sizeof(*row));
	row->time_ns = ms * MS;
	row->kind = KY_RESOURCE_USAGE;
	row->values[KY_USAGE_USER_NS] = user_ms * MS;
	row->values[KY_USAGE_SYSTEM_NS] = system_ms * MS;
}

static void sample(uint64_t ms, uint64_t value_ms)
{
	rows[trace.samples.row_count++] = (struct ky_stack_row){
		.kind = KY_STACK_CPU, .time_ns = ms * MS, .value = value_ms * MS};
}

static void samples(uint64_t from_ms, uint32_t count, uint64_t value_ms)
{
	for (uint32_t i = 0; i < count; i++)
		sample(from_ms + i, value_ms);
}

static uint64_t missing_ms(void)
{
	ky_cpu_cover_find(&cover, &trace, 0, 0);
	return ky_cpu_cover_missing_ns(&cover) / MS;
}

static void cover__reports_cpu_time_without_samples(void **state)
{
	(void)state;
	reading(10, 100, 50);
	samples(5, 11, 10); /* five of them before the first reading */
	reading(500, 800, 150);
	reading(1010, 1300, 250);
	rows[10].kind = KY_STACK_OFF_CPU;
	sample(1010, 10); /* after the last one */
	assert_int_equal(missing_ms(), 1400 - 50);
	assert_int_equal(cover.from_ns, 10 * MS);
	assert_int_equal(cover.to_ns, 1010 * MS);
	assert_int_equal(cover.used_ns, 1400 * MS);
	assert_int_equal(cover.sampled_ns, 50 * MS);
}

static void cover__reports_nothing_within_chance(void **state)
{
	(void)state;
	reading(1, 0, 0);
	samples(1, 100, 10);
	reading(1000, 900, 270); /* 1.96 deviations: 200 ms */
	assert_int_equal(missing_ms(), 0);
	assert_in_range(cover.margin_ns, 196 * MS, 204 * MS);
	readings[1].values[KY_USAGE_USER_NS] = 960 * MS;
	assert_int_equal(missing_ms(), 230);
}

static void cover__reports_nothing_below_a_twentieth(void **state)
{
	(void)state;
	reading(0, 0, 0);
	samples(0, 500, 100);
	reading(1000, 52400, 0);
	assert_int_equal(missing_ms(), 0);
	readings[1].values[KY_USAGE_USER_NS] = 53000 * MS;
	assert_int_equal(missing_ms(), 0); /* by chance: 4,383 ms */
	readings[1].values[KY_USAGE_USER_NS] = 55000 * MS;
	assert_int_equal(missing_ms(), 5000);
	readings[1].values[KY_USAGE_USER_NS] = 40000 * MS; /* more sampled than used */
	assert_int_equal(missing_ms(), 0);
	for (uint32_t i = 0; i < trace.samples.row_count; i++)
		rows[i].value = MS;
	readings[1].values[KY_USAGE_USER_NS] = 500 * MS * 100 / 96; /* more than chance */
	assert_int_equal(missing_ms(), 0);
}

/* Readings of a dump go further back than its samples. */
static void cover__begins_at_the_first_sample(void **state)
{
	(void)state;
	reading(100, 0, 0);
	reading(200, 5000, 0);
	reading(300, 5090, 0);
	reading(400, 5200, 0);
	samples(150, 1, 10);
	samples(200, 20, 10);
	assert_int_equal(missing_ms(), 0);
	assert_int_equal(cover.from_ns, 200 * MS);
	assert_int_equal(cover.used_ns, 200 * MS);
}

static void cover__without_a_sample_is_all_of_it(void **state)
{
	(void)state;
	reading(100, 0, 0);
	reading(400, 300, 0);
	assert_int_equal(missing_ms(), 300);
}

static void cover__leaves_out_the_kernel_where_that_is_not_sampled(void **state)
{
	(void)state;
	kernel = "not sampled";
	reading(0, 100, 0);
	samples(0, 100, 10);
	reading(1000, 1100, 4000);
	assert_int_equal(missing_ms(), 0);
	assert_true(cover.is_user_only);
	assert_int_equal(cover.used_ns, 1000 * MS);
	kernel = "without its frames";
	assert_int_equal(missing_ms(), 4000);
}

static void cover__is_of_the_range(void **state)
{
	(void)state;
	reading(0, 0, 0);
	reading(100, 100, 0);
	reading(200, 150, 0);
	reading(300, 900, 0);
	sample(0, 10);
	ky_cpu_cover_find(&cover, &trace, 50 * MS, 250 * MS);
	assert_int_equal(cover.from_ns, 100 * MS);
	assert_int_equal(cover.to_ns, 200 * MS);
	assert_int_equal(cover.used_ns, 50 * MS);
	ky_cpu_cover_find(&cover, &trace, 150 * MS, 250 * MS); /* one reading */
	assert_int_equal(cover.to_ns, 0);
	assert_int_equal(ky_cpu_cover_missing_ns(&cover), 0);
}

static void cover__is_not_known_where_it_cannot_be(void **state)
{
	(void)state;
	reading(0, 0, 0);
	reading(1000, 900, 0);
	assert_int_equal(missing_ms(), 900);
	source = "off";
	assert_int_equal(missing_ms(), 0);
	source = NULL;
	assert_int_equal(missing_ms(), 0);
	source = "timers";
	trace.has_processes = true;
	assert_int_equal(missing_ms(), 0);
	trace.has_processes = false;
	trace.unrecorded_count = 1;
	assert_int_equal(missing_ms(), 0);
	trace.unrecorded_count = 0;
	sample(1, 1);
	sample(1200, 0); /* dial9's say nothing of their weight */
	reading(1500, 1900, 0);
	assert_int_equal(missing_ms(), 0);
	rows[1].value = MS;
	assert_int_equal(missing_ms(), 999);
	reading(2000, 100, 0); /* backwards: another process */
	assert_int_equal(missing_ms(), 0);
	readings[3].values[KY_USAGE_USER_NS] = UINT64_MAX; /* absent */
	assert_int_equal(missing_ms(), 999);
	readings[2].values[KY_USAGE_SYSTEM_NS] = UINT64_MAX; /* one reading is left */
	assert_int_equal(missing_ms(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(cover__reports_cpu_time_without_samples, setup),
		cmocka_unit_test_setup(cover__reports_nothing_within_chance, setup),
		cmocka_unit_test_setup(cover__reports_nothing_below_a_twentieth, setup),
		cmocka_unit_test_setup(cover__begins_at_the_first_sample, setup),
		cmocka_unit_test_setup(cover__without_a_sample_is_all_of_it, setup),
		cmocka_unit_test_setup(cover__leaves_out_the_kernel_where_that_is_not_sampled,
				       setup),
		cmocka_unit_test_setup(cover__is_of_the_range, setup),
		cmocka_unit_test_setup(cover__is_not_known_where_it_cannot_be, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
