/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <analyze/short_name.h>
#include <string.h>

static void expect(const char *name, uint32_t columns, const char *expected)
{
	char out[KY_SHORT_NAME_BYTES];

	assert_string_equal(ky_short_name(out, name, columns), expected);
}

static void short_name__a_name_that_fits_stays(void **state)
{
	(void)state;
	expect("app::serve::{{closure}}", 60, "app::serve::{{closure}}");
	expect("", 60, "");
}

static void short_name__what_only_wraps_goes_first(void **state)
{
	(void)state;
	expect("tokio::runtime::blocking::task::BlockingTask<app::hash::{{closure}}>", 60,
	       "app::hash::{{closure}}");
	expect("core::pin::Pin<alloc::boxed::Box<tracing::instrument::Instrumented<app::job>>>", 60,
	       "app::job");
	expect("tokio::task::coop::unconstrained::Unconstrained<app::spin>", 60, "app::spin");
	expect("alloc::boxed::Box<app::Job, alloc::alloc::Global>", 60, "app::Job");
	expect("app::Box2<app::Job>", 60, "app::Box2<app::Job>");
	expect("Box<app::A>::poll<app::B>", 60, "Box<app::A>::poll<app::B>");
	expect("Pin<Box<fn() -> app::Job>>", 60, "fn() -> app::Job");
}

static void short_name__segments_in_the_middle_go_next(void **state)
{
	(void)state;
	expect("company::service::handlers::orders::create_order::{{closure}}", 44,
	       "company::...::create_order::{{closure}}");
	expect("company::service::handlers::orders::create_order::{{closure}}", 47,
	       "company::...::orders::create_order::{{closure}}");
}

static void short_name__then_what_stands_in_brackets(void **state)
{
	(void)state;
	expect("hyper::proto::dispatch<app::services::metrics::endpoint::Export>::{{closure}}", 51,
	       "hyper::...::dispatch<app::...::Export>::{{closure}}");
}

static void short_name__brackets_give_way_before_what_follows_them(void **state)
{
	(void)state;
	expect("axum::serve::handle_connection<tokio::net::tcp::listener::TcpListener, "
	       "axum::routing::Router>::{{closure}}::{{closure}}",
	       60, "axum::...::handle_connection<...>::{{closure}}::{{closure}}");
	/* The function is the last segment: the closure inside it does not stand for it. */
	expect("app::connection<app::main::{{closure}},app::orders::handle::{{closure}}>"
	       "::{{closure}}",
	       40, "app::connection<app...re}}>::{{closure}}");
}

static void short_name__each_of_several_types_is_shortened_alone(void **state)
{
	(void)state;
	expect("core::pin::Pin<alloc::boxed::Box<app::a>> or app::b or one with the same code", 60,
	       "app::a or app::b or one with the same code");
	expect("company::service::handlers::orders::create_order or "
	       "company::service::handlers::orders::delete_order",
	       60, "company::...::orders::create_order or company::...::orders::delete_order");
}

static void short_name__no_input_overruns_it(void **state)
{
	static const char pieces[] = "a::<>()[]{}-> or ,\xc3\xa4Pin<Box<";
	char name[2500], out[KY_SHORT_NAME_BYTES];
	uint32_t seed = 7;

	(void)state;
	for (uint32_t round = 0; round < 2000; round++) {
		size_t bytes = round % 40 == 0 ? sizeof(name) - 1 : round % 300;

		for (size_t i = 0; i < bytes; i++) {
			seed = seed * 1664525u + 1013904223u;
			name[i] = pieces[(seed >> 16) % (sizeof(pieces) - 1)];
		}
		name[bytes] = '\0';
		assert_true(strlen(ky_short_name(out, name, 1 + round % 90)) < sizeof(out));
		assert_true(strlen(ky_short_name(out, name, UINT32_MAX)) < sizeof(out));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(short_name__a_name_that_fits_stays),
		cmocka_unit_test(short_name__what_only_wraps_goes_first),
		cmocka_unit_test(short_name__segments_in_the_middle_go_next),
		cmocka_unit_test(short_name__then_what_stands_in_brackets),
		cmocka_unit_test(short_name__brackets_give_way_before_what_follows_them),
		cmocka_unit_test(short_name__each_of_several_types_is_shortened_alone),
		cmocka_unit_test(short_name__no_input_overruns_it),
	};

	return cmocka_run_group_tests_name("short_name", tests, NULL, NULL);
}
