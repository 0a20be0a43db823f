/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <query/query_functions.h>

#include <analyze/histogram.h>
#include <base/alloc.h>

const struct ky_query_function ky_query_functions[] = {
	{"p50(x)", "the median; up to 1/128 more than the exact value, never above max(x)", 50,
	 100},
	{"p90(x)", "at least 90 % of all x are not above it; the same", 90, 100},
	{"p99(x)", "99 %; the same", 99, 100},
	{"p999(x)", "99.9 %; the same", 999, 1000},
	{"trace_start_ns()", "the first poll, park or wake, by the trace's clock", 0, 0},
};
const uint32_t ky_query_function_count = sizeof(ky_query_functions) / sizeof(ky_query_functions[0]);

struct percentile {
	struct ky_histogram *histogram;
};

static void step(sqlite3_context *context, int argc, sqlite3_value **argv)
{
	struct percentile *state = sqlite3_aggregate_context(context, sizeof(*state));
	sqlite3_int64 value;

	(void)argc;
	if (!state) {
		sqlite3_result_error_nomem(context);
		return;
	}
	if (sqlite3_value_numeric_type(argv[0]) == SQLITE_NULL)
		return;
	if (!state->histogram) {
		state->histogram = ky_alloc(sizeof(*state->histogram));
		if (!state->histogram || ky_histogram_init(state->histogram)) {
			ky_free(state->histogram);
			state->histogram = NULL;
			sqlite3_result_error_nomem(context);
			return;
		}
	}
	value = sqlite3_value_int64(argv[0]);
	ky_histogram_add(state->histogram, value < 0 ? 0 : (uint64_t)value);
}

static void finish(sqlite3_context *context)
{
	const struct ky_query_function *function = sqlite3_user_data(context);
	struct percentile *state = sqlite3_aggregate_context(context, 0);

	if (!state || !state->histogram) {
		sqlite3_result_null(context);
		return;
	}
	sqlite3_result_int64(context, (sqlite3_int64)ky_histogram_quantile(state->histogram,
									   function->numerator,
									   function->denominator));
	ky_histogram_release(state->histogram);
	ky_free(state->histogram);
	state->histogram = NULL;
}

static void trace_start(sqlite3_context *context, int argc, sqlite3_value **argv)
{
	const struct ky_trace *trace = sqlite3_user_data(context);

	(void)argc;
	(void)argv;
	sqlite3_result_int64(context, (sqlite3_int64)trace->run_first_ns);
}

int ky_query_functions_declare(sqlite3 *db, const struct ky_trace *trace)
{
	const int flags = SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS;
	static const char *const names[] = {"p50", "p90", "p99", "p999"};
	int code = SQLITE_OK;

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]) && !code; i++)
		code = sqlite3_create_function_v2(db, names[i], 1, flags,
						  (void *)(uintptr_t)&ky_query_functions[i], NULL,
						  step, finish, NULL);
	if (!code)
		code = sqlite3_create_function_v2(db, "trace_start_ns", 0, flags,
						  (void *)(uintptr_t)trace, trace_start, NULL, NULL,
						  NULL);
	return code;
}
