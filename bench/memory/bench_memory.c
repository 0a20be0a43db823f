/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bench_memory [DIR] - a program that links the library, for its memory to be looked at from
 * outside: four threads work in bursts for two seconds. With DIR they record, with a drain thread
 * that writes to DIR; without, the same program and no recorder. Says when it is done, then waits
 * for the end of its input. */
#include <errno.h>
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define THREADS 4
#define BURSTS 1000
#define POLLS_PER_BURST 200
#define PAUSE_NS 2000000

static void *work(void *unused)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	uint32_t name = kymo_name_intern("bench::task", 11, 0, 0, 0);

	for (uint64_t burst = 0; burst < BURSTS; burst++) {
		for (uint64_t task = 1; task <= POLLS_PER_BURST; task++) {
			kymo_wake(task, 0, KYMO_WAKE_BY_VALUE);
			kymo_poll_begin(task, name, KYMO_QUEUE_UNKNOWN);
			kymo_poll_end(0);
		}
		nanosleep(&pause, NULL);
	}
	return unused;
}

static int open_recorder(struct kymo_recorder **out, const char *directory)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	char errbuf[200] = "";
	int err;

	options.service = "bench_memory";
	options.flags = KYMO_RECORDER_STREAM;
	options.trace_directory = directory;
	options.errbuf = errbuf;
	options.errbuf_bytes = sizeof(errbuf);
	err = kymo_recorder_open(out, &options);
	if (err)
		fprintf(stderr, "bench_memory: %s\n", errbuf[0] ? errbuf : kymo_error_text(err));
	return err;
}

int main(int argc, char **argv)
{
	struct kymo_recorder *recorder = NULL;
	pthread_t threads[THREADS];
	char line[8];
	int err = 0;

	if (argc > 1 && open_recorder(&recorder, argv[1]))
		return 1;
	for (int i = 0; i < THREADS && !err; i++)
		err = pthread_create(&threads[i], NULL, work, NULL);
	if (err) {
		fprintf(stderr, "bench_memory: no thread: %s\n", strerror(err));
		return 1;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	puts("done");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		continue;
	return kymo_recorder_close(recorder) ? 1 : 0;
}
