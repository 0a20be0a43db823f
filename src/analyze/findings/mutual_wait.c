/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tasks that wait for locks which nobody releases: each has what another waits for, or one
 * got the lock through a future that it does not poll (futurelock). */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <analyze/findings/stuck_locks.h>
#include <base/text.h>

static uint64_t length_of(const struct ky_stuck_lock *one)
{
	return one->to_ns - one->from_ns;
}

/* Overlaps another one that lasts as long again: else it may be a timeout that did its work. What
 * is no longer than a wait that did end may stand in a queue. */
static const struct ky_stuck_lock *find_first(const struct ky_stuck_locks *stuck,
					      const uint64_t *longest_ns)
{
	const struct ky_stuck_lock *first = NULL;

	for (uint32_t i = 0; i < stuck->count; i++)
		if (stuck->list[i].is_granted && stuck->list[i].what == KY_SYNC_MUTEX)
			return &stuck->list[i];
	if (stuck->has_victims)
		return &stuck->keeper;
	for (uint32_t i = 0; stuck->keeper.task != KY_NONE && i < stuck->count; i++)
		if (stuck->list[i].what == KY_SYNC_MUTEX &&
		    stuck->list[i].to_ns > stuck->keeper.from_ns)
			return &stuck->keeper;
	for (uint32_t i = 0; i < stuck->count; i++) {
		const struct ky_stuck_lock *one = &stuck->list[i];

		if (one->what != KY_SYNC_MUTEX || length_of(one) <= longest_ns[KY_SYNC_MUTEX])
			continue;
		if (first)
			return one->from_ns < first->to_ns ? first : NULL;
		first = one;
	}
	return NULL;
}

/* The longest of those that wait for permits that never came; count, ns: all of them. */
static const struct ky_stuck_lock *find_permits(const struct ky_stuck_locks *stuck,
						const uint64_t *longest_ns, uint64_t *count,
						uint64_t *ns)
{
	const struct ky_stuck_lock *worst = NULL;

	for (uint32_t i = 0; i < stuck->count; i++) {
		const struct ky_stuck_lock *one = &stuck->list[i];

		if (one->what != KY_SYNC_SEMAPHORE ||
		    length_of(one) <= longest_ns[KY_SYNC_SEMAPHORE])
			continue;
		(*count)++;
		*ns += length_of(one);
		if (!worst || length_of(one) > length_of(worst))
			worst = one;
	}
	return worst;
}

/* Fewer than three may be a request that came just before the end. */
static void find_lost_permits(struct ky_findings *findings, const struct ky_stuck_locks *stuck,
			      const uint64_t *longest_ns, uint64_t waiting_ns)
{
	const struct ky_facts *facts = &findings->facts;
	uint64_t count = 0, ns = 0;
	const struct ky_stuck_lock *worst = find_permits(stuck, longest_ns, &count, &ns);
	struct ky_finding *found;

	if (count < KY_FIND_SAMPLES_MIN)
		return;
	found = ky_findings_add(findings, KY_FINDING_SEMAPHORE_EXHAUSTED);
	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = facts->trace->tasks[worst->task].name;
	found->culprit.code = ky_code_own_line(&facts->profile->code, worst->stack);
	found->culprit.resource = "semaphore";
	found->confidence = KY_CONFIDENCE_LIKELY;
	found->victims = count;
	found->delay_ns = ns;
	ky_finding_judge(found, ky_share_ppm(ns, waiting_ns + facts->poll_ns + facts->ready_ns),
			 length_of(worst));
	ky_say_many(&found->statement, count, "task", "tasks");
	ky_text(&found->statement, " waited for a permit of a semaphore that did not come, for up "
				   "to ");
	ky_say_ns(&found->statement, length_of(worst));
	ky_text(&found->statement, ", longer than any wait for one that ended.");
	ky_text(&found->impact, "Such waits of tasks such as ");
	ky_say_kind(&found->impact, facts->trace, found->culprit.task);
	ky_text(&found->impact, " took ");
	ky_say_ns(&found->impact, ns);
	ky_text(&found->impact, "; no release ended them.");
	ky_text(&found->action,
		"Search for permits that are not given back: forget(), a holder that "
		"hangs or was leaked, a guard in a collection. The place is where "
		"the tasks wait; who has the permits is not recorded.");
	ky_finding_evidence(found,
			    &(struct ky_evidence){.kind = "wait",
						  .from_ns = worst->from_ns,
						  .to_ns = worst->to_ns,
						  .task = facts->trace->tasks[worst->task].id,
						  .stack = worst->stack,
						  .event = "AwaitPlaceEvent"});
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
	if (stuck->count) {
		ky_say_many(&found->impact, stuck->count, "task was stuck at a lock",
			    "tasks were stuck at locks");
		ky_text(&found->impact, ", for up to ");
		ky_say_ns(&found->impact, found->worst_ns);
		ky_text(&found->impact, "; no release ended these waits.");
	} else {
		ky_text(&found->impact, "Others waited for the lock until that future was "
					"dropped.");
	}
	ky_text(&found->action,
		first->is_granted ?
			"Do not keep a future that may wait for a lock while awaiting another: "
			"poll it in the same select!, drop it before, or spawn it." :
			"Take locks in one order everywhere, or hold one at a time; try_lock() and "
			"timeouts only make it rarer.");
}

void ky_find_stuck_locks(struct ky_findings *findings, const struct ky_stuck_locks *stuck,
			 const uint64_t *longest_ns, uint64_t waiting_ns)
{
	const struct ky_facts *facts = &findings->facts;
	const struct ky_stuck_lock *first = find_first(stuck, longest_ns);
	struct ky_finding *found;
	uint64_t worst_ns = 0;

	find_lost_permits(findings, stuck, longest_ns, waiting_ns);
	if (!first)
		return;
	found = ky_findings_add(findings,
				first->is_granted ? KY_FINDING_FUTURELOCK : KY_FINDING_MUTUAL_WAIT);
	if (!found)
		return;
	if (stuck->has_victims)
		worst_ns = length_of(first);
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
