/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* watch_case.h - a watchdog over a ring, a clock and a /proc of the test's own; what fires is kept.
 * And the fixture of the tests of rules: such a case that begins at START, where a worker polls.
 * Threads: owner.
 */
#ifndef KY_TEST_WATCH_CASE_H
#define KY_TEST_WATCH_CASE_H

#include "cmocka_all.h"
#include "fake_proc.h"
#include "ring_builder.h"

#include <watch/watchdog.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define WATCH_PID 4242u
#define WATCH_FIRED_MAX 32u
#define START (2000 * MS)
#define TID 77u
#define TASK 12u

struct watch_fired {
	struct ky_firing firing; /* its notes are those below */
	struct ky_stuck_note notes[KY_STUCK_NOTES];
};

struct watch_case {
	struct test_ring ring;
	struct fake_proc proc;
	struct ky_rule rules[KY_RULES_MAX];
	size_t rule_count;
	struct ky_watchdog_options options;
	struct ky_watchdog *watchdog;
	struct ky_event_sums sums; /* passed to each step while is_known */
	uint64_t due_ns;           /* when it asked to be called */
	uint64_t side_bytes;
	struct watch_fired fired[WATCH_FIRED_MAX];
	uint32_t fired_count;
	char errbuf[256];
};

/* A ring with a side area; no watchdog yet. */
void watch_case_open(struct watch_case *c, uint32_t slot_count);
void watch_case_close(struct watch_case *c);
struct ky_ring_side *watch_case_side(struct watch_case *c);

/* Opens the watchdog; returns what it returns. */
int watch_case_try(struct watch_case *c, const char *rules);
void watch_case_arm(struct watch_case *c, const char *rules);

/* Lets the time pass up to ns, calling the watchdog exactly when it asks. */
void watch_case_until(struct watch_case *c, uint64_t ns);
/* The same, without a call in between. */
void watch_case_sleep(struct watch_case *c, uint64_t ns);

extern struct watch_case watch;
extern struct test_writer writer; /* of TID, a worker of runtime 0x1000 */

int watch_setup(void **state);
int watch_setup_worker(void **state); /* with the writer */
int watch_teardown(void **state);
#define WATCH_CASE(test) cmocka_unit_test_setup_teardown(test, watch_setup, watch_teardown)
#define WORKER_CASE(test) cmocka_unit_test_setup_teardown(test, watch_setup_worker, watch_teardown)
const struct ky_firing *fired(uint32_t index);

#endif
