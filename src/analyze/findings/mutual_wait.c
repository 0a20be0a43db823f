/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tasks that wait for locks which nobody releases: each has what another waits for, or one
 * got the lock through a future that it does not poll (futurelock). */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <analyze/findings/stuck_locks.h>
#include <base/text.h>

/* Overlaps another one that lasts as long again: else it may be a timeout that did its work. */
static const struct ky_stuck_lock *find_first(const struct ky_stuck_locks *stuck)
{
	for (uint32_t i = 0; i < stuck->count; i++)
		if (stuck->list[i].is_granted)
			return &stuck->list[i];
	return stuck->count > 1 && stuck->list[1].from_ns < stuck->list[0].to_ns ? stuck->list :
										   NULL;
}

static void say(struct ky_finding *found, const struct ky_stuck_lock *first,
		const struct ky_stuck_locks *stuck, const struct ky_facts *facts)
{
	struct ky_buf *out = &found->statement;

	ky_text(out, "Task ");
	ky_text_u64(out, facts->trace->tasks[first->task].id);
	ky_text(out, " of ");
	ky_say_kind(out, facts->trace, found->culprit.task);
	if (first->is_granted)
		ky_text(out,
			" was woken by the release of a lock and did not take it: the future that "
			"stood in the queue is not polled, and the task waits for a lock again, "
			"for ");
	else
		ky_text(out,
			" waits for a lock that is never released, beside others that wait for "
			"one: each seems to hold what another needs. It waited ");
	ky_say_ns(out, first->to_ns - first->from_ns);
	ky_text(out, ".");
	ky_say_many(&found->impact, stuck->count, "task was stuck at a lock",
		    "tasks were stuck at locks");
	ky_text(&found->impact, ", for up to ");
	ky_say_ns(&found->impact, found->worst_ns);
	ky_text(&found->impact, "; no release ended these waits.");
	ky_text(&found->action,
		first->is_granted ?
			"Do not keep a future that may wait for a lock while awaiting another: "
			"poll it in the same select!, drop it before, or spawn it." :
			"Take locks in one order everywhere, or hold one at a time; try_lock() and "
			"timeouts only make it rarer.");
}

void ky_find_stuck_locks(struct ky_findings *findings, const struct ky_stuck_locks *stuck,
			 uint64_t waiting_ns)
{
	const struct ky_facts *facts = &findings->facts;
	const struct ky_stuck_lock *first = find_first(stuck);
	struct ky_finding *found;
	uint64_t worst_ns = 0;

	if (!first)
		return;
	found = ky_findings_add(findings,
				first->is_granted ? KY_FINDING_FUTURELOCK : KY_FINDING_MUTUAL_WAIT);
	if (!found)
		return;
	for (uint32_t i = 0; i < stuck->count; i++)
		if (stuck->list[i].to_ns - stuck->list[i].from_ns > worst_ns)
			worst_ns = stuck->list[i].to_ns - stuck->list[i].from_ns;
	found->culprit.kind = "task";
	found->culprit.task = facts->trace->tasks[first->task].name;
	found->culprit.code = ky_code_own_line(&facts->profile->code, first->stack);
	found->culprit.resource = "lock";
	found->confidence = first->is_granted ? KY_CONFIDENCE_PROVEN : KY_CONFIDENCE_LIKELY;
	found->victims = stuck->count;
	found->delay_ns = stuck->ns;
	ky_finding_judge(found,
			 ky_share_ppm(stuck->ns, waiting_ns + facts->poll_ns + facts->ready_ns),
			 worst_ns);
	say(found, first, stuck, facts);
	ky_finding_evidence(found,
			    &(struct ky_evidence){.kind = "wait",
						  .from_ns = first->from_ns,
						  .to_ns = first->to_ns,
						  .task = facts->trace->tasks[first->task].id,
						  .stack = first->stack,
						  .event = "AwaitPlaceEvent"});
}
