/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Tasks stand in line for one worker, behind polls that are not long, while others that could poll
 * them are idle: the work is not spread. Where no other is idle it is an overload. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <analyze/idle_peers.h>
#include <base/text.h>

/* The worker with most of that wait, and what the workers that could have helped did. */
struct hot_worker {
	const struct ky_worker_use *use; /* NULL: none */
	uint64_t peer_count, peer_busy_ns, peer_parked_ns, peer_known_ns;
	uint32_t busy_ppm, peer_busy_ppm, peer_parked_ppm;
};

static const struct ky_worker_use *find_hottest(const struct ky_facts *facts)
{
	const struct ky_report *report = facts->report;
	const struct ky_worker_use *most = NULL;

	for (uint32_t i = 0; i < report->worker_count; i++) {
		const struct ky_worker_use *use = &report->workers[i];

		if (facts->why->idle_ns[use->worker] &&
		    (!most || facts->why->idle_ns[use->worker] > facts->why->idle_ns[most->worker]))
			most = use;
	}
	return most;
}

static bool measure(struct hot_worker *hot, const struct ky_facts *facts)
{
	const struct ky_report *report = facts->report;
	struct ky_idle_peers peers;

	if (ky_idle_peers_make(&peers, facts->trace, NULL, NULL, 0))
		return false;
	for (uint32_t i = 0; i < report->worker_count; i++) {
		const struct ky_worker_use *use = &report->workers[i];

		if (!ky_idle_peers_are(&peers, hot->use->worker, use->worker))
			continue;
		hot->peer_count++;
		hot->peer_busy_ns += use->busy_ns;
		hot->peer_parked_ns += use->parked_ns;
		hot->peer_known_ns += use->span_ns - use->unknown_ns;
	}
	ky_idle_peers_release(&peers);
	hot->busy_ppm = ky_share_ppm(hot->use->busy_ns, hot->use->span_ns - hot->use->unknown_ns);
	hot->peer_busy_ppm = ky_share_ppm(hot->peer_busy_ns, hot->peer_known_ns);
	hot->peer_parked_ppm = ky_share_ppm(hot->peer_parked_ns, hot->peer_known_ns);
	return true;
}

static bool is_hot(const struct hot_worker *hot)
{
	if (!hot->peer_count)
		return false;
	return hot->busy_ppm >= KY_FIND_HOT_TIMES * hot->peer_busy_ppm ||
	       (hot->busy_ppm >= KY_FIND_BUSY_PPM && hot->peer_parked_ppm >= KY_FIND_HALF_PPM);
}

static void say_statement(struct ky_finding *found, const struct ky_facts *facts,
			  const struct hot_worker *hot, const struct ky_kind_facts *most)
{
	struct ky_buf *out = &found->statement;
	const struct ky_worker *worker = &facts->trace->workers[hot->use->worker];

	ky_text(out, "Tasks stood in line for worker ");
	ky_text_u64(out, worker->id);
	if (found->culprit.thread != KY_NONE) {
		ky_text(out, " (thread ");
		ky_text(out, ky_trace_name(facts->trace, found->culprit.thread));
		ky_text(out, ")");
	}
	ky_text(out, ", which was in polls ");
	ky_say_ppm(out, hot->busy_ppm);
	ky_text(out, " of the time, most of them of ");
	ky_say_kind(out, facts->trace, most->name);
	ky_text(out, ". The ");
	ky_say_many(out, hot->peer_count, "other worker like it was", "other workers like it were");
	ky_text(out, " in polls ");
	ky_say_ppm(out, hot->peer_busy_ppm);
	ky_text(out, " of the time.");
}

static void report(struct ky_findings *findings, const struct hot_worker *hot,
		   const struct ky_kind_facts *most, uint64_t idle_ns)
{
	const struct ky_facts *facts = &findings->facts;
	struct ky_finding *found = ky_findings_add(findings, KY_FINDING_WORKER_IMBALANCE);
	uint32_t tid = facts->trace->workers[hot->use->worker].tid;

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = most->name;
	found->culprit.thread = ky_trace_thread_name(facts->trace, tid);
	found->confidence = facts->trace->notifies.row_count ? KY_CONFIDENCE_PROVEN :
							       KY_CONFIDENCE_LIKELY;
	found->victims = most->idle_delays;
	found->delay_ns = idle_ns;
	ky_finding_judge(found, ky_share_ppm(idle_ns, facts->ready_ns), most->idle_worst_ns);
	say_statement(found, facts, hot, most);
	ky_say_many(&found->impact, most->idle_delays, "task that was ready waited",
		    "tasks that were ready waited");
	ky_text(&found->impact, " over 1 ms for short polls while another worker was idle: ");
	ky_say_ns(&found->impact, idle_ns);
	ky_text(&found->impact, ", ");
	ky_say_ppm(&found->impact, found->score_ppm);
	ky_text(&found->impact, " of all time from wake to poll, up to ");
	ky_say_ns(&found->impact, most->idle_worst_ns);
	ky_text(&found->impact, " each.");
	ky_text(&found->action,
		"Spread the tasks, or the connections, over the runtimes by their number or load, "
		"not by hash or by who accepts first; or use one multi-thread runtime, whose "
		"workers take tasks from each other.");
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "workers",
							 .from_ns = facts->report->from_ns,
							 .to_ns = facts->report->to_ns,
							 .task = UINT64_MAX,
							 .tid = tid,
							 .stack = KY_NONE,
							 .event = "WorkerParkEvent"});
	if (!facts->trace->notifies.row_count)
		ky_finding_lacks(found, "WorkerNotifyEvent",
				 "A worker that was notified and waited for a CPU counts as idle.",
				 NULL);
}

void ky_find_hot_workers(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	const struct ky_kind_facts *most = NULL;
	struct hot_worker hot = {.use = find_hottest(facts)};
	uint64_t idle_ns = 0;

	for (uint32_t i = 0; hot.use && i < facts->kind_count; i++) {
		const struct ky_kind_facts *kind = &facts->kinds[i];

		if (kind->is_runtimes)
			continue;
		idle_ns += kind->idle_ns;
		if (kind->idle_ns && (!most || kind->idle_ns > most->idle_ns))
			most = kind;
	}
	if (!most || ky_share_ppm(idle_ns, facts->ready_ns) < KY_FIND_EXAMINED_PPM)
		return;
	if (!measure(&hot, facts))
		findings->failed = true;
	else if (is_hot(&hot))
		report(findings, &hot, most, idle_ns);
}
