/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The ring against a naive model. Random operations run in lock step on a few threads that come and
 * go; the model keeps every record of every thread for ever. What the ring holds at any moment must
 * be, record for record and number for number, what the model has, and the newest of it. */
#include "../lib/cmocka_all.h"
#include "../lib/recorder_case.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 5
#define THREADS_MAX 2000
#define STEPS 60000
#define SLOTS 16u
#define DEPTH_MAX 7

enum action {
	ACT_MARK,
	ACT_WAKE,
	ACT_PARK,
	ACT_WORKER,
	ACT_BEGIN,
	ACT_END,
	ACT_EXIT
};

struct expected {
	uint32_t type;
	uint32_t arg;
	uint64_t words[3];
};

struct history { /* of one thread index */
	struct expected *records;
	size_t count;
	size_t capacity;
	uint64_t open[DEPTH_MAX];
	uint32_t depth;
};

struct worker {
	pthread_t thread;
	sem_t go;
	sem_t done;
	enum action action;
	uint64_t value;
	uint32_t index; /* thread index in the ring; 0: no event yet */
	bool is_running;
};

static struct history histories[THREADS_MAX];
static struct worker workers[WORKERS];
static uint32_t thread_count;
static uint64_t seed;

static uint32_t below(uint32_t bound)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32) % bound;
}

static void act(const struct worker *worker)
{
	switch (worker->action) {
	case ACT_MARK:
		kymo_mark((uint32_t)worker->value);
		break;
	case ACT_WAKE:
		kymo_wake(worker->value, 3, KYMO_WAKE_BY_VALUE);
		break;
	case ACT_PARK:
		kymo_park(KYMO_WAIT_FUTEX);
		break;
	case ACT_WORKER:
		kymo_worker_begin(worker->value, 1, 2, 3);
		break;
	case ACT_BEGIN:
		kymo_poll_begin(worker->value, 9, 4);
		break;
	case ACT_END:
		kymo_poll_end(KYMO_POLL_READY);
		break;
	case ACT_EXIT:
		break;
	}
}

static void *serve(void *ctx)
{
	struct worker *worker = ctx;

	for (;;) {
		sem_wait(&worker->go);
		if (worker->action == ACT_EXIT)
			return NULL;
		act(worker);
		sem_post(&worker->done);
	}
}

static void expect(uint32_t index, uint32_t type, uint32_t arg, uint64_t a, uint64_t b, uint64_t c)
{
	struct history *history = &histories[index];

	if (history->count == history->capacity) {
		history->capacity = history->capacity ? history->capacity * 2 : 64;
		history->records = realloc(history->records,
					   history->capacity * sizeof(*history->records));
		assert_non_null(history->records);
	}
	history->records[history->count++] = (struct expected){type, arg, {a, b, c}};
}

static void expect_action(const struct worker *worker)
{
	struct history *history = &histories[worker->index];
	uint64_t task = worker->value;

	switch (worker->action) {
	case ACT_MARK:
		expect(worker->index, KYMO_RECORD_MARK, 0, task, 0, 0);
		break;
	case ACT_WAKE:
		expect(worker->index, KYMO_RECORD_WAKE, KYMO_WAKE_BY_VALUE, task << 24 | 3, 0, 0);
		break;
	case ACT_PARK:
		expect(worker->index, KYMO_RECORD_PARK, KYMO_WAIT_FUTEX, 0, 0, 0);
		break;
	case ACT_WORKER:
		expect(worker->index, KYMO_RECORD_WORKER_BEGIN, 0, task << 24 | 1, 2, 3);
		break;
	case ACT_BEGIN:
		expect(worker->index, KYMO_RECORD_POLL_BEGIN, 4, task << 24 | 9, 0, 0);
		history->open[history->depth++] = task << 24 | 9;
		break;
	case ACT_END:
		if (!history->depth)
			break;
		expect(worker->index, KYMO_RECORD_POLL_END, KYMO_POLL_READY, 0, 0, 0);
		history->depth--;
		break;
	case ACT_EXIT:
		break;
	}
}

static uint64_t claims(void)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};

	kymo_recorder_status(&status);
	return status.sub_buffers_claimed;
}

/* A worker's first event registers it; whether it continued in a parked sub-buffer shows in the
 * hand. */
static void register_worker(struct worker *worker, uint64_t claims_before)
{
	worker->index = ++thread_count;
	assert_true(thread_count < THREADS_MAX);
	if (claims() == claims_before)
		expect(worker->index, KYMO_RECORD_THREAD_CHANGE, 0, 0, 0, 0);
}

static void step(void)
{
	struct worker *worker = &workers[below(WORKERS)];
	uint64_t before = worker->index ? 0 : claims();
	uint32_t dice = below(1000);

	worker->action = (enum action)(dice < 5 ? ACT_EXIT : dice % 6);
	worker->value = 1 + below(1u << 20);
	if (!worker->is_running) {
		assert_int_equal(pthread_create(&worker->thread, NULL, serve, worker), 0);
		worker->is_running = true;
		worker->index = 0;
		before = claims();
	}
	if (worker->index && histories[worker->index].depth == DEPTH_MAX &&
	    worker->action == ACT_BEGIN)
		worker->action = ACT_END;
	sem_post(&worker->go);
	if (worker->action == ACT_EXIT) {
		pthread_join(worker->thread, NULL);
		worker->is_running = false;
		return;
	}
	sem_wait(&worker->done);
	if (!worker->index && worker->action == ACT_END)
		return; /* nothing open: no event */
	if (!worker->index)
		register_worker(worker, before);
	expect_action(worker);
}

static void compare_record(const struct test_record *record)
{
	const struct history *history = &histories[record->thread];
	const struct expected *expected;

	assert_true(record->thread >= 1 && record->thread <= thread_count);
	assert_true(record->number < history->count);
	expected = &history->records[record->number];
	assert_int_equal(record->type, expected->type);
	if (record->type == KYMO_RECORD_THREAD_CHANGE)
		return;
	assert_int_equal(record->arg, expected->arg);
	assert_memory_equal(record->words, expected->words, sizeof(expected->words));
}

/* The ring holds the newest: a thread with an open slot has its last record there. */
static void compare(struct test_recorder *test)
{
	static uint64_t next[THREADS_MAX];

	memset(next, 0, sizeof(next));
	test_recorder_read(test);
	assert_int_equal(test->ring.bad_count, 0);
	assert_int_equal(test->ring.header->dropped_count, 0);
	for (size_t i = 0; i < test->ring.count; i++) {
		const struct test_record *record = &test->ring.records[i];

		compare_record(record);
		assert_true(record->number >= next[record->thread]);
		next[record->thread] = record->number + 1;
	}
	for (int i = 0; i < WORKERS; i++)
		if (workers[i].is_running && workers[i].index &&
		    histories[workers[i].index].count > 1)
			assert_int_equal(next[workers[i].index], histories[workers[i].index].count);
}

static void compare_open_polls(struct test_recorder *test)
{
	const uint8_t *slots = test->ring.image + test->ring.header->slots_offset;
	uint32_t open_slots = 0, running = 0;

	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct ky_sub_buffer *sub =
			(const struct ky_sub_buffer *)(const void *)(slots + i * KY_SLOT_BYTES);
		const struct history *history = NULL;

		if (KY_CLAIM_STATE(sub->claim) != KY_SLOT_OPEN)
			continue;
		open_slots++;
		/* Whose it is now is what its last record's thread says. */
		for (size_t k = 0; k < test->ring.count; k++)
			if (test->ring.records[k].claim == KY_CLAIM_NUMBER(sub->claim))
				history = &histories[test->ring.records[k].thread];
		if (!history)
			continue;
		assert_int_equal(sub->state >> 8, history->depth);
		for (uint32_t k = 0; k < history->depth && k < KY_OPEN_DEPTH; k++)
			assert_int_equal(sub->open[k].task_word, history->open[k]);
	}
	for (int i = 0; i < WORKERS; i++)
		running += workers[i].is_running && workers[i].index;
	assert_int_equal(open_slots, running);
}

static void run_model(uint64_t start)
{
	struct test_recorder test;

	seed = start;
	thread_count = 0;
	memset(histories, 0, sizeof(histories));
	memset(workers, 0, sizeof(workers));
	for (int i = 0; i < WORKERS; i++) {
		sem_init(&workers[i].go, 0, 0);
		sem_init(&workers[i].done, 0, 0);
	}
	test_recorder_open(&test, SLOTS * KY_SLOT_BYTES, KYMO_RECORDER_EAGER);
	/* The counter's upper half stays: no TIME records between those the model knows. */
	test_ticks_steps = UINT64_C(1) << 40;
	for (int i = 1; i <= STEPS; i++) {
		step();
		if (i % 997 == 0) {
			compare(&test);
			compare_open_polls(&test);
		}
	}
	for (int i = 0; i < WORKERS; i++) {
		workers[i].action = ACT_EXIT;
		sem_post(&workers[i].go);
		if (workers[i].is_running)
			pthread_join(workers[i].thread, NULL);
	}
	test_ticks_steps = 0;
	for (uint32_t i = 0; i <= thread_count; i++)
		free(histories[i].records);
	test_recorder_close(&test);
}

static void model__random_operations_leave_what_the_model_has(void **state)
{
	const char *wish = getenv("KYMO_TEST_SEED");

	(void)state;
	if (wish) {
		run_model(strtoull(wish, NULL, 0));
		return;
	}
	for (uint64_t i = 0; i < 3; i++) {
		print_message("# seed 0x%llx\n", (unsigned long long)(0x9e3779b97f4a7c15u + i));
		run_model(0x9e3779b97f4a7c15u + i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(model__random_operations_leave_what_the_model_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
