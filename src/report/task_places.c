/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <report/task_places.h>

#include <analyze/crate_name.h>
#include <base/json_write.h>
#include <base/alloc.h>
#include <base/out_text.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 96u
#define TEXT_BYTES 512u
#define NAME_BYTES 160u
#define ENTRIES_MAX (1u << 20)

enum {
	STATE_WAITS = 0,
	STATE_MOVED = 1,
	STATE_POLLED = 2
};

struct ky_task_place {
	uint64_t task, time_ns, since_ns, polled_ns;
	uint8_t state;
	bool is_truncated;
	uint32_t stack;       /* index in stacks */
	uint32_t group;       /* its place */
	uint32_t place_count; /* of its task */
	char name[NAME_BYTES];
};

/* What a stack says, once it is resolved. */
struct ky_task_place_stack {
	uint64_t frames[FRAMES_MAX];
	uint32_t frame_count;
	char library[TEXT_BYTES]; /* what the own function awaits; "" */
	char own[TEXT_BYTES];     /* "function (file:line)" */
};

/* ---- gathering ---- */

/* Index of the stack, ENTRIES_MAX when there is no memory. Few differ. */
static uint32_t stack_of(struct ky_task_places *places, const struct ky_value *value)
{
	struct ky_task_place_stack new = {.frame_count = 0};
	uint32_t i;

	if (value)
		new.frame_count = value->frame_count < FRAMES_MAX ? value->frame_count : FRAMES_MAX;
	if (new.frame_count)
		memcpy(new.frames, value->frames, new.frame_count * sizeof(new.frames[0]));
	for (i = 0; i < places->stack_count; i++)
		if (places->stacks[i].frame_count == new.frame_count &&
		    memcmp(places->stacks[i].frames, new.frames,
			   new.frame_count * sizeof(new.frames[0])) == 0)
			return i;
	if (i == ENTRIES_MAX ||
	    ky_grow(&places->stacks, &places->stack_capacity, i + 1, sizeof(new)))
		return ENTRIES_MAX;
	places->stacks[places->stack_count++] = new;
	return i;
}

int ky_task_places_event(struct ky_task_places *places, const struct ky_event *event)
{
	const struct ky_value *text;
	struct ky_task_place *entry;
	uint32_t stack;

	if (event->schema->event != KY_EV_AWAIT_PLACE ||
	    ky_event_number(event, KY_F_AWAIT_PLACE_since_ns, 0) == 0 ||
	    ky_event_number(event, KY_F_AWAIT_PLACE_wait_ns, 0) != 0)
		return 0;
	stack = stack_of(places, ky_event_field(event, KY_F_AWAIT_PLACE_callchain));
	if (stack == ENTRIES_MAX || places->entry_count == ENTRIES_MAX ||
	    ky_grow(&places->entries, &places->entry_capacity, places->entry_count + 1,
		    sizeof(*entry)))
		return -ENOMEM;
	entry = &places->entries[places->entry_count++];
	memset(entry, 0, sizeof(*entry));
	entry->stack = stack;
	entry->task = ky_event_number(event, KY_F_AWAIT_PLACE_task_id, 0);
	entry->time_ns = event->timestamp_ns;
	entry->since_ns = ky_event_number(event, KY_F_AWAIT_PLACE_since_ns, 0);
	entry->polled_ns = ky_event_number(event, KY_F_AWAIT_PLACE_polled_ns, 0);
	entry->state = (uint8_t)ky_event_number(event, KY_F_AWAIT_PLACE_state, 0);
	entry->is_truncated = ky_event_number(event, KY_F_AWAIT_PLACE_is_truncated, 0) != 0;
	text = ky_event_field(event, KY_F_AWAIT_PLACE_task_name);
	if (text)
		memcpy(entry->name, text->text.bytes,
		       text->text.count < NAME_BYTES - 1 ? text->text.count : NAME_BYTES - 1);
	if (entry->time_ns > places->now_ns)
		places->now_ns = entry->time_ns;
	return 0;
}

/* ---- naming ---- */

/* A wrapper of polls says nothing about what is awaited. */
static bool is_plumbing(const char *name)
{
	static const char *const parts[] = {
		"core::task::",        "__rust_try", "std::panic",      "core::panic::",
		"core::ops::function", "coop::",     "poll_fn::PollFn", "as futures_core::future",
	};

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strstr(name, parts[i]))
			return true;
	return false;
}

static void put_frame(char *out, const struct ky_symbol_frame *frame)
{
	if (frame->file[0] && frame->line)
		(void)snprintf(out, TEXT_BYTES, "%s (%s:%u)", frame->name, frame->file,
			       frame->line);
	else
		(void)snprintf(out, TEXT_BYTES, "%s", frame->name);
}

/* From the leaf outwards: the first function that is no library's, and the last one before it that
 * is more than plumbing. Where all is a library's, the first and the last such. */
static void name_stack(struct ky_task_place_stack *stack, struct ky_symbol_table *table,
		       uint64_t time_ns)
{
	const struct ky_symbol_frame *frames;
	char first[TEXT_BYTES] = "", last[TEXT_BYTES] = "";

	for (uint32_t i = 0; i < stack->frame_count && !stack->own[0]; i++) {
		uint32_t count = ky_symbol_table_find(table, stack->frames[i], time_ns, &frames);

		for (uint32_t k = 0; k < count && !stack->own[0]; k++) {
			const char *name = frames[k].name;

			if (!ky_crate_name_is_library(name) && frames[k].why == KY_SYMBOL_FOUND) {
				put_frame(stack->own, &frames[k]);
			} else if (!is_plumbing(name)) {
				(void)snprintf(stack->library, TEXT_BYTES, "%s", name);
				if (strncmp(name, "tokio::runtime::task::", 22) != 0)
					put_frame(last, &frames[k]);
				if (!first[0])
					(void)snprintf(first, TEXT_BYTES, "%s", name);
			}
		}
	}
	if (stack->own[0])
		return;
	memcpy(stack->own, last[0] ? last : stack->library, TEXT_BYTES);
	memcpy(stack->library, first, TEXT_BYTES);
}

/* ---- telling ---- */

static uint64_t waited_ns(const struct ky_task_place *entry)
{
	uint64_t from = entry->polled_ns ? entry->polled_ns : entry->since_ns;

	if (entry->state == STATE_POLLED)
		return 0;
	return entry->time_ns > from ? entry->time_ns - from : 0;
}

static const struct ky_task_places *sorting;

/* State, then place, then the longest wait first. */
static int compare(const void *a, const void *b)
{
	const struct ky_task_place *one = a, *other = b;
	const struct ky_task_place_stack *first = &sorting->stacks[one->stack];
	const struct ky_task_place_stack *second = &sorting->stacks[other->stack];
	int by = one->state - other->state;

	if (!by)
		by = strcmp(first->own, second->own);
	if (!by)
		by = strcmp(first->library, second->library);
	if (!by)
		by = (waited_ns(one) < waited_ns(other)) - (waited_ns(one) > waited_ns(other));
	if (!by)
		by = (one->task > other->task) - (one->task < other->task);
	return by;
}

static bool is_same_place(const struct ky_task_places *places, const struct ky_task_place *a,
			  const struct ky_task_place *b)
{
	const struct ky_task_place_stack *one = &places->stacks[a->stack],
					 *other = &places->stacks[b->stack];

	return a->state == b->state && strcmp(one->own, other->own) == 0 &&
	       strcmp(one->library, other->library) == 0;
}

/* Entries of one place: [from, end), in `order` by their longest wait. */
struct place_group {
	uint32_t from, end;
	uint32_t task_count;    /* that wait there */
	uint32_t counted_count; /* of those; the others are counted at another place of theirs */
};

static int compare_groups(const void *a, const void *b)
{
	const struct place_group *one = a, *other = b;
	const struct ky_task_place *first = &sorting->entries[one->from];
	const struct ky_task_place *second = &sorting->entries[other->from];

	if (first->state != second->state)
		return first->state - second->state;
	return (waited_ns(first) < waited_ns(second)) - (waited_ns(first) > waited_ns(second));
}

static uint32_t task_count(const struct ky_task_places *places)
{
	uint32_t count = 0;

	/* As they come from the drain: stacks of one task stand together. */
	for (uint32_t i = 0; i < places->entry_count; i++)
		count += i == 0 || places->entries[i].task != places->entries[i - 1].task;
	return count;
}

static int by_task(const void *a, const void *b)
{
	const struct ky_task_place *one = *(const struct ky_task_place *const *)a;
	const struct ky_task_place *other = *(const struct ky_task_place *const *)b;

	if (one->task != other->task)
		return one->task < other->task ? -1 : 1;
	return (one->group > other->group) - (one->group < other->group);
}

/* Each task once, where most stand. Returns false without memory. */
static bool count_once(struct ky_task_places *places, struct place_group *groups,
		       uint32_t group_count)
{
	uint32_t count = places->entry_count, next;
	struct ky_task_place **order = ky_alloc(((size_t)count + 1) *
						sizeof(struct ky_task_place *));

	if (!order)
		return false;
	for (uint32_t i = 0; i < group_count; i++)
		for (uint32_t k = groups[i].from; k < groups[i].end; k++)
			places->entries[k].group = i;
	for (uint32_t i = 0; i < count; i++)
		order[i] = &places->entries[i];
	qsort(order, count, sizeof(struct ky_task_place *), by_task);
	for (uint32_t i = 0; i < count; i = next) {
		uint32_t best = order[i]->group, distinct = 0;

		for (next = i; next < count && order[next]->task == order[i]->task; next++) {
			distinct += next == i || order[next]->group != order[next - 1]->group;
			if (groups[order[next]->group].task_count > groups[best].task_count)
				best = order[next]->group;
		}
		groups[best].counted_count++;
		for (uint32_t k = i; k < next; k++)
			order[k]->place_count = distinct;
	}
	ky_free(order);
	return true;
}

static struct place_group *make_groups(struct ky_task_places *places, uint32_t *count)
{
	struct place_group *groups = ky_alloc(((size_t)places->entry_count + 1) * sizeof(*groups));

	*count = 0;
	if (!groups)
		return NULL;
	sorting = places;
	qsort(places->entries, places->entry_count, sizeof(struct ky_task_place), compare);
	for (uint32_t i = 0; i < places->entry_count; i++) {
		struct ky_task_place *entry = &places->entries[i];

		if (i == 0 || !is_same_place(places, entry, entry - 1))
			groups[(*count)++] = (struct place_group){.from = i};
		groups[*count - 1].end = i + 1;
		/* One that waits there by several ways stands together. */
		groups[*count - 1].task_count += groups[*count - 1].from == i ||
						 entry->task != (entry - 1)->task;
	}
	qsort(groups, *count, sizeof(*groups), compare_groups);
	if (count_once(places, groups, *count))
		return groups;
	ky_free(groups);
	return NULL;
}

static void safe(struct ky_buf *out, const char *text)
{
	ky_out_safe(out, text, strlen(text));
}

static const char *state_text(uint8_t state)
{
	return state == STATE_POLLED ? "being polled now; it last waited" :
	       state == STATE_MOVED  ? "perhaps; it waits at some of its await points" :
				       "";
}

static void print_tasks(struct ky_buf *out, const struct ky_task_places *places,
			const struct place_group *group, uint32_t tasks_max)
{
	char cell[KY_OUT_CELL_BYTES];
	uint32_t shown = 0;

	for (uint32_t i = group->from; i < group->end && shown < tasks_max; i++) {
		const struct ky_task_place *entry = &places->entries[i];

		if (i > group->from && entry->task == (entry - 1)->task)
			continue;
		shown++;
		ky_out_format(out, "%28s task %" PRIu64, "", entry->task);
		if (entry->name[0]) {
			ky_out_text(out, " ");
			safe(out, entry->name);
		}
		ky_out_format(out, ", there for %s",
			      ky_out_duration(cell, places->now_ns - entry->since_ns));
		if (entry->place_count > 1)
			ky_out_format(out, ", one of its %u await points", entry->place_count);
		if (entry->is_truncated)
			ky_out_text(out, ", part of its stack is not known");
		ky_out_text(out, "\n");
	}
	if (group->task_count > shown)
		ky_out_format(out, "%28s and %u more\n", "", group->task_count - shown);
}

static bool is_shared(const struct ky_task_places *places)
{
	for (uint32_t i = 0; i < places->entry_count; i++)
		if (places->entries[i].place_count > 1)
			return true;
	return false;
}

static void print_text(struct ky_buf *out, const struct ky_task_places *places,
		       const struct place_group *groups, uint32_t group_count, uint32_t tasks,
		       uint32_t tasks_max)
{
	char cell[KY_OUT_CELL_BYTES], number[KY_OUT_CELL_BYTES];

	if (!tasks) {
		ky_out_text(out, "No await point of a live task is known: the setting places is "
				 "off, the program's unwind tables were not there yet, or no task "
				 "waits.\n");
		return;
	}
	ky_out_format(out, "Await points of %s task%s\n", ky_out_count(number, tasks),
		      tasks == 1 ? "" : "s");
	if (is_shared(places))
		ky_out_text(out, "A task that waits at several await points (select!, join!) is "
				 "counted at one of them, under Also at the others.\n");
	ky_out_format(out, "\n%7s %7s %11s  %s\n", "Tasks", "Also", "Longest", "Where");
	for (uint32_t i = 0; i < group_count; i++) {
		const struct ky_task_place *first = &places->entries[groups[i].from];
		const struct ky_task_place_stack *stack = &places->stacks[first->stack];

		ky_out_format(out, "%7s", ky_out_count(number, groups[i].counted_count));
		ky_out_format(out, " %7s %11s  ",
			      groups[i].task_count > groups[i].counted_count ?
				      ky_out_count(number,
						   groups[i].task_count - groups[i].counted_count) :
				      "",
			      first->state == STATE_POLLED ?
				      "-" :
				      ky_out_duration(cell, waited_ns(first)));
		if (first->state != STATE_WAITS)
			ky_out_format(out, "[%s] ", state_text(first->state));
		if (stack->library[0])
			safe(out, stack->library);
		else
			ky_out_text(out, stack->frame_count ? "" : "an unknown await point");
		if (stack->own[0]) {
			ky_out_format(out, stack->library[0] ? "\n%28s in " : "%.0s", "");
			safe(out, stack->own);
		}
		ky_out_text(out, "\n");
		print_tasks(out, places, &groups[i], tasks_max);
	}
}

static void json_frames(struct ky_buf *out, const struct ky_task_place_stack *stack,
			struct ky_symbol_table *table, uint64_t time_ns)
{
	const struct ky_symbol_frame *frames;

	ky_json_open(out, "frames", "[");
	for (uint32_t i = 0; i < stack->frame_count; i++) {
		uint32_t count = ky_symbol_table_find(table, stack->frames[i], time_ns, &frames);

		for (uint32_t k = 0; k < count; k++)
			ky_json_text(out, NULL, frames[k].name);
	}
	ky_json_close(out, "]");
}

static void print_json(struct ky_buf *out, const struct ky_task_places *places,
		       const struct place_group *groups, uint32_t group_count, uint32_t tasks,
		       struct ky_symbol_table *table)
{
	static const char *const states[] = {"waits", "moved", "polled"};

	ky_json_number(out, "tasks", tasks);
	ky_json_open(out, "places", "[");
	for (uint32_t i = 0; i < group_count; i++) {
		const struct ky_task_place *first = &places->entries[groups[i].from];
		const struct ky_task_place_stack *stack = &places->stacks[first->stack];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "state", states[first->state <= STATE_POLLED ? first->state : 0]);
		ky_json_text(out, "awaits", stack->library);
		ky_json_text(out, "in", stack->own);
		ky_json_number(out, "task_count", groups[i].counted_count);
		ky_json_number(out, "counted_elsewhere",
			       groups[i].task_count - groups[i].counted_count);
		ky_json_number(out, "longest_wait_ns", waited_ns(first));
		json_frames(out, stack, table, first->time_ns);
		ky_json_open(out, "waiting", "[");
		for (uint32_t k = groups[i].from; k < groups[i].end; k++) {
			const struct ky_task_place *entry = &places->entries[k];

			ky_json_open(out, NULL, "{");
			ky_json_number(out, "task", entry->task);
			ky_json_text(out, "name", entry->name);
			ky_json_number(out, "since_ns", entry->since_ns);
			ky_json_number(out, "waited_ns", waited_ns(entry));
			ky_json_number(out, "places", entry->place_count);
			ky_json_flag(out, "truncated", entry->is_truncated);
			/* It came there by another way. */
			if (entry->stack != first->stack)
				json_frames(out, &places->stacks[entry->stack], table,
					    entry->time_ns);
			ky_json_close(out, "}");
		}
		ky_json_close(out, "]");
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

int ky_task_places_put(struct ky_buf *out, struct ky_task_places *places,
		       struct ky_symbol_table *table, const struct ky_task_places_options *options)
{
	uint32_t count = 0, tasks = task_count(places);
	struct place_group *groups;

	for (uint32_t i = 0; i < places->stack_count; i++)
		name_stack(&places->stacks[i], table, places->now_ns);
	groups = make_groups(places, &count);
	if (!groups)
		return -ENOMEM;
	if (options->is_json)
		print_json(out, places, groups, count, tasks, table);
	else
		print_text(out, places, groups, count, tasks, options->tasks_max);
	ky_free(groups);
	return 0;
}

void ky_task_places_release(struct ky_task_places *places)
{
	ky_free(places->entries);
	ky_free(places->stacks);
	memset(places, 0, sizeof(*places));
}
