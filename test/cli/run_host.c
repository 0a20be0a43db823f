/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program that records polls through the C API and leaves its ring to its parent.
 *
 *   run_host POLLS ACTION...
 *
 * return, exit=N, _exit=N, abort, signal=N   how it ends
 * wait=PATH       continues once this file exists
 * touch=PATH      makes a file
 * daemon          continues in a child of a new session; the parent returns at once
 * polls=N         N more polls
 * paced=N         N more polls, a nap of 50 us after each hundred
 * begin=TASK      begins a poll of this task, and leaves it open
 * end             ends it
 * crash           leaves word of fatal signals, and reads where nothing is, in crash_inside()
 * stop            stops itself
 * burn=MS         burns so many ms of CPU time, three quarters here, a quarter in another thread
 * user=N          becomes this user and group
 * prof            takes SIGPROF for itself; as the first action before there is a recorder
 * profs           says how often it came
 * handler         says whether there is one for SIGPROF
 * churn=N         N threads, one after the other, each burns a ms
 * crowd=N         N threads at once, each burns a ms
 * burnt           prints the CPU time of all these threads as JSON: as a whole, and from each one's
 *                 first poll on
 * fork=MS         a child burns so many ms, and is waited for
 * grow            takes memory until it is killed
 * fds=N           opens N more descriptors
 * hold=MIB        takes so much memory and keeps it
 * listen=N        listens with a backlog of N, gets N + 4 connections, accepts none, and prints
 *                 its port
 * say             prints what it knows of itself as JSON: descriptors, getrusage
 * exec=N          starts over in this process as `run_host N`
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <kymo/kymo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../lib/host_recorder.h"

/* Not for ever where a test is over, with its directory, before the file was seen. */
static void wait_for(const char *path)
{
	char directory[2048];

	(void)snprintf(directory, sizeof(directory), "%s", path);
	if (strrchr(directory, '/'))
		*strrchr(directory, '/') = '\0';
	while (access(path, F_OK) != 0 && access(directory, F_OK) == 0)
		nanosleep(&(const struct timespec){.tv_nsec = 2000000}, NULL);
}

static void poll_paced(uint64_t count)
{
	for (; count >= 100; count -= 100) {
		poll_times(100);
		nanosleep(&(const struct timespec){.tv_nsec = 50000}, NULL);
	}
}

/* Two functions that a stack has to name. */
__attribute__((noinline)) static int crash_inside(const volatile int *address)
{
	return *address + 1;
}

__attribute__((noinline)) static void crash(void)
{
	static const volatile int *volatile nowhere;
	int got;

	if (kymo_fatal_signals_install() != 0)
		abort();
	got = crash_inside(nowhere);
	printf("%d\n", got);
}

static void burn(uint64_t ms)
{
	struct timespec from, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	do {
		for (volatile int i = 0; i < 20000; i++)
			;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	} while ((uint64_t)(now.tv_sec - from.tv_sec) * 1000 +
			 (uint64_t)(now.tv_nsec / 1000000 - from.tv_nsec / 1000000) <
		 ms);
}

static _Atomic uint64_t whole_ns, polled_ns;

static uint64_t own_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *burn_one(void *ctx)
{
	uint64_t from_ns;

	(void)ctx;
	poll_times(1);
	from_ns = own_cpu_ns();
	burn(1);
	whole_ns += own_cpu_ns();
	polled_ns += own_cpu_ns() - from_ns;
	return NULL;
}

static void churn(unsigned long count, unsigned long at_once)
{
	static pthread_t threads[1000];
	unsigned long made;

	for (; count > 0; count -= made) {
		for (made = 0; made < count && made < at_once && made < 1000; made++)
			if (pthread_create(&threads[made], NULL, burn_one, NULL) != 0)
				break;
		if (made == 0)
			return;
		for (unsigned long i = 0; i < made; i++)
			pthread_join(threads[i], NULL);
	}
}

static volatile sig_atomic_t prof_count;

static void on_prof(int number)
{
	(void)number;
	prof_count++;
}

static void take_prof(void)
{
	struct sigaction action = {.sa_handler = on_prof, .sa_flags = SA_RESTART};

	sigaction(SIGPROF, &action, NULL);
}

static void say_handler(void)
{
	struct sigaction now;

	sigaction(SIGPROF, NULL, &now);
	puts(now.sa_handler == SIG_DFL ? "no handler" : "a handler");
}

static void *burn_quarter(void *ctx)
{
	burn(*(uint64_t *)ctx / 4);
	return NULL;
}

static void burn_in_two(uint64_t ms)
{
	pthread_t thread;

	pthread_create(&thread, NULL, burn_quarter, &ms);
	burn(ms / 4 * 3);
	pthread_join(thread, NULL);
}

static void burn_in_child(unsigned long ms)
{
	pid_t child = fork();

	if (child == 0) {
		burn(ms);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void grow(void)
{
	const size_t bytes = (size_t)1 << 20;
	char *more;

	while ((more = malloc(bytes)) != NULL)
		memset(more, 1, bytes);
}

static void open_more(unsigned long count)
{
	while (count-- > 0)
		if (open("/dev/null", O_RDONLY) < 0)
			_exit(67);
}

static void hold(unsigned long mib)
{
	static char *volatile held;

	held = malloc(mib << 20);
	if (held == NULL)
		_exit(68);
	memset(held, 1, mib << 20);
}

static void listen_full(int backlog)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (listener < 0 || bind(listener, (struct sockaddr *)&address, bytes) != 0 ||
	    listen(listener, backlog) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &bytes) != 0)
		_exit(69);
	for (int i = 0; i < backlog + 4; i++) {
		int caller = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

		if (caller < 0)
			_exit(70);
		(void)connect(caller, (struct sockaddr *)&address, bytes);
	}
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
}

static uint64_t us_of(const struct timeval *time)
{
	return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

static void say(void)
{
	struct rusage usage;
	int fds = 0;

	getrusage(RUSAGE_SELF, &usage);
	for (int fd = 0; fd < 4096; fd++)
		fds += fcntl(fd, F_GETFD) >= 0;
	printf("{\"fds\": %d, \"cpu_us\": %llu, \"max_rss\": %llu, \"minor\": %ld, "
	       "\"switches\": %ld}\n",
	       fds, (unsigned long long)(us_of(&usage.ru_utime) + us_of(&usage.ru_stime)),
	       (unsigned long long)usage.ru_maxrss * 1024, usage.ru_minflt,
	       usage.ru_nvcsw + usage.ru_nivcsw);
	fflush(stdout);
}

static void become(unsigned int user)
{
	if (setgid(user) != 0 || setuid(user) != 0)
		_exit(66);
}

static void act(const char *action)
{
	const char *value = strchr(action, '=');

	value = value ? value + 1 : "";
	if (strncmp(action, "exit=", 5) == 0)
		exit((int)strtol(value, NULL, 10));
	else if (strncmp(action, "_exit=", 6) == 0)
		_exit((int)strtol(value, NULL, 10));
	else if (strcmp(action, "abort") == 0)
		abort();
	else if (strncmp(action, "signal=", 7) == 0)
		kill(getpid(), (int)strtol(value, NULL, 10));
	else if (strncmp(action, "wait=", 5) == 0)
		wait_for(value);
	else if (strncmp(action, "touch=", 6) == 0)
		close(open(value, O_CREAT | O_WRONLY, 0600));
	else if (strncmp(action, "polls=", 6) == 0)
		poll_times(strtoul(value, NULL, 10));
	else if (strncmp(action, "paced=", 6) == 0)
		poll_paced(strtoul(value, NULL, 10));
	else if (strncmp(action, "begin=", 6) == 0)
		kymo_poll_begin(strtoul(value, NULL, 10), name, KYMO_QUEUE_UNKNOWN);
	else if (strcmp(action, "end") == 0)
		kymo_poll_end(0);
	else if (strcmp(action, "crash") == 0)
		crash();
	else if (strncmp(action, "burn=", 5) == 0)
		burn_in_two(strtoul(value, NULL, 10));
	else if (strcmp(action, "prof") == 0)
		take_prof();
	else if (strcmp(action, "profs") == 0)
		printf("%d\n", (int)prof_count);
	else if (strcmp(action, "handler") == 0)
		say_handler();
	else if (strncmp(action, "churn=", 6) == 0)
		churn(strtoul(value, NULL, 10), 1);
	else if (strncmp(action, "crowd=", 6) == 0)
		churn(strtoul(value, NULL, 10), 1000);
	else if (strcmp(action, "burnt") == 0)
		printf("{\"whole_ns\":%llu,\"polled_ns\":%llu}\n", (unsigned long long)whole_ns,
		       (unsigned long long)polled_ns);
	else if (strncmp(action, "fork=", 5) == 0)
		burn_in_child(strtoul(value, NULL, 10));
	else if (strncmp(action, "user=", 5) == 0)
		become((unsigned int)strtoul(value, NULL, 10));
	else if (strcmp(action, "grow") == 0)
		grow();
	else if (strncmp(action, "fds=", 4) == 0)
		open_more(strtoul(value, NULL, 10));
	else if (strncmp(action, "hold=", 5) == 0)
		hold(strtoul(value, NULL, 10));
	else if (strncmp(action, "listen=", 7) == 0)
		listen_full((int)strtol(value, NULL, 10));
	else if (strcmp(action, "say") == 0)
		say();
	else if (strcmp(action, "stop") == 0)
		raise(SIGSTOP);
	else if (strncmp(action, "exec=", 5) == 0)
		execl("/proc/self/exe", "run_host", value, (char *)NULL);
}

int main(int argc, char **argv)
{
	int at = 2;

	if (argc < 2)
		return 64;
	if (argc > 2 && strcmp(argv[2], "daemon") == 0) {
		if (fork() != 0)
			_exit(0);
		setsid();
		at++;
	}
	/* Before there is a recorder. */
	if (at < argc && strcmp(argv[at], "prof") == 0)
		take_prof();
	if (open_recorder() < 0)
		return 65;
	poll_times(strtoul(argv[1], NULL, 10));
	for (; at < argc; at++)
		act(argv[at]);
	return 0;
}
