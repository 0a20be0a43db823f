/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <read/stops.h>

#include <base/alloc.h>
#include <read/load.h>
#include <read/sort.h>

#define LIST_MAX 65536u    /* of each */
#define MOMENTS_MAX 65536u /* of a process that was stopped with its reader, in 50 ms and more */

static uint64_t number(const struct ky_frame *frame, uint32_t field)
{
	return ky_frame_number(frame, field, 0);
}

bool ky_load_process_state(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_state state = {
		.after_ns = number(frame, KY_F_PROCESS_STATE_after_ns),
		.by_ns = number(frame, KY_F_PROCESS_STATE_by_ns),
		.detail = number(frame, KY_F_PROCESS_STATE_detail),
		.change = (uint8_t)number(frame, KY_F_PROCESS_STATE_state),
		.source = (uint8_t)number(frame, KY_F_PROCESS_STATE_source),
	};

	/* From elsewhere: what contradicts itself bounds nothing. */
	if (state.after_ns > state.by_ns || trace->state_count == LIST_MAX)
		return true;
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->states, &trace->state_capacity,
			    trace->state_count + 1, sizeof(state)))
		return false;
	trace->states[trace->state_count++] = state;
	return true;
}

bool ky_load_throttled(struct ky_load *load, const struct ky_frame *frame)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_throttle throttle = {
		.from_ns = number(frame, KY_F_THROTTLED_from_ns),
		.to_ns = number(frame, KY_F_THROTTLED_to_ns),
		.throttled_ns = number(frame, KY_F_THROTTLED_throttled_ns),
		.level = (uint8_t)number(frame, KY_F_THROTTLED_level),
	};

	if (throttle.from_ns > throttle.to_ns || trace->throttle_count == LIST_MAX)
		return true;
	if (trace->pages.failed ||
	    !ky_pages_array(&trace->pages, &trace->throttles, &trace->throttle_capacity,
			    trace->throttle_count + 1, sizeof(throttle)))
		return false;
	trace->throttles[trace->throttle_count++] = throttle;
	return true;
}

static bool is_state_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace_state *x = a, *y = b;

	(void)ctx;
	return x->by_ns != y->by_ns ? x->by_ns < y->by_ns : x->change < y->change;
}

static bool is_throttle_before(const void *a, const void *b, const void *ctx)
{
	const struct ky_trace_throttle *x = a, *y = b;

	(void)ctx;
	return x->from_ns != y->from_ns ? x->from_ns < y->from_ns : x->level < y->level;
}

static bool is_moment_before(const void *a, const void *b, const void *ctx)
{
	(void)ctx;
	return *(const uint64_t *)a < *(const uint64_t *)b;
}

/* ---- the process's own events ---- */

/* Calls for each moment in [from, to] at which a thread of the process recorded something. Returns
 * false when that did. */
typedef bool (*moment_fn)(void *ctx, uint64_t ns);

struct window {
	uint64_t from_ns, to_ns;
	moment_fn each;
	void *ctx;
};

static bool pass(const struct window *window, uint64_t ns)
{
	return ns < window->from_ns || ns > window->to_ns || window->each(window->ctx, ns);
}

static bool walk_polls(const struct ky_trace *trace, uint32_t lane, const struct window *window)
{
	const struct ky_column *polls = &trace->workers[lane].polls;
	uint64_t row = ky_column_find(polls, window->from_ns);
	struct ky_poll poll;

	for (row -= row > 0; row < polls->row_count; row++) {
		ky_trace_poll(trace, lane, row, &poll);
		if (poll.start_ns > window->to_ns)
			break;
		if (!pass(window, poll.start_ns))
			return false;
		if (!(poll.flags & (KY_POLL_OPEN | KY_POLL_END_UNPROVEN)) &&
		    !pass(window, poll.start_ns + poll.duration_ns))
			return false;
	}
	return true;
}

static bool walk_parks(const struct ky_trace *trace, uint32_t lane, const struct window *window)
{
	const struct ky_column *parks = &trace->workers[lane].parks;
	uint64_t row = ky_column_find(parks, window->from_ns);
	struct ky_park park;

	for (row -= row > 0; row < parks->row_count; row++) {
		ky_trace_park(trace, lane, row, &park);
		if (park.start_ns > window->to_ns)
			break;
		if (!pass(window, park.start_ns))
			return false;
		if (!(park.flags & (KY_PARK_OPEN | KY_PARK_END_UNPROVEN)) &&
		    !pass(window, park.start_ns + park.duration_ns))
			return false;
	}
	return true;
}

static bool walk(const struct ky_trace *trace, const struct window *window)
{
	for (uint32_t lane = 0; lane < trace->worker_count; lane++) {
		const struct ky_column *wakes = &trace->workers[lane].wakes;
		uint64_t row = ky_column_find(wakes, window->from_ns);

		for (; row < wakes->row_count && ky_column_time(wakes, row) <= window->to_ns; row++)
			if (!pass(window, ky_column_time(wakes, row)))
				return false;
		if (!walk_polls(trace, lane, window) || !walk_parks(trace, lane, window))
			return false;
	}
	return true;
}

static bool keep_last(void *ctx, uint64_t ns)
{
	uint64_t *last = ctx;

	*last = ns > *last ? ns : *last;
	return true;
}

static bool keep_first(void *ctx, uint64_t ns)
{
	uint64_t *first = ctx;

	*first = ns < *first ? ns : *first;
	return true;
}

static uint64_t last_event(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t last = from_ns;

	(void)walk(trace, &(const struct window){from_ns, to_ns, keep_last, &last});
	return last;
}

static uint64_t first_event(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t first = to_ns;

	(void)walk(trace, &(const struct window){from_ns, to_ns, keep_first, &first});
	return first;
}

struct moments {
	uint64_t *list;
	uint32_t count;
};

static bool keep_all(void *ctx, uint64_t ns)
{
	struct moments *moments = ctx;

	if (moments->count == MOMENTS_MAX)
		return false;
	moments->list[moments->count++] = ns;
	return true;
}

/* Nothing is known but that it was stopped in between: where it was silent longest. */
static void find_silence(const struct ky_trace *trace, struct ky_trace_stop *stop)
{
	struct moments moments = {.list = ky_alloc((MOMENTS_MAX + 1) * sizeof(uint64_t))};
	uint64_t before_ns = stop->from_ns, end_ns = stop->to_ns, longest_ns = 0;

	if (!moments.list)
		return;
	if (walk(trace, &(const struct window){stop->from_ns, stop->to_ns, keep_all, &moments})) {
		moments.list[moments.count++] = end_ns;
		ky_sort(moments.list, moments.count, sizeof(uint64_t), is_moment_before, NULL);
		for (uint32_t i = 0; i < moments.count; i++) {
			if (moments.list[i] - before_ns > longest_ns) {
				longest_ns = moments.list[i] - before_ns;
				stop->from_ns = before_ns;
				stop->to_ns = moments.list[i];
			}
			before_ns = moments.list[i];
		}
	}
	ky_free(moments.list);
}

/* ---- stops ---- */

static void bound_stop(const struct ky_trace *trace, struct ky_trace_stop *stop,
		       const struct ky_trace_state *begin, const struct ky_trace_state *end)
{
	uint64_t begin_ns = begin->by_ns, end_ns = end->after_ns ? end->after_ns : end->by_ns;

	if (begin->source == KY_STATE_WITH_READER) {
		stop->from_ns = begin->after_ns;
		stop->to_ns = end->by_ns;
		find_silence(trace, stop);
		stop->unsure_ns = stop->to_ns - stop->from_ns;
		return;
	}
	stop->from_ns = begin->after_ns ? last_event(trace, begin->after_ns, begin_ns) : begin_ns;
	stop->to_ns = stop->is_open ?
			      end->by_ns :
			      first_event(trace, end->after_ns ? end_ns : begin_ns, end->by_ns);
	if (begin->after_ns)
		stop->unsure_ns += begin_ns - stop->from_ns;
	if (end->after_ns && stop->to_ns > end_ns)
		stop->unsure_ns += stop->to_ns - end_ns;
}

static bool add_stop(struct ky_trace *trace, const struct ky_trace_state *begin,
		     const struct ky_trace_state *end)
{
	struct ky_trace_stop stop = {.signal_number = (uint32_t)begin->detail,
				     .source = begin->source};
	struct ky_trace_state last = {.by_ns = trace->last_ns};
	uint64_t free_ns = trace->stop_count ? trace->stops[trace->stop_count - 1].to_ns : 0;

	stop.is_open = !end;
	if (stop.is_open && last.by_ns < begin->by_ns)
		last.by_ns = begin->by_ns;
	bound_stop(trace, &stop, begin, end ? end : &last);
	if (stop.from_ns < free_ns)
		stop.from_ns = free_ns;
	if (stop.to_ns <= stop.from_ns)
		return true;
	if (!ky_pages_array(&trace->pages, &trace->stops, &trace->stop_capacity,
			    trace->stop_count + 1, sizeof(stop)))
		return false;
	trace->stops[trace->stop_count++] = stop;
	return true;
}

int ky_stops_finish(struct ky_trace *trace)
{
	const struct ky_trace_state *begin = NULL;
	bool is_made = true;

	ky_sort(trace->states, trace->state_count, sizeof(*trace->states), is_state_before, NULL);
	ky_sort(trace->throttles, trace->throttle_count, sizeof(*trace->throttles),
		is_throttle_before, NULL);
	if (trace->has_processes) /* whose they were is not told apart */
		return 0;
	for (uint32_t i = 0; i < trace->state_count && is_made; i++) {
		const struct ky_trace_state *state = &trace->states[i];

		if (state->change == KY_PROCESS_STOPPED) {
			begin = begin ? begin : state;
		} else if (begin) {
			is_made = add_stop(trace, begin, state);
			begin = NULL;
		}
	}
	if (begin && is_made)
		is_made = add_stop(trace, begin, NULL);
	return is_made ? 0 : trace->pages.failed;
}

const struct ky_trace_stop *ky_trace_stop_after(const struct ky_trace *trace, uint64_t ns)
{
	uint32_t low = 0, high = trace->stop_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (trace->stops[middle].to_ns <= ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < trace->stop_count ? &trace->stops[low] : NULL;
}

uint64_t ky_trace_stopped_ns(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_trace_stop *stop = ky_trace_stop_after(trace, from_ns);
	uint64_t sum_ns = 0;

	if (!stop)
		return 0;
	for (; stop < trace->stops + trace->stop_count && stop->from_ns < to_ns; stop++)
		sum_ns += (stop->to_ns < to_ns ? stop->to_ns : to_ns) -
			  (stop->from_ns > from_ns ? stop->from_ns : from_ns);
	return sum_ns;
}
