/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What a look at the resources of a process costs: from outside (of a child with 8 threads, sockets
 * and descriptors), and of the process itself, as the library's thread does it.
 *
 *     bench_resources [--fds N] [--listeners N] [--connections N] [--looks N]
 *
 * Prints one JSON object: CPU time of a look in us.
 */
#include <arpa/inet.h>
#include <base/now.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <probe/resource_source.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8

static struct ky_resource_source source;
static struct ky_proc_reader reader;
static uint8_t area[KY_RESOURCE_AREA_BYTES];

static bool put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	(void)ctx;
	memcpy(area + offset, bytes, count);
	return true;
}

static void *stand(void *ctx)
{
	for (;;)
		pause();
	return ctx;
}

static void hold(unsigned long fds, unsigned long listeners, unsigned long connections)
{
	struct rlimit limit;
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(address);
	int listener = -1;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (; listeners > 0; listeners--) {
		address.sin_port = 0;
		listener = socket(AF_INET, SOCK_STREAM, 0);
		if (bind(listener, (struct sockaddr *)&address, bytes) || listen(listener, 128) ||
		    getsockname(listener, (struct sockaddr *)&address, &bytes))
			exit(1);
	}
	for (; connections > 0; connections--) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (struct sockaddr *)&address, bytes) ||
		    accept(listener, NULL, NULL) < 0)
			exit(1);
	}
	for (; fds > 0; fds--)
		if (open("/dev/null", O_RDONLY) < 0)
			exit(1);
	for (int i = 1; i < THREADS; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, stand, NULL);
	}
}

static double look_us(uint32_t readings)
{
	uint64_t begin_ns;

	/* The first ones find the groups, and whose the sockets are. */
	for (uint32_t i = 0; i < 120; i++)
		ky_resource_step(&source, &reader, KY_RESOURCE_INTERVAL_NS, source.next_ns + 1);
	begin_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (uint32_t i = 0; i < readings; i++)
		ky_resource_step(&source, &reader, KY_RESOURCE_INTERVAL_NS, source.next_ns + 1);
	return (double)(ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) / 1e3 / readings;
}

static double first_us(void)
{
	uint64_t begin_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	ky_resource_step(&source, &reader, KY_RESOURCE_INTERVAL_NS, KY_RESOURCE_INTERVAL_NS);
	return (double)(ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin_ns) / 1e3;
}

static unsigned long number(int argc, char **argv, const char *name, unsigned long otherwise)
{
	for (int i = 1; i + 1 < argc; i += 2)
		if (strcmp(argv[i], name) == 0)
			return strtoul(argv[i + 1], NULL, 10);
	return otherwise;
}

int main(int argc, char **argv)
{
	uint32_t readings = (uint32_t)number(argc, argv, "--looks", 1000);
	double outside, own, first;
	int ends[2], parts;
	pid_t child;
	char byte;

	if (pipe(ends) != 0)
		return 1;
	child = fork();
	if (child == 0) {
		hold(number(argc, argv, "--fds", 100), number(argc, argv, "--listeners", 2),
		     number(argc, argv, "--connections", 100));
		if (write(ends[1], "x", 1) == 1)
			stand(NULL);
		_exit(1);
	}
	close(ends[1]);
	if (child < 0 || read(ends[0], &byte, 1) != 1) {
		fprintf(stderr, "bench_resources: the child could not hold so much\n");
		return 1;
	}
	source.put = put;
	ky_proc_reader_open(&reader, NULL, NULL, (uint32_t)child, 0);
	first = first_us();
	outside = look_us(readings);
	for (parts = 0; parts < KY_PART_COUNT && !source.missing[parts]; parts++)
		;
	ky_proc_reader_close(&reader);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	memset(&source, 0, sizeof(source));
	source.put = put;
	source.is_own = true;
	ky_proc_reader_open(&reader, NULL, NULL, 0, 0);
	own = look_us(readings);
	printf("{\"look_us\": %.1f, \"first_us\": %.1f, \"own_us\": %.1f, \"first_missing\": %d}\n",
	       outside, first, own, parts);
	return 0;
}
