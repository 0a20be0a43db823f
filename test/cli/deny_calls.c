/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Runs a program under a filter that refuses system calls with EPERM.
 *
 *   deny_calls [perf] [timer] -- PROGRAM ARGUMENTS...
 *
 * Exit status: the program's; 77 where no filter can be had.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sock_filter steps[8] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	struct sock_fprog program = {.filter = steps};
	unsigned short used = 1;
	int at;

	for (at = 1; at < argc && strcmp(argv[at], "--") != 0 && used < 6; at++) {
		unsigned int call = strcmp(argv[at], "perf") == 0 ? SYS_perf_event_open :
								    SYS_timer_create;

		steps[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
		steps[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							     SECCOMP_RET_ERRNO | EPERM);
	}
	steps[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = used;
	if (at + 1 >= argc)
		return 64;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		return 77;
	execvp(argv[at + 1], argv + at + 1);
	return 127;
}
