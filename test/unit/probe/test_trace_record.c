/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records of tracepoints as the kernel writes them, and as it never should. */
#include "../../lib/cmocka_all.h"

#include <probe/trace_record.h>
#include <string.h>

#define WORDS 64u
#define WAKE_ID 375u
#define SWITCH_ID 372u

static const struct ky_wake_format wake_format = {
	.id = WAKE_ID, .flags_at = 2, .pid_at = 24, .bytes = 28};
static const struct ky_switch_format switch_format = {
	.id = SWITCH_ID, .prev_at = 24, .state_at = 32, .next_at = 56, .bytes = 60};

struct built {
	uint64_t words[WORDS];
	uint8_t *raw;
};

/* raw_bytes: with its padding, 4 more than a multiple of 8. */
static void build(struct built *built, const uint64_t *chain, uint32_t count, uint32_t raw_bytes)
{
	struct perf_event_header header = {.type = PERF_RECORD_SAMPLE};

	memset(built, 0, sizeof(*built));
	built->words[1] = UINT64_C(501) << 32 | 500;
	built->words[2] = 123456;
	built->words[4] = count;
	if (count)
		memcpy(built->words + 5, chain, count * sizeof(*chain));
	built->raw = (uint8_t *)(built->words + 5 + count) + 4;
	memcpy(built->raw - 4, &raw_bytes, sizeof(raw_bytes));
	header.size = (uint16_t)((5 + count) * 8 + 4 + raw_bytes);
	memcpy(built->words, &header, sizeof(header));
}

static void put_word(struct built *built, uint32_t offset, uint32_t value)
{
	memcpy(built->raw + offset, &value, sizeof(value));
}

static void build_switch(struct built *built, uint32_t prev, uint32_t state, uint32_t next)
{
	const uint64_t chain[] = {PERF_CONTEXT_KERNEL, 0xffffffff81000010, 0xffffffff81000020,
				  PERF_CONTEXT_USER, 0x1234};

	build(built, chain, 5, 68);
	put_word(built, 0, SWITCH_ID);
	put_word(built, 24, prev);
	put_word(built, 32, state);
	put_word(built, 56, next);
}

static void trace_record__switch_says_who_goes_and_why_and_who_comes(void **state)
{
	static const struct {
		uint32_t state, kind, tid;
	} all[] = {
		{0, KY_SWITCH_PREEMPTED, 501},     /* it would go on */
		{0x100, KY_SWITCH_PREEMPTED, 501}, /* the same, and says so */
		{1, KY_SWITCH_OUT, 501},           {2, KY_SWITCH_OUT, 501},
		{0x80, KY_SWITCH_OUT, 501},        {0x10, KY_SWITCH_OUT, 0}, /* it has ended */
		{0x20, KY_SWITCH_OUT, 0},
	};
	struct ky_trace_record record;
	struct ky_perf_switch what;
	struct built built;
	uint32_t next;

	(void)state;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		build_switch(&built, 501, all[i].state, 777);
		assert_true(ky_trace_record_read(&record, built.words));
		assert_false(ky_trace_record_wake(&record, &wake_format, &what));
		assert_true(ky_trace_record_switch(&record, &switch_format, &what, &next));
		assert_int_equal(what.kind, all[i].kind);
		assert_int_equal(what.tid, all[i].tid);
		assert_int_equal(what.pid, 500);
		assert_int_equal(what.ns, 123456);
		assert_int_equal(next, 777);
		/* Frames end where those of the program would begin. */
		assert_int_equal(record.chain_count, 2);
		assert_int_equal(record.chain[0], 0xffffffff81000010);
	}
}

static void trace_record__wake_up_has_no_frames(void **state)
{
	struct ky_trace_record record;
	struct ky_perf_switch what;
	struct built built;
	uint32_t next;

	(void)state;
	build(&built, NULL, 0, 36);
	put_word(&built, 0, WAKE_ID);
	put_word(&built, 24, 900);
	assert_true(ky_trace_record_read(&record, built.words));
	assert_int_equal(record.chain_count, 0);
	assert_false(ky_trace_record_switch(&record, &switch_format, &what, &next));
	assert_true(ky_trace_record_wake(&record, &wake_format, &what));
	assert_int_equal(what.kind, KY_SWITCH_WOKEN);
	assert_int_equal(what.tid, 900);
	assert_int_equal(what.by_pid, 500);
	assert_int_equal(what.by_tid, 501);
	built.raw[2] = 0x08; /* in an interrupt: of whom is nobody's doing */
	assert_true(ky_trace_record_wake(&record, &wake_format, &what));
	assert_true(what.is_by_interrupt && !what.by_pid && !what.by_tid);
	put_word(&built, 24, 0);
	assert_false(ky_trace_record_wake(&record, &wake_format, &what));
}

static void set_header(struct built *built, uint32_t type, uint16_t bytes)
{
	const struct perf_event_header header = {.type = type, .size = bytes};

	memcpy(built->words, &header, sizeof(header));
}

static void trace_record__what_does_not_fit_into_itself_is_refused(void **state)
{
	const uint32_t huge = UINT32_MAX;
	struct ky_trace_record record;
	struct ky_perf_switch what;
	struct built built;
	uint32_t next;

	(void)state;
	build_switch(&built, 501, 1, 777);
	built.words[4] = UINT64_MAX; /* frames */
	assert_false(ky_trace_record_read(&record, built.words));
	built.words[4] = 14; /* up to its end: no room for the word behind them */
	assert_false(ky_trace_record_read(&record, built.words));
	build_switch(&built, 501, 1, 777);
	memcpy(built.raw - 4, &huge, sizeof(huge));
	assert_false(ky_trace_record_read(&record, built.words));
	/* Every length, down to a header alone. */
	build_switch(&built, 501, 1, 777);
	for (uint16_t bytes = 8; bytes < 152; bytes += 8) {
		set_header(&built, PERF_RECORD_SAMPLE, bytes);
		assert_false(ky_trace_record_read(&record, built.words));
	}
	set_header(&built, PERF_RECORD_SAMPLE, 152);
	assert_true(ky_trace_record_read(&record, built.words));
	/* Shorter than its format, or of nobody's number. */
	build(&built, NULL, 0, 52);
	put_word(&built, 0, SWITCH_ID);
	assert_true(ky_trace_record_read(&record, built.words));
	assert_false(ky_trace_record_switch(&record, &switch_format, &what, &next));
	build_switch(&built, 501, 1, 777);
	put_word(&built, 0, 1);
	assert_true(ky_trace_record_read(&record, built.words));
	assert_false(ky_trace_record_switch(&record, &switch_format, &what, &next));
	set_header(&built, PERF_RECORD_SWITCH, 152);
	assert_false(ky_trace_record_read(&record, built.words));
}

static void trace_record__chain_that_is_cut_ends_where_it_ends(void **state)
{
	const uint64_t mark = PERF_CONTEXT_KERNEL, user[] = {PERF_CONTEXT_USER, 0x1234};
	struct ky_trace_record record;
	struct built built;

	(void)state;
	build(&built, &mark, 1, 68);
	assert_true(ky_trace_record_read(&record, built.words));
	assert_int_equal(record.chain_count, 0);
	build(&built, user, 2, 68); /* no frame of the kernel's at all */
	assert_true(ky_trace_record_read(&record, built.words));
	assert_int_equal(record.chain_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_record__switch_says_who_goes_and_why_and_who_comes),
		cmocka_unit_test(trace_record__wake_up_has_no_frames),
		cmocka_unit_test(trace_record__what_does_not_fit_into_itself_is_refused),
		cmocka_unit_test(trace_record__chain_that_is_cut_ends_where_it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
