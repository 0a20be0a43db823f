/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <kymo/recorder.h>

#include "../../../adapters/tokio/runtimes.h"
#include "../../../adapters/tokio/tables.h"
#include "fake_recorder.h"

static int set_up(void **state)
{
	(void)state;
	fake_recorder_reset(UINT32_MAX);
	return 0;
}

static void runtimes__workers_and_tasks_share_the_key(void **state)
{
	uint64_t key = ky_tokio_runtime_enter(0x10000, 2);

	(void)state;
	assert_int_equal(fake_runtime().kind, KYMO_RUNTIME_MULTI_THREAD);
	assert_int_equal(fake_runtime().copy, 2);
	assert_int_equal(ky_tokio_runtime_enter(0x10000, 2), key);
	assert_int_equal(ky_tokio_runtime_of(0x10000, 5, KY_TOKIO_KIND_MULTI_THREAD, 2), key);
	assert_int_equal(fake_runtime().count, 1);
}

static void runtimes__address_of_a_dropped_one_is_a_new_runtime(void **state)
{
	uint64_t first = ky_tokio_runtime_enter(0x20000, 0), second;

	(void)state;
	assert_int_equal(ky_tokio_runtime_enter(0x20000, 0), first);
	ky_tokio_runtime_leave(first);
	assert_int_equal(ky_tokio_runtime_enter(0x20000, 0), first);
	ky_tokio_runtime_leave(first);
	ky_tokio_runtime_leave(first);
	second = ky_tokio_runtime_enter(0x20000, 0);
	assert_int_not_equal(second, first);
	assert_int_equal(second & 0xffffffffffff, 0x20000);
	assert_int_equal(fake_runtime().count, 2);
}

static void runtimes__have_a_name_in_this_recording_and_later_ones(void **state)
{
	uint64_t key = ky_tokio_runtime_of(0x50000, 11, KY_TOKIO_KIND_CURRENT_THREAD, 3);

	(void)state;
	assert_int_equal(ky_tokio_runtime_name(12, "main"), -ENOENT);
	assert_int_equal(ky_tokio_runtime_name(0, "main"), -ENOENT);
	assert_int_equal(fake_runtime().count, 1);
	assert_int_equal(ky_tokio_runtime_name(11, "main"), 0);
	assert_int_equal(fake_runtime().count, 2);
	assert_int_equal(fake_runtime().key, key);
	assert_int_equal(fake_runtime().kind, KYMO_RUNTIME_CURRENT_THREAD);
	assert_int_equal(fake_runtime().copy, 3);
	assert_string_equal(fake_runtime().name, "main");
	fake_recorder_reset(UINT32_MAX);
	ky_tokio_runtimes_start_over();
	assert_int_equal(ky_tokio_runtime_of(0x50000, 11, KY_TOKIO_KIND_CURRENT_THREAD, 3), key);
	assert_string_equal(fake_runtime().name, "main");
	/* Another one at its address has none. */
	assert_int_not_equal(ky_tokio_runtime_of(0x50000, 13, KY_TOKIO_KIND_CURRENT_THREAD, 3),
			     key);
	assert_string_equal(fake_runtime().name, "");
}

static void runtimes__another_owner_at_the_same_address_is_new(void **state)
{
	uint64_t first = ky_tokio_runtime_of(0x30000, 8, KY_TOKIO_KIND_CURRENT_THREAD, 0);

	(void)state;
	assert_int_equal(fake_runtime().kind, KYMO_RUNTIME_CURRENT_THREAD);
	assert_int_equal(ky_tokio_runtime_of(0x30000, 8, KY_TOKIO_KIND_CURRENT_THREAD, 0), first);
	assert_int_not_equal(ky_tokio_runtime_of(0x30000, 9, KY_TOKIO_KIND_CURRENT_THREAD, 0),
			     first);
	assert_int_equal(fake_runtime().count, 2);
}

static void runtimes__local_sets_share_one_key_and_are_no_runtime(void **state)
{
	uint64_t first = ky_tokio_runtime_of(0x40000, 8, KY_TOKIO_KIND_LOCAL_SET, 2);

	(void)state;
	assert_int_equal(fake_runtime().kind, KYMO_RUNTIME_LOCAL_SET);
	assert_int_equal(ky_tokio_runtime_of(0x50000, 9, KY_TOKIO_KIND_LOCAL_SET, 2), first);
	assert_int_equal(fake_runtime().count, 1);
	assert_int_not_equal(ky_tokio_runtime_of(0x50000, 9, KY_TOKIO_KIND_LOCAL_SET, 3), first);
}

static void runtimes__beyond_the_table_the_address_is_the_key(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= 1000; i++)
		assert_int_equal(ky_tokio_runtime_of(i << 24, i, KY_TOKIO_KIND_CURRENT_THREAD, 0),
				 i << 24);
	assert_int_equal(ky_tokio_runtime_enter(0, 0), 0);
}

#define CASE(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(runtimes__workers_and_tasks_share_the_key),
		CASE(runtimes__address_of_a_dropped_one_is_a_new_runtime),
		CASE(runtimes__have_a_name_in_this_recording_and_later_ones),
		CASE(runtimes__have_a_name_in_this_recording_and_later_ones),
		CASE(runtimes__another_owner_at_the_same_address_is_new),
		CASE(runtimes__local_sets_share_one_key_and_are_no_runtime),
		CASE(runtimes__beyond_the_table_the_address_is_the_key),
	};

	return cmocka_run_group_tests_name("runtimes", tests, NULL, NULL);
}
