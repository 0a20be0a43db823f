/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* No worker of a runtime looked for I/O and timers for long, as there was always another task to
 * poll: what came meanwhile woke its tasks late. A gap in one long poll is that poll's.
 *
 * What came shows in the check that ends the gap: events of the driver are I/O, and the functions
 * of the wakes that it issues say whether a timer was due. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <base/alloc.h>
#include <analyze/wake_cause.h>
#include <base/text.h>
#include <read/sort.h>
#include <read/turns.h>

#define PARK_IN_DRIVER 1u
#define GAPS_MAX 4096u /* whose polls are counted; the others are of the same kind */

#define ORIGIN_OUTSIDE 3u /* of a wake: outside of polls, on a worker */

struct driver_look {
	uint64_t start_ns, end_ns;
	uint32_t worker, ready_count; /* worker KY_NONE: the last poll, which is no check */
};

struct driver_gaps {
	struct driver_look *looks;
	uint32_t count, capacity;
	uint64_t gap_count, ns, worst_ns, worst_at_ns, poll_count;
	uint64_t *busy_ns;              /* by kind */
	uint64_t io_count, timer_count; /* gaps at whose end there was I/O, a timer */
};

static bool is_earlier(const void *a, const void *b, const void *ctx)
{
	const struct driver_look *one = a, *other = b;

	(void)ctx;
	return one->start_ns < other->start_ns;
}

static bool add_look(struct driver_gaps *gaps, struct driver_look look)
{
	if (ky_grow(&gaps->looks, &gaps->capacity, gaps->count + 1, sizeof(*gaps->looks)))
		return false;
	gaps->looks[gaps->count++] = look;
	return true;
}

static bool collect(struct driver_gaps *gaps, const struct ky_trace *trace, uint32_t worker)
{
	const struct ky_worker *of = &trace->workers[worker];
	struct ky_turn turn;
	struct ky_park park;

	for (uint64_t row = 0; row < of->turns.row_count; row++) {
		ky_trace_turn(trace, worker, row, &turn);
		if (!add_look(gaps, (struct driver_look){turn.start_ns, turn.end_ns, worker,
							 turn.ready_count}))
			return false;
	}
	for (uint64_t row = 0; row < of->parks.row_count; row++) {
		ky_trace_park(trace, worker, row, &park);
		if (park.wait == PARK_IN_DRIVER &&
		    !add_look(gaps,
			      (struct driver_look){park.start_ns, park.start_ns + park.duration_ns,
						   worker, park.ready_count}))
			return false;
	}
	return true;
}

/* Polls that workers of the runtime began in the gap; the most of one worker. */
static uint64_t count_polls(struct driver_gaps *gaps, const struct ky_facts *facts,
			    uint32_t runtime, uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_poll poll;
	uint64_t most = 0;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;
		uint64_t first = ky_column_find(polls, from_ns), row;

		if (trace->workers[worker].runtime != runtime)
			continue;
		for (row = first; row < polls->row_count; row++) {
			struct ky_kind_facts *kind;

			ky_trace_poll(trace, worker, row, &poll);
			if (poll.start_ns >= to_ns)
				break;
			kind = ky_facts_kind(facts, trace->tasks[poll.task].name);
			if (kind)
				gaps->busy_ns[kind - facts->kinds] += poll.duration_ns;
		}
		if (row - first > most)
			most = row - first;
	}
	return most;
}

/* Does a timer wake a task in this check? Its wakes come before the worker's next poll. Without
 * names of functions, one that found no I/O woke for nothing else. */
static bool has_timer(const struct ky_facts *facts, const struct driver_look *look)
{
	const struct ky_worker *worker = &facts->trace->workers[look->worker];
	const struct ky_code_stacks *code = facts->profile ? &facts->profile->code : NULL;
	uint64_t poll = ky_column_find(&worker->polls, look->end_ns), until_ns = UINT64_MAX;
	struct ky_wake wake;

	if (poll < worker->polls.row_count)
		until_ns = ky_column_time(&worker->polls, poll);
	for (uint64_t row = ky_column_find(&worker->wakes, look->end_ns);
	     row < worker->wakes.row_count; row++) {
		uint32_t kind;

		ky_trace_wake(facts->trace, look->worker, row, &wake);
		if (wake.time_ns >= until_ns)
			break;
		if ((wake.origin & KY_WAKE_ORIGIN) != ORIGIN_OUTSIDE)
			continue;
		kind = ky_wake_cause_of(code, &wake).kind;
		if (kind == KY_WAKE_TIMER ||
		    (!look->ready_count && (kind == KY_WAKE_DRIVER || kind == KY_WAKE_UNKNOWN)))
			return true;
	}
	return false;
}

/* Before the first check and after the last one workers poll, too. */
static bool add_ends(struct driver_gaps *gaps, const struct ky_trace *trace, uint32_t runtime)
{
	uint64_t first_ns = UINT64_MAX, last_ns = 0;
	bool is_checked = false; /* after that */
	uint32_t first = 0;
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;

		if (trace->workers[worker].runtime != runtime || !polls->row_count)
			continue;
		if (ky_column_time(polls, 0) < first_ns) {
			first_ns = ky_column_time(polls, 0);
			first = worker;
		}
		ky_trace_poll(trace, worker, polls->row_count - 1, &poll);
		if (poll.start_ns > last_ns)
			last_ns = poll.start_ns;
	}
	for (uint32_t i = 0; i < gaps->count; i++)
		is_checked |= gaps->looks[i].end_ns >= last_ns;
	return !last_ns ||
	       (add_look(gaps, (struct driver_look){first_ns, first_ns, first, 0}) &&
		(is_checked || add_look(gaps, (struct driver_look){last_ns, last_ns, KY_NONE, 0})));
}

static void measure(struct driver_gaps *gaps, const struct ky_facts *facts, uint32_t runtime)
{
	uint64_t last_ns = 0, seen = 0;

	ky_sort(gaps->looks, gaps->count, sizeof(*gaps->looks), is_earlier, NULL);
	for (uint32_t i = 0; i < gaps->count; i++) {
		const struct driver_look *look = &gaps->looks[i];
		uint64_t from_ns = last_ns, polls;

		if (look->end_ns > last_ns)
			last_ns = look->end_ns;
		if (!from_ns || look->start_ns <= from_ns + KY_FIND_WORST_NS_MIN ||
		    look->start_ns < facts->report->from_ns || from_ns > facts->report->to_ns ||
		    seen++ >= GAPS_MAX || ky_facts_is_lossy(facts, from_ns, look->start_ns))
			continue;
		polls = count_polls(gaps, facts, runtime, from_ns, look->start_ns);
		if (polls < 2 * KY_FIND_EVENT_INTERVAL)
			continue;
		gaps->io_count += look->ready_count != 0;
		gaps->timer_count += look->worker != KY_NONE && has_timer(facts, look);
		gaps->gap_count++;
		gaps->ns += look->start_ns - from_ns;
		if (polls > gaps->poll_count)
			gaps->poll_count = polls;
		if (look->start_ns - from_ns > gaps->worst_ns) {
			gaps->worst_ns = look->start_ns - from_ns;
			gaps->worst_at_ns = from_ns;
		}
	}
}

static void say_found(struct ky_buf *out, const struct driver_gaps *gaps)
{
	if (!gaps->io_count && !gaps->timer_count)
		return;
	ky_text(out, " The next check found ");
	if (gaps->io_count) {
		ky_text(out, "I/O ");
		ky_say_many(out, gaps->io_count, "time", "times");
	}
	if (gaps->timer_count) {
		ky_text(out, gaps->io_count ? " and timers " : "timers ");
		ky_say_many(out, gaps->timer_count, "time", "times");
	}
	ky_text(out, ".");
}

static void report(struct ky_findings *findings, const struct driver_gaps *gaps)
{
	const struct ky_facts *facts = &findings->facts;
	struct ky_finding *found = ky_findings_add(findings, KY_FINDING_DRIVER_STARVED);
	uint32_t most = 0;

	if (!found)
		return;
	for (uint32_t i = 1; i < facts->kind_count; i++)
		if (gaps->busy_ns[i] > gaps->busy_ns[most])
			most = i;
	found->culprit.kind = "task";
	found->culprit.task = facts->kinds[most].name;
	found->culprit.resource = "I/O and timer driver";
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = gaps->gap_count;
	found->delay_ns = gaps->ns;
	ky_finding_judge(found,
			 ky_share_ppm(gaps->ns, facts->report->to_ns - facts->report->from_ns),
			 gaps->worst_ns);
	ky_text(&found->statement, "No worker checked the driver for I/O and timers for up to ");
	ky_say_ns(&found->statement, gaps->worst_ns);
	ky_text(&found->statement, ", ");
	ky_say_many(&found->statement, gaps->gap_count, "time", "times");
	ky_text(&found->statement, ": one ran up to ");
	ky_say_many(&found->statement, gaps->poll_count, "poll", "polls");
	ky_text(&found->statement, " in between, most of them of ");
	ky_say_kind(&found->statement, facts->trace, found->culprit.task);
	ky_text(&found->statement, ".");
	say_found(&found->statement, gaps);
	ky_text(&found->impact, "Sockets and timers that were due in ");
	ky_say_ppm(&found->impact, found->score_ppm);
	ky_text(&found->impact,
		" of the time woke their tasks late; that is in no time from wake to "
		"poll.");
	ky_text(&found->action,
		"Lower event_interval (default 61 polls), make these polls shorter, or "
		"let the tasks that are always ready wait now and then.");
	ky_finding_evidence(found,
			    &(struct ky_evidence){.kind = "gap",
						  .from_ns = gaps->worst_at_ns,
						  .to_ns = gaps->worst_at_ns + gaps->worst_ns,
						  .task = UINT64_MAX,
						  .stack = KY_NONE,
						  .event = "DriverTurnEvent"});
}

static void find_in(struct ky_findings *findings, uint32_t runtime)
{
	const struct ky_trace *trace = findings->facts.trace;
	struct driver_gaps gaps = {0};
	bool is_whole = true;

	gaps.busy_ns = ky_alloc((findings->facts.kind_count + (size_t)1) * sizeof(*gaps.busy_ns));
	is_whole = gaps.busy_ns != NULL;
	for (uint32_t worker = 0; is_whole && worker < trace->worker_count; worker++)
		if (trace->workers[worker].runtime == runtime)
			is_whole = collect(&gaps, trace, worker);
	is_whole = is_whole && add_ends(&gaps, trace, runtime);
	if (!is_whole)
		findings->failed = true;
	else
		measure(&gaps, &findings->facts, runtime);
	if (is_whole && gaps.gap_count)
		report(findings, &gaps);
	ky_free(gaps.busy_ns);
	ky_free(gaps.looks);
}

void ky_find_driver_gaps(struct ky_findings *findings)
{
	const struct ky_trace *trace = findings->facts.trace;
	bool has_turns = false;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++)
		has_turns |= trace->workers[worker].turns.row_count != 0;
	for (uint32_t runtime = 0; has_turns && runtime < trace->runtime_count; runtime++)
		find_in(findings, runtime);
}
