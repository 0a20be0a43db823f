/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <base/byte_source.h>
#include <read/symbol_table.h>
#include <report/watched_text.h>
#include <stdio.h>
#include <string.h>
#include <wire/trc_enc.h>

#define T0 UINT64_C(5000000000)
#define MS UINT64_C(1000000)

struct text_case {
	struct ky_buf bytes, out;
	struct ky_trc_enc enc;
};

static void begin(struct text_case *c)
{
	ky_buf_init(&c->bytes, 0);
	ky_buf_init(&c->out, 0);
	assert_int_equal(ky_trc_enc_init(&c->enc, &c->bytes), 0);
	ky_trc_enc_begin(&c->enc);
}

static void put_pairs(struct text_case *c, const char *const *pairs, uint32_t count)
{
	ky_trc_enc_event(&c->enc, KY_EV_SEGMENT_METADATA, T0);
	ky_trc_enc_count(&c->enc, count);
	for (uint32_t i = 0; i < 2 * count; i++)
		ky_trc_enc_text(&c->enc, pairs[i], strlen(pairs[i]));
}

static uint32_t pool(struct text_case *c, const char *text)
{
	return ky_trc_enc_string(&c->enc, 0, text, strlen(text));
}

static void put_trigger(struct text_case *c, const char *rule, uint64_t value, const char *unit,
			uint64_t suppressed)
{
	uint32_t rule_id = pool(c, rule), unit_id = pool(c, unit);

	ky_trc_enc_event(&c->enc, KY_EV_TRIGGER, T0);
	ky_trc_enc_u32(&c->enc, rule_id);
	ky_trc_enc_varint(&c->enc, value);
	ky_trc_enc_varint(&c->enc, 1);
	ky_trc_enc_u32(&c->enc, unit_id);
	ky_trc_enc_u32(&c->enc, suppressed ? 12 : 0);
	ky_trc_enc_varint(&c->enc, suppressed ? 7 : 0);
	ky_trc_enc_varint(&c->enc, suppressed);
	ky_trc_enc_varint(&c->enc, suppressed ? 1 : 0);
}

/* The stack of the checks that follow. */
static const uint64_t *stack_frames;
static uint32_t stack_count;
static bool is_stack_truncated;

/* What the kernel had counted at the next check, and of that one alone. */
static const uint64_t *counted;

static void put_stuck_since(struct text_case *c, uint64_t ns, uint32_t tid, char state,
			    bool is_running, const char *wchan, uint64_t since_ns)
{
	uint32_t wchan_id = pool(c, wchan);

	ky_trc_enc_event(&c->enc, KY_EV_STUCK_THREAD, ns);
	ky_trc_enc_u32(&c->enc, tid);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 7);
	ky_trc_enc_varint(&c->enc, since_ns);
	ky_trc_enc_u8(&c->enc, (uint8_t)state);
	ky_trc_enc_opt_varint(&c->enc, tid == 14, 35);
	ky_trc_enc_u8(&c->enc, is_running);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_u32(&c->enc, wchan_id);
	ky_trc_enc_frames(&c->enc, stack_frames, stack_count);
	ky_trc_enc_u8(&c->enc, is_stack_truncated);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_opt_varint(&c->enc, counted != NULL, counted ? counted[0] : 0);
	ky_trc_enc_opt_varint(&c->enc, counted != NULL, counted ? counted[1] : 0);
	counted = NULL;
}

static void put_stuck(struct text_case *c, uint64_t ns, uint32_t tid, char state, bool is_running,
		      const char *wchan)
{
	put_stuck_since(c, ns, tid, state, is_running, wchan, T0);
}

static void put_poll(struct text_case *c, uint64_t task, const char *name)
{
	uint32_t name_id = pool(c, name);

	ky_trc_enc_event(&c->enc, KY_EV_POLL_START, T0);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_u8(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_u32(&c->enc, name_id);
}

static void put_crash(struct text_case *c)
{
	ky_trc_enc_event(&c->enc, KY_EV_CRASH, T0);
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_i64(&c->enc, -6);
	ky_trc_enc_varint(&c->enc, 0xdead);
	ky_trc_enc_u32(&c->enc, 501);
	for (int i = 0; i < 4; i++)
		ky_trc_enc_varint(&c->enc, 0x1000);
	ky_trc_enc_frames(&c->enc, NULL, 0);
	ky_trc_enc_bytes(&c->enc, "", 0);
}

/* What is printed, NUL-terminated; with names: of no module and no file. */
static const char *print_with(struct text_case *c, bool has_names)
{
	const struct ky_trace_options options = {.raw_bytes_max = 0};
	struct ky_code_names names = {.table = NULL};
	struct ky_byte_source source;
	struct ky_trace *trace;

	assert_int_equal(ky_byte_source_memory(&source, c->bytes.bytes, c->bytes.used, "memory"),
			 0);
	assert_int_equal(ky_trace_open(&trace, &source, 1, &options), 0);
	if (has_names)
		assert_int_equal(ky_symbol_table_open(&names.table, 0), 0);
	ky_watched_text(&c->out, trace, has_names ? &names : NULL);
	ky_buf_append(&c->out, "", 1);
	ky_symbol_table_close(names.table);
	ky_trace_close(trace);
	source.close(source.ctx);
	return (const char *)c->out.bytes;
}

static const char *print(struct text_case *c)
{
	return print_with(c, false);
}

static void end(struct text_case *c)
{
	ky_trc_enc_release(&c->enc);
	ky_buf_release(&c->bytes);
	ky_buf_release(&c->out);
}

static void watched__trace_without_events_to_report_adds_no_text(void **state)
{
	static const char *const pairs[] = {"service", "svc"};
	struct text_case c;

	(void)state;
	begin(&c);
	put_pairs(&c, pairs, 1);
	assert_string_equal(print(&c), "");
	end(&c);
}

static void watched__end_and_reason_are_printed_without_control_bytes(void **state)
{
	static const char *const pairs[] = {"process.end",      "signal 9 (SIGKILL)",
					    "kymo.dump.reason", "by \x1b[31mhand",
					    "kymo.dump.label",  "deploy 7"};
	struct text_case c;

	(void)state;
	begin(&c);
	put_pairs(&c, pairs, 3);
	put_crash(&c);
	assert_string_equal(print(&c), "Ended     signal 9 (SIGKILL)\n"
				       "Dump      by \\x1b[31mhand, \"deploy 7\"\n"
				       "Crash     signal 11 (code -6) on thread 501, pc 0x1000, "
				       "address 0xdead\n");
	end(&c);
}

static void watched__rule_has_its_value_in_its_unit(void **state)
{
	struct text_case c;

	(void)state;
	begin(&c);
	put_trigger(&c, "poll>100ms", 152 * MS, "ns", 3);
	put_trigger(&c, "cpu>90%", 94, "percent", 0);
	put_trigger(&c, "tasks>1000", 1204, "tasks", 0);
	assert_string_equal(print(&c),
			    "Rule      poll>100ms fired at 152 ms, task 7, thread 12; 3 more held "
			    "back before it; the watchdog was late 1 time\n"
			    "Rule      cpu>90% fired at 94 %\n"
			    "Rule      tasks>1000 fired at 1,204 tasks\n");
	end(&c);
}

static void watched__time_that_the_rules_did_not_see_is_a_line(void **state)
{
	static const char *const once[] = {"watchdog.late", "1", "watchdog.unwatched_ns",
					   "149000000"};
	static const char *const often[] = {"watchdog.late", "1200", "watchdog.unwatched_ns",
					    "16500000000"};
	struct text_case c;

	(void)state;
	begin(&c);
	put_pairs(&c, once, 2);
	assert_string_equal(print(&c),
			    "Unwatched 149 ms, in 1 interval between checks of the rules: what "
			    "began and ended in it did not fire\n");
	end(&c);
	begin(&c);
	put_pairs(&c, often, 2);
	assert_string_equal(
		print(&c), "Unwatched 16.5 s, in 1,200 intervals between checks of the rules: what "
			   "began and ended in one of them did not fire\n");
	end(&c);
}

static void watched__checks_of_a_stuck_thread_are_summarised_by_poll(void **state)
{
	struct text_case c;

	(void)state;
	begin(&c);
	for (uint64_t i = 1; i <= 10; i++) {
		put_stuck(&c, T0 + 100 * i * MS, 12, i == 4 ? 'R' : 'S', i == 4,
			  i == 4 ? "" : "futex_wait");
		put_stuck(&c, T0 + 100 * i * MS, 13, 'R', true, "0");
	}
	put_stuck(&c, T0 + 50 * MS, 14, 'S', false, "0");
	assert_string_equal(
		print(&c),
		"Stuck     thread 12 in task 7 for 1.00 s: futex_wait in 9 of 10 checks\n"
		"Stuck     thread 13 in task 7 for 1.00 s: running in 10 of 10 checks\n"
		"Stuck     thread 14 in task 7 for 50.0 ms: system call 35 in 1 of 1 checks\n");
	end(&c);
}

static void watched__checks_that_measured_the_begin_anew_are_of_one_poll(void **state)
{
	struct text_case c;

	(void)state;
	begin(&c);
	put_poll(&c, 7, "svc::handler");
	for (uint64_t i = 1; i <= 4; i++)
		put_stuck_since(&c, T0 + 100 * i * MS, 12, 'S', false, "futex_wait", T0 + 900 * i);
	/* The next poll of this task is another one. */
	put_stuck_since(&c, T0 + 800 * MS, 12, 'S', false, "pipe_read", T0 + 500 * MS);
	assert_string_equal(
		print(&c),
		"Stuck     thread 12 in task 7 (svc::handler) for 400 ms: futex_wait in 4 "
		"of 4 checks\n"
		"Stuck     thread 12 in task 7 (svc::handler) for 300 ms: pipe_read in 1 "
		"of 1 checks\n");
	end(&c);
}

static void watched__system_call_has_the_name_of_the_trace_s_machine(void **state)
{
	static const char *const pairs[] = {"machine.architecture", "x86_64"};
	struct text_case c;

	(void)state;
	begin(&c);
	put_pairs(&c, pairs, 1);
	put_stuck(&c, T0 + 50 * MS, 14, 'S', false, "0");
	assert_string_equal(
		print(&c),
		"Stuck     thread 14 in task 7 for 50.0 ms: nanosleep in 1 of 1 checks\n");
	end(&c);
}

static void watched__stack_of_most_checks_is_what_a_poll_hangs_on(void **state)
{
	static const uint64_t often[] = {0x1010, 0x2020}, once[] = {0x3030};
	struct text_case c;

	(void)state;
	begin(&c);
	stack_frames = once;
	stack_count = 1;
	put_stuck(&c, T0 + 100 * MS, 12, 'S', false, "futex_wait");
	stack_frames = often;
	stack_count = 2;
	is_stack_truncated = true;
	put_stuck(&c, T0 + 200 * MS, 12, 'S', false, "futex_wait");
	put_stuck(&c, T0 + 300 * MS, 12, 'S', false, "futex_wait");
	stack_count = 0;
	put_stuck(&c, T0 + 400 * MS, 12, 'R', true, "");
	put_stuck(&c, T0 + 500 * MS, 13, 'R', true, "");
	is_stack_truncated = false;
	assert_string_equal(
		print_with(&c, true),
		"Stuck     thread 12 in task 7 for 400 ms: futex_wait in 3 of 4 checks\n"
		"          hangs on the same stack in 2 of 4 checks, ran in 1: no stack there\n"
		"          in 0x1010\n"
		"          from 0x2020\n"
		"          from callers further up, which are not known\n"
		"Stuck     thread 13 in task 7 for 500 ms: running in 1 of 1 checks\n"
		"          no stack: it ran when it was checked\n");
	end(&c);
}

struct check {
	char state;
	uint32_t at_ms;
	uint64_t cpu_ms, delay_ms;
};

/* Checks of the one poll, in any order. */
static void put_checks(struct text_case *c, const struct check *checks, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct check *check = &checks[(i + 1) % count];
		const uint64_t counts[2] = {check->cpu_ms * MS, check->delay_ms * MS};

		counted = counts;
		put_stuck(c, T0 + check->at_ms * MS, 12, check->state, check->state == 'R',
			  check->state == 'R' ? "0" : "futex_wait");
	}
}

static void watched__checks_account_for_the_time_between_them(void **state)
{
	static const struct {
		struct check checks[4];
		const char *text;
	} cases[] = {
		{{{'S', 50, 90, 70}, {'S', 100, 90, 70}, {'S', 200, 91, 74}, {'S', 250, 91, 74}},
		 "futex_wait in 4 of 4 checks\n"
		 "          of 200 ms between 4 checks: 195 ms blocked, 4.00 ms waiting for a CPU, "
		 "1.00 ms running\n"},
		/* It runs: the last tick is some ms old. */
		{{{'R', 50, 90, 0}, {'R', 100, 140, 0}, {'R', 200, 238, 0}, {'R', 250, 286, 0}},
		 "running in 4 of 4 checks\n"
		 "          of 200 ms between 4 checks: 0 ns blocked, 0 ns waiting for a CPU, 200 "
		 "ms running\n"},
		/* It never got one: nothing of that is counted yet. */
		{{{'R', 50, 90, 5}, {'R', 100, 90, 5}, {'R', 200, 90, 5}, {'R', 250, 90, 5}},
		 "waiting for a CPU in 4 of 4 checks\n"
		 "          of 200 ms between 4 checks: 0 ns blocked, 200 ms waiting for a CPU, 0 "
		 "ns running\n"},
		/* It got little, waits again, and what it waited for before was counted late. */
		{{{'R', 50, 90, 5}, {'R', 100, 92, 88}, {'R', 200, 95, 180}, {'R', 250, 95, 180}},
		 "waiting for a CPU in 3 of 4 checks\n"
		 "          of 200 ms between 4 checks: 0 ns blocked, 195 ms waiting for a CPU, "
		 "5.00 ms running\n"},
		/* Blocked, at last waiting for a CPU. */
		{{{'S', 50, 90, 5}, {'S', 100, 90, 5}, {'R', 200, 90, 5}, {'R', 250, 90, 5}},
		 "futex_wait in 2 of 4 checks\n"
		 "          of 200 ms between 4 checks: 150 ms blocked, 50.0 ms waiting for a CPU, "
		 "0 ns running\n"},
	};
	struct text_case c;
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		begin(&c);
		put_checks(&c, cases[i].checks, 4);
		snprintf(text, sizeof(text), "Stuck     thread 12 in task 7 for 250 ms: %s",
			 cases[i].text);
		assert_string_equal(print(&c), text);
		end(&c);
	}
	/* One check with counts, and another at the same moment, are no time. */
	begin(&c);
	put_checks(&c, cases[0].checks, 1);
	put_checks(&c, cases[0].checks, 1);
	put_stuck(&c, T0 + 90 * MS, 12, 'S', false, "futex_wait");
	assert_string_equal(print(&c), "Stuck     thread 12 in task 7 for 90.0 ms: futex_wait in 3 "
				       "of 3 checks\n");
	end(&c);
}

static void watched__thread_without_a_cpu_does_not_run(void **state)
{
	static const struct check checks[] = {{'R', 50, 90, 5}, {'R', 250, 90, 5}};
	static const uint64_t frame[] = {0x1010};
	struct text_case c;

	(void)state;
	begin(&c);
	put_checks(&c, checks, 2);
	assert_non_null(strstr(print_with(&c, true),
			       "\n"
			       "          no stack: it waited for a CPU when it was checked\n"));
	end(&c);
	begin(&c);
	put_checks(&c, checks, 2);
	stack_frames = frame;
	stack_count = 1;
	put_stuck(&c, T0 + 300 * MS, 12, 'S', false, "futex_wait");
	stack_count = 0;
	assert_non_null(
		strstr(print_with(&c, true),
		       "hangs on the same stack in 1 of 3 checks, waited for a CPU in 2: no "
		       "stack there\n"));
	end(&c);
}

static void watched__more_stuck_polls_than_are_listed_are_counted(void **state)
{
	struct text_case c;
	const char *text;
	uint32_t lines = 0;

	(void)state;
	begin(&c);
	for (uint32_t tid = 1; tid <= 13; tid++)
		put_stuck(&c, T0 + 100 * MS, tid, 'R', true, "");
	for (text = print(&c); (text = strchr(text, '\n')) != NULL; text++)
		lines++;
	assert_int_equal(lines, 11);
	assert_non_null(strstr((const char *)c.out.bytes, "... and 3 more stuck polls\n"));
	end(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(watched__trace_without_events_to_report_adds_no_text),
		cmocka_unit_test(watched__end_and_reason_are_printed_without_control_bytes),
		cmocka_unit_test(watched__rule_has_its_value_in_its_unit),
		cmocka_unit_test(watched__time_that_the_rules_did_not_see_is_a_line),
		cmocka_unit_test(watched__checks_of_a_stuck_thread_are_summarised_by_poll),
		cmocka_unit_test(watched__checks_that_measured_the_begin_anew_are_of_one_poll),
		cmocka_unit_test(watched__system_call_has_the_name_of_the_trace_s_machine),
		cmocka_unit_test(watched__stack_of_most_checks_is_what_a_poll_hangs_on),
		cmocka_unit_test(watched__checks_account_for_the_time_between_them),
		cmocka_unit_test(watched__thread_without_a_cpu_does_not_run),
		cmocka_unit_test(watched__more_stuck_polls_than_are_listed_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
