/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kymo attach and detach without their command line; at a named step it kills itself (SIGKILL), or
 * the process that it attaches to.
 *
 *   attach_steps start|stop PID LIBRARY [STEP [target]]
 *   attach_steps start|stop PID LIBRARY taken ADDRESS
 *
 * taken: it kills no process, asks for memory at this address first, and reads the answer late.
 * Without STEP it prints the steps it passes with the microseconds since the first, and the answer.
 * Exit status: 0 done, 1 refused. */
#include <attach/attach.h>
#include <base/now.h>
#include <base/testpoint.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *last_step;
static pid_t victim;
static bool is_late;

#define LATE_US 20000 /* no thread is begun so late */

void ky_testpoint(const char *name)
{
	static uint64_t first_ns;
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	first_ns = first_ns ? first_ns : now_ns;
	if (!last_step)
		printf("%s %llu\n", name, (unsigned long long)(now_ns - first_ns) / 1000);
	else if (strcmp(last_step, name) == 0)
		kill(victim, SIGKILL);
	if (is_late && strcmp(name, "attach.memory") == 0) {
		usleep(LATE_US);
		is_late = false;
	}
}

int main(int argc, char **argv)
{
	static struct ky_process process;
	static struct ky_attach_answer answer;
	struct ky_attach_request request = {0};
	char why[KY_ATTACH_WHY_BYTES];
	uint32_t pid;
	int err;

	if (argc < 4)
		return 2;
	is_late = argc > 5 && strcmp(argv[4], "taken") == 0;
	request.action = strcmp(argv[1], "start") == 0 ? KYMO_ATTACH_START : KYMO_ATTACH_STOP;
	request.library = argv[3];
	request.patience_ms = 100;
	last_step = argc > 4 ? argv[4] : NULL;
	pid = (uint32_t)strtoul(argv[2], NULL, 10);
	victim = argc > 5 ? (pid_t)pid : getpid();
	err = ky_process_open(&process, pid, why);
	if (is_late)
		process.free_address = strtoull(argv[5], NULL, 16);
	if (err || ky_attach_ask(&process, &request, &answer, why) != 0) {
		fprintf(stderr, "process %u %s\n", pid, why);
		return 1;
	}
	printf("%s", answer.text);
	ky_process_close(&process);
	return answer.result == 0 ? 0 : 1;
}
