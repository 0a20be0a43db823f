/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A poll that wakes one task again and again before it can run: all but the first change nothing,
 * and the waker's worker does nothing else meanwhile. */
#include <analyze/findings/find.h>

#include <analyze/findings/poll_rule.h>
#include <analyze/findings/say.h>
#include <analyze/wake_cause.h>
#include <base/alloc.h>
#include <base/text.h>

struct storm {
	uint32_t waker, woken; /* name indexes of kinds of tasks */
	uint64_t run_count, wakes, ns;
	uint64_t most, longest_ns;
	uint64_t at_ns, waker_task; /* of the longest */
	uint32_t stack;             /* of a wake in it; KY_NONE */
};

struct storms {
	struct storm *list;
	uint32_t count, capacity;
	const struct ky_trace *trace;
};

/* Wakes of one task by another one, each right after the one before. */
struct wake_run {
	struct ky_wake last;
	uint64_t count, first_ns;
};

static bool add(void *ctx, const struct wake_run *run)
{
	struct storms *storms = ctx;
	const struct ky_trace *trace = storms->trace;
	uint64_t ns = run->last.time_ns - run->first_ns;
	uint32_t waker, woken, i;
	struct storm *storm;

	waker = trace->tasks[run->last.waker].name;
	woken = trace->tasks[run->last.woken].name;
	for (i = 0; i < storms->count; i++)
		if (storms->list[i].waker == waker && storms->list[i].woken == woken)
			break;
	if (i == storms->count) {
		if (ky_grow(&storms->list, &storms->capacity, i + 1, sizeof(*storms->list)))
			return false;
		storms->list[storms->count++] = (struct storm){.waker = waker, .woken = woken};
	}
	storm = &storms->list[i];
	storm->run_count++;
	storm->wakes += run->count;
	storm->ns += ns;
	if (run->count > storm->most)
		storm->most = run->count;
	if (ns >= storm->longest_ns) {
		storm->longest_ns = ns;
		storm->at_ns = run->first_ns;
		storm->waker_task = trace->tasks[run->last.waker].id;
		storm->stack = run->last.stack;
	}
	return true;
}

/* Work between two of them would take longer than a wake does. */
static bool continues(const struct wake_run *run, const struct ky_wake *wake)
{
	return run->count && run->last.waker == wake->waker && run->last.woken == wake->woken &&
	       wake->time_ns - run->last.time_ns <= KY_FIND_WAKE_NS;
}

/* Each row of wakes of one task, that a worker issued in [from, to]. Returns what on_run did. */
static bool each_run(const struct ky_trace *trace, uint32_t worker, uint64_t from_ns,
		     uint64_t to_ns, bool (*on_run)(void *ctx, const struct wake_run *run),
		     void *ctx)
{
	const struct ky_column *wakes = &trace->workers[worker].wakes;
	struct wake_run run = {.count = 0};
	struct ky_cursor at;
	struct ky_wake wake;
	bool is_going;

	for (is_going = ky_cursor_begin(&at, wakes, ky_column_find(wakes, from_ns)); is_going;
	     is_going = ky_cursor_next(&at)) {
		const struct ky_wake_row *row = (const void *)at.at;

		if (at.time_ns > to_ns)
			break;
		/* A task that wakes itself spins: self_wake_loop.c. */
		if (row->waker == KY_NONE || row->waker == row->woken ||
		    trace->tasks[row->woken].redundant_count < KY_FIND_HERD_WAKES)
			continue;
		ky_trace_wake_at(trace, worker, &at, &wake);
		if (!continues(&run, &wake)) {
			if (run.count >= KY_FIND_HERD_WAKES && !on_run(ctx, &run))
				return false;
			run = (struct wake_run){.first_ns = wake.time_ns};
		}
		run.count++;
		run.last = wake;
	}
	return run.count < KY_FIND_HERD_WAKES || on_run(ctx, &run);
}

/* ---- as the cause of long polls ---- */

static bool add_length(void *ctx, const struct wake_run *run)
{
	*(uint64_t *)ctx += run->last.time_ns - run->first_ns;
	return true;
}

static bool fits(const struct ky_poll_case *one, enum ky_confidence *confidence)
{
	const struct ky_trace *trace = one->facts->trace;
	const struct ky_longest *longest = &one->facts->longest;
	uint64_t polls_ns = 0, runs_ns = 0;

	*confidence = KY_CONFIDENCE_PROVEN;
	for (size_t i = 0; i < longest->count; i++) {
		const struct ky_long_row *at = &longest->rows[i];
		struct ky_poll poll;

		ky_trace_poll(trace, at->worker, at->row, &poll);
		if (trace->tasks[poll.task].name != one->kind->name)
			continue;
		polls_ns += at->length_ns;
		(void)each_run(trace, at->worker, at->start_ns, at->start_ns + at->length_ns,
			       add_length, &runs_ns);
	}
	return ky_share_ppm(runs_ns, polls_ns) >= KY_FIND_HALF_PPM;
}

static void say_polls(struct ky_buf *out, const struct ky_poll_case *one,
		      const struct ky_findings_options *options)
{
	(void)one;
	(void)options;
	ky_text(out, "woke a task that was ready already, again and again,");
}

#define ACTION "Wake once after the loop that adds work, or only where the queue was empty before."

const struct ky_poll_rule ky_rule_redundant_wakes = {.id = KY_FINDING_REDUNDANT_WAKES,
						     .is_blocked = false,
						     .fits = fits,
						     .say = say_polls,
						     .action = ACTION};

/* ---- in polls of any length ---- */

/* Wakes of all tasks of a kind, and how many changed nothing. */
static void count_of(const struct ky_trace *trace, uint32_t name, uint64_t *wakes,
		     uint64_t *redundant)
{
	for (uint32_t i = 0; i < trace->task_count; i++) {
		if (trace->tasks[i].name != name)
			continue;
		*wakes += trace->tasks[i].wake_count;
		*redundant += trace->tasks[i].redundant_count;
	}
}

static void say(struct ky_finding *found, const struct ky_findings *findings,
		const struct storm *storm, uint64_t wakes, uint64_t redundant)
{
	const struct ky_facts *facts = &findings->facts;

	ky_say_kind(&found->statement, facts->trace, storm->waker);
	ky_text(&found->statement, " woke ");
	ky_say_kind(&found->statement, facts->trace, storm->woken);
	ky_text(&found->statement, " up to ");
	ky_say_many(&found->statement, storm->most, "time", "times");
	ky_text(&found->statement, " in a row: ");
	ky_say_count(&found->statement, redundant);
	ky_text(&found->statement, " of ");
	ky_say_many(&found->statement, wakes, "wake", "wakes");
	ky_text(&found->statement, " came while it was ready already");
	if (found->culprit.code) {
		ky_text(&found->statement, ", in ");
		ky_say_function(&found->statement, found->culprit.code);
		ky_say_line(&found->statement, found->culprit.code);
	}
	ky_text(&found->statement, ".");
	ky_text(&found->impact, "The waker spent ");
	ky_say_ns(&found->impact, found->delay_ns);
	ky_text(&found->impact, " on wakes that changed nothing, ");
	ky_say_ppm(&found->impact, ky_share_ppm(found->delay_ns, facts->poll_ns));
	ky_text(&found->impact, " of all time in polls.");
	ky_text(&found->action, ACTION);
}

static void report(struct ky_findings *findings, const struct storm *storm)
{
	const struct ky_facts *facts = &findings->facts;
	uint64_t wakes = 0, redundant = 0, first = storm->run_count;
	struct ky_finding *found = NULL;
	struct ky_wake wake = {.stack = storm->stack};

	count_of(facts->trace, storm->woken, &wakes, &redundant);
	/* It may be the cause of long polls already. */
	if (ky_share_ppm(redundant, wakes) >= KY_FIND_HALF_PPM &&
	    !ky_findings_of_task(findings, KY_FINDING_REDUNDANT_WAKES, storm->waker))
		found = ky_findings_add(findings, KY_FINDING_REDUNDANT_WAKES);
	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = storm->waker;
	if (storm->stack != KY_NONE && facts->profile)
		found->culprit.code = ky_wake_cause_of(&facts->profile->code, &wake).line;
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = storm->run_count;
	/* In a long run another worker may have polled the woken task meanwhile. */
	found->delay_ns = ky_ppm_of(storm->ns, ky_share_ppm(redundant, storm->wakes - first));
	ky_finding_judge(found, ky_share_ppm(found->delay_ns, facts->poll_ns), storm->longest_ns);
	say(found, findings, storm, wakes, redundant);
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "wakes",
							 .from_ns = storm->at_ns,
							 .to_ns = storm->at_ns + storm->longest_ns,
							 .task = storm->waker_task,
							 .stack = storm->stack,
							 .event = "WakeEvent"});
}

void ky_find_redundant_wakes(struct ky_findings *findings)
{
	const struct ky_trace *trace = findings->facts.trace;
	const struct ky_report *range = findings->facts.report;
	struct storms storms = {.trace = trace};

	for (uint32_t worker = 0;
	     trace->wakes_redundant >= KY_FIND_HERD_WAKES && worker < trace->worker_count; worker++)
		if (!each_run(trace, worker, range->from_ns, range->to_ns, add, &storms))
			findings->failed = true;
	for (uint32_t i = 0; i < storms.count; i++)
		report(findings, &storms.list[i]);
	ky_free(storms.list);
}
