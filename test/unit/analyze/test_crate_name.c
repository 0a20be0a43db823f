/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <analyze/crate_name.h>

static void begin__is_that_of_the_type_or_function(void **state)
{
	static const struct {
		const char *name, *begin;
	} cases[] = {
		{"app::run", "app::run"},
		{"<app::Conn as tokio::io::AsyncRead>::poll_read",
		 "app::Conn as tokio::io::AsyncRead>::poll_read"},
		{"<&mut app::Conn as core::future::Future>::poll",
		 "app::Conn as core::future::Future>::poll"},
		{"_<dyn app::Handler as core::ops::Fn>::call",
		 "app::Handler as core::ops::Fn>::call"},
		{"<*const app::Node>::next", "app::Node>::next"},
		{"<F as core::future::future::Future>::poll",
		 "core::future::future::Future>::poll"},
		{"<Service as app::Handler>::handle", "app::Handler>::handle"},
		{"<dyn app::A as core::any::Any>::type_id", "app::A as core::any::Any>::type_id"},
		{"", ""},
		{"<", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(ky_crate_name_begin(cases[i].name), cases[i].begin);
}

static void library__is_the_way_to_a_place_and_none_itself(void **state)
{
	static const char *const libraries[] = {
		"std::io::Read::read",
		"<core::pin::Pin<&mut F> as core::future::future::Future>::poll",
		"<F as core::future::future::Future>::poll",
		"<&T as tokio::io::AsyncRead>::poll_read",
		"tokio_util::codec::framed_impl::x",
		"futures_util::stream::next",
		"tower_http::trace::call",
		"tower_service::Service::call",
		"tracing_subscriber::fmt::x",
		"<tracing::instrument::Instrumented<T> as core::future::Future>::poll",
		"parking_lot_core::park",
		"rayon_core::join",
		"pin_project_lite::x",
		"__rustc::rust_begin_unwind",
		"__rust_try",
		"<[T]>::sort",
		"<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec",
	};
	static const char *const places[] = {
		"app::run",
		"main",
		"tokio_app::run",
		"stdlib::run",
		"tracings::run",
		"<app::Conn as tokio::io::AsyncRead>::poll_read",
		"<T as app::Handler>::handle",
		"h2o::run",
		"crossbeams::run",
		"tower_limits::serve",
		"futures_demo::run",
		"regex_service::form",
		"",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (!ky_crate_name_is_library(libraries[i]))
			fail_msg("%s is a library's", libraries[i]);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (ky_crate_name_is_library(places[i]))
			fail_msg("%s is a place", places[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begin__is_that_of_the_type_or_function),
		cmocka_unit_test(library__is_the_way_to_a_place_and_none_itself),
	};

	return cmocka_run_group_tests_name("crate_name", tests, NULL, NULL);
}
