/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/what_if.h>

#include <analyze/crate_name.h>
#include <analyze/short_name.h>
#include <base/alloc.h>
#include <base/json_write.h>
#include <base/text.h>
#include <errno.h>
#include <limits.h>
#include <read/sort.h>
#include <string.h>

/* ---- which place ---- */

struct kind {
	uint64_t busy_ns;
	uint32_t name;
};

/* As it is printed: report_cells.c takes the first of them that no other kind has. */
static const uint32_t widths[] = {60, 100, 200};

static bool is_kind_before(const void *a, const void *b, const void *ctx)
{
	const struct kind *one = a, *other = b;

	if (one->busy_ns != other->busy_ns)
		return one->busy_ns > other->busy_ns;
	return strcmp(ky_trace_name(ctx, one->name), ky_trace_name(ctx, other->name)) < 0;
}

/* 2: it is its name; 1: it is in its name. */
static uint32_t fit(const char *name, const char *text)
{
	uint32_t best = ky_text_contains(name, text);
	char cell[KY_SHORT_NAME_BYTES];

	if (!strcmp(name, text))
		return 2;
	for (uint32_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		ky_short_name(cell, name, widths[i]);
		if (!strcmp(cell, text))
			return 2;
		if (ky_text_contains(cell, text))
			best = 1;
	}
	return best;
}

/* All kinds of task that were polled. kinds: one for each name. */
static uint32_t list_kinds(const struct ky_trace *trace, struct kind *kinds)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < trace->task_count; i++) {
		const struct ky_task *task = &trace->tasks[i];

		if (task->name == KY_NONE || !task->poll_count || !ky_trace_is_task(task))
			continue;
		kinds[task->name].name = 1;
		kinds[task->name].busy_ns += task->busy_ns;
	}
	for (uint32_t name = 0; name < ky_trace_name_count(trace); name++)
		if (kinds[name].name)
			kinds[count++] = (struct kind){kinds[name].busy_ns, name};
	return count;
}

int ky_what_if_find(const struct ky_trace *trace, const char *text, uint32_t *names,
		    uint32_t name_max)
{
	struct kind *kinds = ky_alloc((ky_trace_name_count(trace) + (size_t)1) * sizeof(*kinds));
	uint32_t count, fitting = 0, best = 1;

	if (!kinds)
		return -ENOMEM;
	count = list_kinds(trace, kinds);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t fits = fit(ky_trace_name(trace, kinds[i].name), text);

		if (fits > best)
			fitting = 0;
		if (fits < best)
			continue;
		best = fits;
		kinds[fitting++] = kinds[i];
	}
	ky_sort(kinds, fitting, sizeof(*kinds), is_kind_before, trace);
	for (uint32_t i = 0; i < fitting && i < name_max; i++)
		names[i] = kinds[i].name;
	ky_free(kinds);
	return fitting < INT_MAX ? (int)fitting : INT_MAX;
}

/* ---- what it would be ---- */

struct delay_counting {
	struct ky_histogram before, after;
	uint64_t before_over, after_over;
};

struct what_if_making {
	const struct ky_trace *trace;
	const struct ky_why_options *options;
	struct ky_what_if *what_if;
	struct delay_counting *all, *places;
	uint64_t *cap_of_name;
	uint8_t *place_of_task; /* + 1; 0: none; | OTHER_DELAYS */
};

#define OTHER_DELAYS 0x80u /* they do not count among all: the runtime's own, another task's */

static void count_delay(const struct what_if_making *making, struct delay_counting *counting,
			uint64_t before_ns, uint64_t after_ns)
{
	ky_histogram_add(&counting->before, before_ns);
	ky_histogram_add(&counting->after, after_ns);
	counting->before_over += before_ns > making->options->over_ns;
	counting->after_over += after_ns > making->options->over_ns;
}

static void count_poll(const struct what_if_making *making, const struct ky_poll *poll,
		       struct ky_what_if_place *place)
{
	place->poll_count++;
	if (poll->duration_ns > place->longest_ns)
		place->longest_ns = poll->duration_ns;
	if (poll->duration_ns <= place->cap.cap_ns)
		return;
	if (!ky_queue_replay_takes(making->trace, poll)) {
		place->kept_count++;
		return;
	}
	place->shortened_count++;
	place->shortened_ns += poll->duration_ns - place->cap.cap_ns;
}

static void take_poll(const struct ky_poll *poll, uint64_t delay_ns, void *ctx)
{
	struct what_if_making *making = ctx;
	const struct ky_why_options *options = making->options;
	uint32_t known = making->place_of_task[poll->task], place = known & ~OTHER_DELAYS;

	if (place)
		count_poll(making, poll, &making->what_if->places[place - 1]);
	if (poll->delay_state || poll->start_ns < options->from_ns ||
	    (options->to_ns && poll->start_ns >= options->to_ns))
		return;
	if (!(known & OTHER_DELAYS))
		count_delay(making, making->all, poll->delay_ns, delay_ns);
	if (place)
		count_delay(making, &making->places[place - 1], poll->delay_ns, delay_ns);
}

/* What each task counts for. Returns false where memory is short. */
static bool place_tasks(struct what_if_making *making, const struct ky_what_if_cap *caps,
			uint32_t cap_count)
{
	const struct ky_trace *trace = making->trace;
	const struct ky_why_options *options = making->options;
	uint8_t *of_name = ky_alloc(ky_trace_name_count(trace) + (size_t)1);

	if (!of_name)
		return false;
	for (uint32_t name = 0; name < ky_trace_name_count(trace); name++)
		if (ky_crate_name_is_runtime_task(ky_trace_name(trace, name)))
			of_name[name] = OTHER_DELAYS;
	for (uint32_t i = 0; i < cap_count; i++)
		of_name[caps[i].name] |= (uint8_t)(i + 1);
	for (uint32_t i = 0; i < trace->task_count; i++) {
		const struct ky_task *task = &trace->tasks[i];
		uint8_t known = task->name != KY_NONE ? of_name[task->name] : 0;

		if (options->has_task) /* of one task each of its delays */
			known = (uint8_t)((known & ~OTHER_DELAYS) |
					  (task->id == options->task_id ? 0 : OTHER_DELAYS));
		making->place_of_task[i] = known;
	}
	ky_free(of_name);
	return true;
}

/* Is there a poll that a cap shortens? */
static bool is_shortened(const struct what_if_making *making, uint64_t least_cap_ns)
{
	const struct ky_trace *trace = making->trace;
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		uint64_t rows = trace->workers[worker].polls.row_count;

		for (uint64_t row = 0; row < rows; row++) {
			uint32_t name;

			if (!ky_trace_poll_exceeds(trace, worker, row, least_cap_ns))
				continue;
			ky_trace_poll(trace, worker, row, &poll);
			name = trace->tasks[poll.task].name;
			if (name != KY_NONE && poll.duration_ns > making->cap_of_name[name] &&
			    ky_queue_replay_takes(trace, &poll))
				return true;
		}
	}
	return false;
}

/* Nothing changes. */
static void take_all(struct what_if_making *making)
{
	const struct ky_trace *trace = making->trace;
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		for (uint64_t row = 0; row < trace->workers[worker].polls.row_count; row++) {
			ky_trace_poll(trace, worker, row, &poll);
			take_poll(&poll, poll.delay_ns, making);
		}
	}
}

static void finish(struct ky_what_if_change *out, const struct delay_counting *counting)
{
	ky_histogram_quantiles(&counting->before, &out->before.ns);
	ky_histogram_quantiles(&counting->after, &out->after.ns);
	out->before.over_count = counting->before_over;
	out->after.over_count = counting->after_over;
}

static bool make_room(struct what_if_making *making, uint32_t cap_count)
{
	size_t names = ky_trace_name_count(making->trace) + (size_t)1;

	making->cap_of_name = ky_alloc(names * sizeof(*making->cap_of_name));
	making->place_of_task = ky_alloc(making->trace->task_count + (size_t)1);
	making->all = ky_alloc((cap_count + (size_t)1) * sizeof(*making->all));
	if (!making->cap_of_name || !making->place_of_task || !making->all)
		return false;
	making->places = making->all + 1;
	memset(making->cap_of_name, 0xff, names * sizeof(*making->cap_of_name));
	for (uint32_t i = 0; i <= cap_count; i++)
		if (ky_histogram_init(&making->all[i].before) ||
		    ky_histogram_init(&making->all[i].after))
			return false;
	return true;
}

static void release_room(struct what_if_making *making, uint32_t cap_count)
{
	for (uint32_t i = 0; making->all && i <= cap_count; i++) {
		ky_histogram_release(&making->all[i].before);
		ky_histogram_release(&making->all[i].after);
	}
	ky_free(making->all);
	ky_free(making->cap_of_name);
	ky_free(making->place_of_task);
}

int ky_what_if_make(struct ky_what_if *out, const struct ky_trace *trace,
		    const struct ky_why_options *options, const struct ky_what_if_cap *caps,
		    uint32_t cap_count)
{
	struct what_if_making making = {.trace = trace, .options = options, .what_if = out};
	uint64_t least_cap_ns = UINT64_MAX;
	int result = -ENOMEM;

	*out = (struct ky_what_if){.over_ns = options->over_ns, .place_count = cap_count};
	if (make_room(&making, cap_count) && place_tasks(&making, caps, cap_count)) {
		for (uint32_t i = 0; i < cap_count; i++) {
			out->places[i].cap = caps[i];
			making.cap_of_name[caps[i].name] = caps[i].cap_ns;
			if (caps[i].cap_ns < least_cap_ns)
				least_cap_ns = caps[i].cap_ns;
		}
		result = 0;
		if (!is_shortened(&making, least_cap_ns))
			take_all(&making);
		else
			result = ky_queue_replay(&out->replay, trace, making.cap_of_name, take_poll,
						 &making);
	}
	if (!result) {
		finish(&out->all, making.all);
		for (uint32_t i = 0; i < cap_count; i++)
			finish(&out->places[i].change, &making.places[i]);
	}
	release_room(&making, cap_count);
	return result;
}

/* ---- as JSON ---- */

static void put_delays(struct ky_buf *out, const char *key, const struct ky_what_if_delays *delays)
{
	ky_json_open(out, key, "{");
	ky_json_number(out, "delays", delays->ns.count);
	ky_json_number(out, "sum_ns", delays->ns.total);
	ky_json_number(out, "p50_ns", delays->ns.p50);
	ky_json_number(out, "p90_ns", delays->ns.p90);
	ky_json_number(out, "p99_ns", delays->ns.p99);
	ky_json_number(out, "max_ns", delays->ns.max);
	ky_json_number(out, "over", delays->over_count);
	ky_json_close(out, "}");
}

static void put_change(struct ky_buf *out, const struct ky_what_if_change *change)
{
	put_delays(out, "before", &change->before);
	put_delays(out, "after", &change->after);
}

void ky_what_if_json(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_what_if *what_if)
{
	ky_json_open(out, "what_if", "{");
	put_change(out, &what_if->all);
	ky_json_open(out, "places", "[");
	for (uint32_t i = 0; i < what_if->place_count; i++) {
		const struct ky_what_if_place *place = &what_if->places[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "name", ky_trace_name(trace, place->cap.name));
		ky_json_number(out, "cap_ns", place->cap.cap_ns);
		ky_json_number(out, "polls", place->poll_count);
		ky_json_number(out, "longest_ns", place->longest_ns);
		ky_json_number(out, "shortened", place->shortened_count);
		ky_json_number(out, "shortened_ns", place->shortened_ns);
		ky_json_number(out, "kept", place->kept_count);
		put_change(out, &place->change);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_number(out, "reaction_ns", what_if->replay.reaction_ns);
	ky_json_number(out, "no_wake", what_if->replay.unplaced_count);
	ky_json_number(out, "not_stolen", what_if->replay.kept_home_count);
	ky_json_close(out, "}");
}
