/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which worker a thread's polls belong to, and which index its runtime gave it. */
#include "../../lib/drain_case.h"

#include <kymo/recorder.h>

#define RT UINT64_C(0x7000)

static const struct test_event *worker_of(struct drain_case *c, uint32_t tid)
{
	for (size_t i = 0;; i++) {
		const struct test_event *event = EVENT(c, WORKER, i);

		if (!event || NUMBER(event, WORKER, tid) == tid)
			return event;
	}
}

static void drain__worker_index_is_the_rank_of_the_launch_task(void **state)
{
	static const uint64_t launches[] = {12, 10, 13, 11};
	struct test_writer w[4];
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	test_ring_runtime(&c.ring, RT, KYMO_RUNTIME_MULTI_THREAD, "main");
	case_start(&c);
	/* The threads come in another order than their launches, and not all in one step. */
	for (uint32_t i = 0; i < 4; i++) {
		test_writer_open(&w[i], &c.ring, 501 + i, T0 + i * MS);
		test_worker(&w[i], T0 + i * MS, launches[i], RT, 0x100 + i);
		test_poll(&w[i], T0 + i * MS + 1000, 50 + i, 0);
		case_step(&c, T0 + i * MS + 2 * MS);
	}
	case_step(&c, T0 + 60 * MS);
	case_finish(&c, T0 + 80 * MS);
	for (uint32_t i = 0; i < 4; i++) {
		const struct test_event *worker = worker_of(&c, 501 + i);

		assert_non_null(worker);
		assert_int_equal(NUMBER(worker, WORKER, worker_index), launches[i] - 10);
		assert_int_equal(NUMBER(worker, WORKER, worker_id), launches[i] - 10);
		assert_int_equal(NUMBER(worker, WORKER, is_exact), 1);
		assert_int_equal(NUMBER(worker, WORKER, runtime_id), 0);
	}
	assert_string_equal(TEXT(EVENT(&c, RUNTIME, 0), RUNTIME, name), "main");
	case_close(&c);
}

static void drain__second_thread_of_an_identity_is_block_in_place(void **state)
{
	struct test_writer a, b;
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_writer_open(&b, &c.ring, 502, T0);
	test_worker(&a, T0, 10, RT, 0x100);
	test_poll(&a, T0 + MS, 50, 0);
	test_worker(&b, T0 + 2 * MS, 60, RT, 0x100);
	test_poll(&b, T0 + 3 * MS, 51, 0);
	test_poll_end(&a, T0 + 4 * MS, 0); /* the blocked poll ends on its old thread */
	test_poll_end(&b, T0 + 5 * MS, 0);
	test_emit(&a, T0 + 6 * MS, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
	test_poll(&b, T0 + 7 * MS, 52, 0);
	test_poll_end(&b, T0 + 8 * MS, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, BLOCK_IN_PLACE), 1);
	assert_int_equal(NUMBER(EVENT(&c, BLOCK_IN_PLACE, 0), BLOCK_IN_PLACE, from_tid), 501);
	assert_int_equal(NUMBER(EVENT(&c, BLOCK_IN_PLACE, 0), BLOCK_IN_PLACE, to_tid), 502);
	/* One worker, pairs that do not overlap: 50 until it was handed over, 51, 52. */
	assert_int_equal(COUNT(&c, POLL_START), 3);
	assert_int_equal(COUNT(&c, POLL_END), 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(NUMBER(EVENT(&c, POLL_START, i), POLL_START, worker_id), 0);
		assert_true(EVENT(&c, POLL_START, i)->ns < EVENT(&c, POLL_END, i)->ns);
		if (i)
			assert_true(EVENT(&c, POLL_END, i - 1)->ns <= EVENT(&c, POLL_START, i)->ns);
	}
	/* The rest of the blocked poll is written on its own thread. */
	assert_int_equal(COUNT(&c, NESTED_POLL_START), 1);
	assert_int_equal(COUNT(&c, NESTED_POLL_END), 1);
	assert_int_equal(NUMBER(EVENT(&c, NESTED_POLL_START, 0), NESTED_POLL_START, tid), 501);
	assert_int_equal(NUMBER(EVENT(&c, NESTED_POLL_START, 0), NESTED_POLL_START, depth), 0);
	case_close(&c);
}

/* The last description of worker 0: what it parks on. */
static uint64_t parks_on(const struct drain_case *c, bool is_futex)
{
	const struct test_event *event = EVENT(c, WORKER, COUNT(c, WORKER) - 1);

	assert_int_equal(NUMBER(event, WORKER, worker_id), 0);
	return is_futex ? NUMBER(event, WORKER, futex) : NUMBER(event, WORKER, eventfd);
}

/* Each of two threads that serve it, one after the other, says a part. */
static void drain__worker_is_described_with_what_it_parks_on(void **state)
{
	const uint64_t fd = UINT64_C(8) << KYMO_PARKED_ON_FD_SHIFT;
	struct test_writer a, b;
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_writer_open(&b, &c.ring, 502, T0);
	test_worker(&a, T0, 10, RT, 0x100);
	test_emit(&a, T0 + MS, KYMO_RECORD_PARKED_ON, 0, 1, 0x7000, 0, 0);
	test_emit(&a, T0 + 2 * MS, KYMO_RECORD_PARK, KYMO_WAIT_FUTEX, 0, 0, 0, 0);
	test_emit(&a, T0 + 3 * MS, KYMO_RECORD_UNPARK, 0, 0, 0, 0, 0);
	test_poll(&a, T0 + 4 * MS, 50, 0);
	test_worker(&b, T0 + 5 * MS, 60, RT, 0x100);
	test_emit(&b, T0 + 6 * MS, KYMO_RECORD_PARKED_ON, 0, 1, fd, 0, 0);
	test_emit(&b, T0 + 7 * MS, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0, 0);
	test_emit(&b, T0 + 8 * MS, KYMO_RECORD_UNPARK, 0, 0, 0, 0, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(parks_on(&c, true), 0x7000);
	assert_int_equal(parks_on(&c, false), 7);
	case_close(&c);
}

static void drain__worker_goes_back_when_the_helper_found_nothing(void **state)
{
	struct test_writer a, b;
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_writer_open(&b, &c.ring, 502, T0);
	test_worker(&a, T0, 10, RT, 0x100);
	test_worker(&b, T0 + 2 * MS, 60, RT, 0x100);
	test_emit(&b, T0 + 3 * MS, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
	test_poll(&a, T0 + 4 * MS, 51, 0);
	test_poll_end(&a, T0 + 5 * MS, 0);
	test_emit(&a, T0 + 6 * MS, KYMO_RECORD_PARK, 1, 0, 0, 0, 0);
	test_emit(&a, T0 + 7 * MS, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 1);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 0), POLL_START, worker_id), 0);
	assert_int_equal(NUMBER(EVENT(&c, WORKER_PARK, 0), WORKER_PARK, tid), 501);
	assert_int_equal(NUMBER(EVENT(&c, WORKER, COUNT(&c, WORKER) - 1), WORKER, has_ended), 1);
	case_close(&c);
}

/* A launch that finds no worker to take ends at once. */
static void launch_in_vain(struct test_writer *w, uint64_t ns, uint64_t task)
{
	test_worker(w, ns, task, RT, 0x100);
	test_emit(w, ns + MS / 10, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
}

static void check_move(struct drain_case *c, size_t at, uint64_t ns, uint32_t from, uint32_t to)
{
	const struct test_event *move = EVENT(c, BLOCK_IN_PLACE, at);

	assert_non_null(move);
	assert_in_range(move->ns, ns - 1000, ns + 1000);
	assert_int_equal(NUMBER(move, BLOCK_IN_PLACE, worker_id), 0);
	assert_int_equal(NUMBER(move, BLOCK_IN_PLACE, from_tid), from);
	assert_int_equal(NUMBER(move, BLOCK_IN_PLACE, to_tid), to);
}

static void drain__worker_moves_to_the_thread_that_polls_or_parks(void **state)
{
	struct test_writer a, b, d;
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_writer_open(&b, &c.ring, 502, T0);
	test_writer_open(&d, &c.ring, 503, T0);
	test_worker(&a, T0, 10, RT, 0x100);
	test_poll(&a, T0 + MS, 50, 0);
	launch_in_vain(&b, T0 + 2 * MS, 60);
	test_poll_end(&a, T0 + 3 * MS, 0);
	test_poll(&a, T0 + 4 * MS, 50, 0);
	test_worker(&b, T0 + 5 * MS, 61, RT, 0x100);
	test_emit(&b, T0 + 7 * MS, KYMO_RECORD_PARK, 1, 0, 0, 0, 0);
	test_emit(&b, T0 + 8 * MS, KYMO_RECORD_UNPARK, 0, 0, 0, 0, 0);
	test_poll_end(&a, T0 + 9 * MS, 0);
	test_emit(&a, T0 + 10 * MS, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
	test_poll(&b, T0 + 11 * MS, 51, 0);
	/* The next launch runs on the first thread again, a later one is in vain. */
	test_worker(&a, T0 + 12 * MS, 62, RT, 0x100);
	test_poll(&a, T0 + 13 * MS, 52, 0);
	launch_in_vain(&d, T0 + 14 * MS, 63);
	test_poll_end(&b, T0 + 15 * MS, 0);
	test_emit(&b, T0 + 16 * MS, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
	test_poll_end(&a, T0 + 17 * MS, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, BLOCK_IN_PLACE), 2);
	check_move(&c, 0, T0 + 7 * MS, 501, 502);
	check_move(&c, 1, T0 + 13 * MS, 502, 501);
	assert_in_range(NUMBER(EVENT(&c, BLOCK_IN_PLACE, 0), BLOCK_IN_PLACE, launched_ns),
			T0 + 5 * MS - 1000, T0 + 5 * MS + 1000);
	assert_int_equal(COUNT(&c, POLL_START), 4);
	assert_int_equal(COUNT(&c, POLL_END), 4);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(NUMBER(EVENT(&c, POLL_START, i), POLL_START, worker_id), 0);
	assert_int_equal(COUNT(&c, NESTED_POLL_START), 2);
	case_close(&c);
}

/* The thread that had it ends before the other has done anything. */
static void drain__worker_without_a_thread_moves_with_the_next_poll(void **state)
{
	struct test_writer a, b;
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_writer_open(&b, &c.ring, 502, T0);
	test_worker(&a, T0, 10, RT, 0x100);
	test_poll(&a, T0 + MS, 50, 0);
	test_worker(&b, T0 + 2 * MS, 60, RT, 0x100);
	test_poll_end(&a, T0 + 3 * MS, 0);
	test_emit(&a, T0 + 4 * MS, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
	test_poll(&b, T0 + 5 * MS, 51, 0);
	test_poll_end(&b, T0 + 6 * MS, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, BLOCK_IN_PLACE), 1);
	check_move(&c, 0, T0 + 5 * MS, 501, 502);
	assert_int_equal(COUNT(&c, NESTED_POLL_START), 0);
	case_close(&c);
}

static bool has_ended(struct drain_case *c)
{
	return NUMBER(EVENT(c, WORKER, COUNT(c, WORKER) - 1), WORKER, has_ended) != 0;
}

/* Records from here to the next claim are overwritten before the drain comes. */
static void lose_records(struct drain_case *c, struct test_writer *w, uint64_t ns)
{
	for (uint32_t i = atomic_load(&c->ring.header->usable_count); i-- > 0;)
		test_writer_claim(w, ns);
}

static void drain__end_of_a_thread_is_no_end_of_a_worker_launched_again(void **state)
{
	struct test_writer a, b, other;
	struct drain_case c;

	(void)state;
	case_open(&c, 8);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_writer_open(&other, &c.ring, 600, T0);
	test_worker(&a, T0, 10, RT, 0x100);
	test_worker(&other, T0, 11, RT, 0x200);
	test_poll(&a, T0 + MS, 50, 0);
	/* Of the thread that took the worker then nothing is known. */
	test_poll_end(&a, T0 + 3 * MS, 0);
	test_emit(&a, T0 + 4 * MS, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
	test_writer_open(&b, &c.ring, 503, T0 + 5 * MS);
	test_worker(&b, T0 + 5 * MS, 61, RT, 0x100);
	test_poll(&b, T0 + 6 * MS, 51, 0);
	test_poll_end(&b, T0 + 7 * MS, 0);
	case_finish(&c, T0 + 80 * MS);
	for (size_t i = 0; i < COUNT(&c, WORKER); i++)
		assert_true(NUMBER(EVENT(&c, WORKER, i), WORKER, worker_id) < 2);
	assert_int_equal(COUNT(&c, RUNTIME), 1);
	assert_int_equal(COUNT(&c, BLOCK_IN_PLACE), 1);
	check_move(&c, 0, T0 + 6 * MS, 501, 503);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 1), POLL_START, worker_id), 0);
	assert_false(has_ended(&c));
	case_close(&c);
}

/* The only worker of its runtime, so that the runtime seems to have ended with it. */
static void drain__worker_whose_launch_was_lost_continues(void **state)
{
	struct test_writer a, b;
	struct drain_case c;

	(void)state;
	case_open(&c, 4);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_worker(&a, T0, 10, RT, 0x100);
	test_poll(&a, T0 + MS, 50, 0);
	case_step(&c, T0 + 2 * MS);
	test_writer_open(&b, &c.ring, 502, T0 + 2 * MS);
	test_worker(&b, T0 + 2 * MS, 60, RT, 0x100);
	lose_records(&c, &b, T0 + 5 * MS);
	test_poll_end(&a, T0 + 3 * MS, 0);
	test_emit(&a, T0 + 4 * MS, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
	test_poll(&b, T0 + 6 * MS, 51, 0);
	test_poll_end(&b, T0 + 7 * MS, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_true(COUNT(&c, LOSS) > 0);
	for (size_t i = 0; i < COUNT(&c, WORKER); i++)
		assert_int_equal(NUMBER(EVENT(&c, WORKER, i), WORKER, worker_id), 0);
	assert_int_equal(COUNT(&c, RUNTIME), 1);
	assert_int_equal(COUNT(&c, BLOCK_IN_PLACE), 1);
	check_move(&c, 0, T0 + 6 * MS, 501, 502);
	assert_false(has_ended(&c));
	case_close(&c);
}

/* Its end is in the gap; what the thread does next is none of the worker. */
static void drain__thread_whose_end_was_lost_takes_no_worker_back(void **state)
{
	struct test_writer a, b;
	struct drain_case c;

	(void)state;
	case_open(&c, 4);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_writer_open(&b, &c.ring, 502, T0);
	test_worker(&a, T0, 10, RT, 0x100);
	test_poll(&a, T0 + MS, 50, 0);
	test_worker(&b, T0 + 2 * MS, 60, RT, 0x100);
	test_poll(&b, T0 + 3 * MS, 51, 0);
	test_poll_end(&b, T0 + 4 * MS, 0);
	case_step(&c, T0 + 5 * MS);
	test_poll_end(&a, T0 + 6 * MS, 0);
	test_emit(&a, T0 + 6 * MS, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
	memset(a.worker, 0, sizeof(a.worker));
	lose_records(&c, &a, T0 + 7 * MS);
	test_emit(&a, T0 + 8 * MS, KYMO_RECORD_PARK, 1, 0, 0, 0, 0);
	test_emit(&b, T0 + 9 * MS, KYMO_RECORD_PARK, 1, 0, 0, 0, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, BLOCK_IN_PLACE), 1);
	assert_int_equal(COUNT(&c, WORKER_PARK), 1);
	assert_int_equal(NUMBER(EVENT(&c, WORKER_PARK, 0), WORKER_PARK, tid), 502);
	case_close(&c);
}

/* A blocked poll that is carried over a gap does not take the worker from who has it. */
static void drain__carried_poll_that_is_older_takes_no_worker(void **state)
{
	struct test_writer a, b;
	struct drain_case c;

	(void)state;
	case_open(&c, 4);
	case_start(&c);
	test_writer_open(&b, &c.ring, 502, T0);
	test_worker(&b, T0, 10, RT, 0x100);
	test_emit(&b, T0 + MS / 10, KYMO_RECORD_UNPARK, 0, 0, 0, 0, 0);
	case_step(&c, T0 + MS / 2);
	test_writer_open(&a, &c.ring, 501, T0 + MS);
	test_worker(&a, T0 + MS, 11, RT, 0x100);
	test_poll(&a, T0 + 2 * MS, 50, 0);
	lose_records(&c, &a, T0 + 5 * MS);
	test_poll(&b, T0 + 3 * MS, 51, 0);
	test_poll_end(&b, T0 + 4 * MS, 0);
	test_poll(&b, T0 + 6 * MS, 52, 0);
	test_poll_end(&a, T0 + 7 * MS, 0);
	test_poll_end(&b, T0 + 8 * MS, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, BLOCK_IN_PLACE), 0);
	assert_int_equal(COUNT(&c, POLL_START), 2);
	assert_int_equal(COUNT(&c, POLL_END), 2);
	assert_int_equal(COUNT(&c, NESTED_POLL_START), 1);
	assert_int_equal(NUMBER(EVENT(&c, NESTED_POLL_START, 0), NESTED_POLL_START, tid), 501);
	case_close(&c);
}

static void drain__a_reused_runtime_key_is_a_new_runtime(void **state)
{
	struct test_writer a, b;
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_worker(&a, T0, 10, RT, 0x100);
	test_emit(&a, T0 + MS, KYMO_RECORD_WORKER_END, 0, 0, 0, 0, 0);
	test_writer_open(&b, &c.ring, 502, T0 + 2 * MS);
	test_worker(&b, T0 + 2 * MS, 90, RT, 0x100);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, BLOCK_IN_PLACE), 0);
	assert_int_equal(NUMBER(worker_of(&c, 502), WORKER, worker_index), 0);
	assert_int_equal(NUMBER(worker_of(&c, 502), WORKER, runtime_id), 1);
	assert_int_equal(NUMBER(worker_of(&c, 502), WORKER, worker_id), 1);
	case_close(&c);
}

static void drain__threads_that_only_poll_get_a_worker_of_their_own(void **state)
{
	struct test_writer a, b, other;
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	test_ring_runtime(&c.ring, 0x9000, KYMO_RUNTIME_CURRENT_THREAD, "");
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_writer_open(&b, &c.ring, 502, T0);
	test_writer_open(&other, &c.ring, 503, T0);
	test_emit(&a, T0, KYMO_RECORD_RUNTIME, 0, 1, 0x9000, 0, 0);
	test_poll(&a, T0 + MS, 5, 0);
	test_poll_end(&a, T0 + 2 * MS, 0);
	/* The same runtime driven by another thread later. */
	test_emit(&b, T0 + 3 * MS, KYMO_RECORD_RUNTIME, 0, 1, 0x9000, 0, 0);
	test_poll(&b, T0 + 4 * MS, 5, 0);
	test_poll_end(&b, T0 + 5 * MS, 0);
	test_poll(&other, T0 + 6 * MS, 6, 0);
	test_poll_end(&other, T0 + 7 * MS, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 0), POLL_START, worker_id), 0);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 1), POLL_START, worker_id), 0);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 2), POLL_START, worker_id), 1);
	assert_int_equal(NUMBER(worker_of(&c, 501), WORKER, worker_index), 0);
	assert_int_equal(NUMBER(worker_of(&c, 501), WORKER, is_exact), 1);
	assert_false(worker_of(&c, 503)->is_present[KY_F_WORKER_worker_index]);
	assert_int_equal(NUMBER(worker_of(&c, 503), WORKER, is_exact), 0);
	case_close(&c);
}

static void drain__worker_ids_leave_out_254_and_255(void **state)
{
	static struct test_writer w[300];
	struct drain_case c;
	bool seen[310] = {false};

	(void)state;
	case_open(&c, 320);
	case_start(&c);
	for (uint32_t i = 0; i < 300; i++) {
		test_writer_open(&w[i], &c.ring, 1000 + i, T0);
		test_worker(&w[i], T0 + i, 10 + i, RT, 0x100 + i);
		test_poll(&w[i], T0 + MS + i, 900 + i, 0);
	}
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, POLL_START), 300);
	for (size_t i = 0; i < 300; i++)
		seen[NUMBER(EVENT(&c, POLL_START, i), POLL_START, worker_id)] = true;
	for (uint32_t i = 0; i < 302; i++)
		assert_int_equal(seen[i], i != 254 && i != 255);
	assert_int_equal(COUNT(&c, OPEN_POLL), 300);
	assert_int_equal(NUMBER(EVENT(&c, OPEN_POLL, 0), OPEN_POLL, is_at_exit), 1);
	case_close(&c);
}

static void runtime_of(struct test_writer *w, uint64_t ns, uint64_t key)
{
	test_emit(w, ns, KYMO_RECORD_RUNTIME, 0, 1, key, 0, 0);
}

/* Its launch was dropped, so nothing says which worker it serves: it is none of its own. */
static void drain__thread_whose_launch_was_dropped_makes_no_worker(void **state)
{
	struct test_writer a, b;
	struct drain_case c;

	(void)state;
	case_open(&c, 8);
	case_start(&c);
	test_writer_open(&a, &c.ring, 501, T0);
	test_worker(&a, T0, 10, RT, 0x100);
	atomic_store(&c.ring.header->dropped_no_slot_count, 3);
	test_writer_open(&b, &c.ring, 502, T0 + MS);
	test_poll(&b, T0 + 2 * MS, 51, 0);
	test_poll_end(&b, T0 + 3 * MS, 0);
	runtime_of(&b, T0 + 4 * MS, RT);
	test_poll(&b, T0 + 5 * MS, 52, 0);
	test_poll_end(&b, T0 + 6 * MS, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, WORKER), 1);
	assert_int_equal(COUNT(&c, NESTED_POLL_START), 2);
	case_close(&c);
}

static void drain__local_sets_make_no_worker(void **state)
{
	struct test_writer alone, driver;
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	test_ring_runtime(&c.ring, 1, KYMO_RUNTIME_LOCAL_SET, "");
	test_ring_runtime(&c.ring, RT, KYMO_RUNTIME_CURRENT_THREAD, "");
	case_start(&c);
	test_writer_open(&alone, &c.ring, 501, T0);
	test_writer_open(&driver, &c.ring, 502, T0);
	runtime_of(&alone, T0, 1);
	test_poll(&alone, T0 + MS, 50, 0);
	test_poll_end(&alone, T0 + 2 * MS, 0);
	runtime_of(&driver, T0, RT);
	test_poll(&driver, T0 + 3 * MS, 51, 0);
	test_poll_end(&driver, T0 + 4 * MS, 0);
	runtime_of(&driver, T0 + 5 * MS, 1);
	test_poll(&driver, T0 + 6 * MS, 52, 0);
	test_poll_end(&driver, T0 + 7 * MS, 0);
	case_finish(&c, T0 + 80 * MS);
	/* Without a worker it is a poll inside something that is not recorded; else that worker's.
	 */
	assert_int_equal(COUNT(&c, NESTED_POLL_START), 1);
	assert_int_equal(NUMBER(EVENT(&c, NESTED_POLL_START, 0), NESTED_POLL_START, task_id), 50);
	assert_int_equal(COUNT(&c, POLL_START), 2);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 1), POLL_START, task_id), 52);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 1), POLL_START, worker_id), 0);
	assert_int_equal(COUNT(&c, RUNTIME), 1);
	assert_null(worker_of(&c, 501));
	case_close(&c);
}

/* A closure that drives a runtime for one poll. */
static void closure_with_runtime(struct test_writer *w, uint64_t ns, uint64_t task)
{
	test_emit(w, ns, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(9, 0), 0, 0);
	runtime_of(w, ns, RT);
	test_poll(w, ns + MS, task, 0);
	test_poll_end(w, ns + 2 * MS, 0);
	test_emit(w, ns + 3 * MS, KYMO_RECORD_BLOCKING_END, KYMO_POLL_READY, 0, 0, 0, 0);
}

static void drain__worker_of_a_blocking_run_ends_with_it(void **state)
{
	struct test_writer pool, other;
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	test_ring_runtime(&c.ring, 1, KYMO_RUNTIME_LOCAL_SET, "");
	test_ring_runtime(&c.ring, RT, KYMO_RUNTIME_CURRENT_THREAD, "");
	case_start(&c);
	test_writer_open(&pool, &c.ring, 501, T0);
	test_writer_open(&other, &c.ring, 502, T0);
	closure_with_runtime(&pool, T0, 51);
	/* Driven by code that is not recorded. */
	test_emit(&pool, T0 + 10 * MS, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(9, 0), 0,
		  0);
	runtime_of(&pool, T0 + 10 * MS, 1);
	test_poll(&pool, T0 + 11 * MS, 52, 0);
	test_poll_end(&pool, T0 + 12 * MS, 0);
	test_emit(&pool, T0 + 13 * MS, KYMO_RECORD_BLOCKING_END, KYMO_POLL_READY, 0, 0, 0, 0);
	closure_with_runtime(&other, T0 + 20 * MS, 53); /* the same runtime continues */
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, NESTED_POLL_START), 1);
	assert_int_equal(NUMBER(EVENT(&c, NESTED_POLL_START, 0), NESTED_POLL_START, task_id), 52);
	assert_int_equal(COUNT(&c, POLL_START), 2);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 1), POLL_START, task_id), 53);
	assert_int_equal(NUMBER(EVENT(&c, POLL_START, 1), POLL_START, worker_id), 0);
	assert_int_equal(COUNT(&c, WORKER), 4);
	for (uint32_t i = 0; i < 4; i++) {
		const struct test_event *worker = EVENT(&c, WORKER, i);

		assert_int_equal(NUMBER(worker, WORKER, worker_id), 0);
		assert_int_equal(NUMBER(worker, WORKER, has_ended), i % 2);
		assert_int_equal(NUMBER(worker, WORKER, tid), i < 2 ? 501 : 502);
	}
	case_close(&c);
}

/* The time between its runs is none of its own. */
static void drain__continued_worker_was_not_awake_meanwhile(void **state)
{
	struct test_writer pool;
	struct drain_case c;

	(void)state;
	case_open(&c, 16);
	test_ring_runtime(&c.ring, RT, KYMO_RUNTIME_CURRENT_THREAD, "");
	case_start(&c);
	test_writer_open(&pool, &c.ring, 501, T0);
	closure_with_runtime(&pool, T0, 51);
	test_emit(&pool, T0 + 20 * MS, KYMO_RECORD_BLOCKING_BEGIN, 0, 1, kymo_task_word(9, 0), 0,
		  0);
	test_poll(&pool, T0 + 21 * MS, 52, 0);
	test_poll_end(&pool, T0 + 22 * MS, 0);
	test_emit(&pool, T0 + 23 * MS, KYMO_RECORD_PARK, KYMO_WAIT_EPOLL, 0, 0, 0, 0);
	case_finish(&c, T0 + 80 * MS);
	assert_int_equal(COUNT(&c, WORKER_PARK), 1);
	/* From its first poll to the end of the run, and from the second to the park. */
	assert_in_range(NUMBER(EVENT(&c, WORKER_PARK, 0), WORKER_PARK, cpu_time_ns),
			4 * MS - MS / 10, 4 * MS + MS / 10);
	case_close(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain__worker_index_is_the_rank_of_the_launch_task),
		cmocka_unit_test(drain__second_thread_of_an_identity_is_block_in_place),
		cmocka_unit_test(drain__worker_is_described_with_what_it_parks_on),
		cmocka_unit_test(drain__worker_goes_back_when_the_helper_found_nothing),
		cmocka_unit_test(drain__worker_moves_to_the_thread_that_polls_or_parks),
		cmocka_unit_test(drain__worker_without_a_thread_moves_with_the_next_poll),
		cmocka_unit_test(drain__end_of_a_thread_is_no_end_of_a_worker_launched_again),
		cmocka_unit_test(drain__worker_whose_launch_was_lost_continues),
		cmocka_unit_test(drain__thread_whose_end_was_lost_takes_no_worker_back),
		cmocka_unit_test(drain__carried_poll_that_is_older_takes_no_worker),
		cmocka_unit_test(drain__a_reused_runtime_key_is_a_new_runtime),
		cmocka_unit_test(drain__threads_that_only_poll_get_a_worker_of_their_own),
		cmocka_unit_test(drain__thread_whose_launch_was_dropped_makes_no_worker),
		cmocka_unit_test(drain__local_sets_make_no_worker),
		cmocka_unit_test(drain__worker_of_a_blocking_run_ends_with_it),
		cmocka_unit_test(drain__continued_worker_was_not_awake_meanwhile),
		cmocka_unit_test(drain__worker_ids_leave_out_254_and_255),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
