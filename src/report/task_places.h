/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* task_places.h - where the tasks of a dump wait: its AwaitPlaceEvents of live tasks, by place.
 *
 * A place is what the program's own code awaits: the function of a library that its own function
 * called last on the way to what keeps the waker, and that own function with its line.
 * A task that waits for several things at once (select!, join!) is at several places. It is counted
 * at one of them, the one with most tasks, and listed as waiting there, too, at the others: so the
 * counts sum to the tasks.
 *
 * Every event of the dump goes through ky_task_places_event() before the text is made.
 * Threads: owner.
 */
#ifndef KY_REPORT_TASK_PLACES_H
#define KY_REPORT_TASK_PLACES_H

#include <base/buf.h>
#include <read/event_stream.h>
#include <read/symbol_table.h>

struct ky_task_places_options {
	bool is_json;
	uint32_t tasks_max; /* listed with their numbers for each place; JSON has all */
};

struct ky_task_place;
struct ky_task_place_stack;

struct ky_task_places { /* zeroed */
	struct ky_task_place *entries;
	uint32_t entry_count, entry_capacity;
	struct ky_task_place_stack *stacks;
	uint32_t stack_count, stack_capacity;
	uint64_t now_ns;
};

/* Returns 0, -ENOMEM. */
int ky_task_places_event(struct ky_task_places *places, const struct ky_event *event);
/* Appends what was seen; JSON: members of an object, without its braces. Returns 0, -ENOMEM. */
int ky_task_places_put(struct ky_buf *out, struct ky_task_places *places,
		       struct ky_symbol_table *table, const struct ky_task_places_options *options);
void ky_task_places_release(struct ky_task_places *places);

#endif
