/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sub-buffers that are claimed while the drain is at work on the others. */
#include "../../lib/drain_case.h"

#include <base/testpoint.h>

static struct drain_case c;
static struct test_writer writer;
static uint64_t now_ns, poll_count;
static bool is_claim_under_way;

static void fill_until_the_next_claim(void)
{
	const struct ky_sub_buffer *sub = writer.sub;

	while (writer.sub == sub) {
		test_poll(&writer, now_ns, 1, 0);
		test_poll_end(&writer, now_ns + 5000, 0);
		now_ns += 10000;
		poll_count++;
	}
}

void ky_testpoint(const char *name)
{
	if (!is_claim_under_way || strcmp(name, "drain.planned") != 0)
		return;
	is_claim_under_way = false;
	/* The number that it was given before. */
	atomic_fetch_sub(&c.ring.header->claim_index, 1);
	fill_until_the_next_claim();
}

/* `before`: how often its sub-buffer was used before. */
static void claim_after_unread_sub_buffers(uint32_t before)
{
	struct ky_drain_stats stats;

	now_ns = T0;
	poll_count = 0;
	case_open(&c, 4);
	case_start(&c);
	test_writer_open(&writer, &c.ring, 501, T0);
	for (uint32_t i = 0; i < 4 * before; i++) {
		fill_until_the_next_claim();
		case_step(&c, now_ns + 10 * MS);
		now_ns += 20 * MS;
	}
	/* The sub-buffer that is claimed last was read whole. */
	for (int i = before > 0; i < 3; i++)
		fill_until_the_next_claim();
	/* It has taken its number, and its sub-buffer does not show it yet. */
	atomic_fetch_add(&c.ring.header->claim_index, 1);
	is_claim_under_way = true;
	case_step(&c, now_ns + 10 * MS);
	assert_false(is_claim_under_way);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.records_lost, 0);
	assert_int_equal(stats.records_read, writer.record_count);
	now_ns += 20 * MS;
	fill_until_the_next_claim();
	case_finish(&c, now_ns + 10 * MS);
	ky_drain_stats(c.drain, &stats);
	assert_int_equal(stats.records_read, writer.record_count);
	assert_int_equal(COUNT(&c, LOSS), 0);
	assert_int_equal(COUNT(&c, POLL_START), poll_count);
	assert_int_equal(COUNT(&c, POLL_END), poll_count);
	case_close(&c);
}

static void drain__fresh_sub_buffer_claimed_after_the_plan_waits_its_turn(void **state)
{
	(void)state;
	claim_after_unread_sub_buffers(0);
}

static void drain__used_sub_buffer_claimed_after_the_plan_waits_its_turn(void **state)
{
	(void)state;
	claim_after_unread_sub_buffers(1);
	claim_after_unread_sub_buffers(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain__fresh_sub_buffer_claimed_after_the_plan_waits_its_turn),
		cmocka_unit_test(drain__used_sub_buffer_claimed_after_the_plan_waits_its_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
