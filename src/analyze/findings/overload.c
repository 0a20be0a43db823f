/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* More work than the workers can do: no poll is long, and tasks wait behind many short ones while
 * every worker is busy. Where another one was idle it is no overload: hot_worker.c. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
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

void ky_find_overload(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	const struct ky_kind_facts *most = NULL;
	uint64_t behind_ns = 0, runtime = KY_NONE;
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
		if (!most || kind->busy_ns > most->busy_ns)
			most = kind;
	}
	found = most && behind_ns ? ky_findings_add(findings, KY_FINDING_OVERLOAD) : NULL;
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
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "workers",
							 .from_ns = facts->report->from_ns,
							 .to_ns = facts->report->to_ns,
							 .task = UINT64_MAX,
							 .stack = KY_NONE,
							 .event = "PollStart"});
}
