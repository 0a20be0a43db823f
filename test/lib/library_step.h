/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* library_step.h - waits for the library's thread by what it must answer, a dump, and not by a
 * wake-up: in flight mode an idle program's thread sleeps, and no time ends that.
 */
#ifndef KY_TEST_LIBRARY_STEP_H
#define KY_TEST_LIBRARY_STEP_H

#include <kymo/dump.h>
#include <kymo/recorder.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

static inline int test_discard(void *ctx, const uint8_t *bytes, size_t count)
{
	(void)ctx;
	(void)bytes;
	(void)count;
	return 0;
}

static inline uint64_t test_wakeups(void)
{
	struct kymo_recorder_status status = {.size = sizeof(status)};

	kymo_recorder_status(&status);
	return status.wakeups;
}

/* A whole step of the library's thread that begins after this call is over. The thread makes dumps
 * last in a step, each wakes it, and it counts a wake-up between two steps. Returns false
 * where that does not come: there is no such thread. */
static inline bool test_wait_for_step(void)
{
	struct kymo_dump_options options = KYMO_DUMP_OPTIONS_INIT;
	uint64_t before = test_wakeups();
	uint32_t tries = 1000;

	options.write = test_discard;
	options.flags = KYMO_DUMP_WAIT;
	while (test_wakeups() == before && tries--) {
		(void)kymo_recorder_dump(&options, NULL);
		usleep(1000); /* else its step may take the next one for ever */
	}
	return test_wakeups() != before && kymo_recorder_dump(&options, NULL) == 0;
}

#endif
