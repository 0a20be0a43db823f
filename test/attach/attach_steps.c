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
#include <base/gnu.h>

#include <attach/attach.h>
#include <attach/attach_arch.h>
#include <base/now.h>
#include <base/testpoint.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *last_step;
static pid_t victim;
static uint32_t asked; /* the process */
static bool is_late;

#define LATE_US 20000 /* no thread is begun so late */
#define READS_MAX 50u /* of one who has died: it is no matter of time how long */

/* Once the block is in the process: nobody answers any more, so its thread need not wait long. */
static void shorten_wait(uint32_t pid)
{
	static const uint32_t reads_max = READS_MAX;
	unsigned long start, inode;
	char path[32], line[512];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	maps = fopen(path, "r");
	while (maps && fgets(line, sizeof(line), maps)) {
		static struct kymo_attach_block block;
		struct iovec here = {&block, sizeof(block)}, there = {NULL, sizeof(block)};

		if (sscanf(line, "%lx-%*x %*s %*s %*s %lu", &start, &inode) != 2 || inode)
			continue;
		there.iov_base = (void *)(start + KY_STUB_BLOCK);
		if (process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0) !=
			    (ssize_t)sizeof(block) ||
		    block.version != KYMO_ATTACH_VERSION ||
		    strcmp(block.function, KYMO_ATTACH_FUNCTION) != 0)
			continue;
		here = (struct iovec){(void *)(uintptr_t)&reads_max, sizeof(reads_max)};
		there = (struct iovec){(void *)(start + KY_STUB_BLOCK +
						offsetof(struct kymo_attach_block, reads_max)),
				       sizeof(reads_max)};
		(void)process_vm_writev((pid_t)pid, &here, 1, &there, 1, 0);
	}
	if (maps)
		fclose(maps);
}

void ky_testpoint(const char *name)
{
	static uint64_t first_ns;
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	first_ns = first_ns ? first_ns : now_ns;
	if (!last_step) {
		printf("%s %llu\n", name, (unsigned long long)(now_ns - first_ns) / 1000);
	} else if (strcmp(last_step, name) == 0) {
		if (victim == getpid())
			shorten_wait(asked);
		kill(victim, SIGKILL);
	}
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
	last_step = argc > 4 ? argv[4] : NULL;
	asked = pid = (uint32_t)strtoul(argv[2], NULL, 10);
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
