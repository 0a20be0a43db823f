/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* More work than the workers can do: no poll is long, and tasks wait behind many short ones while
 * every worker is busy. Where another one was idle it is no overload: hot_worker.c. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <analyze/wake_cause.h>
#include <analyze/wake_walk.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>

/* Of the time that is known: the workers of the busiest runtime were in polls. */
static uint32_t busy_ppm(const struct ky_facts *facts, uint64_t *runtime)
{
	const struct ky_report *report = facts->report;
	uint32_t most = 0;

	for (uint32_t i = 0; i < report->worker_count; i++) {
		uint32_t of = facts->trace->workers[report->workers[i].worker].runtime;
		uint64_t busy = 0, known = 0;

		for (uint32_t j = 0; j < report->worker_count; j++) {
			const struct ky_worker_use *use = &report->workers[j];

			if (facts->trace->workers[use->worker].runtime != of)
				continue;
			busy += use->busy_ns;
			known += use->span_ns - use->unknown_ns;
		}
		if (ky_share_ppm(busy, known) > most) {
			most = ky_share_ppm(busy, known);
			*runtime = of;
		}
	}
	return most;
}

/* Tasks of the kind that never wait: each of their polls ends because Tokio's budget, or a yield,
 * ends it, with more to do. */
struct restless {
	uint64_t *yielded; /* by task: wakes that were deferred */
	uint32_t count;
	uint64_t life_ns; /* of the one that lived longest */
};

static bool count_yields(struct restless *out, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_wake_walk walk = {
		.trace = trace, .from_ns = facts->report->from_ns, .to_ns = facts->report->to_ns};
	struct ky_wake_namer namer = {0};
	struct ky_wake wake;

	if (ky_wake_namer_make(&namer, trace, facts->profile ? &facts->profile->code : NULL))
		return false;
	while (ky_wake_walk_next(&walk, &wake))
		out->yielded[wake.woken] += ky_wake_namer_cause(&namer, &wake).kind ==
					    KY_WAKE_DEFERRED;
	ky_wake_namer_release(&namer);
	return true;
}

static bool find_restless(struct restless *out, const struct ky_facts *facts, uint32_t name)
{
	const struct ky_trace *trace = facts->trace;
	bool is_made;

	out->yielded = ky_alloc((trace->task_count + (size_t)1) * sizeof(*out->yielded));
	is_made = out->yielded && count_yields(out, facts);
	for (uint32_t i = 0; is_made && i < trace->task_count; i++) {
		const struct ky_task *task = &trace->tasks[i];
		uint64_t end_ns = task->flags & KY_TASK_ENDED ? task->end_ns : facts->report->to_ns;

		if (task->name != name || task->poll_count <= KY_FIND_STUCK_WAITS ||
		    task->busy_ns / task->poll_count <= KY_FIND_SPIN_NS ||
		    ky_share_ppm(out->yielded[i], task->poll_count) < KY_FIND_BUSY_PPM)
			continue;
		out->count++;
		if (end_ns > task->first_ns)
			out->life_ns = ky_later(out->life_ns, end_ns - task->first_ns);
	}
	ky_free(out->yielded);
	return is_made;
}

static uint32_t workers_of(const struct ky_facts *facts, uint64_t runtime)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < facts->report->worker_count; i++)
		count += facts->trace->workers[facts->report->workers[i].worker].runtime == runtime;
	return count;
}

/* More of them than workers: some stand in line at any time, each behind polls that are too short
 * to be seen one by one. */
static void judge_restless(struct ky_findings *findings, struct ky_finding *found,
			   const struct ky_kind_facts *most, uint64_t runtime, uint64_t idle_ns,
			   uint64_t behind_ns)
{
	const struct ky_facts *facts = &findings->facts;
	struct restless tasks = {0};
	uint32_t share_ppm = ky_share_ppm(most->busy_ns, facts->poll_ns);

	/* Of what stood in line for long, another worker could have polled the most. */
	if (share_ppm < KY_FIND_CODE_PPM || idle_ns > behind_ns)
		return;
	if (!find_restless(&tasks, facts, most->name)) {
		findings->failed = true;
		return;
	}
	if (tasks.count <= workers_of(facts, runtime))
		return;
	ky_finding_judge(found, share_ppm > found->score_ppm ? share_ppm : found->score_ppm,
			 ky_later(found->worst_ns, tasks.life_ns));
	ky_text(&found->statement, " ");
	ky_say_many(&found->statement, tasks.count, "task", "tasks");
	ky_text(&found->statement,
		" of it never wait: their polls end when Tokio's budget is used up, or at a yield, "
		"and there is more to do.");
	ky_text(&found->impact,
		" What else such a task waits for (another branch of a biased select!, or what "
		"comes after its loop) has to wait for as long.");
}

void ky_find_overload(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	const struct ky_kind_facts *most = NULL;
	uint64_t behind_ns = 0, idle_ns = 0, runtime = KY_NONE;
	uint32_t busy = busy_ppm(facts, &runtime);
	struct ky_finding *found;

	if (busy < KY_FIND_BUSY_PPM)
		return;
	for (uint32_t i = 0; i < facts->kind_count; i++) {
		const struct ky_kind_facts *kind = &facts->kinds[i];

		if (kind->is_runtimes)
			continue;
		behind_ns += kind->behind_all_ns - kind->behind_ns -
			     ky_earlier(kind->idle_ns, kind->behind_all_ns - kind->behind_ns);
		idle_ns += kind->idle_ns;
		if (!most || kind->busy_ns > most->busy_ns)
			most = kind;
	}
	found = most ? ky_findings_add(findings, KY_FINDING_OVERLOAD) : NULL;
	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = most->name;
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = facts->slow_delays;
	found->delay_ns = behind_ns;
	ky_finding_judge(found, ky_share_ppm(behind_ns, facts->ready_ns),
			 facts->why->worst_count ? facts->why->worst[0].delay_ns : 0);
	ky_text(&found->statement, "The workers were in polls ");
	ky_say_ppm(&found->statement, busy);
	ky_text(&found->statement,
		" of the time, with short ones: tasks that are ready stand in line. ");
	ky_say_ppm(&found->statement, ky_share_ppm(most->busy_ns, facts->poll_ns));
	ky_text(&found->statement, " of the work is of ");
	ky_say_kind(&found->statement, facts->trace, most->name);
	ky_text(&found->statement, ".");
	ky_say_many(&found->impact, facts->slow_delays, "task that was ready waited",
		    "tasks that were ready waited");
	ky_text(&found->impact, " over 1 ms, ");
	ky_say_ns(&found->impact, behind_ns);
	ky_text(&found->impact, " in all while short polls of others ran.");
	ky_text(&found->action,
		"Do less work, or more of it elsewhere: more workers or CPUs, fewer "
		"tasks at once (a semaphore at the entry), or a cheaper poll.");
	if (!most->is_runtimes)
		judge_restless(findings, found, most, runtime, idle_ns, behind_ns);
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "workers",
							 .from_ns = facts->report->from_ns,
							 .to_ns = facts->report->to_ns,
							 .task = UINT64_MAX,
							 .stack = KY_NONE,
							 .event = "PollStart"});
	if (!behind_ns && found->severity == KY_SEVERITY_INFO)
		ky_findings_drop(findings);
}
