/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tasks of a kind that only come: each is polled a few times, waits for what never comes, and does
 * not end. */
#include <analyze/findings/find.h>

#include <analyze/findings/last_polls.h>
#include <analyze/findings/say.h>
#include <base/alloc.h>
#include <base/text.h>

#define PARTS 5u
#define POLLS_MAX 4u /* of a task that was started and waits */

struct leak {
	uint64_t alive[PARTS + 1]; /* at the ends of equal parts of the trace */
	uint64_t idle, ended;      /* of those that live at the end: not polled in the last part */
	uint64_t outside, timers;  /* that wait for I/O; for a timer */
	uint64_t first_ns;
};

static void add_task(struct leak *leak, const struct ky_task *task, const uint64_t times_ns[],
		     const struct ky_last_polls *polls, uint32_t index)
{
	bool lives = !(task->flags & KY_TASK_ENDED) || task->end_ns >= times_ns[PARTS];

	for (uint32_t i = 0; i <= PARTS; i++)
		leak->alive[i] += task->first_ns <= times_ns[i] &&
				  (lives || task->end_ns > times_ns[i]);
	leak->ended += !lives;
	if (!lives)
		return;
	leak->idle += polls->counts[index] <= POLLS_MAX &&
		      (polls->end_ns[index] < times_ns[PARTS - 1] ||
		       task->first_ns >= times_ns[PARTS - 1]);
	leak->outside += polls->points[index] == KY_IDLE_OUTSIDE;
	leak->timers += polls->points[index] == KY_IDLE_TIMER;
	if (!leak->first_ns || task->first_ns < leak->first_ns)
		leak->first_ns = task->first_ns;
}

static bool is_leak(const struct leak *leak)
{
	uint64_t at_end = leak->alive[PARTS];

	for (uint32_t i = 1; i <= PARTS; i++)
		if (leak->alive[i] <= leak->alive[i - 1])
			return false;
	return at_end - leak->alive[1] >= KY_FIND_LEAK_TASKS &&
	       ky_share_ppm(leak->idle, at_end) >= KY_FIND_CODE_PPM && leak->ended < at_end &&
	       ky_share_ppm(leak->outside, at_end) < KY_FIND_HALF_PPM;
}

static void report(struct ky_findings *findings, const struct leak *leak, uint32_t name,
		   uint64_t living, uint64_t judged_ns)
{
	const struct ky_facts *facts = &findings->facts;
	uint64_t at_end = leak->alive[PARTS];
	bool are_timers = ky_share_ppm(leak->timers, at_end) >= KY_FIND_HALF_PPM;
	struct ky_finding *found = ky_findings_add(findings, KY_FINDING_TASK_LEAK);

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = name;
	found->confidence = are_timers ? KY_CONFIDENCE_POSSIBLE : KY_CONFIDENCE_LIKELY;
	found->victims = at_end;
	ky_finding_judge(found, ky_share_ppm(at_end, living), judged_ns - leak->first_ns);
	ky_text(&found->statement, "Tasks of ");
	ky_say_kind(&found->statement, facts->trace, name);
	ky_text(&found->statement, " only come: ");
	ky_say_count(&found->statement, leak->alive[1]);
	ky_text(&found->statement, " lived after a fifth of the time and ");
	ky_say_count(&found->statement, at_end);
	ky_text(&found->statement, " at its end, of which ");
	ky_say_count(&found->statement, leak->idle);
	ky_text(&found->statement, " were polled at most 4 times and then never again.");
	if (are_timers)
		ky_text(&found->statement,
			" They wait for timers that are not due before the end.");
	ky_text(&found->impact, "They are ");
	ky_say_ppm(&found->impact, found->score_ppm);
	ky_text(&found->impact,
		" of the tasks that live; their memory, and what they hold, is never "
		"given back.");
	ky_text(&found->action,
		"End what they wait for (drop the sender, cancel with a token, abort "
		"the JoinHandle), or bound the wait with a timeout.");
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "tasks",
							 .from_ns = leak->first_ns,
							 .to_ns = judged_ns,
							 .task = UINT64_MAX,
							 .stack = KY_NONE,
							 .event = "TaskFirstSeenEvent"});
}

void ky_find_task_leaks(struct ky_findings *findings, const struct ky_last_polls *polls)
{
	const struct ky_facts *facts = &findings->facts;
	const struct ky_trace *trace = facts->trace;
	uint64_t times_ns[PARTS + 1], living = 0;
	struct leak *leaks = ky_alloc((facts->kind_count + (size_t)1) * sizeof(*leaks));

	if (!leaks || facts->is_lossy) { /* what lived in a loss may have ended in it */
		findings->failed |= !leaks;
		ky_free(leaks);
		return;
	}
	for (uint32_t i = 0; i <= PARTS; i++)
		times_ns[i] = facts->report->from_ns +
			      (polls->judged_ns - facts->report->from_ns) / PARTS * i;
	for (uint32_t i = 0; i < trace->task_count; i++) {
		const struct ky_task *task = &trace->tasks[i];
		const struct ky_kind_facts *kind = ky_facts_kind(facts, task->name);

		if (!kind || kind->is_runtimes || !ky_trace_is_task(task))
			continue;
		living += ky_report_lives(facts->report, task);
		add_task(&leaks[kind - facts->kinds], task, times_ns, polls, i);
	}
	for (uint32_t i = 0; i < facts->kind_count; i++)
		if (is_leak(&leaks[i]))
			report(findings, &leaks[i], facts->kinds[i].name, living, polls->judged_ns);
	ky_free(leaks);
}
