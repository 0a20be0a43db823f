/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/delay_context.h>

#include <base/alloc.h>
#include <base/earlier.h>
#include <read/queues.h>
#include <read/sort.h>
#include <read/turns.h>
#include <string.h>

#define EDGES_MAX 131072u
#define STEPS_MAX 131072u
#define ROUNDED_NS UINT64_C(1000000) /* the time-outs of parks are in ms */
#define WAIT_DRIVER 1u
#define ORIGIN_OUTSIDE 3u /* of polls, on a worker: the driver, right after a look */
/* A wait in the driver that lasted so long began with nothing there. */
#define DRIVER_WAITED_NS UINT64_C(20000)

/* From here on so many more workers are parked, or in a poll. */
struct edge {
	uint64_t ns;
	int8_t parked, polling, own; /* own: the worker in whose queue the task stands is parked */
};

struct edges {
	struct edge *list;
	uint32_t count, capacity;
	bool failed;
};

static bool is_peer(const struct ky_trace *trace, uint32_t worker, uint32_t of)
{
	uint32_t runtime = trace->workers[worker].runtime, other = trace->workers[of].runtime;

	return ky_poll_homes_has_queue(trace, worker) && !trace->workers[worker].is_shared &&
	       (runtime == other || runtime == KY_NONE || other == KY_NONE);
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	(void)ctx;
	return ((const struct edge *)a)->ns < ((const struct edge *)b)->ns;
}

/* Returns false where there are too many. */
static bool add_both(struct edges *edges, uint64_t from_ns, uint64_t to_ns, struct edge change)
{
	if (from_ns >= to_ns)
		return true;
	if (edges->count + 2 > EDGES_MAX)
		return false;
	if (ky_grow(&edges->list, &edges->capacity, edges->count + 2, sizeof(*edges->list))) {
		edges->failed = true;
		return false;
	}
	change.ns = from_ns;
	edges->list[edges->count++] = change;
	edges->list[edges->count++] = (struct edge){to_ns, (int8_t)-change.parked,
						    (int8_t)-change.polling, (int8_t)-change.own};
	return true;
}

static bool add_worker(struct edges *edges, const struct ky_trace *trace, uint32_t worker,
		       uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_worker *known = &trace->workers[worker];
	uint64_t row = ky_column_find(&known->polls, from_ns);
	struct ky_poll poll;
	struct ky_park park;

	for (row -= row != 0; row < known->polls.row_count; row++) {
		ky_trace_poll(trace, worker, row, &poll);
		if (poll.start_ns >= to_ns)
			break;
		if (!add_both(edges, ky_later(poll.start_ns, from_ns),
			      ky_earlier(poll.start_ns + poll.duration_ns, to_ns),
			      (struct edge){.polling = 1}))
			return false;
	}
	row = ky_column_find(&known->parks, from_ns);
	for (row -= row != 0; row < known->parks.row_count; row++) {
		ky_trace_park(trace, worker, row, &park);
		if (park.start_ns >= to_ns)
			break;
		if (!add_both(edges, ky_later(park.start_ns, from_ns),
			      ky_earlier(park.start_ns + park.duration_ns, to_ns),
			      (struct edge){.parked = 1}))
			return false;
	}
	return true;
}

static bool is_parked(uint8_t part)
{
	return part == KY_PART_PARKED || part == KY_PART_PARKED_NOTIFIED ||
	       part == KY_PART_PARKED_QUIET;
}

/* The worker in whose queue it stands is none of the others. */
static bool add_own(struct edges *edges, const struct ky_delay *delay)
{
	uint64_t at_ns = delay->ready_ns;

	for (uint32_t i = 0; i < delay->part_count; i++) {
		uint64_t end_ns = at_ns + delay->parts[i].ns;

		if (is_parked(delay->parts[i].part) &&
		    !add_both(edges, at_ns, end_ns, (struct edge){.own = 1}))
			return false;
		at_ns = end_ns;
	}
	return true;
}

static void sweep(struct ky_delay_context *out, struct edges *edges, uint64_t from_ns,
		  int32_t peer_count)
{
	int32_t parked = 0, polling = 0, own = 0;

	ky_sort(edges->list, edges->count, sizeof(*edges->list), is_before, NULL);
	for (uint32_t i = 0; i < edges->count; i++) {
		uint64_t length = edges->list[i].ns - from_ns;

		out->idle_peer_ns += parked > own ? length : 0;
		out->all_busy_ns += polling == peer_count ? length : 0;
		from_ns = edges->list[i].ns;
		parked += edges->list[i].parked;
		polling += edges->list[i].polling;
		own += edges->list[i].own;
	}
}

static bool find_peers(struct ky_delay_context *out, const struct ky_trace *trace,
		       const struct ky_delay *delay)
{
	struct edges edges = {0};
	bool is_whole = add_own(&edges, delay);
	int32_t peer_count = 0;

	for (uint32_t worker = 0; worker < trace->worker_count && is_whole; worker++) {
		if (!is_peer(trace, worker, delay->poll.worker))
			continue;
		peer_count++;
		is_whole = add_worker(&edges, trace, worker, delay->ready_ns, delay->poll.start_ns);
	}
	if (is_whole)
		sweep(out, &edges, delay->ready_ns, peer_count);
	else
		out->idle_peer_ns = out->all_busy_ns = UINT64_MAX;
	ky_free(edges.list);
	return !edges.failed;
}

static void count_wakes(struct ky_delay_context *out, const struct ky_trace *trace,
			const struct ky_delay *delay)
{
	uint64_t count = 0;

	for (uint32_t lane = 0; lane < trace->worker_count; lane++) {
		const struct ky_column *wakes = &trace->workers[lane].wakes;
		struct ky_cursor cursor;
		bool is_in = ky_cursor_begin(&cursor, wakes,
					     ky_column_find(wakes, delay->ready_ns));

		for (; is_in && cursor.time_ns < delay->poll.start_ns;
		     is_in = ky_cursor_next(&cursor))
			count += ((const struct ky_wake_row *)(const void *)cursor.at)->woken ==
				 delay->poll.task;
	}
	/* A wake in the task's own poll made it ready at the end of that, before ready_ns. */
	out->redundant_count = count && delay->waker != delay->poll.task ? count - 1 : count;
}

/* ---- how long no worker looked at the driver ---- */

/* The end of the worker's last look before `ns`; 0: none. */
static uint64_t last_look(const struct ky_trace *trace, uint32_t worker, uint64_t ns)
{
	const struct ky_worker *known = &trace->workers[worker];
	uint64_t row = ky_column_find(&known->turns, ns), last_ns = 0;
	struct ky_park park;

	if (row)
		last_ns = ky_column_time(&known->turns, row - 1);
	for (row = ky_column_find(&known->parks, ns); row-- > 0;) {
		ky_trace_park(trace, worker, row, &park);
		if (park.wait != WAIT_DRIVER)
			continue;
		return ky_later(last_ns, ky_earlier(park.start_ns + park.duration_ns, ns));
	}
	return last_ns;
}

static void find_gap_poll(struct ky_delay_context *out, const struct ky_trace *trace,
			  uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_column *polls = &trace->workers[out->gap_worker].polls;
	uint64_t row = ky_column_find(polls, from_ns), longest_ns = 0;
	struct ky_poll poll;

	for (row -= row != 0; row < polls->row_count; row++) {
		uint64_t begin_ns, end_ns;

		ky_trace_poll(trace, out->gap_worker, row, &poll);
		if (poll.start_ns >= to_ns)
			break;
		begin_ns = ky_later(poll.start_ns, from_ns);
		end_ns = ky_earlier(poll.start_ns + poll.duration_ns, to_ns);
		if (end_ns <= begin_ns || end_ns - begin_ns <= longest_ns)
			continue;
		longest_ns = end_ns - begin_ns;
		out->gap_poll_row = row;
	}
	if (!longest_ns)
		out->gap_worker = KY_NONE;
}

/* Then the wake was not the driver's, or that look is not in the trace. */
static bool polled_since(const struct ky_trace *trace, uint32_t worker, uint64_t from_ns,
			 uint64_t to_ns)
{
	const struct ky_column *polls = &trace->workers[worker].polls;
	uint64_t row = ky_column_find(polls, from_ns);

	return row < polls->row_count && ky_column_time(polls, row) < to_ns;
}

static void find_driver_gap(struct ky_delay_context *out, const struct ky_trace *trace,
			    const struct ky_delay *delay)
{
	uint64_t last_ns = 0;
	struct ky_turn look;

	if (delay->home == KY_NONE || (delay->wake.origin & KY_WAKE_ORIGIN) != ORIGIN_OUTSIDE ||
	    !ky_trace_driver_check(trace, delay->home, delay->ready_ns, &look) ||
	    polled_since(trace, delay->home, look.end_ns, delay->ready_ns))
		return;
	if (look.end_ns - look.start_ns >= DRIVER_WAITED_NS) {
		out->driver_gap_ns = 0;
		return;
	}
	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		uint64_t ns;

		if (!is_peer(trace, worker, delay->home))
			continue;
		ns = last_look(trace, worker, look.start_ns);
		if (ns <= last_ns)
			continue;
		last_ns = ns;
		out->gap_worker = worker;
	}
	if (!last_ns) {
		out->gap_worker = KY_NONE;
		return;
	}
	out->driver_gap_ns = delay->ready_ns - last_ns;
	find_gap_poll(out, trace, last_ns, look.start_ns);
}

/* The last park in the driver that began before `ns`, of any worker of its runtime. */
static bool last_driver_park(const struct ky_trace *trace, uint32_t home, uint64_t ns,
			     struct ky_park *out)
{
	bool is_found = false;
	struct ky_park park;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		uint64_t row;

		if (!is_peer(trace, worker, home))
			continue;
		for (row = ky_column_find(&trace->workers[worker].parks, ns); row-- > 0;) {
			ky_trace_park(trace, worker, row, &park);
			if (is_found && park.start_ns <= out->start_ns)
				break;
			if (park.wait != WAIT_DRIVER)
				continue;
			*out = park;
			is_found = true;
			break;
		}
	}
	return is_found;
}

/* Was the task polled in the time from `from_ns` to when it was ready? Then it may have set its
 * timer anew. Also where there is too much to look at. */
static bool was_polled(const struct ky_trace *trace, const struct ky_delay *delay, uint64_t from_ns)
{
	uint32_t steps = STEPS_MAX;
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;
		uint64_t row = ky_column_find(polls, from_ns);

		for (row -= row != 0; row < polls->row_count; row++) {
			ky_trace_poll(trace, worker, row, &poll);
			if (poll.start_ns >= delay->ready_ns)
				break;
			if (!steps-- || (poll.task == delay->poll.task &&
					 poll.start_ns + poll.duration_ns > from_ns))
				return true;
		}
	}
	return false;
}

static void find_timer_late(struct ky_delay_context *out, const struct ky_trace *trace,
			    const struct ky_delay *delay)
{
	struct ky_park park = {0};
	uint64_t due_ns;

	if (delay->home == KY_NONE || (delay->wake.origin & KY_WAKE_ORIGIN) != ORIGIN_OUTSIDE ||
	    !last_driver_park(trace, delay->home, delay->ready_ns, &park) ||
	    park.due_ns == UINT64_MAX || ky_trace_has_gap(trace, park.start_ns, delay->ready_ns) ||
	    was_polled(trace, delay, park.start_ns))
		return;
	/* It is rounded up to whole ms, and no timer is due before the park. */
	due_ns = park.due_ns - park.start_ns > ROUNDED_NS ? park.due_ns - ROUNDED_NS :
							    park.start_ns;
	out->timer_late_ns = delay->ready_ns > due_ns ? delay->ready_ns - due_ns : 0;
}

static uint64_t depth_of(const struct ky_trace_queue *queue, const struct ky_delay *delay)
{
	uint32_t depth;

	return queue && ky_queue_depth_max(queue, delay->ready_ns, delay->poll.start_ns, &depth) ?
		       depth :
		       UINT64_MAX;
}

bool ky_delay_context(struct ky_delay_context *out, const struct ky_trace *trace,
		      const struct ky_delay *delay)
{
	*out = (struct ky_delay_context){.driver_gap_ns = UINT64_MAX,
					 .gap_poll_row = KY_NO_ROW,
					 .gap_worker = KY_NONE,
					 .timer_late_ns = UINT64_MAX};
	out->worker_queue = out->runtime_queue = UINT64_MAX;
	if (delay->home != KY_NONE)
		out->worker_queue = depth_of(ky_trace_worker_queue(trace, delay->home), delay);
	out->runtime_queue = depth_of(ky_trace_runtime_queue(trace, delay->poll.worker), delay);
	count_wakes(out, trace, delay);
	find_driver_gap(out, trace, delay);
	find_timer_late(out, trace, delay);
	return find_peers(out, trace, delay);
}
