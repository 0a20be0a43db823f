/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bench_switches - what it costs a thread to park, and to be woken again, while perf_event looks.
 *
 * A thread asks a child and waits for its answer, again and again: two switches a turn. In rounds
 * without any event, with the events of samples, with those of switches shut beside them, as
 * between two windows, and open; both again with the event of page faults that takes stacks. What
 * a turn takes of the thread's own processor is compared.
 * Prints one JSON object of nanoseconds. Exit status 77: perf_event yields nothing here. */
#include <base/now.h>
#include <errno.h>
#include <probe/perf_source.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define RATE_HZ 99u
#define STACK_BYTES 32768u
#define FAULT_STACK_BYTES 12288u
#define TURNS 6000u /* of more CPU time than a sample's period: its timer starts anew with it */
#define SETS 11u

enum what {
	ALONE,
	SAMPLED,
	SHUT, /* sampled, and between windows */
	OPEN, /* sampled, and in a window */
	SHUT_TOO,
	OPEN_TOO,
	WHAT_COUNT
};

static const char *const names[WHAT_COUNT] = {"alone", "sampled",     "shut",
					      "open",  "shut_faults", "open_faults"};

static int to[2], from[2];
static double results[WHAT_COUNT][SETS], read_ns[SETS];

static void answer(void)
{
	char word;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(to[1]);
	while (read(to[0], &word, 1) == 1)
		if (write(from[1], &word, 1) != 1)
			break;
	_exit(0);
}

static double park(void)
{
	uint64_t began_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	char word = 'p';

	for (uint32_t i = 0; i < TURNS; i++)
		if (write(to[1], &word, 1) != 1 || read(from[0], &word, 1) != 1)
			abort();
	return (double)(ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns) / TURNS;
}

static void on_switch(void *ctx, const struct ky_perf_switch *what)
{
	*(uint64_t *)ctx += what->ns != 0;
}

static void on_sample(void *ctx, const struct ky_perf_sample *sample)
{
	*(uint64_t *)ctx += sample->ns != 0;
}

/* Returns 0, -errno; -ENODATA: no record came. */
static int one_set(uint32_t set, const struct ky_perf_options *samples,
		   const struct ky_perf_options *switches)
{
	const struct ky_perf_options stacks = {.is_faults = true,
					       .has_kernel = switches->has_kernel,
					       .stack_bytes = FAULT_STACK_BYTES};
	struct ky_perf *sampler = NULL, *switcher = NULL, *faults = NULL;
	uint64_t count = 0, began_ns, sample_count = 0;
	int err;

	results[ALONE][set] = park();
	err = ky_perf_open(&sampler, samples, getpid());
	results[SAMPLED][set] = park();
	if (!err)
		err = ky_perf_open(&switcher, switches, getpid());
	results[SHUT][set] = park();
	if (!err)
		err = ky_perf_pause(switcher, false);
	results[OPEN][set] = park();
	if (!err) {
		began_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
		(void)ky_perf_read_switches(switcher, on_switch, &count);
		read_ns[set] = (double)(ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns) /
			       (double)(count ? count : 1);
		(void)ky_perf_read(sampler, on_sample, &sample_count);
	}
	ky_perf_close(switcher);
	switcher = NULL;
	/* In the order of fault_stacks.h. */
	if (!err)
		err = ky_perf_open(&faults, &stacks, getpid());
	if (!err)
		err = ky_perf_open(&switcher, switches, getpid());
	results[SHUT_TOO][set] = park();
	if (!err)
		err = ky_perf_pause(faults, false);
	if (!err)
		err = ky_perf_pause(switcher, false);
	results[OPEN_TOO][set] = park();
	ky_perf_close(switcher);
	ky_perf_close(faults);
	ky_perf_close(sampler);
	return err || count ? err : -ENODATA;
}

static int by_size(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

static double median(double *values)
{
	qsort(values, SETS, sizeof(values[0]), by_size);
	return values[SETS / 2];
}

int main(void)
{
	struct ky_perf_options samples = {
		.rate_hz = RATE_HZ, .stack_bytes = STACK_BYTES, .has_kernel = true};
	struct ky_perf_options switches = {.is_switches = true, .has_kernel = true};
	uint64_t cost_ns;
	int err = ky_perf_test(&samples);

	if (!err)
		err = ky_perf_test_switches(&switches, &cost_ns);
	if (pipe(to) != 0 || pipe(from) != 0)
		return 1;
	if (fork() == 0)
		answer();
	for (uint32_t set = 0; set < SETS && !err; set++)
		err = one_set(set, &samples, &switches);
	close(to[1]);
	(void)wait(NULL);
	if (err) {
		fprintf(stderr, "bench_switches: perf_event: %s\n", strerror(-err));
		return 77;
	}
	printf("{");
	for (uint32_t i = 0; i < WHAT_COUNT; i++)
		printf("\"%s_ns\": %.0f, ", names[i], median(results[i]));
	printf("\"read_ns\": %.1f}\n", median(read_ns));
	return 0;
}
