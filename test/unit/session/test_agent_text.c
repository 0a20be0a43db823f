/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <errno.h>
#include <kymo/base.h>
#include <session/agent_text.h>
#include <string.h>

static struct ky_session_options options;
static struct ky_agent_text text;
static struct ky_buf sentence;

static int setup(void **state)
{
	(void)state;
	options = (struct ky_session_options){.agent.output.directory = "traces"};
	text = (struct ky_agent_text){.options = &options};
	ky_buf_init(&sentence, 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ky_buf_release(&sentence);
	return 0;
}

static void check(const struct ky_agent_event *event, const char *expected)
{
	sentence.used = 0;
	ky_agent_text(&text, &sentence, event);
	assert_int_equal(sentence.used, strlen(expected));
	assert_memory_equal(sentence.bytes, expected, sentence.used);
}

static void agent_text__trouble_with_the_output_is_reported_once(void **state)
{
	const struct ky_agent_event no_store = {.kind = KY_AGENT_STORE_FAILED,
						.error = -EACCES,
						.reason = ""},
				    no_write = {.kind = KY_AGENT_WRITE_FAILED,
						.error = -EIO,
						.path = "traces/x"};

	(void)state;
	check(&no_store, "traces: Permission denied; nothing is recorded until this works, CMD is "
			 "not affected");
	check(&no_write, "");
	assert_int_equal(text.first_error, -EACCES);
	text = (struct ky_agent_text){.options = &options};
	check(&no_write, "traces: Input/output error; events are lost until this works, CMD is not "
			 "affected");
	check(&no_store, "");
	assert_int_equal(text.first_error, -EIO);
}

static void agent_text__a_flight_is_in_its_ring(void **state)
{
	(void)state;
	options.agent.is_flight = true;
	check(&(const struct ky_agent_event){.kind = KY_AGENT_STORE_FAILED,
					     .error = -EACCES,
					     .reason = "x is no directory"},
	      "traces: x is no directory");
}

static void agent_text__a_full_file_is_reported_besides(void **state)
{
	const struct ky_agent_event full = {
		.kind = KY_AGENT_STORE_FULL, .error = KYMO_E_LIMIT, .path = "a.trc"};

	(void)state;
	options.agent.output.file = "a.trc";
	check(&(const struct ky_agent_event){.kind = KY_AGENT_WRITE_FAILED,
					     .error = -EIO,
					     .path = "a.2.trc"},
	      "a.2.trc: Input/output error; events are lost until this works, CMD is not affected");
	check(&full, "a.trc is as large as --total-bytes allows: what comes now is only counted, "
		     "CMD is not affected");
	check(&full, "");
	assert_true(text.has_said_full);
}

static void agent_text__dumps_name_the_rule_and_its_value(void **state)
{
	struct ky_agent_event event = {.kind = KY_AGENT_DUMP_MADE,
				       .rule = "poll",
				       .value = "120 ms",
				       .path = "d.trc",
				       .count = 12,
				       .span_ns = 1000000000};

	(void)state;
	check(&event, "poll: 120 ms; dump: d.trc (12 events, 1.00 s)");
	options.is_quiet = true;
	check(&event, "");
	event.kind = KY_AGENT_DUMP_FAILED;
	event.error = -EIO;
	check(&event, "poll: 120 ms; no dump: d.trc: Input/output error");
	event.kind = KY_AGENT_MAKER_KILLED;
	event.count = 9;
	check(&event, "poll: 120 ms; no dump: signal 9 (Killed) ended the process that made d.trc");
	event.kind = KY_AGENT_DUMP_LOST;
	check(&event, "poll: 120 ms; no dump: the ring file was truncated before it was made");
	event.kind = KY_AGENT_MAKER_FAILED;
	event.error = -EAGAIN;
	check(&event, "poll; no dump: no process for it: Resource temporarily unavailable");
	event.kind = KY_AGENT_DUMP_REFUSED;
	event.error = KYMO_E_BUSY;
	event.count = 16;
	check(&event, "poll fired, but 16 dumps are waiting already: no dump of this one");
	event.error = -ENOMEM;
	check(&event, "poll fired, but there is no dump of it: Cannot allocate memory");
	event.kind = KY_AGENT_FIRING_UNWRITTEN;
	check(&event, "poll fired, but the trace does not say so: Cannot allocate memory");
}

static void agent_text__firings_without_a_dump_are_explained(void **state)
{
	struct ky_agent_event event = {.kind = KY_AGENT_DUMPS_FAIL,
				       .pid = 7,
				       .count = 5,
				       .budget_count = 2,
				       .reason = "no counter is named x"};

	(void)state;
	check(&event, "a rule holds, but the last 3 dumps of process 7 failed: for a minute "
		      "firings are only counted");
	event.kind = KY_AGENT_BUDGET_USED;
	check(&event, "a rule holds, but 12 dumps, or 1024 MiB of them, are what process 7 may "
		      "have in an hour: until that is over firings are only counted");
	event.kind = KY_AGENT_FIRINGS_HELD;
	check(&event, "process 7: rules held 5 more times since the last dump, which cooldown (3) "
		      "and the budget of dumps (2) held back");
	options.is_quiet = true;
	check(&event, "");
	event.kind = KY_AGENT_CHECKS_LATE;
	event.span_ns = 140000000;
	check(&event, "process 7: 5 checks of the rules came too late, by up to 140 ms: what began "
		      "and ended between two checks did not fire");
	event.count = 1;
	check(&event, "process 7: 1 check of the rules came too late, by up to 140 ms: what began "
		      "and ended between two checks did not fire");
	event.kind = KY_AGENT_RULE_UNUSABLE;
	check(&event, "no counter is named x");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			agent_text__trouble_with_the_output_is_reported_once, setup, teardown),
		cmocka_unit_test_setup_teardown(agent_text__a_flight_is_in_its_ring, setup,
						teardown),
		cmocka_unit_test_setup_teardown(agent_text__a_full_file_is_reported_besides, setup,
						teardown),
		cmocka_unit_test_setup_teardown(agent_text__dumps_name_the_rule_and_its_value,
						setup, teardown),
		cmocka_unit_test_setup_teardown(agent_text__firings_without_a_dump_are_explained,
						setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
