/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* An accept queue of the kernel was full: connections come faster than they are accepted. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <analyze/resource_use.h>
#include <base/alloc.h>
#include <base/text.h>

/* The kind of task that waits in accept() most often; KY_NONE: no await point says so. */
static uint32_t acceptor(const struct ky_facts *facts, const struct ky_code_line **code)
{
	const struct ky_trace *trace = facts->trace;
	for (uint32_t i = 0; facts->profile && i < trace->samples.row_count; i++) {
		const struct ky_stack_row *row = &trace->samples.rows[i];

		if (row->kind != KY_STACK_PLACE || row->stack == KY_NONE || row->task == KY_NONE)
			continue;
		if (ky_stack_accepts(&facts->profile->code, row->stack)) {
			*code = ky_code_own_line(&facts->profile->code, row->stack);
			return trace->tasks[row->task].name;
		}
	}
	return KY_NONE;
}

static void say(struct ky_finding *found, const struct ky_queue_use *queue,
		const struct ky_facts *facts)
{
	struct ky_buf *out = &found->statement;
	bool has_drops = queue->dropped.sum != KY_RESOURCE_NONE && queue->dropped.sum;

	ky_text(out, "The accept queue of ");
	ky_text(out, ky_trace_name(facts->trace, queue->address));
	ky_text(out, " was full, at ");
	ky_say_many(out, queue->limit.last, "connection", "connections");
	if (has_drops) {
		ky_text(out, ", and the kernel dropped ");
		ky_say_count(out, queue->dropped.sum);
	}
	ky_text(out, ".");
	ky_text(&found->impact, has_drops ? "Clients whose connection is dropped try again after a "
					    "second or more; the others waited in the queue." :
					    "Connections waited in the queue; the next ones are "
					    "dropped.");
	ky_text(&found->action,
		"Call accept() again at once, and do what follows in a task of its own; "
		"several tasks may accept from one listener. A longer backlog only "
		"hides it.");
}

static void report(struct ky_findings *findings, const struct ky_queue_use *queue,
		   const struct ky_resource_use *use)
{
	const struct ky_facts *facts = &findings->facts;
	struct ky_finding *found = ky_findings_add(findings, KY_FINDING_ACCEPT_QUEUE_OVERFLOW);
	bool has_drops = queue->dropped.sum != KY_RESOURCE_NONE && queue->dropped.sum;

	if (!found)
		return;
	found->culprit.task = acceptor(facts, &found->culprit.code);
	found->culprit.kind = found->culprit.task != KY_NONE ? "task" : "process";
	found->culprit.resource = "accept queue";
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = has_drops ? queue->dropped.sum : queue->pending.max;
	/* A dropped SYN is sent again after a second (RFC 6298, 2.1); a queue that is full is all
	 * of what waits at it. */
	found->delay_ns = has_drops ? queue->dropped.sum * UINT64_C(1000000000) : 0;
	ky_finding_judge(found, ky_share_ppm(queue->pending.max, queue->limit.last),
			 has_drops ? UINT64_C(1000000000) : KY_FIND_WORST_NS_MIN);
	say(found, queue, facts);
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "readings",
							 .from_ns = use->from_ns,
							 .to_ns = use->to_ns,
							 .task = UINT64_MAX,
							 .stack = KY_NONE,
							 .event = "TcpAcceptQueueEvent"});
}

void ky_find_accept_queues(struct ky_findings *findings)
{
	const struct ky_report *of = findings->facts.report;
	struct ky_resource_use *use = NULL;

	if (ky_resource_use(findings->facts.trace, of->from_ns, of->to_ns, &use)) {
		findings->failed = true;
		return;
	}
	for (uint32_t i = 0; use && i < use->queue_count; i++)
		if (use->queues[i].full_ns ||
		    (use->queues[i].dropped.sum != KY_RESOURCE_NONE && use->queues[i].dropped.sum))
			report(findings, &use->queues[i], use);
	ky_free(use);
}
