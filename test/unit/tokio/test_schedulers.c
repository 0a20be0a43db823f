/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "../../../adapters/tokio/schedulers.h"
#include "fake_tokio.h"

static const struct ky_tokio_table table = {
	.id_offset = 40, .scheduler_offset = 32, .trailer_offset = 80};

/* A runtime of two workers, as the heap holds it. */
struct runtime {
	uint64_t arcs[4][2];    /* run queue and parker of each worker */
	uint64_t remotes[4];    /* pairs of them */
	uint64_t handle[300];   /* counts, and far in, the remotes */
	uint64_t core[16];      /* of worker 1 */
	uint64_t workers[1][5]; /* counts; handle, index, core */
};

static void make(struct runtime *runtime)
{
	memset(runtime, 0, sizeof(*runtime));
	for (uint32_t i = 0; i < 4; i++) {
		runtime->arcs[i][0] = runtime->arcs[i][1] = 1 + i;
		runtime->remotes[i] = (uintptr_t)runtime->arcs[i];
	}
	runtime->handle[0] = 5;
	runtime->handle[1] = 1;
	runtime->handle[130] = (uintptr_t)runtime->remotes;
	runtime->handle[131] = 2;
	runtime->core[7] = (uintptr_t)runtime->arcs[2];
	runtime->workers[0][0] = runtime->workers[0][1] = 1;
	runtime->workers[0][2] = (uintptr_t)runtime->handle;
	runtime->workers[0][3] = 1;
	runtime->workers[0][4] = (uintptr_t)runtime->core;
}

static enum ky_tokio_kind run_kind(const struct runtime *runtime)
{
	struct fake_task task = fake_task(FAKE_LAUNCH, 1);

	task.captured[1] = (uintptr_t)runtime->workers[0];
	return ky_tokio_run_kind(&table, &task);
}

static void schedulers__a_pair_of_arcs_for_each_worker_is_multi_thread(void **state)
{
	struct runtime runtime;

	(void)state;
	make(&runtime);
	assert_int_equal(ky_tokio_scheduler_kind((uintptr_t)runtime.handle),
			 KY_TOKIO_KIND_MULTI_THREAD);
	runtime.arcs[3][0] = 0; /* not an Arc */
	assert_int_equal(ky_tokio_scheduler_kind((uintptr_t)runtime.handle),
			 KY_TOKIO_KIND_CURRENT_THREAD);
}

static void schedulers__two_queues_with_room_for_64_are_a_local_set(void **state)
{
	uint64_t entries[2] = {0}, set[40] = {3, 1};
	const uint64_t queues[2][4] = {{64, (uintptr_t)entries, 63, 5},
				       {0, (uintptr_t)entries, 128, 0}};

	(void)state;
	memcpy(set + 5, queues[0], sizeof(queues[0]));
	assert_int_equal(ky_tokio_scheduler_kind((uintptr_t)set), KY_TOKIO_KIND_CURRENT_THREAD);
	memcpy(set + 14, queues[1], sizeof(queues[1]));
	assert_int_equal(ky_tokio_scheduler_kind((uintptr_t)set), KY_TOKIO_KIND_LOCAL_SET);
	set[14 + 2] = 100; /* no room is 100 */
	assert_int_equal(ky_tokio_scheduler_kind((uintptr_t)set), KY_TOKIO_KIND_CURRENT_THREAD);
}

static void schedulers__what_is_not_there_is_followed_nowhere(void **state)
{
	(void)state;
	assert_int_equal(ky_tokio_scheduler_kind(0x10000), KY_TOKIO_KIND_CURRENT_THREAD);
}

static void schedulers__a_launch_captures_a_worker_whose_core_is_its_own(void **state)
{
	struct runtime runtime;

	(void)state;
	make(&runtime);
	assert_int_equal(run_kind(&runtime), KY_TOKIO_KIND_LAUNCH);
	runtime.core[7] = (uintptr_t)runtime.arcs[0]; /* of the other worker */
	assert_int_equal(run_kind(&runtime), KY_TOKIO_KIND_BLOCKING);
	make(&runtime);
	runtime.workers[0][3] = 2; /* no such worker */
	assert_int_equal(run_kind(&runtime), KY_TOKIO_KIND_BLOCKING);
	make(&runtime);
	runtime.workers[0][4] = 0; /* another thread has the core */
	assert_int_equal(run_kind(&runtime), KY_TOKIO_KIND_UNKNOWN);
}

/* Seen in a release build: padding of the handle with the list as it was while it had one pair. */
static void schedulers__a_stale_shorter_list_is_not_the_workers(void **state)
{
	struct runtime runtime;

	(void)state;
	make(&runtime);
	runtime.handle[42] = (uintptr_t)runtime.remotes;
	runtime.handle[43] = 1;
	assert_int_equal(run_kind(&runtime), KY_TOKIO_KIND_LAUNCH);
	runtime.handle[200] = (uintptr_t)runtime.remotes;
	runtime.handle[201] = 1;
	assert_int_equal(run_kind(&runtime), KY_TOKIO_KIND_LAUNCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(schedulers__a_pair_of_arcs_for_each_worker_is_multi_thread),
		cmocka_unit_test(schedulers__two_queues_with_room_for_64_are_a_local_set),
		cmocka_unit_test(schedulers__what_is_not_there_is_followed_nowhere),
		cmocka_unit_test(schedulers__a_launch_captures_a_worker_whose_core_is_its_own),
		cmocka_unit_test(schedulers__a_stale_shorter_list_is_not_the_workers),
	};

	return cmocka_run_group_tests_name("schedulers", tests, NULL, NULL);
}
