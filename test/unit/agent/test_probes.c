/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "../../lib/cmocka_all.h"

#include <agent/probes.h>
#include <string.h>

#define COUNT 3u

static char calls[16];

struct fake {
	char name;
	uint64_t next_ns;
};

static void note(const struct fake *fake)
{
	size_t length = strlen(calls);

	calls[length] = fake->name;
	calls[length + 1] = 0;
}

static uint64_t step(void *self, const struct ky_probe_moment *moment)
{
	const struct fake *fake = self;

	note(fake);
	return moment->now_ns + fake->next_ns;
}

static void describe(void *self, struct ky_drain *drain)
{
	assert_null(drain);
	note(self);
}

static void close_fake(void *self)
{
	note(self);
}

static struct fake late = {'l', 30}, soon = {'s', 20};
static const struct ky_probe_moment moment = {.now_ns = 1000};

static void list_is_stepped_in_order_up_to_the_first_that_is_due(void **state)
{
	const struct ky_probe probes[COUNT] = {
		{.self = &late, .step = step}, {.self = NULL}, {.self = &soon, .step = step}};

	(void)state;
	calls[0] = 0;
	assert_int_equal(ky_probes_step(probes, COUNT, &moment), 1020);
	assert_string_equal(calls, "ls");
	assert_true(ky_probes_step(probes + 1, 1, &moment) == UINT64_MAX);
}

static void list_is_described_and_closed_where_there_is_something(void **state)
{
	struct ky_probe probes[COUNT] = {{.self = &late, .describe = describe},
					 {.self = &soon, .close = close_fake},
					 {.self = &late, .close = close_fake}};

	(void)state;
	calls[0] = 0;
	ky_probes_describe(probes, COUNT, NULL);
	assert_string_equal(calls, "l");
	ky_probes_close(probes, COUNT);
	ky_probes_close(probes, COUNT);
	ky_probes_describe(probes, COUNT, NULL);
	assert_string_equal(calls, "lsl");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(list_is_stepped_in_order_up_to_the_first_that_is_due),
		cmocka_unit_test(list_is_described_and_closed_where_there_is_something),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
