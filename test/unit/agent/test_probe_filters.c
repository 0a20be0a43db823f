/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A process may make the calls of readings once it has recorded an event without a filter, and not
 * when it has put itself under one. */
#include "../../lib/cmocka_all.h"

#include <agent/probe_filters.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u
#define SECOND_NS UINT64_C(1000000000)

static _Alignas(PAGE) uint8_t image[2 * PAGE];
static struct ky_ring_view view;
static struct ky_probe_filters filters;
static struct ky_probe probe;
static int go[2], done[2];
static pid_t child;

/* A child that puts itself under a filter that allows everything when it is told to. */
static void live(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &allow};
	char word;

	while (read(go[0], &word, 1) == 1) {
		bool is_made = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
			       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;

		if (write(done[1], is_made ? "y" : "n", 1) != 1)
			break;
	}
	_exit(0);
}

static int setup(void **state)
{
	(void)state;
	memset(image, 0, sizeof(image));
	view.header = (const struct ky_ring_header *)(void *)image;
	((struct ky_ring_header *)(void *)image)->page_bytes = PAGE;
	if (pipe(go) != 0 || pipe(done) != 0)
		return -1;
	child = fork();
	if (child == 0) {
		close(go[1]);
		live();
	}
	probe = ky_probe_filters_init(&filters, (uint32_t)child, &view,
				      &(const struct ky_ring_access){.base = image});
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	probe.close(probe.self);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(done[i]);
	}
	return waitpid(child, NULL, 0) == child ? 0 : -1;
}

static bool may_call(void)
{
	const struct ky_ring_control *control = (const void *)(image + PAGE);

	return atomic_load(&control->may_call) == 1;
}

static void step(uint64_t now_ns)
{
	const struct ky_probe_moment moment = {.now_ns = now_ns};

	(void)probe.step(probe.self, &moment);
}

static void record_an_event(void)
{
	atomic_store(&((struct ky_ring_header *)(void *)image)->claim_index, 1);
}

static void add_filter(void)
{
	char answer = 'n';

	assert_int_equal(write(go[1], "x", 1), 1);
	assert_int_equal(read(done[0], &answer, 1), 1);
	if (answer != 'y')
		skip();
}

static void calls__are_allowed_after_the_first_event(void **state)
{
	(void)state;
	step(SECOND_NS);
	assert_false(may_call());
	record_an_event();
	step(SECOND_NS + 1);
	assert_true(may_call());
}

static void calls__are_not_allowed_under_a_filter(void **state)
{
	(void)state;
	add_filter();
	record_an_event();
	step(SECOND_NS);
	assert_false(may_call());
}

static void calls__end_when_a_filter_comes(void **state)
{
	(void)state;
	record_an_event();
	step(SECOND_NS);
	assert_true(may_call());
	add_filter();
	step(SECOND_NS + SECOND_NS / 2); /* not due */
	assert_true(may_call());
	step(2 * SECOND_NS);
	assert_false(may_call());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calls__are_allowed_after_the_first_event, setup,
						teardown),
		cmocka_unit_test_setup_teardown(calls__are_not_allowed_under_a_filter, setup,
						teardown),
		cmocka_unit_test_setup_teardown(calls__end_when_a_filter_comes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
