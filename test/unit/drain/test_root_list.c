/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Roots by their ids, and which of too many is forgotten. */
#include "../../lib/cmocka_all.h"

#include <drain/root_list.h>

static void root_list__forgets_the_one_that_was_silent_longest(void **state)
{
	struct ky_root_list roots = {0};

	(void)state;
	for (uint64_t id = 1; id <= KY_ROOTS_MAX; id++)
		ky_root_list_take(&roots, id)->last_ns = id == 7 ? 1 : 100 + id;
	ky_root_list_take(&roots, KY_ROOTS_MAX + 1)->last_ns = 5000;
	assert_int_equal(roots.count, KY_ROOTS_MAX);
	assert_int_equal(ky_root_list_now(&roots, 7), KY_ROOT_UNKNOWN);
	assert_int_equal(ky_root_list_now(&roots, 8), KY_ROOT_POLLED);
	assert_int_equal(ky_root_list_now(&roots, KY_ROOTS_MAX + 1), KY_ROOT_POLLED);
	ky_root_list_release(&roots);
}

static void root_list__waits_only_between_polls(void **state)
{
	struct ky_root_list roots = {0};
	struct ky_drain_root *root = ky_root_list_take(&roots, 3);

	(void)state;
	root->waits = true;
	assert_ptr_equal(ky_root_list_take(&roots, 3), root);
	assert_int_equal(ky_root_list_now(&roots, 3), KY_ROOT_WAITS);
	root->is_open = true;
	assert_int_equal(ky_root_list_now(&roots, 3), KY_ROOT_POLLED);
	ky_root_list_release(&roots);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(root_list__forgets_the_one_that_was_silent_longest),
		cmocka_unit_test(root_list__waits_only_between_polls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
