/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A task that is not woken any more, while its peers are: it waits far longer than it and they ever
 * did, and its last poll left no waker that something could use. */
#include <analyze/findings/find.h>

#include <analyze/findings/kind_polls.h>
#include <analyze/findings/last_polls.h>
#include <analyze/findings/say.h>
#include <base/alloc.h>
#include <base/text.h>

#define KINDS_MAX 16u /* whose polls are read again */

/* It lives, was polled often enough, or left no waker at all where its peers left one, and nothing
 * outside is what it waits for. */
static bool is_candidate(const struct ky_facts *facts, const struct ky_last_polls *polls,
			 uint32_t task)
{
	const struct ky_task *of = &facts->trace->tasks[task];

	return of->name != KY_NONE && ky_trace_is_task(of) && ky_report_lives(facts->report, of) &&
	       (polls->counts[task] > KY_FIND_STUCK_WAITS ||
		(polls->counts[task] && polls->points[task] == KY_IDLE_UNKNOWN)) &&
	       polls->judged_ns > polls->end_ns[task] + KY_FIND_STUCK_NS_MIN &&
	       (polls->points[task] == KY_IDLE_UNKNOWN || polls->points[task] == KY_IDLE_OWN) &&
	       !ky_facts_is_lossy(facts, polls->end_ns[task], polls->judged_ns);
}

/* Half of its peers or more were polled when it should have been long since, or have ended. */
static bool are_peers_served(const struct ky_facts *facts, const struct ky_last_polls *polls,
			     uint32_t task, uint64_t due_ns)
{
	uint32_t peers = 0, served = 0;

	for (uint32_t i = 0; i < facts->trace->task_count; i++) {
		const struct ky_task *of = &facts->trace->tasks[i];

		if (i == task || of->name != facts->trace->tasks[task].name || !polls->counts[i])
			continue;
		peers++;
		served += polls->end_ns[i] >= due_ns || !ky_report_lives(facts->report, of);
	}
	return peers >= 2 && served * 2 >= peers;
}

static void report(struct ky_findings *findings, const struct ky_last_polls *polls, uint32_t task,
		   uint64_t wait_max_ns)
{
	const struct ky_facts *facts = &findings->facts;
	uint64_t wait_ns = polls->judged_ns - polls->end_ns[task];
	struct ky_finding *found = ky_findings_add(findings, KY_FINDING_LOST_WAKE);

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = facts->trace->tasks[task].name;
	found->confidence = polls->points[task] == KY_IDLE_UNKNOWN ? KY_CONFIDENCE_LIKELY :
								     KY_CONFIDENCE_POSSIBLE;
	found->victims = 1;
	found->delay_ns = wait_ns;
	ky_finding_judge(found, ky_share_ppm(wait_ns, wait_ns + facts->poll_ns + facts->ready_ns),
			 wait_ns);
	ky_text(&found->statement, "Task ");
	ky_text_u64(&found->statement, facts->trace->tasks[task].id);
	ky_text(&found->statement, " of ");
	ky_say_kind(&found->statement, facts->trace, found->culprit.task);
	ky_text(&found->statement, " was not woken any more: it waits for ");
	ky_say_ns(&found->statement, wait_ns);
	ky_text(&found->statement, ", where it and its peers never waited longer than ");
	ky_say_ns(&found->statement, wait_max_ns);
	ky_text(&found->statement, polls->points[task] == KY_IDLE_UNKNOWN ?
					   ", and its last poll left no waker." :
					   ".");
	ky_text(&found->impact, "It does nothing, while the other tasks of its kind are served.");
	ky_text(&found->action,
		"Register the waker in each poll that returns Pending, before reading "
		"the state, and wake after each change of it.");
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "wait",
							 .from_ns = polls->end_ns[task],
							 .to_ns = polls->judged_ns,
							 .task = facts->trace->tasks[task].id,
							 .stack = KY_NONE,
							 .event = "PollEnd"});
}

static void judge(struct ky_findings *findings, const struct ky_last_polls *polls, uint32_t task)
{
	const struct ky_facts *facts = &findings->facts;
	uint64_t wait_ns = polls->judged_ns - polls->end_ns[task];
	struct ky_kind_polls peers;

	if (ky_kind_polls_make(&peers, facts, facts->trace->tasks[task].name, polls->judged_ns))
		findings->failed = true;
	else if (peers.wait_count > KY_FIND_STUCK_WAITS && !peers.is_cut &&
		 wait_ns / KY_FIND_STUCK_TIMES >= peers.wait_max_ns &&
		 are_peers_served(facts, polls, task,
				  polls->end_ns[task] + KY_FIND_STUCK_TIMES * peers.wait_max_ns))
		report(findings, polls, task, peers.wait_max_ns);
	ky_kind_polls_release(&peers);
}

void ky_find_lost_wakes(struct ky_findings *findings, const struct ky_last_polls *polls)
{
	const struct ky_facts *facts = &findings->facts;
	uint32_t *longest; /* by kind: task + 1 */

	/* Without await points an idle connection looks the same. */
	if (!facts->trace->samples.counts[KY_STACK_PLACE] &&
	    !ky_trace_metadata(facts->trace, "places.rule"))
		return;
	longest = ky_alloc((facts->kind_count + (size_t)1) * sizeof(*longest));
	findings->failed |= !longest;
	for (uint32_t i = 0; longest && i < facts->trace->task_count; i++) {
		const struct ky_kind_facts *kind =
			is_candidate(facts, polls, i) ?
				ky_facts_kind(facts, facts->trace->tasks[i].name) :
				NULL;
		uint32_t *of = kind ? &longest[kind - facts->kinds] : NULL;

		if (of && (!*of || polls->end_ns[i] < polls->end_ns[*of - 1]))
			*of = i + 1;
	}
	for (uint32_t i = 0, kinds = 0; longest && i < facts->kind_count; i++)
		if (longest[i] && kinds++ < KINDS_MAX)
			judge(findings, polls, longest[i] - 1);
	ky_free(longest);
}
