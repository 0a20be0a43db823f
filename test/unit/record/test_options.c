/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Opening: what is accepted, what is refused and with which sentence, what a failure leaves. */
#include "../../lib/alloc_fail.h"
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char errbuf[200];
static struct kymo_recorder *recorder;

static int open_with(struct kymo_recorder_options *options)
{
	int err;

	memset(errbuf, 0, sizeof(errbuf));
	options->errbuf = errbuf;
	options->errbuf_bytes = sizeof(errbuf);
	recorder = (struct kymo_recorder *)(uintptr_t)1;
	err = kymo_recorder_open(&recorder, options);
	if (err)
		assert_null(recorder);
	return err;
}

static void open__null_out_is_refused(void **state)
{
	(void)state;
	assert_int_equal(kymo_recorder_open(NULL, NULL), -EINVAL);
}

static void open__unknown_trailing_bytes_are_refused(void **state)
{
	struct {
		struct kymo_recorder_options options;
		uint64_t later;
	} newer = {.options = KYMO_RECORDER_OPTIONS_INIT, .later = 0};

	(void)state;
	newer.options.size = sizeof(newer);
	newer.options.flags = KYMO_RECORDER_NO_DRAIN;
	assert_int_equal(open_with(&newer.options), 0);
	kymo_recorder_close(recorder);
	newer.later = 1;
	assert_int_equal(open_with(&newer.options), -E2BIG);
	newer.options.size = 4;
	assert_int_equal(open_with(&newer.options), -EINVAL);
}

static void open__each_bad_value_has_its_sentence(void **state)
{
	const struct kymo_key_value reserved = {"pid", "1"};
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT, start;

	(void)state;
	options.flags = KYMO_RECORDER_NO_DRAIN;
	start = options;
	options.ring_bytes = 1000;
	assert_int_equal(open_with(&options), -EINVAL);
	assert_non_null(strstr(errbuf, "ring_bytes is 1000"));
	options = start;
	options.flags |= 1u << 30;
	assert_int_equal(open_with(&options), -EINVAL);
	assert_non_null(strstr(errbuf, "flags"));
	options = start;
	options.gates = 1u << 20;
	assert_int_equal(open_with(&options), -EINVAL);
	assert_non_null(strstr(errbuf, "gates"));
	options = start;
	options.compression = 9;
	assert_int_equal(open_with(&options), -EINVAL);
	assert_non_null(strstr(errbuf, "compression"));
	options = start;
	options.switches = 3;
	assert_int_equal(open_with(&options), -EINVAL);
	assert_non_null(strstr(errbuf, "switches is 3"));
	options = start;
	options.metadata = &reserved;
	options.metadata_count = 1;
	assert_int_equal(open_with(&options), -EINVAL);
	assert_non_null(strstr(errbuf, "metadata pair 0"));
	options.metadata_count = 65;
	assert_int_equal(open_with(&options), -EINVAL);
	assert_int_equal(kymo_control.gates, 0);
}

static void open__second_recorder_is_refused(void **state)
{
	struct kymo_recorder *second = NULL;
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;

	(void)state;
	options.flags = KYMO_RECORDER_NO_DRAIN;
	assert_int_equal(open_with(&options), 0);
	assert_int_equal(kymo_recorder_open(&second, &options), KYMO_E_ACTIVE);
	assert_null(second);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(kymo_recorder_close(NULL), 0);
}

static void open__every_failing_allocation_leaves_nothing(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder_status status = {.size = sizeof(status)};
	int err = -ENOMEM;
	uint64_t n;

	(void)state;
	options.flags = KYMO_RECORDER_NO_DRAIN;
	for (n = 0; n < 50 && err; n++) {
		test_alloc_fail_at(n);
		err = open_with(&options);
		test_alloc_normal();
		if (!err)
			break;
		assert_int_equal(err, -ENOMEM);
		assert_int_equal(kymo_control.gates, 0);
		assert_int_equal(kymo_recorder_status(&status), 0);
		assert_int_equal(status.is_armed, 0);
	}
	assert_int_equal(n, 2); /* the directory's bytes, and its table */
	assert_int_equal(kymo_recorder_close(recorder), 0);
}

static void open__takes_settings_from_the_environment(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct test_recorder test;

	(void)state;
	test_recorder_directory(&test);
	setenv("KYMO_SERVICE", "../my service", 1);
	setenv("KYMO_SESSION", "1f00d", 1);
	setenv("KYMO_RING_DIR", test.directory, 1);
	options.flags = KYMO_RECORDER_NO_DRAIN;
	assert_int_equal(kymo_recorder_open(&test.recorder, &options), 0);
	kymo_mark(1);
	test_recorder_read(&test);
	assert_string_equal(test.ring.header->service, "_._my_service");
	assert_int_equal(test.ring.header->session, 0x1f00d);
	assert_memory_equal(test.path, test.directory, strlen(test.directory));
	assert_int_equal(test.ring.header->flags & KY_RING_FLIGHT, KY_RING_FLIGHT);
	unsetenv("KYMO_SERVICE");
	unsetenv("KYMO_SESSION");
	unsetenv("KYMO_RING_DIR");
	test_recorder_close(&test);
}

/* A variable that was set to nothing would cost the ring its file, and the file outlives us. */
static void open__takes_an_empty_ring_directory_for_none(void **state)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder_status status = {.size = sizeof(status)};

	(void)state;
	setenv("KYMO_RING_DIR", "", 1);
	options.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_EAGER;
	assert_int_equal(kymo_recorder_open(&recorder, &options), 0);
	unsetenv("KYMO_RING_DIR");
	assert_int_equal(kymo_recorder_status(&status), 0);
	assert_int_equal(strncmp(status.ring_path, "/dev/shm/kymo-", 14), 0);
	assert_int_equal(kymo_recorder_close(recorder), 0);
	assert_int_equal(unlink(status.ring_path), 0);
}

static void close__leaves_the_file_for_the_recorder_process(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_mark(1);
	test_recorder_read(&test);
	assert_int_equal(kymo_recorder_close(test.recorder), 0);
	kymo_mark(2);
	test_ring_read(&test.ring);
	assert_int_equal(test.ring.count, 1);
	assert_int_equal(test.ring.header->state, KY_RING_CLOSED);
	assert_int_equal(access(test.path, R_OK), 0);
	test_recorder_close(&test);
}

static void reopen__needs_a_recorder_to_have_been(void **state)
{
	(void)state;
	assert_int_equal(kymo_recorder_reopen(), KYMO_E_CLOSED);
}

static void open__again_after_close_starts_afresh(void **state)
{
	struct test_recorder test;

	(void)state;
	for (int i = 0; i < 3; i++) {
		test_recorder_open(&test, 0, 0);
		assert_int_equal(kymo_string_intern("only", 4), 1);
		kymo_poll_begin(1, 0, 0);
		test_recorder_read(&test);
		assert_int_equal(test.ring.count, 1);
		assert_int_equal(test.ring.records[0].number, 0);
		test_recorder_close(&test);
		kymo_poll_end(0);
	}
}

static void clock__of_the_system_on_request(void **state)
{
	struct test_recorder test;

	(void)state;
	setenv("KYMO_CLOCK", "monotonic", 1);
	test_recorder_open(&test, 0, 0);
	for (uint64_t i = 0; i < 1000; i++) {
		kymo_poll_begin(i, 0, 0);
		kymo_poll_end(0);
	}
	test_recorder_read(&test);
	assert_int_equal(test.ring.header->flags & KY_RING_CLOCK_MONOTONIC,
			 KY_RING_CLOCK_MONOTONIC);
	assert_int_equal(test.ring.header->ticks_per_second, 1000000000);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_BEGIN), 1000);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_END), 1000);
	for (size_t i = 1; i < test.ring.count; i++)
		assert_true(test.ring.records[i].ticks >= test.ring.records[i - 1].ticks);
	assert_true(test.ring.records[0].ticks >=
		    (test.ring.header->open_anchor.monotonic_ns & ~7ull));
	unsetenv("KYMO_CLOCK");
	test_recorder_close(&test);
}

static void gates__any_thread_any_time(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_recorder_gates(KYMO_GATE_WAKER_CLONE, KYMO_GATE_MARK); /* before there is a ring */
	kymo_mark(1);
	kymo_park(0);
	test_recorder_read(&test);
	assert_int_equal(test.ring.count, 1);
	assert_int_equal(kymo_control.gates,
			 (KYMO_GATES_DEFAULT | KYMO_GATE_WAKER_CLONE) & ~KYMO_GATE_MARK);
	kymo_recorder_gates(UINT32_MAX, 0);
	assert_int_equal(kymo_control.gates, KYMO_GATES_DEFAULT | KYMO_GATE_WAKER_CLONE |
						     KYMO_GATE_ALLOC | KYMO_GATE_CONN);
	kymo_recorder_gates(UINT32_MAX, UINT32_MAX);
	assert_int_equal(kymo_control.gates, 0);
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reopen__needs_a_recorder_to_have_been),
		cmocka_unit_test(open__null_out_is_refused),
		cmocka_unit_test(open__unknown_trailing_bytes_are_refused),
		cmocka_unit_test(open__each_bad_value_has_its_sentence),
		cmocka_unit_test(open__second_recorder_is_refused),
		cmocka_unit_test(open__every_failing_allocation_leaves_nothing),
		cmocka_unit_test(open__takes_settings_from_the_environment),
		cmocka_unit_test(open__takes_an_empty_ring_directory_for_none),
		cmocka_unit_test(open__again_after_close_starts_afresh),
		cmocka_unit_test(close__leaves_the_file_for_the_recorder_process),
		cmocka_unit_test(clock__of_the_system_on_request),
		cmocka_unit_test(gates__any_thread_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
