/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../read/sample_case.h"
#include <analyze/stack_profile.h>

#define MS UINT64_C(1000000)

struct waits_case {
	struct read_case c;
	struct ky_symbol_table *symbols;
	struct ky_report *report;
	struct ky_stack_profile *profile;
};

static void begin(struct waits_case *w, const char *split)
{
	memset(w, 0, sizeof(*w));
	case_begin(&w->c);
	ky_trc_enc_event(&w->c.enc, KY_EV_SEGMENT_METADATA, 100);
	ky_trc_enc_count(&w->c.enc, 1);
	ky_trc_enc_text(&w->c.enc, "offcpu.split", strlen("offcpu.split"));
	ky_trc_enc_text(&w->c.enc, split, strlen(split));
}

static void make(struct waits_case *w, const struct ky_stack_profile_options *options)
{
	struct ky_trace_options trace_options = {0};

	assert_int_equal(ky_symbol_table_open(&w->symbols, 0), 0);
	trace_options.symbols = w->symbols;
	assert_int_equal(case_try_open(&w->c, w->c.buf.used, &trace_options), 0);
	assert_int_equal(ky_report_make(&w->report, w->c.trace, NULL), 0);
	assert_int_equal(
		ky_stack_profile_make(&w->profile, w->c.trace, w->report, w->symbols, options), 0);
}

static void finish(struct waits_case *w)
{
	ky_stack_profile_free(w->profile);
	ky_report_free(w->report);
	ky_symbol_table_close(w->symbols);
	case_finish(&w->c);
}

/* By switch records, without a known waker. */
static void write_without_waker(struct read_case *c, uint64_t end_ns, uint8_t reason,
				uint8_t clipped)
{
	CASE_EVENT(c, 911, "OffCpuEvent", end_ns, CASE_FIELD("tid", U32),
		   CASE_FIELD("duration_ns", VARINT), CASE_FIELD("reason", U8),
		   CASE_FIELD("weight", F64), CASE_FIELD("source", U8), CASE_FIELD("clipped", U8));
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_varint(&c->enc, MS);
	ky_trc_enc_u8(&c->enc, reason);
	ky_trc_enc_f64(&c->enc, 2.0);
	ky_trc_enc_u8(&c->enc, KY_OFF_CPU_BY_SWITCHES);
	ky_trc_enc_u8(&c->enc, clipped);
}

static void write_waits(struct read_case *c)
{
	case_off_cpu_woken(c, 102 * MS, MS, 11, 1, 51, 40, "worker");
	write_without_waker(c, 104 * MS, 3, 0);
	write_without_waker(c, 106 * MS, 4, 0); /* preempted: it needs no wake-up */
	write_without_waker(c, 108 * MS, 1, 1); /* began unseen */
	write_without_waker(c, 110 * MS, 1, 2); /* continues */
	case_off_window(c, 112 * MS, 12 * MS, 24 * MS);
	case_off_cpu_woken(c, 202 * MS, MS, 11, 2, 0, 0, "");
	write_without_waker(c, 204 * MS, 1, 0);
	/* A call reports it, too: it is recorded once, and counted as well. */
	case_off_cpu_by(c, 208 * MS, 8 * MS, 11, 0, 0, 1, 1.0, KY_OFF_CPU_BY_CALL);
	case_off_window(c, 212 * MS, 12 * MS, 100 * MS);
	write_without_waker(c, 220 * MS, 1, 0); /* its window was not written any more */
}

static void waits__count_those_without_a_known_wake_up(void **state)
{
	struct ky_stack_profile_options options = {.from_ns = 150 * MS, .to_ns = 300 * MS};
	struct waits_case w;

	(void)state;
	begin(&w, "wakeups");
	write_waits(&w.c);
	make(&w, NULL);
	assert_int_equal(w.profile->wake_wait_count, 5);
	assert_int_equal(w.profile->wake_unknown_count, 3);
	/* What cannot be separated is neither blocked nor runnable. */
	assert_true(w.profile->off_cpu_parts.runnable < w.profile->off_cpu.sum - 5.9 * (double)MS);
	finish(&w);
	begin(&w, "wakeups");
	write_waits(&w.c);
	make(&w, &options);
	assert_int_equal(w.profile->wake_wait_count, 3);
	assert_int_equal(w.profile->wake_unknown_count, 2);
	finish(&w);
}

static void waits__count_no_wake_ups_where_none_are_recorded(void **state)
{
	struct waits_case w;

	(void)state;
	begin(&w, "run_delay");
	write_waits(&w.c);
	make(&w, NULL);
	assert_int_equal(w.profile->wake_wait_count, 0);
	assert_int_equal(w.profile->wake_unknown_count, 0);
	finish(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waits__count_those_without_a_known_wake_up),
		cmocka_unit_test(waits__count_no_wake_ups_where_none_are_recorded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
