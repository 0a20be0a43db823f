/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What watching costs: 64 threads that poll, park and wake a thousand times a second each, and one
 * that steps a watchdog over their ring when it asks to be called.
 *
 *     bench_watch [--seconds N] [--threads N] [--parked] [RULES]
 *
 * Prints one JSON object: the CPU time of the watching thread as a share of the time that passed,
 * its sleeping and waking included; looks a second; the median of how long a look takes.
 *
 *     bench_watch --stuck N [--threads N]
 *
 * Beside them one whose polls stay open for ten times the threshold, N of them at odd moments.
 * Prints how long behind the threshold the rule fired for each, in ms.
 */
#include <base/now.h>
#include <fcntl.h>
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <pthread.h>
#include <watch/watchdog.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 256u
#define PAUSE_NS 1000000

static const char rules_default[] = "poll>100ms; stall>1s; runnable>50ms; cpu>1000% for 10s; "
				    "rss>64G; counter:none>1; errors>1000/s";
#define READS_MAX 4096u
#define STUCK_MAX 1000u
#define STUCK_RULES "poll>20ms cooldown=0s"
#define STUCK_NS UINT64_C(200000000)

static uint32_t is_over, is_parked, stuck_count, fired_count;
static double fired_ms[STUCK_MAX];

static void pause_ns(uint64_t ns)
{
	struct timespec pause = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

	nanosleep(&pause, NULL);
}

static void *work(void *number)
{
	uint64_t worker = (uint64_t)(uintptr_t)number;

	kymo_worker_begin(worker, 0, 0x1000, 0x2000 + worker);
	do {
		kymo_poll_begin(worker + 1, 0, KYMO_QUEUE_UNKNOWN);
		kymo_wake(worker + 1, 0, 0);
		kymo_poll_end(0);
		kymo_park(KYMO_WAIT_EPOLL);
		do
			pause_ns(PAUSE_NS);
		while (is_parked && !__atomic_load_n(&is_over, __ATOMIC_RELAXED));
		kymo_unpark(1);
	} while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED));
	kymo_worker_end();
	return NULL;
}

/* Pauses of a length that has nothing to do with that of the looks. */
static void *stay(void *unused)
{
	uint64_t pause = 1;

	(void)unused;
	kymo_worker_begin(THREADS_MAX, 0, 0x1000, 0x9000);
	for (uint32_t i = 0; i < stuck_count; i++) {
		kymo_poll_begin(100000 + i, 0, KYMO_QUEUE_UNKNOWN);
		pause_ns(STUCK_NS);
		kymo_poll_end(0);
		pause = pause * 6364136223846793005u + 1442695040888963407u;
		pause_ns(80000000 + (pause >> 33) % 50000000);
	}
	kymo_worker_end();
	__atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void fire(void *ctx, const struct ky_firing *firing)
{
	(void)ctx;
	if (!stuck_count)
		fprintf(stderr, "bench_watch: %s fired\n", firing->rule->name);
	else if (fired_count < STUCK_MAX)
		fired_ms[fired_count++] = (double)(firing->value - firing->rule->threshold) / 1e6;
}

static void *map_ring(size_t *bytes)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};
	struct stat about;
	void *image;
	int fd;

	if (kymo_recorder_status(&status) != 0 || !*status.ring_path)
		return NULL;
	fd = open(status.ring_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &about) != 0)
		return NULL;
	*bytes = (size_t)about.st_size;
	/* Each page costs a fault once, as the ring goes round for the first time: not here. */
	image = mmap(NULL, *bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
	close(fd);
	unlink(status.ring_path);
	return image == MAP_FAILED ? NULL : image;
}

static int by_size(const void *a, const void *b)
{
	return *(const uint64_t *)a < *(const uint64_t *)b ? -1 : 1;
}

static void watch(struct ky_watchdog *watchdog, uint64_t seconds)
{
	uint64_t begin_ns, cpu_ns, now_ns, check_ns, wait;
	struct ky_watchdog_stats before, after;
	static uint64_t looks[READS_MAX];
	uint32_t count = 0;

	for (int i = 0; i < 5; i++) { /* the first look is at everything */
		wait = ky_watchdog_step(watchdog, NULL);
		pause_ns(wait == UINT64_MAX ? 0 : wait);
	}
	ky_watchdog_stats(watchdog, &before);
	begin_ns = ky_now_ns(CLOCK_MONOTONIC);
	cpu_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);
	do {
		check_ns = ky_now_ns(CLOCK_MONOTONIC);
		wait = ky_watchdog_step(watchdog, NULL);
		check_ns = ky_now_ns(CLOCK_MONOTONIC) - check_ns;
		if (count < READS_MAX)
			looks[count++] = check_ns;
		pause_ns(wait == UINT64_MAX ? 100000000 : wait);
		now_ns = ky_now_ns(CLOCK_MONOTONIC);
	} while (now_ns - begin_ns < seconds * 1000000000u);
	cpu_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	ky_watchdog_stats(watchdog, &after);
	now_ns -= begin_ns;
	after.steps -= before.steps;
	qsort(looks, count, sizeof(looks[0]), by_size);
	printf("{\"percent\": %.4f, \"looks_a_second\": %.2f, \"look_us\": %.2f, \"late\": %llu}\n",
	       100.0 * (double)cpu_ns / (double)now_ns, (double)after.steps * 1e9 / (double)now_ns,
	       (double)looks[count / 2] / 1e3, (unsigned long long)after.late_count);
}

/* Each poll that stays open is seen once. */
static int watch_stuck(struct ky_watchdog *watchdog)
{
	pthread_t thread;

	for (int i = 0; i < 5; i++)
		pause_ns(ky_watchdog_step(watchdog, NULL));
	if (pthread_create(&thread, NULL, stay, NULL) != 0)
		return 1;
	while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE))
		pause_ns(ky_watchdog_step(watchdog, NULL));
	pthread_join(thread, NULL);
	printf("{\"stuck\": %u, \"fired_ms\": [", stuck_count);
	for (uint32_t i = 0; i < fired_count; i++)
		printf("%s%.3f", i ? ", " : "", fired_ms[i]);
	puts("]}");
	return 0;
}

static int run(const char *text, uint64_t seconds, uint32_t threads)
{
	static struct ky_rule rules[KY_RULES_MAX];
	static pthread_t workers[THREADS_MAX];
	struct kymo_recorder_options record = KYMO_RECORDER_OPTIONS_INIT;
	char errbuf[256] = "";
	struct ky_watchdog_options options = {.rules = rules,
					      .fire = fire,
					      .errbuf = errbuf,
					      .errbuf_bytes = sizeof(errbuf),
					      .dumps_per_hour_max = 2 * STUCK_MAX};
	struct ky_watchdog *watchdog;
	struct kymo_recorder *recorder;

	record.flags = KYMO_RECORDER_NO_DRAIN | KYMO_RECORDER_EAGER;
	if (ky_rules_parse(rules, &options.rule_count, text, errbuf, sizeof(errbuf)) != 0 ||
	    kymo_recorder_open(&recorder, &record) != 0) {
		fprintf(stderr, "bench_watch: %s\n", *errbuf ? errbuf : "no recorder");
		return 1;
	}
	options.image = map_ring(&options.image_bytes);
	for (uint32_t i = 0; i < threads; i++) {
		if (pthread_create(&workers[i], NULL, work, (void *)(uintptr_t)i) != 0)
			return 1;
	}
	if (!options.image || ky_watchdog_open(&watchdog, &options) != 0) {
		fprintf(stderr, "bench_watch: no watchdog: %s\n", errbuf);
		return 1;
	}
	if (!stuck_count)
		watch(watchdog, seconds);
	else if (watch_stuck(watchdog) != 0)
		return 1;
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < threads; i++)
		pthread_join(workers[i], NULL);
	ky_watchdog_close(watchdog);
	kymo_recorder_close(recorder);
	return 0;
}

int main(int argc, char **argv)
{
	const char *rules = rules_default;
	unsigned long seconds = 3, threads = 64;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--parked"))
			is_parked = 1;
		else if (!strcmp(argv[i], "--stuck") && i + 1 < argc)
			stuck_count = (uint32_t)strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
			seconds = strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
			threads = strtoul(argv[++i], NULL, 10);
		else
			rules = argv[i];
	}
	if (stuck_count > STUCK_MAX)
		stuck_count = STUCK_MAX;
	if (stuck_count)
		rules = STUCK_RULES;
	return run(rules, seconds, threads < THREADS_MAX ? (uint32_t)threads : THREADS_MAX);
}
