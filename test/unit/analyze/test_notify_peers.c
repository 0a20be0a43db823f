/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"
#include <analyze/findings/notify_peers.h>

enum {
	CLIENT = 7,
	SERVER,
	CHECKOUT,
	SEARCH,
	RENDER,
	MANY = 100
};

static void wake_each_other(struct ky_notify_peers *peers, uint32_t one, uint32_t other)
{
	ky_notify_peers_add(peers, one, other);
	ky_notify_peers_add(peers, other, one);
}

static void peers__are_of_one_kind(void **state)
{
	struct ky_notify_peers peers = {.count = 0};

	(void)state;
	assert_true(ky_notify_peers_are(&peers, CLIENT, CLIENT));
	assert_false(ky_notify_peers_are(&peers, CLIENT, SERVER));
}

static void peers__are_not_a_client_and_its_server(void **state)
{
	struct ky_notify_peers peers = {.count = 0};

	(void)state;
	wake_each_other(&peers, CLIENT, SERVER);
	wake_each_other(&peers, SERVER, SEARCH);
	assert_false(ky_notify_peers_are(&peers, CLIENT, SERVER));
	ky_notify_peers_add(&peers, CLIENT, SEARCH); /* in one direction */
	assert_false(ky_notify_peers_are(&peers, CLIENT, SERVER));
}

static void peers__are_three_kinds_that_wake_each_other(void **state)
{
	struct ky_notify_peers peers = {.count = 0};

	(void)state;
	wake_each_other(&peers, CHECKOUT, SEARCH);
	wake_each_other(&peers, SEARCH, RENDER);
	wake_each_other(&peers, RENDER, CHECKOUT);
	wake_each_other(&peers, RENDER, SERVER);
	assert_true(ky_notify_peers_are(&peers, CHECKOUT, SEARCH));
	assert_true(ky_notify_peers_are(&peers, RENDER, SEARCH));
	assert_false(ky_notify_peers_are(&peers, RENDER, SERVER));
}

static void peers__are_a_ring_of_kinds_that_wake_their_neighbours(void **state)
{
	struct ky_notify_peers peers = {.count = 0};

	(void)state;
	wake_each_other(&peers, CHECKOUT, SEARCH);
	wake_each_other(&peers, SEARCH, RENDER);
	wake_each_other(&peers, RENDER, CLIENT);
	assert_false(ky_notify_peers_are(&peers, CHECKOUT, SEARCH)); /* a chain of servers */
	wake_each_other(&peers, CLIENT, CHECKOUT);
	wake_each_other(&peers, CLIENT, SERVER);
	assert_true(ky_notify_peers_are(&peers, CHECKOUT, SEARCH));
	assert_true(ky_notify_peers_are(&peers, CLIENT, RENDER));
	assert_false(ky_notify_peers_are(&peers, CHECKOUT, RENDER));
	assert_false(ky_notify_peers_are(&peers, CLIENT, SERVER));
}

static void peers__of_more_kinds_than_fit_are_of_one_kind(void **state)
{
	struct ky_notify_peers peers = {.count = 0};

	(void)state;
	for (uint32_t one = MANY; one < MANY + KY_NOTIFY_KINDS_MAX + 2; one++)
		for (uint32_t other = MANY; other < one; other++)
			wake_each_other(&peers, one, other);
	assert_true(ky_notify_peers_are(&peers, MANY, MANY + KY_NOTIFY_KINDS_MAX - 1));
	assert_false(ky_notify_peers_are(&peers, MANY, MANY + KY_NOTIFY_KINDS_MAX));
	assert_true(ky_notify_peers_are(&peers, MANY + KY_NOTIFY_KINDS_MAX,
					MANY + KY_NOTIFY_KINDS_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(peers__are_of_one_kind),
		cmocka_unit_test(peers__are_not_a_client_and_its_server),
		cmocka_unit_test(peers__are_three_kinds_that_wake_each_other),
		cmocka_unit_test(peers__are_a_ring_of_kinds_that_wake_their_neighbours),
		cmocka_unit_test(peers__of_more_kinds_than_fit_are_of_one_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
