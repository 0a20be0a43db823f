/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One poll that wakes very many tasks, or as many timers that expire at once: the tasks stand in
 * line for each other. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <analyze/wake_cause.h>
#include <base/alloc.h>
#include <base/text.h>

#define TIMERS (UINT32_MAX - 1u)  /* in the place of a task, or of its name */
#define APART_NS UINT64_C(100000) /* wakes of one loop follow each other within a tenth of a tick */

struct herd {
	uint32_t waker, woken; /* name indexes of kinds of tasks; waker TIMERS */
	uint64_t burst_count, wakes, most;
	uint64_t at_ns; /* of the largest */
	/* Of timers, which are due at the first wake of a burst: until each was woken, in all; and
	 * of the longest burst. */
	uint64_t late_ns, longest_ns;
	uint64_t waker_task;
};

struct herds {
	struct herd *list;
	uint32_t count, capacity;
	uint32_t *bursts; /* by task: the last one that has it; bursts count from 1 */
	uint32_t burst;
};

struct burst {
	uint32_t waker, woken; /* task indexes; woken: the last one; waker TIMERS */
	uint64_t count, first_ns, last_ns, late_ns; /* count: of tasks */
};

static bool add(struct herds *herds, const struct ky_trace *trace, const struct burst *burst)
{
	uint32_t waker, woken, i;

	if (burst->count < KY_FIND_HERD_WAKES)
		return true;
	waker = burst->waker == TIMERS ? TIMERS : trace->tasks[burst->waker].name;
	woken = trace->tasks[burst->woken].name;
	for (i = 0; i < herds->count; i++)
		if (herds->list[i].waker == waker && herds->list[i].woken == woken)
			break;
	if (i == herds->count) {
		if (ky_grow(&herds->list, &herds->capacity, i + 1, sizeof(*herds->list)))
			return false;
		herds->list[herds->count++] = (struct herd){.waker = waker, .woken = woken};
	}
	herds->list[i].burst_count++;
	herds->list[i].wakes += burst->count;
	if (waker == TIMERS) {
		herds->list[i].late_ns += burst->late_ns;
		if (burst->last_ns - burst->first_ns > herds->list[i].longest_ns)
			herds->list[i].longest_ns = burst->last_ns - burst->first_ns;
	}
	if (burst->count > herds->list[i].most) {
		herds->list[i].most = burst->count;
		herds->list[i].at_ns = burst->first_ns;
		herds->list[i].waker_task = waker == TIMERS ? UINT64_MAX :
							      trace->tasks[burst->waker].id;
	}
	return true;
}

/* Who woke: a task other than the woken one, TIMERS, or KY_NONE. */
static uint32_t waker_of(const struct ky_facts *facts, const struct ky_wake *wake, uint8_t *causes)
{
	if (wake->waker != KY_NONE)
		return wake->waker != wake->woken ? wake->waker : KY_NONE;
	if (wake->stack == KY_NONE || !facts->profile)
		return KY_NONE;
	if (!causes[wake->stack])
		causes[wake->stack] = (uint8_t)(1 +
						ky_wake_cause_of(&facts->profile->code, wake).kind);
	return causes[wake->stack] == 1 + KY_WAKE_TIMER ? TIMERS : KY_NONE;
}

/* A poll wakes in a loop; timers of one tick, one after the other. Of timers those of one kind of
 * task are a burst, whatever else expires between them. */
static bool is_of(const struct burst *burst, const struct ky_wake *wake, uint32_t waker,
		  const struct ky_trace *trace)
{
	return waker == burst->waker && wake->time_ns - burst->last_ns <= APART_NS &&
	       (waker != TIMERS ||
		trace->tasks[wake->woken].name == trace->tasks[burst->woken].name);
}

static bool collect(struct herds *herds, const struct ky_facts *facts, uint8_t *causes,
		    uint32_t worker)
{
	const struct ky_column *wakes = &facts->trace->workers[worker].wakes;
	struct burst burst = {.waker = KY_NONE};
	uint64_t first = ky_column_find(wakes, facts->report->from_ns);
	struct ky_cursor at;
	struct ky_wake wake;
	uint32_t waker;
	bool is_going;

	for (is_going = ky_cursor_begin(&at, wakes, first); is_going;
	     is_going = ky_cursor_next(&at)) {
		if (at.time_ns > facts->report->to_ns)
			break;
		ky_trace_wake_at(facts->trace, worker, &at, &wake);
		waker = waker_of(facts, &wake, causes);
		/* The same task once more is no further one: redundant_wakes.c. */
		if (waker == KY_NONE || (burst.count && wake.woken == burst.woken))
			continue;
		if (!is_of(&burst, &wake, waker, facts->trace)) {
			if (!add(herds, facts->trace, &burst))
				return false;
			burst = (struct burst){.waker = waker, .first_ns = wake.time_ns};
			herds->burst++;
		}
		burst.woken = wake.woken;
		burst.last_ns = wake.time_ns;
		/* Two that are woken in turns are two. */
		if (herds->bursts[wake.woken] == herds->burst)
			continue;
		herds->bursts[wake.woken] = herds->burst;
		burst.count++;
		burst.late_ns += wake.time_ns - burst.first_ns;
	}
	return add(herds, facts->trace, &burst);
}

/* Ready time of the woken, but for what they spent behind polls of others; as much of it as they
 * have wakes in bursts. */
static uint64_t harm_of(const struct herd *herd, const struct ky_facts *facts, uint64_t *victims)
{
	const struct ky_kind_facts *kind = ky_facts_kind(facts, herd->woken);
	uint64_t ns = 0;

	for (uint32_t i = 0; i < facts->why->group_count; i++) {
		const struct ky_why_group *group = &facts->why->groups[i];
		bool is_behind = group->culprit != KY_NONE;

		if (group->victim != herd->woken ||
		    (is_behind && group->culprit != herd->woken && group->culprit != herd->waker))
			continue;
		ns += ky_facts_scaled(facts, group->ns);
		if (group->delay_count > *victims)
			*victims = group->delay_count;
	}
	return kind ? ky_ppm_of(ns, ky_share_ppm(herd->wakes, kind->wake_count)) : 0;
}

static uint64_t worst_of(const struct herd *herd, const struct ky_facts *facts)
{
	for (uint32_t i = 0; i < facts->why->worst_count; i++) {
		const struct ky_poll *poll = &facts->why->worst[i].poll;

		if (facts->trace->tasks[poll->task].name == herd->woken)
			return facts->why->worst[i].delay_ns;
	}
	return 0;
}

static void report(struct ky_findings *findings, const struct herd *herd)
{
	const struct ky_facts *facts = &findings->facts;
	uint64_t victims = 0, ns = harm_of(herd, facts, &victims);
	bool is_timers = herd->waker == TIMERS;
	struct ky_finding *found = ns ? ky_findings_add(findings,
							is_timers ? KY_FINDING_TIMER_FLOOD :
								    KY_FINDING_THUNDERING_HERD) :
					NULL;

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = is_timers ? herd->woken : herd->waker;
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = victims;
	found->delay_ns = ns + herd->late_ns;
	ky_finding_judge(found, ky_share_ppm(ns + herd->late_ns, facts->ready_ns + herd->late_ns),
			 worst_of(herd, facts) + herd->longest_ns);
	if (is_timers)
		ky_text(&found->statement, "Timers");
	else
		ky_say_kind(&found->statement, facts->trace, herd->waker);
	ky_text(&found->statement, " woke up to ");
	ky_say_many(&found->statement, herd->most, "task", "tasks");
	ky_text(&found->statement, " of ");
	ky_say_kind(&found->statement, facts->trace, herd->woken);
	ky_text(&found->statement, is_timers ? " at once, " : " in one poll, ");
	ky_say_many(&found->statement, herd->burst_count, "time: ", "times: ");
	ky_say_many(&found->statement, herd->wakes, "wake", "wakes");
	ky_text(&found->statement, " in all.");
	ky_text(&found->impact, "They waited ");
	ky_say_ns(&found->impact, ns);
	ky_text(&found->impact, " for each other, ");
	ky_say_ppm(&found->impact, ky_share_ppm(ns, facts->ready_ns));
	ky_text(&found->impact, " of all time from wake to poll.");
	if (herd->late_ns) {
		ky_text(&found->impact, " The last timers of a burst were up to ");
		ky_say_ns(&found->impact, herd->longest_ns);
		ky_text(&found->impact, " late before that, ");
		ky_say_ns(&found->impact, herd->late_ns);
		ky_text(&found->impact, " in all.");
	}
	ky_text(&found->action,
		"Wake only those that have something to do: notify_one() or a queue in "
		"place of notify_waiters() and broadcast, or shards of the waiters.");
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "wakes",
							 .from_ns = herd->at_ns,
							 .to_ns = herd->at_ns,
							 .task = herd->waker_task,
							 .stack = KY_NONE,
							 .event = "WakeEvent"});
}

void ky_find_herds(struct ky_findings *findings)
{
	const struct ky_trace *trace = findings->facts.trace;
	struct herds herds = {0};
	uint8_t *causes = ky_alloc(trace->samples.stack_count + (size_t)1);

	herds.bursts = ky_alloc((trace->task_count + (size_t)1) * sizeof(*herds.bursts));
	findings->failed |= !causes || !herds.bursts;
	for (uint32_t worker = 0; causes && herds.bursts && worker < trace->worker_count; worker++)
		if (!collect(&herds, &findings->facts, causes, worker))
			findings->failed = true;
	for (uint32_t i = 0; i < herds.count; i++)
		report(findings, &herds.list[i]);
	ky_free(causes);
	ky_free(herds.bursts);
	ky_free(herds.list);
}
