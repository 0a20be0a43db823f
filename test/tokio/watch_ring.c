/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* watch_ring.c - watches one process through its ring file and says what fires, one JSON object a
 * line; the last line says how the watch ended.
 *
 *     watch_ring FILE PID RULES FIRINGS SECONDS
 *
 * Ends after so many firings or seconds, or when the watchdog wants to be called no more.
 * Exit status: 0, 1 could not begin (said on standard error).
 */
#include <base/now.h>
#include <fcntl.h>
#include <watch/watchdog.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static uint32_t fired;

static void report(void *ctx, const struct ky_firing *firing)
{
	char value[64];

	(void)ctx;
	fired++;
	ky_rule_value_text(firing->rule, firing->value, value, sizeof(value));
	printf("{\"rule\": \"%s\", \"value\": %llu, \"text\": \"%s\", \"tid\": %u, \"task\": %llu, "
	       "\"runtime\": %llu, \"late\": %llu, \"stopped\": %llu, \"notes\": [",
	       firing->rule->name, (unsigned long long)firing->value, value, firing->tid,
	       (unsigned long long)firing->task, (unsigned long long)firing->runtime,
	       (unsigned long long)firing->late_count, (unsigned long long)firing->stopped_count);
	for (size_t i = 0; i < firing->note_count; i++) {
		const struct ky_stuck_note *note = &firing->notes[i];

		printf("%s{\"tid\": %u, \"open_ms\": %.1f, \"state\": \"%c\", \"syscall\": %d, "
		       "\"wchan\": \"%s\", \"pc\": %llu, \"frames\": %u, \"whole\": %s, "
		       "\"counted\": %s, \"cpu_ns\": %llu, \"run_delay_ns\": %llu}",
		       i ? ", " : "", note->tid,
		       (double)(note->monotonic_ns - note->begin_ns) / 1e6, note->state,
		       note->syscall, note->wchan, (unsigned long long)note->pc, note->frame_count,
		       note->frame_count && !note->is_truncated ? "true" : "false",
		       note->has_counts ? "true" : "false", (unsigned long long)note->cpu_ns,
		       (unsigned long long)note->run_delay_ns);
	}
	printf("]}\n");
	fflush(stdout);
}

static int watch(struct ky_watchdog *watchdog, uint32_t firings, uint64_t until_ns)
{
	struct ky_watchdog_stats stats;
	uint64_t wait = 0;

	while (fired < firings && wait != UINT64_MAX && ky_now_ns(CLOCK_MONOTONIC) < until_ns) {
		struct timespec pause = {0};

		wait = ky_watchdog_step(watchdog, NULL);
		if (wait == UINT64_MAX)
			break;
		pause.tv_sec = (time_t)(wait / 1000000000u);
		pause.tv_nsec = (long)(wait % 1000000000u);
		nanosleep(&pause, NULL);
	}
	ky_watchdog_stats(watchdog, &stats);
	printf("{\"end\": \"%s\", \"steps\": %llu, \"late\": %llu, \"stopped\": %llu}\n",
	       wait == UINT64_MAX ? "gone" : "over", (unsigned long long)stats.steps,
	       (unsigned long long)stats.late_count, (unsigned long long)stats.stopped_count);
	return 0;
}

int main(int argc, char **argv)
{
	static struct ky_rule rules[KY_RULES_MAX];
	char errbuf[256] = "";
	struct ky_watchdog_options options = {
		.rules = rules,
		.fire = report,
		.errbuf = errbuf,
		.errbuf_bytes = sizeof(errbuf),
	};
	struct ky_watchdog *watchdog;
	struct stat about;
	void *image;
	int fd, err;

	if (argc != 6)
		return 1;
	if (ky_rules_parse(rules, &options.rule_count, argv[3], errbuf, sizeof(errbuf))) {
		fprintf(stderr, "%s\n", errbuf);
		return 1;
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &about) != 0) {
		perror(argv[1]);
		return 1;
	}
	image = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (image == MAP_FAILED) {
		perror(argv[1]);
		return 1;
	}
	options.image = image;
	options.image_bytes = (size_t)about.st_size;
	options.pid = (uint32_t)strtoul(argv[2], NULL, 10);
	err = ky_watchdog_open(&watchdog, &options);
	if (err) {
		fprintf(stderr, "watch_ring: %d %s\n", err, errbuf);
		return 1;
	}
	err = watch(watchdog, (uint32_t)strtoul(argv[4], NULL, 10),
		    ky_now_ns(CLOCK_MONOTONIC) + strtoul(argv[5], NULL, 10) * 1000000000u);
	ky_watchdog_close(watchdog);
	return err;
}
