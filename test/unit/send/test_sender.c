/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The order in which segments are offered, and what is remembered, with a destination in memory. */
#include "send_case.h"

#include <kymo/stage.h>
#include <send/sender.h>
#include <unistd.h>

/* Takes what it is offered, but for the segments that plan names. */
struct shelf {
	char taken[512];
	const char *refused;  /* part of a path; NULL: none */
	uint32_t again_count; /* so many offers come too early */
	bool is_slow;         /* answers in a second step */
	uint32_t polls, closes;
	char said[512];
};

static void take(void *ctx, const struct kymo_segment *segment, struct kymo_stage_result *result)
{
	struct shelf *shelf = ctx;
	size_t used = strlen(shelf->taken);

	if (shelf->again_count) {
		shelf->again_count--;
		result->answer = KYMO_STAGE_AGAIN;
		snprintf(result->reason, sizeof(result->reason), "is full");
		return;
	}
	if (shelf->refused && strstr(segment->path, shelf->refused)) {
		result->answer = KYMO_STAGE_REFUSED;
		snprintf(result->reason, sizeof(result->reason), "not that one");
		return;
	}
	snprintf(shelf->taken + used, sizeof(shelf->taken) - used, "%s %llu\n", segment->boot,
		 (unsigned long long)segment->number);
	result->answer = shelf->is_slow ? KYMO_STAGE_PENDING : KYMO_STAGE_TAKEN;
}

static void ask(void *ctx, uint32_t wait_ms, struct kymo_stage_result *result)
{
	struct shelf *shelf = ctx;

	(void)wait_ms;
	if (++shelf->polls % 2 == 0)
		result->answer = KYMO_STAGE_TAKEN;
}

static void close_shelf(void *ctx)
{
	((struct shelf *)ctx)->closes++;
}

static void say(void *ctx, const char *text)
{
	struct shelf *shelf = ctx;
	size_t used = strlen(shelf->said);

	snprintf(shelf->said + used, sizeof(shelf->said) - used, "%s\n", text);
}

static struct ky_sender *open_sender(struct shelf *shelf)
{
	struct ky_sender_options options = {
		.directory = send_top, .stage_count = 1, .say = say, .say_ctx = shelf};
	struct ky_sender *sender;

	options.stages[0] = (struct kymo_segment_stage){.size = sizeof(options.stages[0]),
							.name = "shelf",
							.ctx = shelf,
							.take = take,
							.poll = ask,
							.close = close_shelf};
	assert_int_equal(ky_sender_open(&sender, &options), 0);
	return sender;
}

static void sender__offers_each_segment_once_over_processes(void **state)
{
	struct shelf shelf = {.is_slow = true};
	struct ky_sender_totals totals;
	struct ky_sender *sender;

	(void)state;
	send_two_runs();
	for (int process = 0; process < 2; process++) {
		sender = open_sender(&shelf);
		assert_int_equal(ky_sender_pass(sender), 0);
		assert_int_equal(ky_sender_pass(sender), 0);
		ky_sender_totals(sender, 0, &totals);
		assert_int_equal(totals.taken_count, process ? 0 : 3);
		assert_int_equal(totals.waiting_count, 0);
		assert_true(ky_sender_due_ns(sender) == UINT64_MAX);
		ky_sender_close(sender);
	}
	assert_string_equal(shelf.taken, RUN_A " 0\n" RUN_A " 1\n" RUN_B " 0\n");
	assert_string_equal(shelf.said, "");
	assert_int_equal(shelf.closes, 2);
}

static void sender__keeps_what_is_refused_and_goes_to_the_next(void **state)
{
	struct shelf shelf = {.refused = RUN_A "/000000"};
	struct ky_sender_totals totals;
	struct ky_sender *sender;

	(void)state;
	send_two_runs();
	sender = open_sender(&shelf);
	assert_int_equal(ky_sender_pass(sender), 0);
	assert_int_equal(ky_sender_pass(sender), 0);
	ky_sender_totals(sender, 0, &totals);
	assert_int_equal(totals.waiting_count, 1);
	assert_int_equal(totals.refused_count, 1);
	assert_true(ky_sender_due_ns(sender) == UINT64_MAX);
	ky_sender_close(sender);
	assert_string_equal(shelf.taken, RUN_A " 1\n" RUN_B " 0\n");
	assert_non_null(strstr(shelf.said, "000000.trc: not that one\n"));
	assert_null(strstr(strstr(shelf.said, "not that one") + 1, "not that one"));
	shelf.refused = NULL; /* the next process asks again */
	sender = open_sender(&shelf);
	assert_int_equal(ky_sender_pass(sender), 0);
	ky_sender_close(sender);
	assert_string_equal(shelf.taken, RUN_A " 1\n" RUN_B " 0\n" RUN_A " 0\n");
}

static void sender__says_trouble_once_and_its_end(void **state)
{
	struct shelf shelf = {.again_count = 3};
	struct ky_sender *sender;

	(void)state;
	send_two_runs();
	sender = open_sender(&shelf);
	for (int i = 0; i < 4; i++)
		assert_int_equal(ky_sender_pass(sender), 0);
	ky_sender_close(sender);
	assert_string_equal(shelf.said, "shelf: is full\nshelf: takes segments again\n");
	assert_string_equal(shelf.taken, RUN_A " 0\n" RUN_A " 1\n" RUN_B " 0\n");
}

/* The bound is exact, and what it takes from a destination is counted. */
static void sender__counts_what_the_bound_deleted(void **state)
{
	struct shelf shelf = {.again_count = 1};
	struct ky_sender_totals totals;
	struct ky_store_stats stats;
	struct ky_sender *sender;
	struct ky_store *store = send_store("web", RUN_A, 2500);

	(void)state;
	send_segment(store);
	sender = open_sender(&shelf);
	assert_int_equal(ky_sender_pass(sender), 0);
	for (int i = 0; i < 4; i++)
		send_segment(store);
	ky_store_stats(store, &stats);
	assert_int_equal(stats.segments_deleted, 3);
	assert_int_equal(stats.segments_unsent, 3);
	assert_int_equal(stats.bytes_unsent, 3000);
	assert_int_equal(ky_sender_pass(sender), 0);
	ky_sender_totals(sender, 0, &totals);
	assert_int_equal(totals.taken_count, 2);
	assert_int_equal(totals.lost_count, 3);
	assert_int_equal(totals.lost_bytes, 3000);
	send_segment(store);
	ky_store_stats(store, &stats);
	assert_int_equal(stats.segments_deleted, 4);
	assert_int_equal(stats.segments_unsent, 3);
	ky_store_close(store);
	ky_sender_close(sender);
}

static void sender__leaves_a_run_that_another_sends(void **state)
{
	struct shelf shelf = {.taken = ""}, other = {.taken = ""};
	struct ky_sender *sender = open_sender(&shelf);
	struct ky_sender_totals totals;
	struct ky_sender_options options = {.directory = send_top,
					    .stage_count = 1,
					    .owner_pid = 1,
					    .say = say,
					    .say_ctx = &other};
	struct ky_store *store = send_store("web", RUN_A, 0);

	(void)state;
	send_segment(store);
	options.stages[0] = (struct kymo_segment_stage){
		.size = sizeof(options.stages[0]), .name = "other", .ctx = &other, .take = take};
	ky_sender_close(sender);
	assert_int_equal(ky_sender_open(&sender, &options), 0);
	assert_int_equal(ky_sender_pass(sender), 0); /* of a live run, and not process 1 */
	ky_sender_totals(sender, 0, &totals);
	assert_int_equal(totals.taken_count + totals.waiting_count, 0);
	ky_store_close(store);
	assert_int_equal(ky_sender_pass(sender), 0); /* it is dead now */
	ky_sender_totals(sender, 0, &totals);
	assert_int_equal(totals.taken_count, 1);
	ky_sender_close(sender);
}

static void sender__stops_at_its_deadline(void **state)
{
	struct shelf shelf = {.taken = ""};
	struct ky_sender *sender;

	(void)state;
	send_two_runs();
	sender = open_sender(&shelf);
	ky_sender_finish_at(sender, 0);
	assert_int_equal(ky_sender_pass(sender), 0);
	ky_sender_close(sender);
	assert_string_equal(shelf.taken, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sender__offers_each_segment_once_over_processes,
						send_set_up, send_tear_down),
		cmocka_unit_test_setup_teardown(sender__keeps_what_is_refused_and_goes_to_the_next,
						send_set_up, send_tear_down),
		cmocka_unit_test_setup_teardown(sender__says_trouble_once_and_its_end, send_set_up,
						send_tear_down),
		cmocka_unit_test_setup_teardown(sender__counts_what_the_bound_deleted, send_set_up,
						send_tear_down),
		cmocka_unit_test_setup_teardown(sender__leaves_a_run_that_another_sends,
						send_set_up, send_tear_down),
		cmocka_unit_test_setup_teardown(sender__stops_at_its_deadline, send_set_up,
						send_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
