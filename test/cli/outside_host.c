/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A program without Tokio for test_outside.py: does what its words say, one after the other.
 *   burn=MS   takes the processor for MS milliseconds: three quarters in much_work(), the rest in
 *             little_work(), in turns
 *   wait=PATH until this file is there
 *   exec=PATH becomes that program, with the words that follow
 *   signal=N  raises it
 *   exit=N
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Long ones: a turn of two periods of the sampler would show it the same function each time. */
#define TURNS 3

static volatile double sink;

static long long cpu_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0)
		return 0;
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Two functions, not one with two callers: their names are what is looked for. */
__attribute__((noinline)) void much_work(long long until_ns);
__attribute__((noinline)) void little_work(long long until_ns);

void much_work(long long until_ns)
{
	double value = sink;

	while (cpu_ns() < until_ns)
		for (int i = 0; i < 20000; i++)
			value = value * 1.0000001 + 0.5;
	sink = value;
}

void little_work(long long until_ns)
{
	double value = sink;

	while (cpu_ns() < until_ns)
		for (int i = 0; i < 20000; i++)
			value = value * 1.0000002 + 0.25;
	sink = value;
}

static void burn(long long ns)
{
	long long begin_ns = cpu_ns();

	for (int i = 0; i < TURNS; i++) {
		long long turn_ns = begin_ns + ns / TURNS * i;

		much_work(turn_ns + ns / TURNS * 3 / 4);
		little_work(turn_ns + ns / TURNS);
	}
}

/* Not for ever where a test is over, with its directory, before the file was seen. */
static void wait_for(const char *path)
{
	char directory[2048];

	(void)snprintf(directory, sizeof(directory), "%s", path);
	if (strrchr(directory, '/'))
		*strrchr(directory, '/') = '\0';
	while (access(path, F_OK) != 0 && access(directory, F_OK) == 0)
		usleep(5000);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = strchr(argv[i], '=') ? strchr(argv[i], '=') + 1 : "";

		if (strncmp(argv[i], "burn=", 5) == 0)
			burn(strtoll(value, NULL, 10) * 1000000);
		else if (strncmp(argv[i], "wait=", 5) == 0)
			wait_for(value);
		else if (strncmp(argv[i], "exec=", 5) == 0)
			return execv(value, argv + i) != 0 ? 99 : 0;
		else if (strncmp(argv[i], "signal=", 7) == 0)
			(void)raise((int)strtol(value, NULL, 10));
		else if (strncmp(argv[i], "exit=", 5) == 0)
			return (int)strtol(value, NULL, 10);
		else
			return 98;
	}
	return 0;
}
