/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../../adapters/tokio/worker.h"
#include "fake_tokio.h"

static const struct ky_tokio_table table = {
	.id_offset = 40, .scheduler_offset = 32, .trailer_offset = 80};

static void worker__finds_the_captured_arc(void **state)
{
	uint64_t handle[2] = {9, 1};
	/* The compiler orders the fields as it likes. */
	uint64_t workers[3][5] = {{2, 1, (uintptr_t)handle, 3, 0},
				  {1, 1, 0, (uintptr_t)handle, 3},
				  {1, 1, 3, 0, (uintptr_t)handle}};
	struct fake_task task = fake_task(FAKE_LAUNCH, 1);

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		task.captured[i] = (uintptr_t)workers[i];
		assert_int_equal(ky_tokio_worker_of(&table, &task), (uintptr_t)workers[i]);
		assert_int_equal(ky_tokio_worker_runtime((uintptr_t)workers[i]), (uintptr_t)handle);
		task.captured[i] = 0;
	}
}

static void worker__memory_that_is_not_there_is_no_worker(void **state)
{
	struct fake_task task = fake_task(FAKE_LAUNCH, 1);

	(void)state;
	task.captured[0] = 0x10000;              /* never mapped */
	task.captured[1] = UINT64_C(1) << 46;    /* hardly */
	task.captured[2] = UINT64_MAX - 7;       /* not user space */
	task.captured[3] = (uintptr_t)&task + 1; /* not aligned */
	assert_int_equal(ky_tokio_worker_of(&table, &task), 0);
	assert_int_equal(ky_tokio_worker_runtime(0), 0);
	assert_int_equal(ky_tokio_worker_runtime(0x10000), 0);
}

static void worker__never_reads_the_trailer(void **state)
{
	uint64_t handle[2] = {1, 1}, worker[5] = {1, 1, (uintptr_t)handle, 0, 0};
	struct fake_task task = fake_task(FAKE_LAUNCH, 1);

	(void)state;
	task.trailer = (uintptr_t)worker;
	assert_int_equal(ky_tokio_worker_of(&table, &task), 0);
}

/* From here on this process is killed for process_vm_readv. */
static bool confine(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static void worker__is_found_by_a_host_that_confined_itself(void **state)
{
	uint64_t handle[2] = {9, 1}, worker[5] = {2, 1, (uintptr_t)handle, 3, 0};
	struct fake_task task = fake_task(FAKE_LAUNCH, 1);
	int status = -1;
	pid_t child;

	(void)state;
	if (prctl(PR_GET_SECCOMP) != 0) {
		print_message("# a container's filter hides ours\n");
		skip();
	}
	task.captured[0] = (uintptr_t)worker;
	child = fork();
	if (child == 0)
		_exit(!confine() || ky_tokio_worker_of(&table, &task) != (uintptr_t)worker);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(worker__finds_the_captured_arc),
		cmocka_unit_test(worker__memory_that_is_not_there_is_no_worker),
		cmocka_unit_test(worker__never_reads_the_trailer),
		cmocka_unit_test(worker__is_found_by_a_host_that_confined_itself),
	};

	return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
