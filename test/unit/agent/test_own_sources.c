/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* When sources are called, and that each is ended once. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <agent/own_sources.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#define MS UINT64_C(1000000)

struct counts {
	int opened, sampled, closed;
	int open_err;
	uint64_t after_ns;
	int number; /* of another one to be removed in sample(), or its own; 0: none */
	int *added; /* in sample(): one more source, with this number */
	uint64_t last_ns;
	sem_t *inside, *may_return;
	int *is_removed; /* by another thread, which has to wait */
};

static int opens(void *ctx)
{
	struct counts *counts = ctx;

	counts->opened++;
	return counts->open_err;
}

static uint64_t never(void *ctx, uint64_t now_ns)
{
	(void)ctx;
	(void)now_ns;
	return KYMO_SOURCE_NEVER;
}

static uint64_t samples(void *ctx, uint64_t now_ns)
{
	struct counts *counts = ctx;

	counts->sampled++;
	counts->last_ns = now_ns;
	if (counts->number)
		assert_int_equal(ky_own_sources_remove(counts->number), 0);
	if (counts->added)
		*counts->added = ky_own_sources_add(&(const struct kymo_event_source){
			sizeof(struct kymo_event_source), "added", NULL, NULL, never, NULL});
	if (counts->inside) {
		sem_post(counts->inside);
		sem_wait(counts->may_return);
		assert_int_equal(__atomic_load_n(counts->is_removed, __ATOMIC_ACQUIRE), 0);
	}
	assert_int_equal(counts->closed, 0);
	return counts->after_ns;
}

static void closes(void *ctx)
{
	struct counts *counts = ctx;

	counts->closed++;
}

static int add(struct counts *counts)
{
	return ky_own_sources_add(&(const struct kymo_event_source){
		sizeof(struct kymo_event_source), "test", counts, opens, samples, closes});
}

static int teardown(void **state)
{
	(void)state;
	ky_own_sources_end();
	return 0;
}

static void source__is_called_when_it_wants(void **state)
{
	struct counts a = {.after_ns = 20 * MS}, b = {.after_ns = KYMO_SOURCE_NEVER};

	(void)state;
	assert_true(add(&a) > 0 && add(&b) > 0);
	assert_true(a.opened == 1 && a.sampled == 0);
	assert_true(ky_own_sources_step(100 * MS) == 120 * MS);
	assert_true(a.sampled == 1 && a.last_ns == 100 * MS && b.sampled == 1);
	assert_true(ky_own_sources_step(119 * MS) == 120 * MS);
	assert_int_equal(a.sampled, 1);
	assert_true(ky_own_sources_step(125 * MS) == 145 * MS);
	a.after_ns = 0; /* at least a millisecond */
	assert_true(ky_own_sources_step(145 * MS) == 146 * MS);
	a.after_ns = KYMO_SOURCE_NEVER - 1;
	assert_true(ky_own_sources_step(146 * MS) == UINT64_MAX);
	assert_true(a.sampled == 4 && b.sampled == 1);
	ky_own_sources_end();
	assert_true(a.opened == 1 && a.closed == 1 && b.closed == 1);
	assert_true(ky_own_sources_step(900 * MS) == UINT64_MAX);
	assert_int_equal(a.sampled, 4);
}

static void source__that_cannot_open_is_none(void **state)
{
	struct counts a = {.open_err = -ENODEV};

	(void)state;
	assert_int_equal(add(&a), -ENODEV);
	assert_true(ky_own_sources_step(MS) == UINT64_MAX);
	ky_own_sources_end();
	assert_true(a.opened == 1 && a.sampled == 0 && a.closed == 0);
}

static void source__without_functions_or_with_a_bad_name(void **state)
{
	struct kymo_event_source source = {sizeof(source), "bare", NULL, NULL, NULL, NULL};
	int number;

	(void)state;
	number = ky_own_sources_add(&source);
	assert_true(number > 0);
	assert_true(ky_own_sources_step(MS) == UINT64_MAX);
	assert_int_equal(ky_own_sources_remove(number), 0);
	assert_int_equal(ky_own_sources_remove(number), -ENOENT);
	assert_int_equal(ky_own_sources_remove(0), -ENOENT);
	assert_int_equal(ky_own_sources_remove(-1), -ENOENT);
	assert_int_equal(ky_own_sources_add(NULL), -EINVAL);
	source.name = "";
	assert_int_equal(ky_own_sources_add(&source), -EINVAL);
	source.name = "a name of more than the forty-seven bytes that are allowed";
	assert_int_equal(ky_own_sources_add(&source), -EINVAL);
	source.name = "bare";
	source.size--;
	assert_int_equal(ky_own_sources_add(&source), -EINVAL);
	/* As this process has opened no recorder. */
	assert_int_equal(kymo_event_source_add(&source), KYMO_E_CLOSED);
}

static void sources__have_a_limit(void **state)
{
	static struct counts all[KYMO_SOURCES_MAX];
	struct counts more = {0};
	int numbers[KYMO_SOURCES_MAX];

	(void)state;
	for (uint32_t i = 0; i < KYMO_SOURCES_MAX; i++) {
		numbers[i] = add(&all[i]);
		assert_true(numbers[i] > 0);
	}
	assert_int_equal(add(&more), KYMO_E_LIMIT);
	assert_int_equal(more.opened, 0);
	assert_int_equal(ky_own_sources_remove(numbers[7]), 0);
	assert_int_equal(all[7].closed, 1);
	assert_true(add(&more) > 0);
	assert_int_equal(ky_own_sources_remove(numbers[7]), -ENOENT);
	ky_own_sources_end();
	for (uint32_t i = 0; i < KYMO_SOURCES_MAX; i++)
		assert_int_equal(all[i].closed, 1);
}

static void callback__may_remove_itself_and_add_others(void **state)
{
	int added = 0;
	struct counts a = {.after_ns = MS}, b = {.after_ns = MS, .added = &added};

	(void)state;
	a.number = add(&a);
	assert_true(a.number > 0 && add(&b) > 0);
	(void)ky_own_sources_step(MS);
	assert_true(a.sampled == 1 && a.closed == 1); /* after it had returned */
	assert_true(added > 0);
	b.added = NULL;
	assert_int_equal(ky_own_sources_remove(added), 0);
	(void)ky_own_sources_step(9 * MS);
	assert_true(a.sampled == 1 && b.sampled == 2);
	ky_own_sources_end(); /* b is this function's */
}

static void *step(void *ctx)
{
	(void)ctx;
	(void)ky_own_sources_step(MS);
	return NULL;
}

struct removal {
	int number;
	int is_done;
};

static void *removes(void *ctx)
{
	struct removal *removal = ctx;

	assert_int_equal(ky_own_sources_remove(removal->number), 0);
	__atomic_store_n(&removal->is_done, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void remove__waits_for_a_callback_that_runs(void **state)
{
	struct removal removal = {0, 0};
	sem_t inside, may_return;
	struct counts a = {.after_ns = MS,
			   .inside = &inside,
			   .may_return = &may_return,
			   .is_removed = &removal.is_done};
	pthread_t stepping, removing;

	(void)state;
	sem_init(&inside, 0, 0);
	sem_init(&may_return, 0, 0);
	removal.number = add(&a);
	assert_int_equal(pthread_create(&stepping, NULL, step, NULL), 0);
	sem_wait(&inside);
	assert_int_equal(pthread_create(&removing, NULL, removes, &removal), 0);
	for (int i = 0; i < 1000; i++) /* so that it is likely to be there */
		sched_yield();
	sem_post(&may_return);
	pthread_join(removing, NULL);
	pthread_join(stepping, NULL);
	assert_int_equal(a.closed, 1);
	sem_destroy(&inside);
	sem_destroy(&may_return);
}

static void forked_child__has_none(void **state)
{
	struct counts a = {.after_ns = MS};

	(void)state;
	assert_true(add(&a) > 0);
	ky_own_sources_forget();
	assert_true(ky_own_sources_step(MS) == UINT64_MAX);
	ky_own_sources_end();
	assert_true(a.sampled == 0 && a.closed == 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, teardown)
	const struct CMUnitTest tests[] = {
		CASE(source__is_called_when_it_wants),
		CASE(source__that_cannot_open_is_none),
		CASE(source__without_functions_or_with_a_bad_name),
		CASE(sources__have_a_limit),
		CASE(callback__may_remove_itself_and_add_others),
		CASE(remove__waits_for_a_callback_that_runs),
		CASE(forked_child__has_none),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
