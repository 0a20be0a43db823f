/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* example.c - a program on the toy loop, with the one line that records it.
 *
 *   template_example [DIRECTORY]      leaves a trace below DIRECTORY (default ./kymo-traces)
 */
#include <kymo/recorder.h>
#include <stdio.h>

#include "template.h"
#include "toy_loop.h"

#define TURNS 100

static uint32_t turns[TOY_LOOP_TASKS_MAX + 1];

/* Wakes itself until it has had its turns. */
static bool work(void *ctx, uint32_t task)
{
	(void)ctx;
	if (++turns[task] == TURNS)
		return true;
	toy_loop_wake(task);
	return false;
}

int main(int argc, char **argv)
{
	struct kymo_recorder_options options = KYMO_RECORDER_OPTIONS_INIT;
	struct kymo_recorder *recorder;
	int err;

	options.service = "toy";
	options.flags = KYMO_RECORDER_STREAM;
	options.trace_directory = argc > 1 ? argv[1] : NULL;
	err = kymo_recorder_open(&recorder, &options);
	if (!err)
		err = template_start();
	if (err)
		fprintf(stderr, "template: nothing is recorded: %s\n", kymo_error_text(err));
	(void)toy_loop_spawn("serve", work, NULL);
	(void)toy_loop_spawn("refresh", work, NULL);
	toy_loop_run();
	err = kymo_recorder_close(recorder);
	/* The runtime outlives the recorder. */
	(void)toy_loop_spawn("unseen", work, NULL);
	toy_loop_run();
	return err != 0;
}
