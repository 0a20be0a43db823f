/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests of firings, and the queue with a maker that takes its time. */
#include "../../lib/cmocka_all.h"

#include <agent/dumps.h>
#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

#define HOUR_NS (UINT64_C(3600) * 1000000000u)

static struct ky_dumps dumps;
static struct ky_rule rule;
static uint32_t begun, before_count, after_count;
static int outcome, last_err;

static int set_up(void **state)
{
	char why[200];
	size_t count = 0;

	(void)state;
	begun = before_count = after_count = 0;
	outcome = KY_DUMP_IS_MADE_ELSEWHERE;
	ky_dumps_open(&dumps, 2);
	return ky_rules_parse(&rule, &count, "poll>100ms name=\"too slow/again\"", why,
			      sizeof(why));
}

static struct ky_dump_request *fire(uint64_t fired_ns, const char *path)
{
	const struct ky_firing firing = {
		.rule = &rule, .value = 152000000, .monotonic_ns = fired_ns, .tid = 7};
	struct ky_dump_request *request;

	assert_int_equal(ky_dump_request_firing(&request, &firing, path), 0);
	return request;
}

static const char *pair(const struct ky_dump_request *request, const char *key)
{
	for (size_t i = 0; i < request->pair_count; i++)
		if (strcmp(request->pairs[i].key, key) == 0)
			return request->pairs[i].value;
	return "";
}

/* ---- requests ---- */

static void firing__has_its_rule_and_what_was_measured(void **state)
{
	struct ky_dump_request *request;
	struct ky_cut_options cut = {.from_ns = 1};

	(void)state;
	rule.last_ns = 100;
	rule.after_ns = 30;
	request = fire(1000, NULL);
	assert_int_equal(request->from_ns, 900);
	assert_int_equal(request->due_ns, 1030);
	assert_int_equal(request->to_ns, 1030);
	assert_string_equal(request->rule, "too slow/again");
	assert_string_equal(request->value, "152 ms");
	assert_string_equal(pair(request, "kymo.trigger.value"), "152 ms");
	assert_non_null(strstr(pair(request, "kymo.trigger.rule"), "poll>100ms"));
	assert_string_equal(request->trigger.unit, "ns");
	ky_dump_request_cut(request, &cut);
	assert_int_equal(cut.from_ns, 900);
	assert_int_equal(cut.trigger_count, 1);
	assert_int_equal(cut.triggers->tid, 7);
	ky_free(request);
}

static void firing__has_a_reason_fit_for_a_name_where_that_is_the_name(void **state)
{
	struct ky_dump_request *request = fire(1000, NULL);

	(void)state;
	assert_null(request->path);
	assert_string_equal(pair(request, "kymo.dump.reason"), "trigger-too_slow_again");
	ky_free(request);
	request = fire(1000, "a.trc");
	assert_string_equal(request->path, "a.trc");
	assert_string_equal(pair(request, "kymo.dump.reason"), "trigger-too slow/again");
	ky_free(request);
}

/* ---- the queue ---- */

static int make(void *ctx, struct ky_dump_request *request)
{
	(void)ctx;
	(void)request;
	begun++;
	return KY_DUMP_IS_MADE_ELSEWHERE;
}

static int is_made(void *ctx, struct ky_dump_request *request, bool waits)
{
	(void)ctx;
	(void)request;
	return waits ? 0 : outcome;
}

static void before(void *ctx, struct ky_dump_request *request)
{
	(void)ctx;
	(void)request;
	before_count++;
}

static void after(void *ctx, const struct ky_dump_request *request, int err)
{
	(void)ctx;
	(void)request;
	after_count++;
	last_err = err;
}

static uint64_t run(bool is_closing)
{
	const struct ky_dump_maker maker = {make, is_made, NULL};
	const struct ky_dump_hooks hooks = {before, after, NULL};

	return ky_dumps_run(&dumps, &maker, &hooks, is_closing);
}

static void dumps__count_until_they_are_made(void **state)
{
	struct ky_dump_request *refused = fire(1000, NULL);
	struct ky_dumps_stats stats;

	(void)state;
	assert_int_equal(ky_dumps_put(&dumps, fire(1000, NULL)), 0);
	assert_int_equal(ky_dumps_put(&dumps, fire(1000, NULL)), 0);
	assert_int_equal(run(false), UINT64_MAX);
	assert_int_equal(begun, 2);
	assert_int_equal(ky_dumps_put(&dumps, refused), KYMO_E_BUSY);
	outcome = -EIO;
	(void)run(false);
	assert_int_equal(last_err, -EIO);
	assert_int_equal(before_count, 2);
	assert_int_equal(after_count, 2);
	assert_int_equal(ky_dumps_put(&dumps, refused), 0);
	(void)run(true);
	ky_dumps_stats(&dumps, &stats);
	assert_int_equal(stats.made, 1);
	assert_int_equal(stats.failed, 2);
	assert_int_equal(stats.refused, 1);
	assert_int_equal(stats.waiting, 0);
}

static void dumps__wait_until_they_are_due_or_the_end(void **state)
{
	uint64_t due_ns = ky_now_ns(CLOCK_MONOTONIC) + HOUR_NS;

	(void)state;
	assert_int_equal(ky_dumps_put(&dumps, fire(due_ns + 1, NULL)), 0);
	assert_int_equal(ky_dumps_put(&dumps, fire(due_ns, NULL)), 0);
	assert_int_equal(run(false), due_ns);
	assert_int_equal(begun, 0);
	assert_int_equal(run(true), UINT64_MAX);
	assert_int_equal(begun, 2);
	assert_int_equal(after_count, 2);
	assert_int_equal(last_err, 0);
}

/* The ring is gone: what waits is not made, what is being made is waited for. */
static void dumps__that_wait_fail_when_they_are_cancelled(void **state)
{
	const struct ky_dump_maker maker = {make, is_made, NULL};
	const struct ky_dump_hooks hooks = {.after = after};
	uint64_t due_ns = ky_now_ns(CLOCK_MONOTONIC) + HOUR_NS;
	struct ky_dumps_stats stats;

	(void)state;
	assert_int_equal(ky_dumps_put(&dumps, fire(1000, NULL)), 0);
	assert_int_equal(run(false), UINT64_MAX);
	assert_int_equal(ky_dumps_put(&dumps, fire(due_ns, NULL)), 0);
	ky_dumps_cancel(&dumps, &maker, &hooks, KYMO_E_TRUNCATED);
	assert_int_equal(begun, 1);
	assert_int_equal(after_count, 2);
	ky_dumps_stats(&dumps, &stats);
	assert_int_equal(stats.made, 1);
	assert_int_equal(stats.failed, 1);
	assert_int_equal(stats.waiting, 0);
}

static void dumps__are_refused_once_the_queue_is_closed(void **state)
{
	struct ky_dump_request *request = fire(1000, NULL);

	(void)state;
	ky_dumps_close(&dumps);
	assert_int_equal(ky_dumps_put(&dumps, request), KYMO_E_CLOSED);
	ky_free(request);
}

#define CASE(function) cmocka_unit_test_setup(function, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(firing__has_its_rule_and_what_was_measured),
		CASE(firing__has_a_reason_fit_for_a_name_where_that_is_the_name),
		CASE(dumps__count_until_they_are_made),
		CASE(dumps__wait_until_they_are_due_or_the_end),
		CASE(dumps__that_wait_fail_when_they_are_cancelled),
		CASE(dumps__are_refused_once_the_queue_is_closed),
	};

	return cmocka_run_group_tests_name("dump_request", tests, NULL, NULL);
}
