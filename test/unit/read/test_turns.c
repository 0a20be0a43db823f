/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "read_case.h"

#include <kymo/emit.h>
#include <read/turns.h>

static void worker(struct read_case *c, uint64_t ns, uint32_t id, uint64_t futex, uint64_t eventfd)
{
	ky_trc_enc_event(&c->enc, KY_EV_WORKER, ns);
	ky_trc_enc_varint(&c->enc, id);
	ky_trc_enc_opt_varint(&c->enc, true, 0);
	ky_trc_enc_opt_varint(&c->enc, true, id);
	ky_trc_enc_u32(&c->enc, 100 + id);
	ky_trc_enc_u8(&c->enc, 1);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 7 + id);
	ky_trc_enc_opt_varint(&c->enc, futex != 0, futex);
	ky_trc_enc_opt_varint(&c->enc, eventfd != 0, eventfd);
}

/* Its id; 99: not known. */
static uint64_t notified(const struct read_case *c, uint64_t ns, uint8_t via, uint64_t target)
{
	const struct ky_notify notify = {.time_ns = ns, .target = target, .via = via};
	uint32_t of = ky_trace_notified_worker(c->trace, &notify);

	return of == KY_NONE ? 99 : c->trace->workers[of].id;
}

static void notify__names_the_worker_that_parks_on_the_address_then(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	worker(&c, 1000, 5, 0x7000, 0);
	worker(&c, 1000, 3, 0x8000, 4);
	worker(&c, 2000, 5, 0x7000, 4); /* the same again, and more */
	worker(&c, 5000, 6, 0x7000, 0); /* of another runtime, later */
	case_open(&c);
	assert_int_equal(c.trace->parked_on_count, 5);
	assert_int_equal(notified(&c, 500, KY_NOTIFY_FUTEX, 0x7000), 5);
	assert_int_equal(notified(&c, 4999, KY_NOTIFY_FUTEX, 0x7000), 5);
	assert_int_equal(notified(&c, 5000, KY_NOTIFY_FUTEX, 0x7000), 6);
	assert_int_equal(notified(&c, 3000, KY_NOTIFY_FUTEX, 0x8000), 3);
	assert_int_equal(notified(&c, 3000, KY_NOTIFY_FUTEX, 0x9000), 99);
	assert_int_equal(notified(&c, 3000, KY_NOTIFY_EVENTFD, 0x7000), 99);
	assert_int_equal(notified(&c, 3000, KY_NOTIFY_EVENTFD, 4), 5);
	case_finish(&c);
}

static void notify__in_a_trace_that_does_not_say_so_names_none(void **state)
{
	struct read_case c;

	(void)state;
	case_begin(&c);
	worker(&c, 1000, 5, 0, 0);
	case_open(&c);
	assert_int_equal(notified(&c, 2000, KY_NOTIFY_FUTEX, 0), 99);
	case_finish(&c);
}

static uint64_t due(const struct read_case *c, uint64_t row)
{
	struct ky_park park;

	ky_trace_park(c->trace, 0, row, &park);
	return park.due_ns;
}

static void parks__keep_the_delay_that_another_writer_measured(void **state)
{
	struct read_case c;
	struct ky_park park;

	(void)state;
	case_begin(&c);
	case_park_for(&c, 1000, 0, 11, 1, 5);
	case_unpark(&c, 2000, 0, 11);
	case_open(&c);
	ky_trace_park(c.trace, 0, 0, &park);
	assert_int_equal(park.sched_wait_ns, 77);
	assert_true(park.due_ns == UINT64_MAX);
	assert_int_equal(park.flags, 0);
	case_finish(&c);
}

static void parks__are_due_when_their_time_out_is_over(void **state)
{
	static const uint32_t timeouts[] = {0, 5, 16380, 16381, UINT32_MAX, UINT32_MAX - 1};
	struct read_case c;
	struct ky_park park;

	(void)state;
	case_begin(&c);
	for (uint32_t i = 0; i < 6; i++)
		case_park_for(&c, 1000 + 100 * i, 0, 11, 2, timeouts[i]);
	case_open(&c);
	assert_int_equal(due(&c, 0), 1000);
	assert_int_equal(due(&c, 1), 1100 + 5000000);
	assert_int_equal(due(&c, 2), 1200 + UINT64_C(16380000000));
	for (uint64_t row = 3; row < 6; row++)
		assert_true(due(&c, row) == UINT64_MAX);
	ky_trace_park(c.trace, 0, 1, &park);
	assert_int_equal(park.sched_wait_ns, UINT32_MAX);
	assert_int_equal(park.wait, 2);
	assert_int_equal(park.flags, KY_PARK_END_UNPROVEN);
	case_finish(&c);
}

static void unpark(struct read_case *c, uint64_t ns, uint32_t count, uint32_t descriptor)
{
	ky_trc_enc_unpark(&c->enc, ns, 0, ns, 11, count, descriptor);
}

/* Of the worker's last check; 99: there is none, 98: not known. */
static uint32_t ready(const struct read_case *c, uint64_t ns)
{
	struct ky_turn check;

	if (!ky_trace_driver_check(c->trace, 0, ns, &check))
		return 99;
	return check.ready_descriptor == KY_NONE ? 98 : check.ready_descriptor;
}

static void checks__say_which_descriptor_was_ready_alone(void **state)
{
	struct read_case c;
	struct ky_park park;
	struct ky_turn turn;

	(void)state;
	case_begin(&c);
	case_park_for(&c, 1000, 0, 11, KYMO_WAIT_EPOLL, UINT32_MAX);
	unpark(&c, 2000, 1, 12);
	ky_trc_enc_driver_turn(&c.enc, 3000, 0, 100, 1, 0);
	ky_trc_enc_driver_turn(&c.enc, 4000, 0, 100, 2, UINT32_MAX);
	ky_trc_enc_driver_turn(&c.enc, 5000, 0, 100, 100000, UINT32_MAX);
	case_park_for(&c, 6000, 0, 11, KYMO_WAIT_FUTEX, UINT32_MAX); /* no check */
	unpark(&c, 7000, 0, UINT32_MAX);
	case_open(&c);
	assert_int_equal(ready(&c, 999), 99);
	assert_int_equal(ready(&c, 2500), 12);
	assert_int_equal(ready(&c, 3500), 0);
	assert_int_equal(ready(&c, 4500), 98);
	assert_int_equal(ready(&c, 8000), 98);
	ky_trace_turn(c.trace, 0, 2, &turn);
	assert_int_equal(turn.ready_count, KYMO_READY_MAX); /* so many, or more */
	ky_trace_park(c.trace, 0, 0, &park);
	assert_int_equal(park.ready_count, 1);
	assert_int_equal(park.ready_descriptor, 12);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checks__say_which_descriptor_was_ready_alone),
		cmocka_unit_test(notify__names_the_worker_that_parks_on_the_address_then),
		cmocka_unit_test(notify__in_a_trace_that_does_not_say_so_names_none),
		cmocka_unit_test(parks__keep_the_delay_that_another_writer_measured),
		cmocka_unit_test(parks__are_due_when_their_time_out_is_over),
	};

	return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
