/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Records of a tracepoint as the kernel writes them, and as it never should. */
#include "../../lib/cmocka_all.h"

#include <probe/trace_record.h>
#include <string.h>

#define WORDS 64u
#define WAKE_ID 375u
#define RAW_BYTES 36u /* with its padding, 4 more than a multiple of 8 */
#define BYTES (4 * 8 + 4 + RAW_BYTES)

static const struct ky_wake_format wake_format = {
	.id = WAKE_ID, .flags_at = 2, .pid_at = 24, .bytes = 28};

struct built {
	uint64_t words[WORDS];
	uint8_t *raw;
};

static void set_header(struct built *built, uint32_t type, uint16_t bytes)
{
	const struct perf_event_header header = {.type = type, .size = bytes};

	memcpy(built->words, &header, sizeof(header));
}

static void put_word(struct built *built, uint32_t offset, uint32_t value)
{
	memcpy(built->raw + offset, &value, sizeof(value));
}

static void put_raw_bytes(struct built *built, uint32_t raw_bytes)
{
	memcpy(built->raw - 4, &raw_bytes, sizeof(raw_bytes));
}

static void build(struct built *built, uint32_t woken)
{
	memset(built, 0, sizeof(*built));
	set_header(built, PERF_RECORD_SAMPLE, BYTES);
	built->words[1] = UINT64_C(501) << 32 | 500;
	built->words[2] = 123456;
	built->raw = (uint8_t *)(built->words + 4) + 4;
	put_raw_bytes(built, RAW_BYTES);
	put_word(built, 0, WAKE_ID);
	put_word(built, 24, woken);
}

static void trace_record__wake_up_has_both_threads_and_its_time(void **state)
{
	struct ky_perf_switch what;
	struct built built;

	(void)state;
	build(&built, 900);
	assert_true(ky_trace_record_wake(built.words, &wake_format, &what));
	assert_int_equal(what.kind, KY_SWITCH_WOKEN);
	assert_int_equal(what.ns, 123456);
	assert_int_equal(what.tid, 900);
	assert_int_equal(what.by_pid, 500);
	assert_int_equal(what.by_tid, 501);
	assert_false(what.is_by_interrupt);
	built.raw[2] = 0x08; /* in an interrupt: the interrupted thread did not do it */
	assert_true(ky_trace_record_wake(built.words, &wake_format, &what));
	assert_true(what.is_by_interrupt && !what.by_pid && !what.by_tid);
	put_word(&built, 24, 0);
	assert_false(ky_trace_record_wake(built.words, &wake_format, &what));
}

static void trace_record__contradictory_lengths_are_refused(void **state)
{
	struct ky_perf_switch what;
	struct built built;

	(void)state;
	build(&built, 900);
	put_raw_bytes(&built, UINT32_MAX);
	assert_false(ky_trace_record_wake(built.words, &wake_format, &what));
	put_raw_bytes(&built, RAW_BYTES + 1);
	assert_false(ky_trace_record_wake(built.words, &wake_format, &what));
	/* Shorter than its format. */
	put_raw_bytes(&built, 27);
	assert_false(ky_trace_record_wake(built.words, &wake_format, &what));
	/* Every length, down to a header alone. */
	build(&built, 900);
	for (uint16_t bytes = 8; bytes < BYTES; bytes += 8) {
		set_header(&built, PERF_RECORD_SAMPLE, bytes);
		assert_false(ky_trace_record_wake(built.words, &wake_format, &what));
	}
	set_header(&built, PERF_RECORD_SAMPLE, BYTES);
	assert_true(ky_trace_record_wake(built.words, &wake_format, &what));
}

static void trace_record__another_record_is_refused(void **state)
{
	struct ky_perf_switch what;
	struct built built;

	(void)state;
	build(&built, 900);
	put_word(&built, 0, 1);
	assert_false(ky_trace_record_wake(built.words, &wake_format, &what));
	build(&built, 900);
	set_header(&built, PERF_RECORD_SWITCH, BYTES);
	assert_false(ky_trace_record_wake(built.words, &wake_format, &what));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(trace_record__wake_up_has_both_threads_and_its_time),
		cmocka_unit_test(trace_record__contradictory_lengths_are_refused),
		cmocka_unit_test(trace_record__another_record_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
