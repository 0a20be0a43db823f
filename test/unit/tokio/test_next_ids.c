/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tokio's counter of ids, read around what runs; what is recorded of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <kymo/emit.h>

#include "../../../adapters/tokio/hooks.h"
#include "../../../adapters/tokio/next_ids.h"
#include "fake_recorder.h"
#include "fake_tokio.h"

static struct fake_task *inner, *joiner;

static int set_up(void **state)
{
	(void)state;
	fake_patch();
	fake_recorder_reset(UINT32_MAX);
	fake_poll_body = NULL;
	return 0;
}

static void run(struct fake_task *task)
{
	task->state = (task->state | FAKE_NOTIFIED) & ~(uint64_t)FAKE_RUNNING;
	fake_poll(task);
}

static void spawn_two(struct fake_task *task)
{
	task->state &= ~(uint64_t)FAKE_NOTIFIED;
	fake_next_id += 2;
}

static void spawn_none(struct fake_task *task)
{
	task->state &= ~(uint64_t)FAKE_NOTIFIED;
}

/* What the awaiting task spawns on another thread comes before the end of this poll. */
static void spawn_and_end(struct fake_task *task)
{
	fake_next_id++;
	task->state = (task->state | FAKE_COMPLETE) & ~(uint64_t)FAKE_NOTIFIED;
	fake_wake_by_ref(joiner);
	fake_next_id += 5;
	fake_wake_by_ref(joiner);
}

static void poll_inner(struct fake_task *task)
{
	fake_next_id++;
	fake_poll_body = spawn_two;
	run(inner);
	fake_poll_body = poll_inner;
	fake_next_id++;
	task->state &= ~(uint64_t)FAKE_NOTIFIED;
}

static void check(struct fake_event event, uint32_t by, uint64_t first, uint64_t count)
{
	assert_int_equal(event.record, KYMO_RECORD_SPAWN_WINDOW);
	assert_int_equal(event.arg, by);
	assert_int_equal(event.a >> KYMO_NAME_BITS, first);
	assert_int_equal(event.a & KYMO_SPAWN_COUNT_MAX, count);
}

static void next_ids__that_a_poll_gave_out_are_recorded_before_its_end(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 41);
	uint64_t first = fake_next_id;

	(void)state;
	fake_poll_body = spawn_none;
	run(&task);
	assert_int_equal(fake_count_of(KYMO_RECORD_SPAWN_WINDOW), 0);
	fake_poll_body = spawn_two;
	run(&task);
	check(fake_event_at(fake_event_count() - 2), KYMO_SPAWN_BY_POLL, first, 2);
	assert_int_equal(fake_event_at(fake_event_count() - 1).record, KYMO_RECORD_POLL_END);
	fake_recorder_reset(~(uint32_t)KYMO_GATE_SPAWN);
	run(&task);
	assert_int_equal(fake_count_of(KYMO_RECORD_SPAWN_WINDOW), 0);
	assert_int_equal(fake_count_of(KYMO_RECORD_POLL_END), 1);
}

static void next_ids__after_the_end_of_a_task_are_not_its_own(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 41), other = fake_task(FAKE_MULTI, 44);
	uint64_t first = fake_next_id;

	(void)state;
	joiner = &other;
	fake_poll_body = spawn_and_end;
	run(&task);
	assert_int_equal(fake_count_of(KYMO_RECORD_SPAWN_WINDOW), 1);
	check(fake_last_of(KYMO_RECORD_SPAWN_WINDOW), KYMO_SPAWN_BY_POLL, first, 1);
}

static void next_ids__of_an_inner_poll_come_first(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 41), other = fake_task(FAKE_MULTI, 44);
	uint64_t first = fake_next_id;

	(void)state;
	inner = &other;
	fake_poll_body = poll_inner;
	run(&task);
	assert_int_equal(fake_count_of(KYMO_RECORD_SPAWN_WINDOW), 2);
	check(fake_last_of(KYMO_RECORD_SPAWN_WINDOW), KYMO_SPAWN_BY_POLL, first, 4);
}

static void next_ids__of_a_closure(void **state)
{
	struct fake_task task = fake_task(FAKE_BLOCKING, 45), other = fake_task(FAKE_MULTI, 44);
	uint64_t first = fake_next_id;

	(void)state;
	joiner = &other;
	fake_poll_body = spawn_and_end;
	run(&task);
	assert_int_equal(fake_count_of(KYMO_RECORD_SPAWN_WINDOW), 1);
	check(fake_last_of(KYMO_RECORD_SPAWN_WINDOW), KYMO_SPAWN_BY_RUN, first, 1);
}

static void next_ids__of_a_root_are_all_since_its_thread_was_seen_last(void **state)
{
	uint64_t next = fake_next_id;

	(void)state;
	assert_int_equal(ky_tokio_ids_count(), 1);
	assert_int_equal(ky_tokio_ids_root_next(), next);
	/* It was never seen: since the recording began. */
	assert_int_equal(ky_tokio_ids_root_end(0), next);
	check(fake_last_of(KYMO_RECORD_SPAWN_WINDOW), KYMO_SPAWN_BY_ROOT, FAKE_NEXT_ID_FIRST,
	      next - FAKE_NEXT_ID_FIRST);
	fake_recorder_reset(UINT32_MAX);
	assert_int_equal(ky_tokio_ids_root_end(next), next);
	assert_int_equal(fake_event_count(), 0);
	fake_next_id += 3;
	assert_int_equal(ky_tokio_ids_root_end(next), next + 3);
	check(fake_last_of(KYMO_RECORD_SPAWN_WINDOW), KYMO_SPAWN_BY_ROOT, next, 3);
}

static void next_ids__that_cannot_be_are_left_out(void **state)
{
	(void)state;
	ky_tokio_ids_emit(0, 9, 8, KYMO_SPAWN_BY_POLL);
	ky_tokio_ids_emit(0, 9, UINT64_C(1) << KYMO_TASK_BITS, KYMO_SPAWN_BY_POLL);
	assert_int_equal(fake_event_count(), 0);
	ky_tokio_ids_emit(1, 9, 9 + 2 * UINT64_C(0x1000000), KYMO_SPAWN_BY_POLL);
	check(fake_last_of(KYMO_RECORD_SPAWN_WINDOW),
	      KYMO_SPAWN_BY_POLL | 1u << KYMO_SPAWN_COPY_SHIFT, 9, KYMO_SPAWN_COUNT_MAX);
}

#define CASE(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(next_ids__that_a_poll_gave_out_are_recorded_before_its_end),
		CASE(next_ids__after_the_end_of_a_task_are_not_its_own),
		CASE(next_ids__of_an_inner_poll_come_first),
		CASE(next_ids__of_a_closure),
		CASE(next_ids__of_a_root_are_all_since_its_thread_was_seen_last),
		CASE(next_ids__that_cannot_be_are_left_out),
	};

	return cmocka_run_group_tests_name("next_ids", tests, NULL, NULL);
}
