/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Addresses and headers, from variables that the test sets. */
#include "../../lib/cmocka_all.h"

#include <base/alloc.h>
#include <errno.h>
#include <send/push_target.h>
#include <string.h>

#define VARIABLES 4u

static struct {
	const char *name, *value;
} variables[VARIABLES];

static const char *variable(const char *name)
{
	for (size_t i = 0; i < VARIABLES; i++)
		if (variables[i].name && strcmp(variables[i].name, name) == 0)
			return variables[i].value;
	return NULL;
}

static void set(size_t i, const char *name, const char *value)
{
	variables[i].name = name;
	variables[i].value = value;
}

static int clear(void **state)
{
	(void)state;
	memset(variables, 0, sizeof(variables));
	return 0;
}

static int read_target(struct ky_push_target *out, const char *url)
{
	char why[KY_PUSH_WHY_BYTES];

	return ky_push_target_read(out, false, url, variable, why);
}

static void target__has_the_paths_of_the_protocol(void **state)
{
	struct ky_push_target target;

	(void)state;
	assert_int_equal(read_target(&target, "http://h:4318/base/"), 0);
	assert_string_equal(target.places[KY_PUSH_TRACES].url, "http://h:4318/base/v1/traces");
	assert_string_equal(target.places[KY_PUSH_METRICS].url, "http://h:4318/base/v1/metrics");
	assert_string_equal(target.name, "otlp:http://h:4318/base/");
	ky_push_target_release(&target);
	assert_int_equal(read_target(&target, ""), 0);
	assert_string_equal(target.places[KY_PUSH_TRACES].url, "http://localhost:4318/v1/traces");
	assert_int_equal(target.places[KY_PUSH_TRACES].timeout_ms, 10000);
	ky_push_target_release(&target);
}

static void target__takes_the_variable_of_the_signal_before_that_of_all(void **state)
{
	struct ky_push_target target;

	(void)state;
	set(0, "OTEL_EXPORTER_OTLP_ENDPOINT", "https://all");
	set(1, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://own/x");
	set(2, "OTEL_EXPORTER_OTLP_TIMEOUT", "250");
	set(3, "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "none");
	assert_int_equal(read_target(&target, ""), 0);
	assert_string_equal(target.places[KY_PUSH_TRACES].url, "https://own/x");
	assert_string_equal(target.places[KY_PUSH_METRICS].url, "https://all/v1/metrics");
	assert_int_equal(target.places[KY_PUSH_METRICS].timeout_ms, 250);
	assert_false(target.places[KY_PUSH_TRACES].is_plain);
	assert_true(target.places[KY_PUSH_METRICS].is_plain);
	ky_push_target_release(&target);
}

static void headers__are_decoded(void **state)
{
	struct ky_push_target target;
	const struct ky_push_place *place = &target.places[KY_PUSH_METRICS];

	(void)state;
	set(0, "OTEL_EXPORTER_OTLP_HEADERS", "a=b, authorization = Basic%20dTpw= ,,c=%2c%4");
	assert_int_equal(read_target(&target, "http://h"), 0);
	assert_int_equal(place->header_count, 3);
	assert_string_equal(place->headers[0], "a: b");
	assert_string_equal(place->headers[1], "authorization: Basic dTpw=");
	assert_string_equal(place->headers[2], "c: ,%4");
	ky_push_target_release(&target);
}

static void headers__that_would_be_others_are_refused(void **state)
{
	static const char *const texts[] = {"a",     "=b",      "a b=c", "a:b=c", "a=%0d%0ab: c",
					    "a=\nb", "a\x01=b", "a=%00"};
	struct ky_push_target target;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		set(0, "OTEL_EXPORTER_OTLP_HEADERS", texts[i]);
		assert_int_equal(read_target(&target, "http://h"), -EINVAL);
		ky_push_target_release(&target);
	}
	set(0, "OTEL_EXPORTER_OTLP_HEADERS",
	    "a=1,a=2,a=3,a=4,a=5,a=6,a=7,a=8,a=9,a=10,a=11,a=12,"
	    "a=13,a=14,a=15,a=16,a=17");
	assert_int_equal(read_target(&target, "http://h"), -EINVAL);
	ky_push_target_release(&target);
}

static void target__refuses_what_is_no_address(void **state)
{
	static const char *const urls[] = {"h:4318",       "ftp://h",   "http://",   "http:///v1",
					   "http://u:p@h", "http://h?", "http://h#", "http://a b"};
	struct ky_push_target target;

	(void)state;
	for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
		assert_int_equal(read_target(&target, urls[i]), -EINVAL);
		ky_push_target_release(&target);
	}
	assert_int_equal(read_target(&target, "http://h/@x"), 0);
	ky_push_target_release(&target);
	set(0, "OTEL_METRICS_EXPORTER", "none");
	set(1, "OTEL_TRACES_EXPORTER", "none");
	assert_int_equal(read_target(&target, "http://h"), -EINVAL);
	ky_push_target_release(&target);
}

static size_t allowed;

static _Bool fail_at(size_t bytes)
{
	(void)bytes;
	return allowed-- > 0;
}

static void headers__without_memory_are_an_error(void **state)
{
	struct ky_push_target target;
	int result = -1;

	(void)state;
	set(0, "OTEL_EXPORTER_OTLP_HEADERS", "a=b,c=d");
	for (size_t count = 0; result; count++) {
		allowed = count;
		ky_alloc_hook = fail_at;
		result = read_target(&target, "http://h");
		ky_alloc_hook = NULL;
		assert_true(result == 0 || result == -ENOMEM);
		assert_in_range(count, 0, 8);
		ky_push_target_release(&target);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(target__has_the_paths_of_the_protocol, clear),
		cmocka_unit_test_setup(target__takes_the_variable_of_the_signal_before_that_of_all,
				       clear),
		cmocka_unit_test_setup(headers__are_decoded, clear),
		cmocka_unit_test_setup(headers__that_would_be_others_are_refused, clear),
		cmocka_unit_test_setup(target__refuses_what_is_no_address, clear),
		cmocka_unit_test_setup(headers__without_memory_are_an_error, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
