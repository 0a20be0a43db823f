/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/report.h>

#include <analyze/crate_name.h>
#include <analyze/shutdown.h>
#include <analyze/unseen_parks.h>
#include <analyze/wait_ahead.h>
#include <analyze/worst_heap.h>
#include <base/alloc.h>
#include <base/bytes.h>
#include <base/earlier.h>
#include <errno.h>
#include <read/handovers.h>
#include <read/sort.h>
#include <read/stops.h>
#include <string.h>

struct report_making {
	const struct ky_trace *trace;
	struct ky_report *report;
	uint32_t *group_of_name; /* by name index + 1 (0: unnamed): group + 1 */
	uint32_t *blocking_of_name;
	uint32_t *group_of_task; /* by task: group + 1, 0: not found yet; tasks lie far apart */
	bool *is_task_there;     /* by task: something of it lies in the range */
	uint32_t worst_max;
	uint64_t reach_ns;    /* end of the worker's last poll or park, cut to the range */
	bool is_cpu_measured; /* else the trace's CPU clocks stand for wall time */
};

/* ---- groups by name ---- */

static struct ky_task_group *group_of(struct report_making *making, uint32_t name)
{
	struct ky_report *report = making->report;
	uint32_t *slot = &making->group_of_name[name == KY_NONE ? 0 : name + 1];

	if (*slot == 0) {
		report->groups[report->group_count].name = name;
		report->groups[report->group_count].is_runtimes = ky_crate_name_is_runtime_task(
			ky_trace_name(making->trace, name));
		*slot = ++report->group_count;
	}
	return &report->groups[*slot - 1];
}

static struct ky_task_group *group_of_task(struct report_making *making, uint32_t task)
{
	uint32_t *slot = &making->group_of_task[task];
	struct ky_task_group *group;

	if (*slot)
		return &making->report->groups[*slot - 1];
	group = group_of(making, making->trace->tasks[task].name);
	*slot = (uint32_t)(group - making->report->groups) + 1;
	return group;
}

static struct ky_blocking_group *blocking_group_of(struct report_making *making, uint32_t name)
{
	struct ky_report *report = making->report;
	uint32_t *slot = &making->blocking_of_name[name == KY_NONE ? 0 : name + 1];

	if (*slot == 0) {
		report->blocking_groups[report->blocking_group_count].name = name;
		report->blocking_groups[report->blocking_group_count].is_runtimes =
			ky_crate_name_is_runtime_task(ky_trace_name(making->trace, name));
		*slot = ++report->blocking_group_count;
	}
	return &report->blocking_groups[*slot - 1];
}

static bool is_group_before(const void *first, const void *second, const void *ctx)
{
	const struct ky_task_group *a = first, *b = second;

	if (a->is_runtimes != b->is_runtimes)
		return b->is_runtimes;
	if (a->busy_ns != b->busy_ns)
		return a->busy_ns > b->busy_ns;
	if (a->poll_count != b->poll_count)
		return a->poll_count > b->poll_count;
	return strcmp(ky_trace_name(ctx, a->name), ky_trace_name(ctx, b->name)) < 0;
}

static bool is_blocking_before(const void *first, const void *second, const void *ctx)
{
	const struct ky_blocking_group *a = first, *b = second;

	if (a->is_runtimes != b->is_runtimes)
		return b->is_runtimes;
	if (a->busy_ns != b->busy_ns)
		return a->busy_ns > b->busy_ns;
	return strcmp(ky_trace_name(ctx, a->name), ky_trace_name(ctx, b->name)) < 0;
}

/* ---- polls ---- */

static void add_delay(struct report_making *making, struct ky_task_group *group,
		      const struct ky_worst *worst)
{
	struct ky_report *report = making->report;
	uint64_t delay_ns = ky_worst_delay_ns(worst);

	if (worst->poll.delay_state == KY_DELAY_NO_WAKE) {
		report->delays_no_wake++;
	} else if (worst->poll.delay_state == KY_DELAY_WITHHELD) {
		report->delays_withheld++;
	} else if (worst->poll.delay_state == KY_DELAY_COUNTED) {
		return; /* its histogram comes later, if its wait was known */
	} else {
		ky_histogram_add(&report->delay_histogram, delay_ns);
		group->delay_count++;
		group->delay_ns += delay_ns;
		if (delay_ns > group->delay_max_ns)
			group->delay_max_ns = delay_ns;
		if (!group->is_runtimes)
			ky_worst_add(report->worst_delays, &report->worst_delay_count,
				     making->worst_max, worst, true);
	}
}

static void add_poll(struct report_making *making, struct ky_worker_use *use,
		     const struct ky_worst *worst)
{
	struct ky_report *report = making->report;
	const struct ky_poll *poll = &worst->poll;
	uint64_t poll_ns = ky_worst_poll_ns(worst);
	struct ky_task_group *group = group_of_task(making, poll->task);

	if (ky_trace_is_handed_over(making->trace, poll)) {
		if (!(poll->flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP)))
			ky_length_add(&report->handed_over, poll_ns);
		return;
	}
	group->poll_count++;
	use->poll_count++;
	add_delay(making, group, worst);
	if (poll->flags & KY_POLL_END_UNPROVEN) {
		report->polls_end_unproven++;
		return;
	}
	if (poll->flags & KY_POLL_GAP) {
		report->polls_with_gap++;
		return;
	}
	group->busy_ns += poll_ns;
	report->busy_ns += poll_ns;
	if (poll_ns > group->poll_max_ns)
		group->poll_max_ns = poll_ns;
	if (poll_ns > use->poll_max_ns)
		use->poll_max_ns = poll_ns;
	if (poll->flags & KY_POLL_OPEN)
		report->polls_open++;
	else
		ky_histogram_add(&report->poll_histogram, poll_ns);
	if (!group->is_runtimes)
		ky_worst_add(report->worst_polls, &report->worst_poll_count, making->worst_max,
			     worst, false);
}

/* Length of [start, start + duration) inside [from, to). */
static uint64_t overlap(uint64_t start_ns, uint64_t duration_ns, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t end_ns = start_ns + duration_ns < start_ns ? UINT64_MAX : start_ns + duration_ns;

	return ky_overlap(start_ns, end_ns, from_ns, to_ns);
}

/* ... without the time in which the process was stopped. */
static uint64_t ran(const struct report_making *making, uint64_t start_ns, uint64_t duration_ns,
		    uint64_t from_ns, uint64_t to_ns)
{
	uint64_t ns = overlap(start_ns, duration_ns, from_ns, to_ns);
	uint64_t at_ns = start_ns > from_ns ? start_ns : from_ns;

	return ns - ky_trace_stopped_ns(making->trace, at_ns, at_ns + ns);
}

static void reach(struct report_making *making, uint64_t start_ns, uint64_t duration_ns)
{
	uint64_t room_ns = making->report->to_ns - start_ns;
	uint64_t end_ns = start_ns + (duration_ns < room_ns ? duration_ns : room_ns);

	if (end_ns > making->reach_ns)
		making->reach_ns = end_ns;
}

static void use_polls(struct report_making *making, uint32_t lane, struct ky_worker_use *use,
		      uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_worker *worker = &making->trace->workers[lane];
	uint64_t row, covered_to_ns = from_ns;
	struct ky_worst worst;

	memset(&worst, 0, sizeof(worst));
	worst.waker = worst.wake_worker = worst.wake.stack = KY_NONE;
	for (row = 0; row < worker->polls.row_count; row++) {
		uint64_t end_ns;

		ky_trace_poll(making->trace, lane, row, &worst.poll);
		if (worst.poll.start_ns >= to_ns)
			break;
		reach(making, worst.poll.start_ns, worst.poll.duration_ns);
		if (worst.poll.start_ns >= making->report->from_ns ||
		    (!(worst.poll.flags & KY_POLL_END_UNPROVEN) &&
		     worst.poll.duration_ns > making->report->from_ns - worst.poll.start_ns))
			making->is_task_there[worst.poll.task] = true;
		if (!(worst.poll.flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP))) {
			/* Polls of a shared lane overlap: no instant is busy twice. */
			use->busy_ns += ran(making, worst.poll.start_ns, worst.poll.duration_ns,
					    covered_to_ns, to_ns);
			end_ns = worst.poll.start_ns + worst.poll.duration_ns;
			if (end_ns > covered_to_ns)
				covered_to_ns = end_ns;
		}
		if (worst.poll.start_ns < making->report->from_ns)
			continue;
		worst.row = row;
		ky_worst_find_stops(making->trace, &worst);
		add_poll(making, use, &worst);
	}
}

static void use_parks(struct report_making *making, uint32_t lane, struct ky_worker_use *use,
		      uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_worker *worker = &making->trace->workers[lane];
	struct ky_park park;
	uint64_t row;

	for (row = 0; row < worker->parks.row_count; row++) {
		ky_trace_park(making->trace, lane, row, &park);
		if (park.start_ns >= to_ns)
			break;
		reach(making, park.start_ns, park.duration_ns);
		if (!(park.flags & (KY_PARK_END_UNPROVEN | KY_PARK_GAP)))
			use->parked_ns += ran(making, park.start_ns, park.duration_ns, from_ns,
					      to_ns);
		if (park.start_ns < making->report->from_ns)
			continue;
		use->park_count++;
		if (park.sched_wait_ns != UINT32_MAX) {
			use->sched_wait_ns += park.sched_wait_ns;
			use->has_sched_wait = true;
		}
	}
}

/* The next stretch of a worker that nothing is known about, of one kind. */
struct unknown {
	uint64_t start_ns, duration_ns, row;
	bool is_there;
};

static void next_poll(const struct report_making *making, uint32_t lane, struct unknown *next)
{
	uint64_t row_count = making->trace->workers[lane].polls.row_count;
	struct ky_poll poll;

	for (next->is_there = false; next->row < row_count && !next->is_there; next->row++) {
		ky_trace_poll(making->trace, lane, next->row, &poll);
		next->is_there = (poll.flags & (KY_POLL_END_UNPROVEN | KY_POLL_GAP)) != 0;
		next->start_ns = poll.start_ns;
		next->duration_ns = poll.duration_ns;
	}
}

static void next_park(const struct report_making *making, uint32_t lane, struct unknown *next)
{
	uint64_t row_count = making->trace->workers[lane].parks.row_count;
	struct ky_park park;

	for (next->is_there = false; next->row < row_count && !next->is_there; next->row++) {
		ky_trace_park(making->trace, lane, next->row, &park);
		next->is_there = (park.flags & (KY_PARK_END_UNPROVEN | KY_PARK_GAP)) != 0;
		next->start_ns = park.start_ns;
		next->duration_ns = park.duration_ns;
	}
}

static void next_loss(const struct report_making *making, uint32_t lane, struct unknown *next)
{
	const struct ky_trace *trace = making->trace;

	for (next->is_there = false; next->row < trace->loss_count && !next->is_there;
	     next->row++) {
		const struct ky_trace_loss *loss = &trace->losses[next->row];

		next->is_there = ky_trace_is_loss_of(&trace->workers[lane], loss);
		next->start_ns = loss->from_ns;
		next->duration_ns = loss->to_ns > loss->from_ns ? loss->to_ns - loss->from_ns : 0;
	}
}

/* Three lists by start, merged: no instant is unknown twice. */
static uint64_t unknown_time(const struct report_making *making, uint32_t lane, uint64_t from_ns,
			     uint64_t to_ns)
{
	static void (*const advance[])(const struct report_making *making, uint32_t lane,
				       struct unknown *next) = {next_poll, next_park, next_loss};
	struct unknown lists[3] = {0};
	uint64_t unknown_ns = 0;
	uint32_t i, first;

	if (!making->trace->loss_count && !making->trace->workers[lane].unknown_count)
		return 0;
	for (i = 0; i < 3; i++)
		advance[i](making, lane, &lists[i]);
	for (;;) {
		uint64_t part_ns;

		for (first = 0, i = 1; i < 3; i++)
			if (lists[i].is_there &&
			    (!lists[first].is_there || lists[i].start_ns < lists[first].start_ns))
				first = i;
		if (!lists[first].is_there || lists[first].start_ns >= to_ns)
			return unknown_ns;
		part_ns = overlap(lists[first].start_ns, lists[first].duration_ns, from_ns, to_ns);
		unknown_ns += part_ns;
		if (part_ns > 0) /* counted up to the end of this one */
			from_ns = lists[first].start_ns > from_ns ?
					  lists[first].start_ns + part_ns :
					  from_ns + part_ns;
		advance[first](making, lane, &lists[first]);
	}
}

/* part * scale / whole, cut, for part <= whole; no product overflows. */
static uint64_t share(uint64_t part, uint64_t whole, uint64_t scale)
{
	while (part > UINT64_MAX / scale) {
		part >>= 1;
		whole >>= 1;
	}
	return whole ? part * scale / whole : 0;
}

/* ---- what a retention policy held back ---- */

static bool is_in_range(const struct report_making *making, uint64_t from_ns)
{
	return from_ns >= making->report->from_ns && from_ns < making->report->to_ns;
}

void ky_report_join(struct ky_histogram *histogram, const struct ky_trace *trace, uint32_t at)
{
	const struct ky_trace_histogram *reported = &trace->histograms[at];
	const uint8_t *bytes = ky_trace_buckets(trace, at);
	const uint8_t *end = bytes + reported->bucket_bytes;
	uint64_t bucket = 0, skip, count;
	int first, second;

	ky_histogram_join(histogram, reported->count, reported->sum, reported->value_min,
			  reported->value_max);
	while (bytes < end) {
		first = ky_varint_get(bytes, (size_t)(end - bytes), &skip);
		if (first <= 0)
			return;
		second = ky_varint_get(bytes + first, (size_t)(end - bytes) - (size_t)first,
				       &count);
		if (second <= 0 || skip >= KY_HISTOGRAM_BUCKETS - bucket)
			return;
		ky_histogram_add_bucket(histogram, (uint32_t)(bucket + skip), count);
		bucket += skip + 1;
		bytes += first + second;
	}
}

static void join_polls(struct report_making *making, uint32_t at)
{
	const struct ky_trace_histogram *reported = &making->trace->histograms[at];
	struct ky_task_group *group = group_of(making, reported->name);

	ky_report_join(&making->report->poll_histogram, making->trace, at);
	making->report->polls_counted += reported->count;
	making->report->busy_ns += reported->sum;
	group->poll_count += reported->count;
	group->busy_ns += reported->sum;
	if (reported->value_max > group->poll_max_ns)
		group->poll_max_ns = reported->value_max;
}

static void join_delays(struct report_making *making, uint32_t at)
{
	const struct ky_trace_histogram *reported = &making->trace->histograms[at];
	struct ky_task_group *group = group_of(making, reported->name);

	ky_report_join(&making->report->delay_histogram, making->trace, at);
	making->report->delays_counted += reported->count;
	group->delay_count += reported->count;
	group->delay_ns += reported->sum;
	if (reported->value_max > group->delay_max_ns)
		group->delay_max_ns = reported->value_max;
}

static void join_runs(struct report_making *making, uint32_t at)
{
	const struct ky_trace_histogram *reported = &making->trace->histograms[at];
	struct ky_blocking_group *group = blocking_group_of(making, reported->name);

	ky_report_join(&making->report->blocking_histogram, making->trace, at);
	making->report->blocking_counted += reported->count;
	group->run_count += reported->count;
	group->busy_ns += reported->sum;
	if (reported->value_max > group->run_max_ns)
		group->run_max_ns = reported->value_max;
}

static void join_histograms(struct report_making *making)
{
	const struct ky_trace *trace = making->trace;
	uint32_t i;

	for (i = 0; i < trace->histogram_count; i++) {
		if (!is_in_range(making, trace->histograms[i].from_ns))
			continue;
		if (trace->histograms[i].kind == KY_COUNTED_POLL)
			join_polls(making, i);
		else if (trace->histograms[i].kind == KY_COUNTED_DELAY)
			join_delays(making, i);
		else if (trace->histograms[i].kind == KY_COUNTED_BLOCKING)
			join_runs(making, i);
	}
}

static void join_sums(struct report_making *making, uint32_t lane, struct ky_worker_use *use)
{
	const struct ky_trace *trace = making->trace;
	uint32_t i;

	for (i = 0; i < trace->sums_count; i++) {
		const struct ky_trace_sums *sums = &trace->sums[i];

		if (sums->worker != lane ||
		    !is_in_range(making, sums->from_ns ? sums->from_ns : sums->reported_ns))
			continue;
		use->poll_count += sums->poll_count;
		use->busy_ns += sums->busy_ns;
		use->wake_count += sums->wake_count;
		use->park_count += sums->park_count;
		use->parked_ns += sums->parked_ns;
		if (sums->poll_max_ns > use->poll_max_ns)
			use->poll_max_ns = sums->poll_max_ns;
		making->report->wakes_counted += sums->wake_count;
		making->report->parks_counted += sums->park_count;
	}
}

/* ---- workers ---- */

/* What is not in polls, not parked and not unknown is other work; shares are of what is known. */
static void divide_span(struct ky_worker_use *use)
{
	uint64_t used_ns = use->busy_ns + use->parked_ns, known_ns;

	if (used_ns > use->span_ns)
		use->span_ns = used_ns;
	/* Sums may know more than the records do. */
	if (use->unknown_ns > use->span_ns - used_ns)
		use->unknown_ns = use->span_ns - used_ns;
	known_ns = use->span_ns - use->unknown_ns;
	use->other_ns = known_ns - used_ns;
	use->active_permille = use->busy_permille = UINT64_MAX;
	if (known_ns > 0 || use->unknown_ns == 0) {
		use->active_permille = share(known_ns - use->parked_ns, known_ns, 1000);
		use->busy_permille = share(use->busy_ns, known_ns, 1000);
	}
}

static void use_worker(struct report_making *making, uint32_t lane)
{
	const struct ky_worker *worker = &making->trace->workers[lane];
	struct ky_report *report = making->report;
	struct ky_worker_use *use = &report->workers[report->worker_count];
	uint64_t from_ns = worker->first_ns, to_ns = worker->last_ns;

	memset(use, 0, sizeof(*use));
	use->worker = lane;
	if (from_ns < report->from_ns)
		from_ns = report->from_ns;
	if (to_ns > report->to_ns)
		to_ns = report->to_ns;
	making->reach_ns = to_ns;
	/* An open poll or park reaches beyond the last event. */
	if (worker->polls.row_count || worker->parks.row_count) {
		use_polls(making, lane, use, from_ns, report->to_ns);
		use_parks(making, lane, use, from_ns, report->to_ns);
	}
	if (worker->is_thread_lane || !worker->is_worker) {
		join_sums(making, lane, use);
		return;
	}
	use->wake_count = ky_column_find(&worker->wakes, report->to_ns) -
			  ky_column_find(&worker->wakes, report->from_ns);
	use->unknown_ns = unknown_time(making, lane, from_ns, making->reach_ns);
	if (!use->unknown_ns) /* else a stop may lie in it */
		use->unknown_ns = ky_trace_stopped_ns(making->trace, from_ns, making->reach_ns);
	join_sums(making, lane, use);
	use->span_ns = making->reach_ns > from_ns ? making->reach_ns - from_ns : 0;
	divide_span(use);
	use->cpu_permille = UINT64_MAX;
	if (worker->cpu_span_ns > 0 && making->is_cpu_measured) {
		use->cpu_permille = share(worker->cpu_ns, worker->cpu_span_ns, 1000);
		if (use->cpu_permille > 1000) /* the clocks are read one after the other */
			use->cpu_permille = 1000;
	}
	report->worker_count++;
}

/* ---- tasks, blocking runs ---- */

/* The wakes of the range, by whom they woke. */
static void count_wakes(struct report_making *making, uint32_t lane)
{
	const struct ky_trace *trace = making->trace;
	struct ky_cursor cursor;
	bool is_going;

	is_going = ky_cursor_begin(&cursor, &trace->workers[lane].wakes,
				   ky_column_find(&trace->workers[lane].wakes,
						  making->report->from_ns));
	for (; is_going && cursor.time_ns < making->report->to_ns;
	     is_going = ky_cursor_next(&cursor)) {
		const struct ky_wake_row *wake = (const void *)cursor.at;
		const struct ky_task *task = &trace->tasks[wake->woken];

		making->is_task_there[wake->woken] = true;
		if (ky_trace_is_task(task))
			group_of(making, task->name)->wake_count++;
	}
}

/* Outside of the range it is not this report's. */
static int find_shutdown(struct ky_report *report, const struct ky_trace *trace)
{
	int result = ky_shutdown_find(trace, &report->shutdown_ns);

	if (report->shutdown_ns <= report->from_ns || report->shutdown_ns >= report->to_ns)
		report->shutdown_ns = 0;
	return result;
}

static void count_tasks(struct report_making *making)
{
	const struct ky_trace *trace = making->trace;
	uint32_t i;

	for (i = 0; i < trace->worker_count; i++)
		count_wakes(making, i);
	for (i = 0; i < trace->task_count; i++) {
		const struct ky_task *task = &trace->tasks[i];
		bool has_ended = (task->flags & KY_TASK_ENDED) != 0;
		struct ky_task_group *group;

		if (!ky_trace_is_task(task))
			continue;
		if (!making->is_task_there[i] && !is_in_range(making, task->first_ns) &&
		    !(has_ended && is_in_range(making, task->end_ns)))
			continue;
		group = group_of(making, task->name);
		group->task_count++;
		group->alive_count += ky_report_lives(making->report, task);
	}
}

static void add_blocking(struct report_making *making)
{
	const struct ky_trace *trace = making->trace;
	struct ky_report *report = making->report;
	uint32_t i;

	for (i = 0; i < trace->blocking_count; i++) {
		const struct ky_blocking_run *run = &trace->blocking_runs[i];
		uint64_t run_ns = ran(making, run->start_ns, run->duration_ns, 0, UINT64_MAX);
		struct ky_blocking_group *group;

		if (run->start_ns < report->from_ns || run->start_ns >= report->to_ns)
			continue;
		group = blocking_group_of(making, run->name);
		group->run_count++;
		group->busy_ns += run_ns;
		if (run_ns > group->run_max_ns)
			group->run_max_ns = run_ns;
		if (run->wait_ns != UINT64_MAX)
			ky_length_add(&group->waits, run->wait_ns);
		if (!run->is_open && !run->is_end_unproven && !group->is_runtimes)
			ky_histogram_add(&report->blocking_histogram, run_ns);
	}
}

static bool is_listed(const struct ky_report *report, const struct ky_trace_open_poll *open)
{
	for (uint32_t i = 0; i < report->worst_poll_count; i++)
		if (report->worst_polls[i].poll.worker == open->worker &&
		    report->worst_polls[i].row == open->row)
			return true;
	return false;
}

/* A poll that hangs is listed among the worst, also where nothing was recorded after its begin and
 * so its length is not known: the least of the others makes room. */
static void list_hangs(struct report_making *making)
{
	const struct ky_trace *trace = making->trace;
	struct ky_report *report = making->report;
	uint32_t i, room = making->worst_max;

	for (i = 0; i < trace->open_poll_count && room > making->worst_max / 2; i++) {
		struct ky_worst worst = {.row = trace->open_polls[i].row,
					 .waker = KY_NONE,
					 .wake = {.stack = KY_NONE}};

		ky_trace_poll(trace, trace->open_polls[i].worker, worst.row, &worst.poll);
		ky_worst_find_stops(trace, &worst);
		if (worst.poll.start_ns < report->from_ns || worst.poll.start_ns >= report->to_ns ||
		    worst.poll.flags & (KY_POLL_GAP | KY_POLL_END_UNPROVEN) ||
		    ky_trace_is_handed_over(trace, &worst.poll) ||
		    report->worst_poll_count < making->worst_max ||
		    is_listed(report, &trace->open_polls[i]))
			continue;
		report->worst_polls[--room] = worst;
	}
}

static void finish(struct report_making *making)
{
	struct ky_report *report = making->report;
	uint32_t i;

	ky_worst_order(report->worst_polls, report->worst_poll_count, false);
	list_hangs(making);
	ky_worst_order(report->worst_delays, report->worst_delay_count, true);
	for (i = 0; i < report->worst_delay_count; i++)
		ky_wait_find_waker(making->trace, &report->worst_delays[i]);
	ky_sort(report->groups, report->group_count, sizeof(*report->groups), is_group_before,
		making->trace);
	ky_sort(report->blocking_groups, report->blocking_group_count,
		sizeof(*report->blocking_groups), is_blocking_before, making->trace);
	for (i = 0; i < report->group_count; i++) {
		struct ky_task_group *group = &report->groups[i];

		group->share_ppm = share(group->busy_ns, report->busy_ns, 1000000);
	}
	ky_histogram_quantiles(&report->poll_histogram, &report->polls);
	ky_histogram_quantiles(&report->delay_histogram, &report->delays);
	ky_histogram_quantiles(&report->blocking_histogram, &report->blocking);
}

static int allocate(struct report_making *making)
{
	const struct ky_trace *trace = making->trace;
	struct ky_report *report = making->report;
	size_t names = (size_t)ky_trace_name_count(trace) + 1;

	making->group_of_name = ky_alloc(names * sizeof(uint32_t));
	making->blocking_of_name = ky_alloc(names * sizeof(uint32_t));
	making->group_of_task = ky_alloc((trace->task_count + 1u) * sizeof(uint32_t));
	making->is_task_there = ky_alloc((trace->task_count + 1u) * sizeof(bool));
	report->groups = ky_alloc(names * sizeof(*report->groups));
	report->blocking_groups = ky_alloc(names * sizeof(*report->blocking_groups));
	report->workers = ky_alloc((trace->worker_count + 1u) * sizeof(*report->workers));
	report->worst_polls = ky_alloc(making->worst_max * sizeof(*report->worst_polls));
	report->worst_delays = ky_alloc(making->worst_max * sizeof(*report->worst_delays));
	if (!making->group_of_name || !making->blocking_of_name || !making->group_of_task ||
	    !making->is_task_there || !report->groups || !report->blocking_groups ||
	    !report->workers || !report->worst_polls || !report->worst_delays)
		return -ENOMEM;
	if (ky_histogram_init(&report->poll_histogram) < 0 ||
	    ky_histogram_init(&report->delay_histogram) < 0 ||
	    ky_histogram_init(&report->blocking_histogram) < 0)
		return -ENOMEM;
	return 0;
}

int ky_report_make(struct ky_report **out, const struct ky_trace *trace,
		   const struct ky_report_options *options)
{
	struct report_making making = {.trace = trace, .worst_max = KY_REPORT_WORST};
	struct ky_report *report = ky_alloc(sizeof(*report));
	const char *measured;
	uint32_t i;
	int result;

	*out = NULL;
	if (!report)
		return -ENOMEM;
	making.report = report;
	measured = ky_trace_metadata(trace, "cpu_time.measured");
	making.is_cpu_measured = !measured || strcmp(measured, "false") != 0;
	report->from_ns = options ? options->from_ns : 0;
	report->to_ns = options && options->to_ns ? options->to_ns : UINT64_MAX;
	report->spans_from_ns = report->from_ns;
	report->spans_to_ns = report->to_ns;
	if (options && options->worst_count)
		making.worst_max = options->worst_count < KY_REPORT_WORST_MAX ?
					   options->worst_count :
					   KY_REPORT_WORST_MAX;
	result = allocate(&making);
	if (result == 0)
		result = find_shutdown(report, trace);
	if (result == 0) {
		for (i = 0; i < trace->worker_count; i++)
			use_worker(&making, i);
		count_tasks(&making);
		add_blocking(&making);
		join_histograms(&making);
		finish(&making);
		if (report->from_ns < trace->run_first_ns)
			report->from_ns = trace->run_first_ns;
		if (report->to_ns > trace->run_last_ns)
			report->to_ns = trace->run_last_ns;
		if (report->from_ns > report->to_ns) /* all of it lies behind */
			report->from_ns = report->to_ns;
		result = ky_unseen_parks(report, trace);
	}
	if (result == 0)
		*out = report;
	else
		ky_report_free(report);
	ky_free(making.group_of_name);
	ky_free(making.blocking_of_name);
	ky_free(making.group_of_task);
	ky_free(making.is_task_there);
	return result;
}

void ky_report_free(struct ky_report *report)
{
	if (!report)
		return;
	ky_histogram_release(&report->poll_histogram);
	ky_histogram_release(&report->delay_histogram);
	ky_histogram_release(&report->blocking_histogram);
	ky_free(report->workers);
	ky_free(report->worst_polls);
	ky_free(report->worst_delays);
	ky_free(report->groups);
	ky_free(report->blocking_groups);
	ky_free(report);
}
