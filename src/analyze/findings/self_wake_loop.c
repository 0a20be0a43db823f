/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A task that wakes itself in each poll, and is polled again at once with nothing done: it spins.
 * So does one that calls yield_now() in a loop; an exhausted budget looks the same, but its polls
 * have done something. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <analyze/wake_cause.h>
#include <analyze/wake_walk.h>
#include <base/alloc.h>
#include <base/text.h>

#define ORIGIN_OWN_POLL 1u

/* Wakes of a task by itself. */
struct own_wakes {
	uint64_t in_poll, yielded;
};

static void count_wakes(struct own_wakes *counts, struct ky_wake_namer *namer,
			const struct ky_facts *facts)
{
	struct ky_wake_walk walk = {.trace = facts->trace,
				    .from_ns = facts->report->from_ns,
				    .to_ns = facts->report->to_ns};
	struct ky_wake wake;

	while (ky_wake_walk_next(&walk, &wake))
		if (wake.waker == wake.woken && (wake.origin & KY_WAKE_ORIGIN) == ORIGIN_OWN_POLL)
			counts[wake.woken].in_poll++;
		else
			counts[wake.woken].yielded += ky_wake_namer_cause(namer, &wake).kind ==
						      KY_WAKE_DEFERRED;
}

/* Time in which the workers were not parked. lasted_ns: that they were watched; a ring keeps the
 * last part of it. */
static uint64_t active_ns(const struct ky_report *report, uint64_t *lasted_ns)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < report->worker_count; i++) {
		const struct ky_worker_use *use = &report->workers[i];

		ns += use->span_ns - use->unknown_ns - use->parked_ns;
		if (use->poll_count && use->span_ns > *lasted_ns)
			*lasted_ns = use->span_ns;
	}
	return ns;
}

static void report(struct ky_findings *findings, const struct ky_task *task,
		   const struct own_wakes *wakes, uint64_t burden_ns, uint64_t lasted_ns)
{
	const struct ky_facts *facts = &findings->facts;
	struct ky_finding *found = ky_findings_add(findings, KY_FINDING_SELF_WAKE_LOOP);
	bool is_yield = wakes->yielded > wakes->in_poll;

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = task->name;
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = 1;
	found->delay_ns = burden_ns;
	ky_finding_judge(found, ky_share_ppm(task->busy_ns, facts->poll_ns), burden_ns);
	ky_text(&found->statement, "Task ");
	ky_text_u64(&found->statement, task->id);
	ky_text(&found->statement, " of ");
	ky_say_kind(&found->statement, facts->trace, task->name);
	ky_text(&found->statement, is_yield ? " yielded, to be polled again at once, " :
					      " woke itself in its own poll ");
	ky_say_many(&found->statement, is_yield ? wakes->yielded : wakes->in_poll, "time", "times");
	ky_text(&found->statement, " in ");
	ky_say_many(&found->statement, task->poll_count, "poll of ", "polls of ");
	ky_say_ns(&found->statement, task->busy_ns / task->poll_count);
	ky_text(&found->statement, " on average: it spins.");
	ky_text(&found->impact, "It and the scheduler kept workers awake for ");
	ky_say_ns(&found->impact, burden_ns);
	ky_text(&found->impact, ", ");
	ky_say_ppm(&found->impact, ky_share_ppm(burden_ns, lasted_ns));
	ky_text(&found->impact, " of the time of one.");
	ky_text(&found->action,
		is_yield ?
			"Wait for what the task needs (a timer, a Notify, a channel) in place of "
			"yield_now() in a loop; if each step is work, do more of it before "
			"yielding." :
			"Wait for what the task needs (a timer, a Notify, a channel) in place "
			"of wake_by_ref() in a poll that returns Pending.");
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "task",
							 .from_ns = facts->report->from_ns,
							 .to_ns = facts->report->to_ns,
							 .task = task->id,
							 .stack = KY_NONE,
							 .event = "WakeEvent"});
}

static bool spins(const struct ky_task *task, const struct own_wakes *wakes)
{
	uint64_t mean_ns = task->poll_count ? task->busy_ns / task->poll_count : UINT64_MAX;

	return (mean_ns <= KY_FIND_SPIN_NS &&
		ky_share_ppm(wakes->in_poll, task->poll_count) >= KY_FIND_HALF_PPM) ||
	       (mean_ns <= KY_FIND_BUDGET_NS &&
		ky_share_ppm(wakes->yielded, task->poll_count) >= KY_FIND_HALF_PPM);
}

static void find(struct ky_findings *findings, const struct own_wakes *wakes)
{
	const struct ky_facts *facts = &findings->facts;
	uint64_t lasted_ns = 0, active = active_ns(facts->report, &lasted_ns);

	for (uint32_t i = 0; i < facts->trace->task_count; i++) {
		const struct ky_task *task = &facts->trace->tasks[i];
		/* What the runtime does around a poll belongs to it: as many as it has of all. */
		uint64_t burden_ns = ky_ppm_of(active, ky_share_ppm(task->poll_count,
								    facts->report->polls.count));

		if (spins(task, &wakes[i]) &&
		    ky_share_ppm(burden_ns, lasted_ns) >= KY_FIND_BURDEN_PPM)
			report(findings, task, &wakes[i], burden_ns, lasted_ns);
	}
}

void ky_find_self_wakes(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	struct own_wakes *wakes = ky_alloc((facts->trace->task_count + (size_t)1) * sizeof(*wakes));
	struct ky_wake_namer namer = {0};

	if (!wakes || ky_wake_namer_make(&namer, facts->trace,
					 facts->profile ? &facts->profile->code : NULL)) {
		ky_free(wakes);
		findings->failed = true;
		return;
	}
	count_wakes(wakes, &namer, facts);
	find(findings, wakes);
	ky_wake_namer_release(&namer);
	ky_free(wakes);
}
