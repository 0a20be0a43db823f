/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_places.h - where the tasks of a dump wait: its AwaitPlaceEvents of live tasks, by place.
 *
 * A place is what the program's own code awaits: the function of a library that its own function
 * called last on the way to whoever keeps the waker, and that own function with its line.
 * A task that waits for several things at once (select!, join!) is at several places. It is counted
 * at one of them, the one with most tasks, and told as waiting there, too, at the others: so the
 * counts sum to the tasks.
 *
 * Threads: owner.
 */
#ifndef KY_REPORT_TASK_PLACES_H
#define KY_REPORT_TASK_PLACES_H

#include <base/buf.h>
#include <stdbool.h>
#include <stdint.h>

struct ky_task_places_options {
	bool is_json;
	uint32_t tasks_max; /* listed with their numbers for each place; JSON has all */
};

/* Reads the dump at `path` and appends what it says to `out`; JSON: members of an object, without
 * its braces. Returns an exit code; trouble has been said. */
int ky_task_places(struct ky_buf *out, const char *path,
		   const struct ky_task_places_options *options);

#endif
