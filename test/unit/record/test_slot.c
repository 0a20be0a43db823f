/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sub-buffers as a reader sees them: claims, overwriting, loss arithmetic, open polls. */
#include "../../lib/cmocka_all.h"
#include "../../lib/recorder_case.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#define SLOTS 16u /* of the smallest ring */

static void poll_once(uint64_t task)
{
	kymo_poll_begin(task, 5, 3);
	kymo_wake(task + 1, 2, KYMO_WAKE_BY_VALUE);
	kymo_poll_end(KYMO_POLL_READY);
}

static void ring__holds_records_as_emitted(void **state)
{
	struct test_recorder test;
	const struct test_record *at;

	(void)state;
	test_recorder_open(&test, 0, 0);
	poll_once(42);
	kymo_worker_begin(9, 1, 77, 88);
	kymo_park(KYMO_WAIT_EPOLL);
	test_recorder_read(&test);
	assert_int_equal(test.ring.count, 5);
	assert_int_equal(test.ring.bad_count, 0);
	at = test.ring.records;
	assert_int_equal(at[0].type, KYMO_RECORD_POLL_BEGIN);
	assert_int_equal(at[0].arg, 3);
	assert_int_equal(at[0].words[0], kymo_task_word(42, 5));
	assert_int_equal(at[1].type, KYMO_RECORD_WAKE);
	assert_int_equal(at[1].words[0], kymo_task_word(43, 2));
	assert_int_equal(at[2].type, KYMO_RECORD_POLL_END);
	assert_int_equal(at[2].arg, KYMO_POLL_READY);
	assert_int_equal(at[3].words[1], 77);
	assert_int_equal(at[3].words[2], 88);
	assert_int_equal(at[4].arg, KYMO_WAIT_EPOLL);
	for (int i = 1; i < 5; i++)
		assert_true(at[i].ticks >= at[i - 1].ticks);
	assert_int_equal(at[4].number, 4);
	test_recorder_close(&test);
}

/* The sub-buffer that this thread writes to. */
static const struct ky_sub_buffer *open_slot(const struct test_recorder *test)
{
	const uint8_t *slots = test->ring.image + test->ring.header->slots_offset;

	for (uint32_t slot = 0; slot < SLOTS; slot++) {
		const struct ky_sub_buffer *sub = (const void *)(slots +
								 (size_t)slot * KY_SLOT_BYTES);

		if (KY_CLAIM_STATE(atomic_load(&sub->claim)) == KY_SLOT_OPEN)
			return sub;
	}
	return NULL;
}

static const struct ky_sub_buffer *next_slot(const struct test_recorder *test)
{
	for (uint64_t i = 0; i < 400; i++)
		poll_once(i);
	return open_slot(test);
}

static void claim__copies_the_worker_of_the_thread(void **state)
{
	const struct ky_sub_buffer *sub;
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_runtime_enter(66);
	test_recorder_read(&test);
	sub = next_slot(&test);
	assert_int_equal(sub->worker_runtime, 66);
	assert_int_equal(sub->worker_identity, 0);
	kymo_worker_begin(9, 1, 77, 88);
	/* What the thread was when it was claimed: this one's records say what came since. */
	assert_int_equal(sub->worker_identity, 0);
	sub = next_slot(&test);
	assert_int_equal(sub->worker_task, kymo_task_word(9, 1));
	assert_int_equal(sub->worker_runtime, 77);
	assert_int_equal(sub->worker_identity, 88);
	assert_int_equal(sub->parked_on, 0);
	kymo_parked_on(0x1000);
	kymo_parked_on(0x2000);
	sub = next_slot(&test);
	assert_int_equal(sub->parked_on, 0x2000);
	kymo_worker_end();
	sub = next_slot(&test);
	assert_int_equal(sub->parked_on, 0);
	assert_int_equal(sub->worker_task | sub->worker_runtime | sub->worker_identity, 0);
	test_recorder_close(&test);
}

static void ring__overwrites_the_oldest_and_counts_the_loss(void **state)
{
	struct test_recorder test;
	const uint64_t polls = 40000; /* 40 B each: about twelve times round */
	uint32_t thread;

	(void)state;
	test_recorder_open(&test, 0, 0);
	for (uint64_t i = 0; i < polls; i++)
		poll_once(i);
	test_recorder_read(&test);
	thread = test.ring.records[0].thread;
	assert_int_equal(test.ring.bad_count, 0);
	assert_int_equal(test.ring.slot_states[KY_SLOT_OPEN], 1);
	assert_int_equal(test.ring.slot_states[KY_SLOT_CLOSED], SLOTS - 1);
	assert_int_equal(test_ring_lost(&test.ring, thread) + test.ring.count,
			 test.ring.records[test.ring.count - 1].number + 1);
	assert_int_equal(test.ring.records[test.ring.count - 1].number + 1, polls * 3);
	/* What is left is the newest, without a hole. */
	for (size_t i = 1; i < test.ring.count; i++)
		assert_int_equal(test.ring.records[i].number, test.ring.records[i - 1].number + 1);
	assert_true(test.ring.count > (SLOTS - 1) * 7800 / 40 * 3);
	test_recorder_close(&test);
}

struct holder {
	sem_t go;
	sem_t done;
	pthread_t thread;
};

static void *hold_slot(void *ctx)
{
	struct holder *holder = ctx;

	kymo_mark(7);
	sem_post(&holder->done);
	sem_wait(&holder->go);
	return NULL;
}

static void start_holders(struct holder *holders, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		sem_init(&holders[i].go, 0, 0);
		sem_init(&holders[i].done, 0, 0);
		assert_int_equal(pthread_create(&holders[i].thread, NULL, hold_slot, &holders[i]),
				 0);
		sem_wait(&holders[i].done);
	}
}

static void stop_holders(struct holder *holders, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		sem_post(&holders[i].go);
		pthread_join(holders[i].thread, NULL);
	}
}

static void claim__skips_open_sub_buffers(void **state)
{
	struct holder holders[SLOTS - 2];
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	start_holders(holders, SLOTS - 2);
	for (uint64_t i = 0; i < 5000; i++)
		poll_once(i);
	test_recorder_read(&test);
	/* Fourteen idle threads keep their one record; we went round in the other two. */
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_MARK), SLOTS - 2);
	assert_int_equal(test.ring.slot_states[KY_SLOT_OPEN], SLOTS - 1);
	assert_int_equal(test.ring.slot_states[KY_SLOT_CLOSED], 1);
	stop_holders(holders, SLOTS - 2);
	test_recorder_close(&test);
}

static void claim__drops_and_counts_when_all_are_open(void **state)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	struct holder holders[SLOTS];
	struct test_recorder test;
	uint64_t reported = 0, later = 0;

	(void)state;
	test_recorder_open(&test, 0, 0);
	start_holders(holders, SLOTS);
	for (uint64_t i = 0; i < 100; i++)
		kymo_mark(1);
	kymo_recorder_status(&status);
	assert_int_equal(status.dropped_count, 100);
	stop_holders(holders, SLOTS);
	for (uint64_t i = 0; i < 3000; i++) /* beyond any back-off */
		kymo_mark(2);
	test_recorder_read(&test);
	kymo_recorder_status(&status);
	for (size_t i = 0; i < test.ring.count; i++) {
		const struct test_record *record = &test.ring.records[i];

		later += record->type == KYMO_RECORD_MARK && record->words[0] == 2;
		if (record->type != KYMO_RECORD_DROPPED)
			continue;
		assert_int_equal(record->arg, KYMO_DROP_NO_SLOT);
		reported += record->words[0];
	}
	assert_int_equal(reported, status.dropped_count);
	assert_int_equal(test.ring.header->dropped_no_slot_count, reported);
	assert_int_equal(later + reported, 3000 + 100);
	test_recorder_close(&test);
}

static void poll__dropped_begin_leaves_no_end(void **state)
{
	struct holder holders[SLOTS];
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	start_holders(holders, SLOTS);
	poll_once(1);
	kymo_poll_begin(1, 0, 0);
	stop_holders(holders, SLOTS);
	kymo_poll_end(0);
	for (int i = 0; i < 2000; i++)
		kymo_mark(1);
	poll_once(2);
	test_recorder_read(&test);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_BEGIN),
			 test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_END));
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_BEGIN), 1);
	test_recorder_close(&test);
}

static const struct ky_sub_buffer *newest_slot(const struct test_recorder *test)
{
	const uint8_t *slots = test->ring.image + test->ring.header->slots_offset;
	const struct ky_sub_buffer *newest = NULL;

	for (uint32_t i = 0; i < SLOTS; i++) {
		const struct ky_sub_buffer *sub =
			(const struct ky_sub_buffer *)(const void *)(slots +
								     (size_t)i * KY_SLOT_BYTES);

		if (KY_CLAIM_STATE(sub->claim) == KY_SLOT_OPEN &&
		    (!newest || sub->claim > newest->claim))
			newest = sub;
	}
	return newest;
}

static void poll__nests_and_shows_what_is_open(void **state)
{
	const struct ky_sub_buffer *sub;
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	for (uint64_t i = 0; i < 6; i++)
		kymo_poll_begin(100 + i, 0, 0);
	kymo_mark(1);
	test_recorder_read(&test);
	sub = newest_slot(&test);
	assert_int_equal(sub->state, 6u << 8);
	for (uint32_t i = 0; i < KY_OPEN_DEPTH; i++)
		assert_int_equal(sub->open[i].task_word >> KYMO_NAME_BITS, 100 + i);
	for (int i = 0; i < 6; i++)
		kymo_poll_end(0);
	kymo_poll_end(0); /* one too many: nothing is open */
	assert_int_equal(sub->state, 0);
	test_recorder_read(&test);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_BEGIN), 6);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_END), 6);
	test_recorder_close(&test);
}

static void poll__deeper_than_can_be_counted_stays_paired(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	for (uint64_t i = 0; i < 300; i++)
		kymo_poll_begin(i, 0, 0);
	for (uint64_t i = 0; i < 300; i++)
		kymo_poll_end(0);
	kymo_mark(1);
	test_recorder_read(&test);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_BEGIN), 255);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_END), 255);
	assert_int_equal(test.ring.header->dropped_count, 90);
	assert_int_equal(newest_slot(&test)->state, 0);
	test_recorder_close(&test);
}

static void poll__is_carried_into_the_next_sub_buffer(void **state)
{
	const struct ky_sub_buffer *sub;
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_poll_begin(4711, 3, 0);
	kymo_poll_begin(4712, 3, 0);
	for (int i = 0; i < 2000; i++)
		kymo_mark(1);
	test_recorder_read(&test);
	sub = newest_slot(&test);
	assert_true(sub->ordinal > 2);
	assert_int_equal(sub->carried_depth, 2);
	assert_int_equal(sub->carried[0].task_word, kymo_task_word(4711, 3));
	assert_int_equal(sub->carried[1].task_word, kymo_task_word(4712, 3));
	assert_int_equal(sub->open[1].task_word, kymo_task_word(4712, 3));
	/* Stamps lose three bits on the way into a record, not in the list of open polls. */
	assert_int_equal(sub->carried[0].begin_ticks >> 3, test.ring.records[0].ticks >> 3);
	kymo_poll_end(0);
	kymo_poll_end(0);
	test_recorder_close(&test);
}

static void gate__closed_inside_a_poll_still_ends_it(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_poll_begin(1, 0, 0);
	kymo_recorder_gates(0, KYMO_GATE_POLL | KYMO_GATE_WAKE);
	kymo_wake(2, 0, 0);
	kymo_poll_end(0);
	poll_once(3);
	kymo_recorder_gates(KYMO_GATE_POLL, 0);
	poll_once(4);
	test_recorder_read(&test);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_BEGIN), 2);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_POLL_END), 2);
	assert_int_equal(test_ring_count(&test.ring, 0, KYMO_RECORD_WAKE), 0);
	test_recorder_close(&test);
}

static void gate__change_is_recorded(void **state)
{
	struct test_recorder test;
	size_t reported;

	(void)state;
	test_recorder_open(&test, 0, 0);
	kymo_mark(1);
	kymo_recorder_gates(0, KYMO_GATE_WAKE);
	kymo_poll_begin(1, 0, 0);
	kymo_poll_begin(2, 0, 0); /* nested: the slow path reads the gates */
	test_recorder_read(&test);
	reported = test_ring_count(&test.ring, 0, KYMO_RECORD_GATES);
	assert_int_equal(reported, 1);
	assert_int_equal(test.ring.records[2].words[0], KYMO_GATES_DEFAULT & ~KYMO_GATE_WAKE);
	test_recorder_close(&test);
}

static void emit__leaves_errno_alone(void **state)
{
	struct test_recorder test;

	(void)state;
	test_recorder_open(&test, 0, 0);
	errno = EBADE;
	for (uint64_t i = 0; i < 5000; i++)
		poll_once(i);
	(void)kymo_string_intern("x", 1);
	assert_int_equal(errno, EBADE);
	test_recorder_close(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring__holds_records_as_emitted),
		cmocka_unit_test(claim__copies_the_worker_of_the_thread),
		cmocka_unit_test(ring__overwrites_the_oldest_and_counts_the_loss),
		cmocka_unit_test(claim__skips_open_sub_buffers),
		cmocka_unit_test(claim__drops_and_counts_when_all_are_open),
		cmocka_unit_test(poll__dropped_begin_leaves_no_end),
		cmocka_unit_test(poll__nests_and_shows_what_is_open),
		cmocka_unit_test(poll__deeper_than_can_be_counted_stays_paired),
		cmocka_unit_test(poll__is_carried_into_the_next_sub_buffer),
		cmocka_unit_test(gate__closed_inside_a_poll_still_ends_it),
		cmocka_unit_test(gate__change_is_recorded),
		cmocka_unit_test(emit__leaves_errno_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
