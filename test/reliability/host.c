/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Programs that treat a recorder badly, through the C API: what `kymo run` must survive.
 *
 *   reliability_host ring WAY WITNESS   4 threads count in WITNESS around each event; ends by
 *                                       return, exit, _exit, abort, SIGTERM, SIGKILL or SIGSEGV
 *   reliability_host threads N          N threads, 10 polls each, 64 at a time
 *   reliability_host forks N            N children: some exec, some record after reopen, some try
 *                                       to without
 *   reliability_host daemon PATH        double fork, setsid, every descriptor closed; makes PATH
 *   reliability_host dlopen LIB N [WITNESS]
 *                                       opens and closes LIB N times while a thread records, then
 *                                       keeps it for a second and a half; after each ten polls
 *                                       WITNESS says how many there were
 *   reliability_host polls N            N polls, nothing else
 *   reliability_host filter CMD...      runs CMD under a filter that kills for process_vm_readv
 *   reliability_host step FILE LINE...  100,000 polls, then FILE gets the next LINE; and so on
 *
 * On standard output: one JSON line of what was done.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <kymo/kymo.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/host_recorder.h"

#define POLLS_PER_THREAD 10u
#define POLLS_PER_CHILD 20u
#define THREADS_AT_ONCE 64u
#define CHILDREN_AT_ONCE 8u
#define WITNESSES 4u
#define WITNESS_POLLS 20000u

/* One line of the witness' file for each thread. */
struct witness {
	_Alignas(64) _Atomic uint64_t before, after;
};

static _Atomic bool over;

static bool is_over(void)
{
	return atomic_load_explicit(&over, memory_order_relaxed);
}

static void end_threads(void)
{
	atomic_store_explicit(&over, true, memory_order_relaxed);
}

static int say_polls(uint64_t polls)
{
	return printf("{\"polls\":%llu}\n", (unsigned long long)polls) > 0 && fflush(stdout) == 0 ?
		       0 :
		       1;
}

/* A file of so many zeros, which outlives the process. NULL: it cannot be made. */
static void *map_new(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	void *at = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

/* ---- ways to die ---- */

/* One event a turn: its begin is the witnessed one, of a task that no other thread has. */
static void *witness_thread(void *ctx)
{
	struct witness *witness = ctx;
	uint64_t i;

	for (i = 1; i <= WITNESS_POLLS || !is_over(); i++) {
		atomic_store_explicit(&witness->before, i, memory_order_relaxed);
		kymo_mark(0);
		atomic_store_explicit(&witness->after, i, memory_order_relaxed);
	}
	return NULL;
}

static void leave(const char *way)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {{"SIGTERM", SIGTERM}, {"SIGKILL", SIGKILL}, {"SIGSEGV", SIGSEGV}};

	if (strcmp(way, "exit") == 0)
		exit(3);
	if (strcmp(way, "_exit") == 0)
		_exit(4);
	if (strcmp(way, "abort") == 0)
		abort();
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		if (strcmp(way, signals[i].name) == 0)
			kill(getpid(), signals[i].number);
}

static int run_ring(const char *way, const char *path)
{
	struct witness *witnesses = map_new(path, sizeof(*witnesses) * WITNESSES);
	pthread_t threads[WITNESSES];

	if (!witnesses)
		return 65;
	for (uint32_t i = 0; i < WITNESSES; i++)
		if (pthread_create(&threads[i], NULL, witness_thread, &witnesses[i]) != 0)
			return 65;
	/* In the middle of it, whatever the way. */
	for (uint32_t i = 0; i < WITNESSES; i++)
		while (atomic_load_explicit(&witnesses[i].after, memory_order_relaxed) <
		       WITNESS_POLLS / 2)
			sched_yield();
	leave(way);
	end_threads();
	for (uint32_t i = 0; i < WITNESSES; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

/* ---- threads, children, daemons ---- */

static void *short_thread(void *ctx)
{
	(void)ctx;
	poll_times(POLLS_PER_THREAD);
	return NULL;
}

static int run_threads(uint64_t count)
{
	pthread_t threads[THREADS_AT_ONCE];
	uint64_t started = 0;

	while (started < count) {
		uint32_t batch = 0;

		while (batch < THREADS_AT_ONCE && started + batch < count &&
		       pthread_create(&threads[batch], NULL, short_thread, NULL) == 0)
			batch++;
		if (batch == 0)
			return 65;
		for (uint32_t i = 0; i < batch; i++)
			pthread_join(threads[i], NULL);
		started += batch;
	}
	return say_polls(started * POLLS_PER_THREAD);
}

static void be_child(uint64_t number)
{
	if (number % 3 == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(66);
	}
	if (number % 3 == 1) {
		if (kymo_recorder_reopen() != 0)
			_exit(67);
		poll_times(POLLS_PER_CHILD);
	} else {
		poll_times(POLLS_PER_CHILD); /* disarmed: goes nowhere */
	}
	_exit(0);
}

static int reap(uint32_t count)
{
	int status, failed = 0;

	for (uint32_t i = 0; i < count; i++)
		if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
			failed++;
	return failed;
}

static int run_forks(uint64_t count)
{
	uint64_t polls = 0, children = 0, reopened = 0;
	uint32_t alive = 0;
	int failed = 0;

	poll_times(1);
	polls++;
	while (children < count) {
		pid_t pid = fork();

		if (pid < 0)
			return 65;
		if (pid == 0)
			be_child(children);
		reopened += children % 3 == 1;
		children++;
		poll_times(10);
		polls += 10;
		if (++alive == CHILDREN_AT_ONCE) {
			failed += reap(alive);
			alive = 0;
		}
	}
	failed += reap(alive);
	printf("{\"polls\":%llu,\"reopened\":%llu,\"polls_each\":%u,\"failed\":%d}\n",
	       (unsigned long long)polls, (unsigned long long)reopened, POLLS_PER_CHILD, failed);
	return failed != 0;
}

static int run_daemon(const char *path)
{
	poll_times(5); /* the first of three generations */
	if (fork() != 0)
		_exit(0);
	setsid();
	if (fork() != 0)
		_exit(0);
	if (chdir("/") != 0)
		_exit(65);
	for (int fd = 0; fd < 256; fd++)
		close(fd);
	if (kymo_recorder_reopen() != 0)
		_exit(66);
	poll_times(5000);
	for (int i = 0; i < 50; i++) { /* longer than a step of the drain */
		poll_times(10);
		usleep(5000);
	}
	close(open(path, O_CREAT | O_WRONLY, 0600));
	_exit(0);
}

/* ---- the loader ---- */

static void *poll_until_over(void *ctx)
{
	uint64_t *polls = ctx;

	while (!is_over()) {
		poll_times(10);
		*polls += 10;
		usleep(200);
	}
	return NULL;
}

static int run_dlopen(const char *library, uint64_t times, const char *path)
{
	uint64_t none = 0, *polls = path ? map_new(path, sizeof(*polls)) : &none;
	pthread_t thread;
	void *handle = NULL;
	int (*answer)(void) = NULL;

	if (!polls || pthread_create(&thread, NULL, poll_until_over, polls) != 0)
		return 65;
	for (uint64_t i = 0; i < times; i++) {
		handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			fprintf(stderr, "%s\n", dlerror());
			return 66;
		}
		*(void **)&answer = dlsym(handle, "reliability_answer");
		if (!answer || answer() != 42)
			return 67;
		if (i + 1 < times)
			dlclose(handle);
	}
	usleep(1500000); /* with the library loaded, an external reader sees it */
	end_threads();
	pthread_join(thread, NULL);
	return say_polls(*polls);
}

/* ---- filters and clocks ---- */

static int run_filter(char **command)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		return 77;
	execv(command[0], command);
	return 127;
}

static int run_steps(const char *path, char **lines)
{
	uint64_t polls = 0;
	FILE *file;

	for (;; lines++) {
		poll_times(100000);
		polls += 100000;
		if (!*lines)
			return say_polls(polls);
		file = fopen(path, "w");
		if (!file || fprintf(file, "%s\n", *lines) < 0 || fclose(file) != 0)
			return 65;
	}
}

static int run(int argc, char **argv)
{
	const char *mode = argv[1];

	if (strcmp(mode, "ring") == 0 && argc == 4)
		return run_ring(argv[2], argv[3]);
	if (strcmp(mode, "threads") == 0 && argc == 3)
		return run_threads(strtoull(argv[2], NULL, 10));
	if (strcmp(mode, "forks") == 0 && argc == 3)
		return run_forks(strtoull(argv[2], NULL, 10));
	if (strcmp(mode, "daemon") == 0 && argc == 3)
		return run_daemon(argv[2]);
	if (strcmp(mode, "dlopen") == 0 && argc >= 4)
		return run_dlopen(argv[2], strtoull(argv[3], NULL, 10), argv[4]);
	if (strcmp(mode, "step") == 0 && argc >= 3)
		return run_steps(argv[2], argv + 3);
	if (strcmp(mode, "polls") == 0 && argc == 3) {
		poll_times(strtoull(argv[2], NULL, 10));
		return say_polls(strtoull(argv[2], NULL, 10));
	}
	return 64;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 64;
	if (strcmp(argv[1], "filter") == 0)
		return run_filter(argv + 2);
	/* Where nothing can be recorded the program must run all the same. */
	(void)open_recorder();
	return run(argc, argv);
}
