/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Counters: the ring has what the process counted, whenever it starts. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <errno.h>
#include <kymo/counter.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ADDS 20000

static const struct ky_ring_side *side_of(struct test_recorder *test)
{
	const struct ky_ring_header *header;

	test_recorder_read(test);
	header = test->ring.header;
	return (const struct ky_ring_side *)(const void *)((const uint8_t *)header +
							   header->side_offset);
}

static int64_t in_ring(struct test_recorder *test, uint32_t counter)
{
	return (int64_t)atomic_load(&side_of(test)->counters[counter - 1].value);
}

static void register__equal_names_give_equal_ids(void **state)
{
	char longer[100];
	uint32_t a = kymo_counter_register("requests", 0);

	(void)state;
	assert_int_not_equal(a, 0);
	assert_int_equal(kymo_counter_register("requests", KYMO_COUNTER_ERRORS), a);
	assert_int_not_equal(kymo_counter_register("request", 0), a);
	assert_int_equal(kymo_counter_register("", 0), 0);
	assert_int_equal(kymo_counter_register(NULL, 0), 0);
	/* 46 bytes and a character of two: cut before it, not within. */
	memset(longer, 'x', sizeof(longer));
	memcpy(longer + 46, "\xc3\xa9 more", 8);
	a = kymo_counter_register(longer, 0);
	longer[46] = 0;
	assert_int_equal(kymo_counter_register(longer, 0), a);
}

static void value__is_kept_before_during_and_after_a_ring(void **state)
{
	uint32_t gauge = kymo_counter_register("gauge", 0);
	struct test_recorder test;
	int64_t before;

	(void)state;
	kymo_counter_add(gauge, 3);
	test_recorder_open(&test, 0, 0);
	kymo_counter_add(gauge, 4);
	kymo_mark(1); /* there is a ring from here on */
	assert_int_equal(in_ring(&test, gauge), 7);
	assert_string_equal(side_of(&test)->counters[gauge - 1].name, "gauge");
	assert_true(atomic_load(&side_of(&test)->counter_count) >= gauge);
	kymo_counter_set(gauge, -5);
	assert_int_equal(in_ring(&test, gauge), -5);
	kymo_counter_add(gauge, 1);
	assert_int_equal(in_ring(&test, gauge), -4);
	kymo_counter_add(0, 1);
	kymo_counter_add(65, 1);
	kymo_counter_set(UINT32_MAX, 1);
	before = kymo_counter_value(gauge);
	test_recorder_close(&test);
	kymo_counter_add(gauge, 10);
	assert_int_equal(kymo_counter_value(gauge), before + 10);
	test_recorder_open(&test, 0, 0);
	kymo_mark(1);
	assert_int_equal(in_ring(&test, gauge), before + 10);
	test_recorder_close(&test);
}

static void register__while_recording_shows_name_and_flag(void **state)
{
	struct test_recorder test;
	uint32_t errors;

	(void)state;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	errors = kymo_counter_register("http.errors", 0);
	assert_int_equal(atomic_load(&side_of(&test)->counters[errors - 1].errors_flag), 0);
	assert_int_equal(kymo_counter_register("http.errors", KYMO_COUNTER_ERRORS), errors);
	assert_int_equal(atomic_load(&side_of(&test)->counters[errors - 1].errors_flag), 1);
	assert_string_equal(side_of(&test)->counters[errors - 1].name, "http.errors");
	test_recorder_close(&test);
}

/* Each stretch of time keeps the last of its values, with that one's moment. */
static void samples__keep_the_last_value_of_each_interval(void **state)
{
	const struct ky_ring_side *side;
	struct test_recorder test;
	const uint64_t long_stretch = UINT64_C(1) << 40;
	uint32_t jobs, high;

	(void)state;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	/* The beginning of a stretch, and from here on each reading moves the clock. */
	test_ticks_steps = (kymo_arch_ticks(&high) / long_stretch + 1) * long_stretch;
	jobs = kymo_counter_register("jobs", 0);
	kymo_counter_set(jobs, 10);
	kymo_counter_set(jobs, 900);
	test_ticks_steps += long_stretch;
	kymo_counter_set(jobs, 3);
	side = side_of(&test);
	assert_int_equal(atomic_load(&side->counter_sample_index), 2);
	assert_int_equal(atomic_load(&side->counter_samples[0].value), 900);
	assert_int_equal(atomic_load(&side->counter_samples[1].value), 3);
	assert_int_equal(atomic_load(&side->counter_samples[1].serial),
			 2u << KY_COUNTER_INDEX_BITS | (jobs - 1));
	assert_true(atomic_load(&side->counter_samples[1].ticks) -
			    atomic_load(&side->counter_samples[0].ticks) >=
		    long_stretch);
	test_recorder_close(&test);
	test_ticks_steps = 0;
}

static void *add_many(void *ctx)
{
	const uint32_t *counter = ctx;

	for (int i = 0; i < ADDS; i++)
		kymo_counter_add(*counter, 1);
	return NULL;
}

/* The ring starts while they add: nothing may be missing in it. */
static void add__from_many_threads_while_the_ring_starts(void **state)
{
	uint32_t counter = kymo_counter_register("race", 0);
	pthread_t threads[THREADS];

	(void)state;
	for (int round = 0; round < 5; round++) {
		struct test_recorder test;

		kymo_counter_set(counter, 0);
		test_recorder_open(&test, 0, 0);
		for (int i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, add_many, &counter), 0);
		while (kymo_counter_value(counter) < ADDS / 10)
			;
		kymo_mark(1);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(kymo_counter_value(counter), THREADS * ADDS);
		assert_int_equal(in_ring(&test, counter), THREADS * ADDS);
		test_recorder_close(&test);
	}
}

static void fork__child_counts_for_itself(void **state)
{
	uint32_t counter = kymo_counter_register("forked", 0);
	struct test_recorder test;
	int status = -1;
	pid_t child;

	(void)state;
	kymo_counter_set(counter, 1);
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	child = fork();
	if (child == 0) {
		kymo_counter_add(counter, 100);
		_exit(kymo_counter_value(counter) == 101 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(kymo_counter_value(counter), 1);
	assert_int_equal(in_ring(&test, counter), 1);
	test_recorder_close(&test);
}

/* Last: the table is the process's. */
static void register__full_table_is_counted(void **state)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	struct test_recorder test;
	uint32_t refused = 0, given = 0;
	char name[32];

	(void)state;
	test_recorder_open(&test, 0, KYMO_RECORDER_EAGER);
	for (int i = 0; i < 70; i++) {
		uint32_t id;

		snprintf(name, sizeof(name), "filler.%d", i);
		id = kymo_counter_register(name, 0);
		given = id ? id : given;
		refused += !id;
	}
	assert_int_equal(given, KY_COUNTERS);
	assert_true(refused >= 6);
	assert_int_not_equal(kymo_counter_register("requests", 0), 0);
	assert_int_equal(kymo_recorder_status(&status), 0);
	assert_int_equal(status.counters_refused, refused);
	assert_int_equal(atomic_load(&side_of(&test)->counters_refused), refused);
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(register__equal_names_give_equal_ids),
		cmocka_unit_test(value__is_kept_before_during_and_after_a_ring),
		cmocka_unit_test(register__while_recording_shows_name_and_flag),
		cmocka_unit_test(samples__keep_the_last_value_of_each_interval),
		cmocka_unit_test(add__from_many_threads_while_the_ring_starts),
		cmocka_unit_test(fork__child_counts_for_itself),
		cmocka_unit_test(register__full_table_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
