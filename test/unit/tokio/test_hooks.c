/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Calls through patched tables of a fake Tokio: what reached it, what was recorded? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <kymo/emit.h>
#include <kymo/poll_cost.h>

#include "../../../adapters/tokio/hooks.h"
#include "fake_recorder.h"
#include "fake_tokio.h"

static struct fake_task *inner;

static int set_up(void **state)
{
	(void)state;
	fake_patch();
	fake_recorder_reset(UINT32_MAX);
	fake_poll_body = NULL;
	fake_shutdown_body = NULL;
	return 0;
}

static void run(struct fake_task *task)
{
	task->state = (task->state | FAKE_NOTIFIED) & ~(uint64_t)FAKE_RUNNING;
	fake_poll(task);
}

static void go_idle(struct fake_task *task)
{
	task->state &= ~(uint64_t)FAKE_NOTIFIED;
}

static void complete(struct fake_task *task)
{
	task->state = (task->state | FAKE_COMPLETE) & ~(uint64_t)FAKE_NOTIFIED;
}

/* Gives every reference but the adapter's back. */
static void complete_and_release(struct fake_task *task)
{
	complete(task);
	task->state -= 3 * FAKE_REFERENCE;
}

static void stay_notified(struct fake_task *task)
{
	task->state |= FAKE_NOTIFIED;
}

static void wake_self(struct fake_task *task)
{
	go_idle(task);
	fake_wake_by_ref(task);
}

static void wake_inner(struct fake_task *task)
{
	go_idle(task);
	fake_wake(inner);
}

static void poll_inner(struct fake_task *task)
{
	fake_poll_body = wake_self;
	run(inner);
	fake_poll_body = poll_inner;
	go_idle(task);
}

static void hooks__poll_is_recorded_and_reaches_tokio_once(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 41);

	(void)state;
	fake_poll_body = go_idle;
	run(&task);
	assert_int_equal(task.poll_count, 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_POLL_BEGIN), 1);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_BEGIN).a >> KYMO_NAME_BITS, 41);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg, 0);
	assert_int_equal(task.state, 3 * FAKE_REFERENCE);
}

static void hooks__local_queue_counts_for_the_next_poll_alone(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 41);

	(void)state;
	fake_poll_body = go_idle;
	ky_tokio_self.queue_next = 3 + 1; /* as kymo_tokio_queue_depth(3) */
	run(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_BEGIN).arg, 3);
	run(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_BEGIN).arg, KYMO_QUEUE_UNKNOWN);
}

/* Two wakes, one of them in a poll inside it. */
static void hooks__long_poll_has_its_cost_with_wakes_and_nested_polls(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 41), other = fake_task(FAKE_MULTI, 44);

	(void)state;
	kymo_poll_cost_ticks_min = 1;
	inner = &other;
	fake_poll_body = poll_inner;
	run(&task);
	assert_int_equal(fake_last_cost().times, 2);
	assert_int_equal(fake_last_cost().depth, 1);
	assert_int_equal(fake_last_cost().counts, KYMO_POLL_COST_NESTED + KYMO_POLL_COST_WAKE);
	kymo_poll_cost_ticks_min = UINT64_MAX;
	run(&task);
	assert_int_equal(fake_last_cost().times, 2);
}

static void hooks__completion_is_the_end_of_the_task(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 42);

	(void)state;
	fake_poll_body = complete;
	run(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg, KYMO_POLL_READY);
	assert_int_equal(task.dealloc_count, 0);
}

static void hooks__last_reference_frees_through_the_table(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 43);

	(void)state;
	fake_poll_body = complete_and_release;
	run(&task);
	assert_int_equal(task.dealloc_count, 1);
	assert_int_equal(task.state >> 6, 0);
}

static void hooks__cancelled_task_is_recorded_as_such(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 44);

	(void)state;
	task.state |= FAKE_CANCELLED;
	fake_poll_body = complete;
	run(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg,
			 KYMO_POLL_READY | KYMO_POLL_CANCELLED);
}

static void hooks__stale_notification_of_an_ended_task_ends_nothing(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 45);

	(void)state;
	fake_poll_body = go_idle;
	run(&task);
	task.state |= FAKE_COMPLETE;
	run(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg, 0);
}

static void hooks__unrecorded_wake_in_its_own_poll_is_derived(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 46);

	(void)state;
	fake_poll_body = stay_notified;
	run(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg, KYMO_POLL_SELF_WAKE);
}

static void hooks__recorded_wake_in_its_own_poll_is_not_derived_again(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 47);

	(void)state;
	fake_poll_body = wake_self;
	run(&task);
	assert_int_equal(task.wake_count, 1);
	assert_int_equal(fake_count_of(KYMO_RECORD_WAKE), 1);
	assert_int_equal(fake_last_of(KYMO_RECORD_WAKE).arg, 0);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg, 0);
}

/* Inside a poll up to that, and only while stacks are wanted. */
static void hooks__wake_says_which_functions_issue_it(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 147);
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	(void)state;
	fake_wake_stack = 9;
	fake_poll_body = wake_self;
	run(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_WAKE).arg, 9 << KYMO_WAKE_STACK_SHIFT);
	assert_true(fake_last_wake().has_caller);
	assert_true(fake_last_wake().until_sp > here - 65536 && fake_last_wake().until_sp < here);
	assert_int_equal(fake_last_wake().frames_max, KYMO_WAKE_FRAMES_MAX);
	fake_wake_by_ref(&task);
	assert_int_equal(fake_last_wake().until_sp, 0);
	fake_recorder_reset(UINT32_MAX & ~(uint32_t)KYMO_GATE_PLACE);
	fake_wake_stack = 9;
	fake_wake_by_ref(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_WAKE).arg, 0);
}

static void hooks__wake_of_a_task_that_runs_elsewhere_is_not_derived(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 48), other = fake_task(FAKE_MULTI, 49);

	(void)state;
	/* The other task's poll wakes this one, which runs (on another thread, says its state). */
	task.state |= FAKE_RUNNING;
	inner = &task;
	fake_poll_body = wake_inner;
	run(&other);
	assert_int_equal(fake_last_of(KYMO_RECORD_WAKE).a >> KYMO_NAME_BITS, 48);
	assert_int_equal(fake_last_of(KYMO_RECORD_WAKE).arg, KYMO_WAKE_BY_VALUE);
	fake_poll_body = stay_notified;
	run(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg, 0);
	run(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg, KYMO_POLL_SELF_WAKE);
}

static void hooks__nested_poll_keeps_the_outer_one_apart(void **state)
{
	struct fake_task outer = fake_task(FAKE_MULTI, 50), nested = fake_task(FAKE_CURRENT, 51);

	(void)state;
	inner = &nested;
	fake_poll_body = poll_inner;
	run(&outer);
	assert_int_equal(fake_count_of(KYMO_RECORD_POLL_BEGIN), 2);
	assert_int_equal(fake_count_of(KYMO_RECORD_POLL_END), 2);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg, 0);
	assert_int_equal(ky_tokio_self.depth, 0);
	assert_null(ky_tokio_self.current);
}

static void hooks__runtime_is_emitted_when_the_owner_changes(void **state)
{
	struct fake_task one = fake_task(FAKE_MULTI, 52), two = fake_task(FAKE_MULTI, 53);
	struct fake_task other = fake_task(FAKE_CURRENT, 54);

	(void)state;
	fake_poll_body = go_idle;
	ky_tokio_self.owner = 0;
	run(&one);
	run(&two);
	assert_int_equal(fake_count_of(KYMO_RECORD_RUNTIME), 1);
	run(&other);
	assert_int_equal(fake_count_of(KYMO_RECORD_RUNTIME), 2);
	assert_true(ky_tokio_self.is_driver);
}

static void hooks__closed_gates_record_nothing_and_pass_everything(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 55);

	(void)state;
	fake_recorder_reset(0);
	fake_poll_body = wake_self;
	run(&task);
	fake_clone(&task);
	fake_shutdown(&task);
	assert_int_equal(fake_event_count(), 0);
	assert_int_equal(task.poll_count, 1);
	assert_int_equal(task.wake_count, 1);
	assert_int_equal(task.shutdown_count, 1);
}

static void hooks__waker_clone_is_recorded_only_with_its_gate(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 56);

	(void)state;
	fake_poll_body = go_idle;
	run(&task);
	fake_clone(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_WAKER_CLONE).a >> KYMO_NAME_BITS, 56);
}

static void clone_often(struct fake_task *task)
{
	struct fake_task other = fake_task(FAKE_MULTI, 99);

	go_idle(task);
	fake_clone(&other);
	for (int i = 0; i < 5; i++)
		fake_clone(task);
}

static void hooks__clones_of_the_polled_task_alone_are_reported(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 60);
	struct fake_places *places = fake_places();

	(void)state;
	places->points = 77;
	fake_poll_body = clone_often;
	run(&task);
	assert_int_equal(places->clone_count, 5);
	assert_int_equal(places->close_count, 1);
	assert_int_equal(places->poll.clones, 5);
	assert_int_equal(places->poll.task_word >> KYMO_NAME_BITS, 60);
	/* The registers are those of the function that cloned, inside the poll. */
	assert_true(places->start.sp < places->poll.until_sp);
	assert_true(places->poll.until_sp - places->start.sp < 4096);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg >> KYMO_POLL_POINTS_SHIFT, 77);
	assert_int_equal(places->end_count, 0);
	/* Outside a poll no task waits. */
	fake_clone(&task);
	assert_int_equal(places->clone_count, 5);
}

/* Of wakers that live at the poll's begin, by the letters of `script`: a leaf clones (c), gives a
 * waker back (d), the task is woken (w), or ends (e). */
static const char *script;

static void follow_script(struct fake_task *task)
{
	task->state = (task->state | FAKE_RUNNING) & ~(uint64_t)FAKE_NOTIFIED;
	for (const char *at = script; *at; at++) {
		if (*at == 'c')
			fake_clone(task);
		else if (*at == 'd')
			task->state -= FAKE_REFERENCE;
		else if (*at == 'w')
			task->state |= FAKE_NOTIFIED;
		else
			task->state |= FAKE_COMPLETE;
	}
	task->state &= ~(uint64_t)FAKE_RUNNING;
	if (!(task->state & FAKE_NOTIFIED)) /* what ran it is over */
		task->state -= FAKE_REFERENCE;
}

/* Wakers that live by the count of references at the poll's clones and at its end, one letter each:
 * ? where the count does not say. */
static void check_living(const char *next, uint32_t wakers, const char *expected)
{
	struct fake_task task = fake_task(FAKE_MULTI, 66);
	struct fake_places *places = fake_places();
	char said[10] = "";
	uint32_t i;

	task.state = FAKE_NOTIFIED | FAKE_JOIN_INTEREST | (3 + wakers) * (uint64_t)FAKE_REFERENCE;
	memset(places, 0, sizeof(*places));
	script = next;
	fake_poll_body = follow_script;
	run(&task);
	for (i = 0; i < places->clone_count; i++)
		said[i] = places->living[i] == KYMO_PLACE_LIVING_UNKNOWN ?
				  '?' :
				  (char)('0' + places->living[i]);
	if (places->close_count)
		said[i] = places->living_at_end == KYMO_PLACE_LIVING_UNKNOWN ?
				  '?' :
				  (char)('0' + places->living_at_end);
	assert_string_equal(said, expected);
}

static void hooks__living_wakers_are_counted_by_references(void **state)
{
	(void)state;
	check_living("", 0, "0");
	check_living("", 2, "2");
	check_living("c", 0, "01");
	/* One after the other: a tick that was due, and then a lock. */
	check_living("cdc", 0, "001");
	/* Both at once; beside one of an earlier poll. */
	check_living("cc", 0, "012");
	check_living("cc", 1, "123");
	/* A leaf clones anew and gives the old one back. */
	check_living("cdcd", 2, "222");
}

static void hooks__wakers_of_a_woken_poll_are_not_counted(void **state)
{
	(void)state;
	/* The thread that woke it has its waker. */
	check_living("ccdw", 0, "01?");
	check_living("cwdc", 0, "0??");
	/* Where it waited is of no use when it is over. */
	check_living("ce", 0, "0");
	assert_int_equal(fake_places()->close_count, 0);
}

static void clone_around_another_poll(struct fake_task *task)
{
	struct fake_task other = fake_task(FAKE_MULTI, 65);

	go_idle(task);
	fake_clone(task);
	fake_poll_body = clone_often;
	fake_poll(&other);
	fake_clone(task);
}

static void hooks__places_of_a_poll_continue_after_another_inside_it(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 64);
	struct fake_places *places = fake_places();

	(void)state;
	fake_poll_body = clone_around_another_poll;
	run(&task);
	assert_int_equal(places->clone_count, 7);
	assert_int_equal(places->close_count, 2);
	assert_int_equal(places->poll.task_word >> KYMO_NAME_BITS, 64);
	assert_int_equal(places->poll.clones, 2);
}

static void hooks__place_ends_with_the_task(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 62);

	(void)state;
	fake_poll_body = complete;
	run(&task);
	assert_int_equal(fake_places()->end_count, 1);
	assert_int_equal(fake_places()->ended_task, 62);
	task = fake_task(FAKE_MULTI, 63);
	fake_shutdown_body = complete;
	fake_shutdown(&task);
	assert_int_equal(fake_places()->end_count, 2);
	assert_int_equal(fake_places()->ended_task, 63);
}

static void hooks__places_are_recorded_only_with_their_gate(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 64);

	(void)state;
	fake_recorder_reset(UINT32_MAX & ~(uint32_t)KYMO_GATE_PLACE);
	fake_poll_body = clone_often;
	run(&task);
	assert_int_equal(fake_places()->clone_count + fake_places()->close_count, 0);
	assert_int_equal(fake_count_of(KYMO_RECORD_WAKER_CLONE), 6);
}

static void hooks__shutdown_of_an_idle_task_is_its_end(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 57);

	(void)state;
	fake_shutdown_body = complete;
	fake_shutdown(&task);
	assert_int_equal(fake_last_of(KYMO_RECORD_TASK_END).a >> KYMO_NAME_BITS, 57);
	/* One that runs on another thread ends there. */
	fake_recorder_reset(UINT32_MAX);
	fake_shutdown_body = NULL;
	task = fake_task(FAKE_MULTI, 58);
	task.state |= FAKE_RUNNING;
	fake_shutdown(&task);
	assert_int_equal(fake_count_of(KYMO_RECORD_TASK_END), 0);
	assert_int_equal(task.shutdown_count, 1);
}

/* What another thread does while this one is in the poll. */
static void shut_down_meanwhile(struct fake_task *task)
{
	fake_shutdown(task);
}

static void hooks__end_seen_by_poll_and_shutdown_is_emitted_once(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 64);

	(void)state;
	fake_poll_body = shut_down_meanwhile;
	fake_shutdown_body = complete;
	run(&task);
	assert_int_equal(fake_count_of(KYMO_RECORD_TASK_END), 1);
	assert_int_equal(fake_last_of(KYMO_RECORD_POLL_END).arg, 0);
	assert_int_equal(task.state, FAKE_COMPLETE | 3 * FAKE_REFERENCE);
	/* Recorded once and for all. */
	fake_shutdown_body = NULL;
	fake_shutdown(&task);
	assert_int_equal(fake_count_of(KYMO_RECORD_TASK_END), 1);
	assert_int_equal(task.state, FAKE_COMPLETE | 3 * FAKE_REFERENCE);
}

static void idle_then_complete(struct fake_task *task)
{
	task->state &= ~(uint64_t)FAKE_RUNNING;
	complete(task);
}

/* Running when the shutdown begins, idle when Tokio checks: the shutdown ends it after all. */
static void hooks__shutdown_that_overtakes_a_poll_emits_the_end(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 65);

	(void)state;
	task.state |= FAKE_RUNNING;
	fake_shutdown_body = idle_then_complete;
	fake_shutdown(&task);
	assert_int_equal(fake_count_of(KYMO_RECORD_TASK_END), 1);
}

static void hooks__blocking_run_is_not_a_poll(void **state)
{
	struct fake_task task = fake_task(FAKE_BLOCKING, 59);

	(void)state;
	fake_poll_body = complete;
	run(&task);
	assert_int_equal(fake_count_of(KYMO_RECORD_POLL_BEGIN), 0);
	assert_int_equal(fake_last_of(KYMO_RECORD_BLOCKING_BEGIN).a >> KYMO_NAME_BITS, 59);
	assert_int_equal(fake_last_of(KYMO_RECORD_BLOCKING_END).arg, KYMO_POLL_READY);
}

static void poll_as_worker(struct fake_task *task)
{
	assert_int_equal(ky_tokio_self.workers, 1);
	fake_poll_body = wake_self;
	run(inner);
	fake_poll_body = go_idle;
	fake_wake_by_ref(inner);
	complete(task);
}

static void hooks__launch_makes_the_thread_a_worker(void **state)
{
	/* An Arc of the worker: two counts, then the Arc of the handle, the index, the core. */
	uint64_t handle[2] = {5, 1}, worker[5] = {2, 1, (uintptr_t)handle, 0, 1};
	struct fake_task launch = fake_task(FAKE_LAUNCH, 60), task = fake_task(FAKE_MULTI, 61);

	(void)state;
	launch.captured[1] = (uintptr_t)worker;
	inner = &task;
	fake_poll_body = poll_as_worker;
	run(&launch);
	assert_int_equal(fake_event_at(0).record, KYMO_RECORD_WORKER_BEGIN);
	assert_int_equal(fake_event_at(0).a >> KYMO_NAME_BITS, 60);
	assert_int_equal(fake_event_at(0).b, (uintptr_t)handle);
	assert_int_equal(fake_event_at(0).c, (uintptr_t)worker);
	assert_int_equal(fake_count_of(KYMO_RECORD_POLL_BEGIN), 1);
	/* Outside any poll of a worker it is the driver that wakes. */
	assert_int_equal(fake_last_of(KYMO_RECORD_WAKE).arg, KYMO_WAKE_ON_DRIVER);
	assert_int_equal(fake_event_at(fake_event_count() - 1).record, KYMO_RECORD_WORKER_END);
	assert_int_equal(ky_tokio_self.workers, 0);
}

/* As after kymo attach: the launch of this thread went by before. */
static void hooks__polls_make_a_worker_of_a_thread_whose_launch_was_not_seen(void **state)
{
	struct fake_task one = fake_task(FAKE_MULTI, 70), other = fake_task(FAKE_CURRENT, 71);

	(void)state;
	fake_poll_body = go_idle;
	run(&one);
	assert_int_equal(fake_count_of(KYMO_RECORD_WORKER_BEGIN), 0);
	for (uint32_t generation = 1; generation <= 2; generation++) {
		fake_recorder_reset(UINT32_MAX);
		atomic_store(&ky_tokio_generation, generation);
		assert_false(ky_tokio_is_worker(&ky_tokio_self));
		run(&one);
		run(&one);
		/* Written once to each recording: that it is a worker, then whose. */
		assert_int_equal(fake_event_at(0).record, KYMO_RECORD_WORKER_BEGIN);
		assert_int_equal(fake_event_at(1).record, KYMO_RECORD_RUNTIME);
		assert_int_equal(fake_event_at(0).b, fake_event_at(1).a);
		assert_int_equal(fake_event_at(0).c, (uintptr_t)&ky_tokio_self);
		assert_int_equal(fake_count_of(KYMO_RECORD_WORKER_BEGIN), 1);
		assert_int_equal(fake_count_of(KYMO_RECORD_RUNTIME), 1);
		assert_true(ky_tokio_is_worker(&ky_tokio_self));
	}
	atomic_store(&ky_tokio_generation, 3);
	fake_recorder_reset(UINT32_MAX);
	run(&other);
	assert_int_equal(fake_count_of(KYMO_RECORD_WORKER_BEGIN), 0);
	assert_true(ky_tokio_self.is_driver && !ky_tokio_is_worker(&ky_tokio_self));
	atomic_store(&ky_tokio_generation, 0);
}

static void set_state(struct ky_tokio_table *table, uint32_t value)
{
	atomic_store_explicit(&table->state, value, memory_order_relaxed);
}

static void hooks__first_poll_that_contradicts_the_layout_refuses_the_table(void **state)
{
	struct ky_tokio_table *table = fake_table_of(FAKE_CURRENT);
	struct fake_task task = fake_task(FAKE_CURRENT, 62);
	uint32_t before = ky_tokio_refused_count();

	(void)state;
	fake_poll_body = go_idle;
	/* Not notified, running, complete, an id beyond 40 bits, no scheduler, no reference. */
	for (uint32_t i = 0; i < 6; i++) {
		set_state(table, KY_TOKIO_STATE_NEW);
		task = fake_task(FAKE_CURRENT, i == 3 ? UINT64_C(1) << 40 : 62);
		if (i == 0)
			task.state = 3 * FAKE_REFERENCE;
		if (i == 1)
			task.state |= FAKE_RUNNING;
		if (i == 2)
			task.state |= FAKE_COMPLETE;
		if (i == 4)
			task.scheduler = 1;
		if (i == 5)
			task.state = FAKE_NOTIFIED;
		fake_poll(&task);
		assert_int_equal(task.poll_count, 1);
		assert_int_equal(atomic_load_explicit(&table->state, memory_order_relaxed),
				 KY_TOKIO_STATE_REFUSED);
	}
	assert_int_equal(ky_tokio_refused_count(), before + 6);
	assert_string_not_equal(fake_metadata("tokio.tables_refused"), "");
	assert_int_equal(fake_event_count(), 0);
	fake_shutdown(&task);
	assert_int_equal(fake_event_count(), 0);
	assert_int_equal(task.shutdown_count, 1);
	set_state(table, KY_TOKIO_STATE_NEW);
}

static void hooks__every_cut_of_the_gates_leaves_polls_paired(void **state)
{
	struct fake_task task = fake_task(FAKE_MULTI, 63);

	(void)state;
	fake_poll_body = go_idle;
	for (uint32_t gates = 0; gates < 512; gates++) {
		fake_recorder_reset(gates);
		run(&task);
		assert_int_equal(fake_count_of(KYMO_RECORD_POLL_BEGIN),
				 (gates & KYMO_GATE_POLL) != 0);
		assert_int_equal(task.state, 3 * FAKE_REFERENCE);
	}
	assert_int_equal(task.poll_count, 512);
}

#define CASE(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(hooks__poll_is_recorded_and_reaches_tokio_once),
		CASE(hooks__local_queue_counts_for_the_next_poll_alone),
		CASE(hooks__long_poll_has_its_cost_with_wakes_and_nested_polls),
		CASE(hooks__completion_is_the_end_of_the_task),
		CASE(hooks__last_reference_frees_through_the_table),
		CASE(hooks__cancelled_task_is_recorded_as_such),
		CASE(hooks__stale_notification_of_an_ended_task_ends_nothing),
		CASE(hooks__unrecorded_wake_in_its_own_poll_is_derived),
		CASE(hooks__recorded_wake_in_its_own_poll_is_not_derived_again),
		CASE(hooks__wake_says_which_functions_issue_it),
		CASE(hooks__wake_of_a_task_that_runs_elsewhere_is_not_derived),
		CASE(hooks__nested_poll_keeps_the_outer_one_apart),
		CASE(hooks__runtime_is_emitted_when_the_owner_changes),
		CASE(hooks__closed_gates_record_nothing_and_pass_everything),
		CASE(hooks__waker_clone_is_recorded_only_with_its_gate),
		CASE(hooks__clones_of_the_polled_task_alone_are_reported),
		CASE(hooks__living_wakers_are_counted_by_references),
		CASE(hooks__wakers_of_a_woken_poll_are_not_counted),
		CASE(hooks__places_of_a_poll_continue_after_another_inside_it),
		CASE(hooks__place_ends_with_the_task),
		CASE(hooks__places_are_recorded_only_with_their_gate),
		CASE(hooks__shutdown_of_an_idle_task_is_its_end),
		CASE(hooks__end_seen_by_poll_and_shutdown_is_emitted_once),
		CASE(hooks__shutdown_that_overtakes_a_poll_emits_the_end),
		CASE(hooks__blocking_run_is_not_a_poll),
		CASE(hooks__launch_makes_the_thread_a_worker),
		CASE(hooks__polls_make_a_worker_of_a_thread_whose_launch_was_not_seen),
		CASE(hooks__first_poll_that_contradicts_the_layout_refuses_the_table),
		CASE(hooks__every_cut_of_the_gates_leaves_polls_paired),
	};

	return cmocka_run_group_tests_name("hooks", tests, NULL, NULL);
}
