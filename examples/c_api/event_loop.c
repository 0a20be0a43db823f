/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* event_loop.c - a small loop of our own, recorded: what an adapter of any other runtime says.
 *
 *   event_loop [DIRECTORY]      leaves a trace below DIRECTORY (default ./kymo-traces)
 *
 * Three tasks are polled in turn; each poll may wake another task; every hundredth poll of "report"
 * computes for a while, which `kymo report` then shows as the worst poll.
 */
#include <kymo/emit.h>
#include <kymo/recorder.h>
#include <stdio.h>
#include <time.h>

#define TASKS 3
#define POLLS 3000

static const char *const task_names[TASKS] = {"http::serve", "cache::refresh", "report::render"};

static void compute(unsigned milliseconds)
{
	struct timespec now;
	long long end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = now.tv_sec * 1000LL + now.tv_nsec / 1000000 + milliseconds;
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (now.tv_sec * 1000LL + now.tv_nsec / 1000000 < end);
}

static void run_loop(const uint32_t *names)
{
	/* This thread serves worker 1 of runtime 7: any keys that stay the same. */
	kymo_worker_begin(100, 0, 7, 1);
	for (unsigned task = 0; task < TASKS; task++)
		kymo_spawn(1 + task, names[task]);
	for (unsigned i = 0; i < POLLS; i++) {
		unsigned task = i % TASKS;

		kymo_poll_begin(1 + task, names[task], TASKS - 1);
		if (task == 2 && i % 300 == 299)
			compute(5);
		kymo_wake(1 + (task + 1) % TASKS, 0, KYMO_WAKE_BY_VALUE);
		kymo_poll_end(i + TASKS >= POLLS ? KYMO_POLL_READY : 0);
		if (task == 0 && i % 600 == 0) {
			struct timespec nap = {0, 1000000};

			kymo_park(KYMO_WAIT_EPOLL);
			nanosleep(&nap, NULL);
			kymo_unpark(1);
		}
	}
	kymo_worker_end();
}

int main(int argc, char **argv)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	char errbuf[256] = "";
	uint32_t names[TASKS];
	int err;

	options.service = "event-loop";
	options.flags = KYMO_RECORDER_STREAM;
	options.trace_directory = argc > 1 ? argv[1] : NULL;
	options.errbuf = errbuf;
	options.errbuf_bytes = sizeof(errbuf);
	err = kymo_recorder_open(&recorder, &options);
	if (err) {
		fprintf(stderr, "event_loop: %s\n", errbuf[0] ? errbuf : kymo_error_text(err));
		return 1;
	}
	kymo_runtime_describe(7, "loop", KYMO_RUNTIME_CURRENT_THREAD, 0);
	for (unsigned i = 0; i < TASKS; i++) {
		size_t length = 0;

		while (task_names[i][length])
			length++;
		names[i] = kymo_name_intern(task_names[i], length, 0, 0, 0);
	}
	run_loop(names);
	err = kymo_recorder_close(recorder);
	if (err)
		fprintf(stderr, "event_loop: %s\n", kymo_error_text(err));
	return err ? 1 : 0;
}
