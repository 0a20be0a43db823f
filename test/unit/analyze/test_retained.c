/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Traces whose writer held things back: what the reader may conclude, and what the report says. */
#include "../read/read_case.h"
#include <analyze/report.h>
#include <base/log_buckets.h>

static void put_retention(struct read_case *c, uint64_t ns, const char *kind, uint64_t threshold_ns)
{
	uint32_t pool = case_text(c, kind);

	ky_trc_enc_event(&c->enc, KY_EV_RETENTION, ns);
	ky_trc_enc_u32(&c->enc, pool);
	ky_trc_enc_varint(&c->enc, threshold_ns);
	ky_trc_enc_varint(&c->enc, 0);
}

/* `count` values of `value` each. */
static void put_histogram(struct read_case *c, uint64_t from_ns, uint64_t ns, const char *kind,
			  uint64_t value, uint64_t count)
{
	uint32_t kind_pool = case_text(c, kind), name_pool = case_text(c, "svc::task"),
		 unit_pool = case_text(c, "ns");
	uint8_t bytes[2 * KY_VARINT_BYTES_MAX], *end;

	end = ky_varint_put(bytes, ky_bucket_of(value));
	end = ky_varint_put(end, count);
	ky_trc_enc_event(&c->enc, KY_EV_HISTOGRAM, ns);
	ky_trc_enc_u32(&c->enc, kind_pool);
	ky_trc_enc_u32(&c->enc, name_pool);
	ky_trc_enc_u32(&c->enc, unit_pool);
	ky_trc_enc_varint(&c->enc, from_ns);
	ky_trc_enc_varint(&c->enc, count);
	ky_trc_enc_varint(&c->enc, count * value);
	ky_trc_enc_varint(&c->enc, value);
	ky_trc_enc_varint(&c->enc, value);
	ky_trc_enc_bytes(&c->enc, bytes, (size_t)(end - bytes));
}

static void put_sums(struct read_case *c, uint64_t ns, uint64_t worker, uint64_t from_ns,
		     uint64_t to_ns, uint64_t polls, uint64_t busy_ns, uint64_t wakes)
{
	ky_trc_enc_event(&c->enc, KY_EV_WORKER_SUMS, ns);
	ky_trc_enc_varint(&c->enc, worker);
	ky_trc_enc_varint(&c->enc, from_ns);
	ky_trc_enc_varint(&c->enc, to_ns);
	ky_trc_enc_varint(&c->enc, polls);
	ky_trc_enc_varint(&c->enc, busy_ns);
	ky_trc_enc_varint(&c->enc, polls ? busy_ns / polls : 0);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, wakes);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 0);
}

static void put_delay(struct read_case *c, uint64_t ns, uint64_t worker, uint64_t ready_ns)
{
	ky_trc_enc_event(&c->enc, KY_EV_POLL_DELAY, ns);
	ky_trc_enc_varint(&c->enc, worker);
	ky_trc_enc_u32(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, ready_ns);
}

static void put_late_wake(struct read_case *c, uint64_t ns, uint64_t woken_ns, uint64_t waker,
			  uint64_t woken)
{
	uint32_t stack = ky_trc_enc_stack(&c->enc, NULL, 0);

	ky_trc_enc_event(&c->enc, KY_EV_LATE_WAKE, ns);
	ky_trc_enc_varint(&c->enc, woken_ns);
	ky_trc_enc_varint(&c->enc, waker);
	ky_trc_enc_varint(&c->enc, woken);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_u8(&c->enc, 2);
	ky_trc_enc_u32(&c->enc, stack);
	ky_trc_enc_varint(&c->enc, 0);
}

static void retained__figures_hold_what_was_counted(void **state)
{
	struct ky_report *report;
	struct read_case c;

	(void)state;
	case_begin(&c);
	put_retention(&c, 1000, "poll", 1000000);
	case_poll(&c, 2000, 2002000, 0, 7); /* 2 ms: written */
	put_histogram(&c, 1000, 4000000, "poll", 100, 999);
	put_histogram(&c, 1000, 4000000, "delay", 7, 500);
	put_sums(&c, 4000000, 0, 1500, 3000000, 999, 99900, 42);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->polls.count, 1000);
	assert_int_equal(report->polls.total, 2099900);
	assert_int_equal(report->polls.p99, 100);
	assert_int_equal(report->polls.p999, 100);
	assert_int_equal(report->polls.max, 2000000);
	assert_int_equal(report->polls_counted, 999);
	assert_int_equal(report->delays.count, 500);
	assert_int_equal(report->delays.p50, 7);
	assert_int_equal(report->wakes_counted, 42);
	assert_int_equal(report->worst_poll_count, 1);
	assert_int_equal(report->worker_count, 1);
	assert_int_equal(report->workers[0].poll_count, 1000);
	assert_int_equal(report->workers[0].busy_ns, 2099900);
	assert_int_equal(report->workers[0].wake_count, 42);
	assert_int_equal(report->workers[0].span_ns, 3000000 - 1500);
	assert_int_equal(report->group_count, 1);
	assert_int_equal(report->groups[0].poll_count, 1000);
	assert_int_equal(report->groups[0].busy_ns, 2099900);
	assert_int_equal(report->groups[0].delay_count, 500);
	ky_report_free(report);
	case_finish(&c);
}

static void retained__waits_come_from_the_writer_alone(void **state)
{
	struct ky_poll poll;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_wake(&c, 100, 9, 7, 0);
	case_poll(&c, 200, 300, 0, 7); /* before: measured */
	case_wake(&c, 400, 9, 7, 0);   /* its poll is held back */
	put_retention(&c, 1000, "poll", 1000000);
	case_wake(&c, 5000, 9, 7, 0);
	case_poll(&c, 6000, 2006000, 0, 7); /* the wake at 400 was not its */
	case_start(&c, 3000000, 0, 7, "svc::task");
	put_delay(&c, 3000000, 0, 2999000);
	case_end(&c, 5000000, 0);
	case_wake(&c, 5500000, 9, 7, 0);
	put_retention(&c, 6000000, "poll", 0);
	case_poll(&c, 7000000, 7000100, 0, 7); /* which wake was first? */
	case_wake(&c, 8000000, 9, 7, 0);
	case_poll(&c, 8000500, 8000600, 0, 7);
	case_open(&c);
	ky_trace_poll(c.trace, 0, 0, &poll);
	assert_int_equal(poll.delay_ns, 100);
	ky_trace_poll(c.trace, 0, 1, &poll);
	assert_int_equal(poll.delay_state, KY_DELAY_COUNTED);
	ky_trace_poll(c.trace, 0, 2, &poll);
	assert_int_equal(poll.delay_ns, 1000);
	ky_trace_poll(c.trace, 0, 3, &poll);
	assert_int_equal(poll.delay_state, KY_DELAY_WITHHELD);
	ky_trace_poll(c.trace, 0, 4, &poll);
	assert_int_equal(poll.delay_ns, 500);
	assert_int_equal(c.trace->delays_counted, 1);
	assert_int_equal(c.trace->delays_withheld, 1);
	case_finish(&c);
}

static void retained__late_wake_stands_at_its_own_moment(void **state)
{
	struct ky_report *report;
	struct ky_wake wake;
	struct read_case c;

	(void)state;
	case_begin(&c);
	put_retention(&c, 1000, "wake", 1000000);
	case_start(&c, UINT64_C(9000000000), 0, 7, "svc::task");
	put_delay(&c, UINT64_C(9000000000), 0, 2000000); /* does not fit 32 bits */
	put_late_wake(&c, UINT64_C(9000000000), 2000000, 5, 7);
	case_end(&c, UINT64_C(9000000500), 0);
	case_open(&c);
	assert_int_equal(c.trace->wakes, 1);
	ky_trace_wake(c.trace, 0, 0, &wake);
	assert_int_equal(wake.time_ns, 2000000);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_int_equal(report->worst_delay_count, 1);
	assert_true(report->worst_delays[0].poll.delay_ns == UINT64_C(8998000000));
	assert_int_equal(c.trace->tasks[report->worst_delays[0].waker].id, 5);
	ky_report_free(report);
	case_finish(&c);
}

static void retained__hostile_buckets_cost_percentiles_only(void **state)
{
	static const uint8_t hostile[][4] = {{0x80, 0x80, 0x80, 0x80},
					     {0xff, 0xff, 0x7f, 1},
					     {1, 0x80, 0x80, 0x80},
					     {5, 1, 9, 0x80}};
	struct ky_report *report;
	struct read_case c;
	uint32_t i, kind, name;

	(void)state;
	case_begin(&c);
	put_retention(&c, 1000, "poll", 1000000);
	for (i = 0; i < 4; i++) {
		kind = case_text(&c, "poll");
		name = case_text(&c, "");
		ky_trc_enc_event(&c.enc, KY_EV_HISTOGRAM, 2000 + i);
		ky_trc_enc_u32(&c.enc, kind);
		ky_trc_enc_u32(&c.enc, name);
		ky_trc_enc_u32(&c.enc, name);
		ky_trc_enc_varint(&c.enc, 1000);
		ky_trc_enc_varint(&c.enc, UINT64_MAX);
		ky_trc_enc_varint(&c.enc, UINT64_MAX);
		ky_trc_enc_varint(&c.enc, 5);
		ky_trc_enc_varint(&c.enc, UINT64_MAX);
		ky_trc_enc_bytes(&c.enc, hostile[i], 4);
	}
	put_sums(&c, 3000, 77, 5000, 10, UINT64_MAX, UINT64_MAX, UINT64_MAX);
	case_open(&c);
	assert_int_equal(ky_report_make(&report, c.trace, NULL), 0);
	assert_true(report->polls.count == UINT64_MAX);
	ky_report_free(report);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(retained__figures_hold_what_was_counted),
		cmocka_unit_test(retained__waits_come_from_the_writer_alone),
		cmocka_unit_test(retained__late_wake_stands_at_its_own_moment),
		cmocka_unit_test(retained__hostile_buckets_cost_percentiles_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
