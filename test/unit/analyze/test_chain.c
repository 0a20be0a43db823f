/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../read/read_case.h"

#include <analyze/chain.h>

enum {
	RUN_TID = 77,
	CASE_NS = 1000
};

static struct ky_task_chain *chain_of(const struct read_case *c, uint64_t task, uint64_t from_ns,
				      uint64_t to_ns)
{
	struct ky_task_chain *chain;
	uint64_t at_ns;

	assert_int_equal(ky_chain_make(&chain, c->trace, ky_trace_task(c->trace, task), from_ns,
				       to_ns, NULL),
			 0);
	/* Without a gap, and nothing twice. */
	at_ns = chain->from_ns;
	for (uint32_t i = 0; i < chain->link_count; i++) {
		assert_int_equal(chain->links[i].from_ns, at_ns);
		assert_true(chain->links[i].to_ns > at_ns);
		at_ns = chain->links[i].to_ns;
	}
	assert_int_equal(at_ns, chain->to_ns);
	return chain;
}

static void check(const struct ky_task_chain *chain, uint32_t index, uint32_t kind, uint64_t task,
		  uint64_t ns, uint32_t depth)
{
	const struct ky_link *link = &chain->links[index];

	assert_true(index < chain->link_count);
	assert_int_equal(link->kind, kind);
	assert_int_equal(chain->trace->tasks[link->task].id, task);
	assert_int_equal(link->to_ns - link->from_ns, ns);
	assert_int_equal(link->depth, depth);
}

static uint64_t sum_of(const struct ky_task_chain *chain)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < chain->group_count; i++)
		ns += chain->groups[i].ns;
	return ns;
}

/* Task 1 asks task 2, which waits for a timer, is late, and answers. */
static void chain__of_a_wait_is_what_its_waker_did(void **state)
{
	struct ky_task_chain *chain;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 2000, 0, 1); /* asks: its wake of 2 */
	case_wake(&c, 1500, 1, 2, 0);
	case_poll(&c, 2500, 3000, 0, 2); /* sets a timer */
	case_wake(&c, 6000, 0, 2, 0);    /* which runs out */
	case_poll(&c, 6000, 7000, 0, 3); /* in its way */
	case_poll(&c, 7000, 8000, 0, 2);
	case_wake(&c, 7600, 2, 1, 0);
	case_poll(&c, 8000, 9000, 0, 1);
	case_open(&c);
	chain = chain_of(&c, 1, 0, 0);
	assert_int_equal(chain->to_ns - chain->from_ns, 8000);
	assert_int_equal(chain->link_count, 8);
	check(chain, 0, KY_LINK_POLL, 1, 1000, 0);
	check(chain, 1, KY_LINK_READY, 2, 500, 1); /* since 1500, of which the wait has this */
	check(chain, 2, KY_LINK_POLL, 2, 500, 1);
	check(chain, 3, KY_LINK_WAIT, 2, 3000, 1);
	check(chain, 4, KY_LINK_READY, 2, 1000, 1);
	check(chain, 5, KY_LINK_POLL, 2, 600, 1);
	check(chain, 6, KY_LINK_READY, 1, 400, 0);
	check(chain, 7, KY_LINK_POLL, 1, 1000, 0);
	assert_int_equal(sum_of(chain), 8000);
	for (uint32_t i = 0; i < chain->group_count; i++) {
		const struct ky_chain_group *group = &chain->groups[i];

		if (group->kind == KY_LINK_READY && group->ns == 1000) {
			assert_int_equal(group->part, KY_PART_BEHIND_UNSPLIT);
			assert_int_equal(group->culprit, chain->trace->tasks[0].name);
		}
	}
	ky_chain_free(chain);
	case_finish(&c);
}

static void chain__of_a_range_is_cut_at_both_ends(void **state)
{
	struct ky_task_chain *chain;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 2000, 0, 1);
	case_wake(&c, 6000, 0, 1, 0);
	case_poll(&c, 6500, 9000, 0, 1);
	case_open(&c);
	chain = chain_of(&c, 1, 1200, 7000);
	assert_int_equal(chain->link_count, 4);
	check(chain, 0, KY_LINK_POLL, 1, 800, 0);
	check(chain, 1, KY_LINK_WAIT, 1, 4000, 0);
	check(chain, 2, KY_LINK_READY, 1, 500, 0);
	check(chain, 3, KY_LINK_POLL, 1, 500, 0);
	assert_int_equal(sum_of(chain), 5800);
	ky_chain_free(chain);
	chain = chain_of(&c, 1, 3000, 6200); /* in its wait */
	assert_int_equal(chain->link_count, 1);
	check(chain, 0, KY_LINK_UNKNOWN, 1, 3200, 0);
	ky_chain_free(chain);
	case_finish(&c);
}

static void window(struct read_case *c, uint64_t task, uint64_t begin_ns, uint64_t end_ns,
		   uint64_t id)
{
	ky_trc_enc_event(&c->enc, KY_EV_SPAWN_WINDOW, end_ns);
	ky_trc_enc_u32(&c->enc, 11);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, task);
	ky_trc_enc_varint(&c->enc, begin_ns);
	ky_trc_enc_varint(&c->enc, id);
	ky_trc_enc_varint(&c->enc, 1);
}

static void wake_by_thread(struct read_case *c, uint64_t ns, uint64_t woken)
{
	static const uint64_t frame[] = {0x1000};
	uint32_t stack = ky_trc_enc_stack(&c->enc, frame, 1);

	ky_trc_enc_event(&c->enc, KY_EV_WAKE, ns);
	ky_trc_enc_varint(&c->enc, 0);
	ky_trc_enc_varint(&c->enc, woken);
	ky_trc_enc_u8(&c->enc, 255);
	ky_trc_enc_u8(&c->enc, 4);
	ky_trc_enc_u32(&c->enc, stack);
	ky_trc_enc_varint(&c->enc, RUN_TID);
}

/* Task 1 submits closure 9, which stands in line, runs, and ends. */
static void chain__of_a_closure_is_its_run_and_its_line(void **state)
{
	struct ky_task_chain *chain;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 2000, 0, 1);
	window(&c, 1, 1000, 2000, 9);
	case_run(&c, 5000, RUN_TID, 9, "svc::run");
	wake_by_thread(&c, 7900, 1);
	case_run(&c, 8000, RUN_TID, 9, NULL);
	case_poll(&c, 8500, 9000, 0, 1);
	case_open(&c);
	chain = chain_of(&c, 1, 0, 0);
	assert_int_equal(chain->link_count, 5);
	check(chain, 0, KY_LINK_POLL, 1, 1000, 0);
	check(chain, 1, KY_LINK_LINE, 9, 3000, 1);
	check(chain, 2, KY_LINK_RUN, 9, 2900, 1);
	check(chain, 3, KY_LINK_READY, 1, 600, 0);
	check(chain, 4, KY_LINK_POLL, 1, 500, 0);
	assert_int_equal(chain->links[2].tid, RUN_TID);
	assert_int_equal(sum_of(chain), 8000);
	ky_chain_free(chain);
	case_finish(&c);
}

/* A task begins with its spawn; before that, its parent's time counts. */
static void chain__goes_on_with_who_spawned(void **state)
{
	struct ky_task_chain *chain;
	struct read_case c;

	(void)state;
	case_begin(&c);
	case_poll(&c, 1000, 2000, 0, 1);
	window(&c, 1, 1000, 2000, 20);
	case_poll(&c, 2500, 4000, 0, 20);
	case_open(&c);
	chain = chain_of(&c, 20, 1200, 0);
	assert_int_equal(chain->link_count, 3);
	check(chain, 0, KY_LINK_POLL, 1, 800, 0);
	check(chain, 1, KY_LINK_READY, 20, 500, 0);
	check(chain, 2, KY_LINK_POLL, 20, 1500, 0);
	ky_chain_free(chain);
	chain = chain_of(&c, 20, 0, 0); /* its own life begins with it */
	assert_int_equal(chain->to_ns - chain->from_ns, 2000);
	ky_chain_free(chain);
	case_finish(&c);
}

/* Two tasks that wake each other for ever: each step back ends earlier. */
static void chain__of_a_circle_ends(void **state)
{
	struct ky_task_chain *chain;
	struct read_case c;

	(void)state;
	case_begin(&c);
	for (uint64_t i = 0; i < 200; i++) {
		case_poll(&c, (i + 1) * CASE_NS, (i + 1) * CASE_NS + 800, 0, 1 + i % 2);
		case_wake(&c, (i + 1) * CASE_NS + 700, 1 + i % 2, 2 - i % 2, 0);
	}
	case_open(&c);
	chain = chain_of(&c, 1, 0, 0);
	assert_true(chain->link_count > 200);
	for (uint32_t i = 0; i < chain->link_count; i++)
		assert_true(chain->links[i].depth <= KY_CHAIN_DEPTH_MAX);
	assert_int_equal(sum_of(chain), chain->to_ns - chain->from_ns);
	ky_chain_free(chain);
	case_finish(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chain__of_a_wait_is_what_its_waker_did),
		cmocka_unit_test(chain__of_a_range_is_cut_at_both_ends),
		cmocka_unit_test(chain__of_a_closure_is_its_run_and_its_line),
		cmocka_unit_test(chain__goes_on_with_who_spawned),
		cmocka_unit_test(chain__of_a_circle_ends),
	};

	return cmocka_run_group_tests_name("chain", tests, NULL, NULL);
}
