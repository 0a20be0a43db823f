/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "../../../adapters/tokio/tables.h"
#include "../../../adapters/tokio/threads.h"
#include "../../../adapters/tokio/waits.h"
#include "fake_recorder.h"

#define MANY (3 * KY_TOKIO_STARTS_MAX)

static int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static uint32_t begun_in_function, ended_in_function;

static int set_up(void **state)
{
	uintptr_t address = ky_tokio_wait_address(KY_TOKIO_GOT_CREATE);

	(void)state;
	memcpy(&create, &address, sizeof(address));
	fake_sampling_set(true);
	return 0;
}

static void *add_one(void *number)
{
	begun_in_function = fake_sampling_begun();
	ended_in_function = fake_sampling_ended();
	return (char *)number + 1;
}

static void *leave(void *number)
{
	pthread_exit((char *)number + 2);
}

static uintptr_t made(void *(*function)(void *), uintptr_t number)
{
	pthread_t thread;
	void *result;

	assert_int_equal(create(&thread, NULL, function, (void *)number), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	return (uintptr_t)result;
}

static void threads__are_unchanged_without_a_sampler(void **state)
{
	(void)state;
	fake_sampling_set(false);
	assert_int_equal(made(add_one, 41), 42);
	assert_int_equal(fake_sampling_begun(), 0);
	assert_int_equal(fake_sampling_ended(), 0);
}

static void threads__are_sampled_around_their_function(void **state)
{
	(void)state;
	assert_int_equal(made(add_one, 41), 42);
	assert_int_equal(begun_in_function, 1);
	assert_int_equal(ended_in_function, 0);
	assert_int_equal(fake_sampling_begun(), 1);
	assert_int_equal(fake_sampling_ended(), 1);
}

/* More than there is room for on the way, one after the other. */
static void threads__that_leave_otherwise_give_their_room_back(void **state)
{
	(void)state;
	for (uintptr_t i = 1; i <= MANY; i++)
		assert_int_equal(made(leave, i), i + 2);
	assert_int_equal(fake_sampling_begun(), MANY);
	assert_int_equal(fake_sampling_ended(), 0);
}

static void threads__that_cannot_be_made_give_it_back_too(void **state)
{
	pthread_attr_t attributes;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_attr_init(&attributes), 0);
	/* As much as no address space has. */
	assert_int_equal(pthread_attr_setstacksize(&attributes, (size_t)1 << 62), 0);
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_not_equal(create(&thread, &attributes, add_one, NULL), 0);
	pthread_attr_destroy(&attributes);
	assert_int_equal(made(add_one, 1), 2);
	assert_int_equal(fake_sampling_begun(), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup(name, set_up)
		CASE(threads__are_unchanged_without_a_sampler),
		CASE(threads__are_sampled_around_their_function),
		CASE(threads__that_leave_otherwise_give_their_room_back),
		CASE(threads__that_cannot_be_made_give_it_back_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
