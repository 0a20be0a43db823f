/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The task that accepts connections waits for something else for long, as one that serves each of
 * them itself, and connections were seen to wait in the kernel's queue. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <analyze/resource_use.h>
#include <analyze/wake_cause.h>
#include <analyze/wake_walk.h>
#include <base/alloc.h>
#include <base/text.h>

#define ACCEPTORS_MAX 64u /* further ones are not judged */

struct acceptor {
	uint32_t task;
	uint64_t elsewhere_ns, worst_ns, waits;
	uint64_t connections; /* tasks that it spawned, which tell it; 0: its await points do */
	const struct ky_stack_row *longest;
};

/* An async function that is inlined has no name in a build with lines alone, only its module;
 * bind(), the other one there, waits for nothing. */
bool ky_stack_accepts(const struct ky_code_stacks *code, uint32_t stack)
{
	const struct ky_code_line *line;
	struct ky_code_walk walk;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk)))
		if (ky_text_contains(line->name, "istener::accept") ||
		    ky_text_contains(line->name, "istener::poll_accept") ||
		    ky_text_contains(line->name, "::listener::{async_fn#"))
			return true;
	return false;
}

/* Without debug information accept() is inlined: what is left is that the task waits for a socket
 * to be ready, and reads or writes none there. */
static bool may_accept(const struct ky_code_stacks *code, uint32_t stack)
{
	const struct ky_code_line *line;
	struct ky_code_walk walk;
	bool waits = false;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk)) && !ky_code_is_own(line)) {
		waits |= ky_text_contains(line->name, "scheduled_io::Readiness");
		if (ky_text_contains(line->name, "tokio::net::"))
			return false;
	}
	return waits;
}

static bool is_point(const struct ky_stack_row *row, const struct ky_facts *facts)
{
	return row->kind == KY_STACK_PLACE && row->task != KY_NONE && row->stack != KY_NONE &&
	       row->time_ns <= facts->report->to_ns;
}

/* By stack: 1 where it waits in accept(). */
static uint8_t *find_stacks(const struct ky_facts *facts)
{
	const struct ky_samples *samples = &facts->trace->samples;
	uint8_t *is_accept = ky_alloc(samples->stack_count + (size_t)1);

	bool has_names = false;

	for (uint32_t i = 0; is_accept && i < samples->stack_count; i++) {
		is_accept[i] = ky_stack_accepts(&facts->profile->code, i);
		has_names |= is_accept[i];
	}
	for (uint32_t i = 0; is_accept && !has_names && i < samples->stack_count; i++)
		is_accept[i] = may_accept(&facts->profile->code, i);
	return is_accept;
}

/* The tasks that wait in accept() at times. numbers: by task, 1 and up. */
static uint32_t find_acceptors(struct acceptor *out, uint8_t *numbers, const struct ky_facts *facts,
			       const uint8_t *is_accept)
{
	const struct ky_samples *samples = &facts->trace->samples;
	uint32_t count = 0;

	for (uint32_t i = 0; i < samples->row_count && count < ACCEPTORS_MAX; i++) {
		const struct ky_stack_row *row = &samples->rows[i];

		if (is_point(row, facts) && is_accept[row->stack] && !numbers[row->task]) {
			out[count] = (struct acceptor){.task = row->task};
			numbers[row->task] = (uint8_t)++count;
		}
	}
	return count;
}

/* Tasks that the driver woke for I/O, by the task that spawned them. */
static bool count_connections(const struct ky_facts *facts, uint32_t *connections)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_wake_walk walk = {
		.trace = trace, .from_ns = facts->report->from_ns, .to_ns = facts->report->to_ns};
	uint8_t *is_seen = ky_alloc(trace->task_count + (size_t)1);
	struct ky_wake_namer namer = {0};
	struct ky_wake wake;

	if (!is_seen || ky_wake_namer_make(&namer, trace, &facts->profile->code)) {
		ky_free(is_seen);
		return false;
	}
	while (ky_wake_walk_next(&walk, &wake)) {
		uint32_t parent = trace->tasks[wake.woken].parent;

		if (parent == KY_NONE || is_seen[wake.woken])
			continue;
		is_seen[wake.woken] = ky_wake_namer_cause(&namer, &wake).kind == KY_WAKE_IO;
		connections[parent] += is_seen[wake.woken];
	}
	ky_wake_namer_release(&namer);
	ky_free(is_seen);
	return true;
}

/* Where there always is a connection nobody waits in accept(). What is left is a task that spawns
 * one for each; where several do so, some of them may connect, and nothing is said. */
static uint32_t find_spawner(struct ky_findings *findings, struct acceptor *out, uint8_t *numbers)
{
	const struct ky_facts *facts = &findings->facts;
	uint32_t *connections = ky_alloc((facts->trace->task_count + (size_t)1) *
					 sizeof(*connections));
	uint32_t count = 0;

	if (!connections || !count_connections(facts, connections))
		findings->failed = true;
	for (uint32_t i = 0; connections && i < facts->trace->task_count; i++) {
		if (connections[i] < KY_FIND_STUCK_WAITS)
			continue;
		*out = (struct acceptor){.task = i, .connections = connections[i]};
		if (!count++)
			numbers[i] = 1;
	}
	ky_free(connections);
	return count == 1;
}

/* A wait with several points, as of a select!, is one at accept() where one of them is. */
static bool has_accept_beside(const struct ky_samples *samples, uint32_t at,
			      const uint8_t *is_accept)
{
	const struct ky_stack_row *rows = samples->rows;
	uint32_t first = at;

	while (first > 0 && rows[first - 1].time_ns == rows[at].time_ns)
		first--;
	for (uint32_t i = first; i < samples->row_count && rows[i].time_ns == rows[at].time_ns; i++)
		if (rows[i].kind == KY_STACK_PLACE && rows[i].task == rows[at].task &&
		    rows[i].stack != KY_NONE && is_accept[rows[i].stack])
			return true;
	return false;
}

static void add_waits(struct acceptor *acceptors, const uint8_t *numbers,
		      const struct ky_facts *facts, const uint8_t *is_accept)
{
	const struct ky_samples *samples = &facts->trace->samples;

	for (uint32_t i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		struct acceptor *of;

		if (!is_point(row, facts) || !numbers[row->task] || is_accept[row->stack] ||
		    !ky_place_has_time(row) || has_accept_beside(samples, i, is_accept))
			continue;
		of = &acceptors[numbers[row->task] - 1];
		of->elsewhere_ns += row->value;
		of->waits++;
		if (row->value > of->worst_ns) {
			of->worst_ns = row->value;
			of->longest = row;
		}
	}
}

/* The queue in which connections waited for the longest time in all. */
static const struct ky_queue_use *longest_queue(const struct ky_resource_use *use)
{
	const struct ky_queue_use *most = NULL;

	for (uint32_t i = 0; i < use->queue_count; i++)
		if (use->queues[i].waited_ns &&
		    (!most || use->queues[i].waited_ns > most->waited_ns))
			most = &use->queues[i];
	return most;
}

static void say(struct ky_finding *found, const struct acceptor *of,
		const struct ky_queue_use *queue, const struct ky_facts *facts)
{
	struct ky_buf *out = &found->statement;
	const struct ky_code_line *code = found->culprit.code;

	ky_say_kind(out, facts->trace, found->culprit.task);
	if (of->connections) {
		ky_text(out, " spawned ");
		ky_say_many(out, of->connections, "task", "tasks");
		ky_text(out, " that do I/O, so it seems to accept connections; it waited for "
			     "something else");
	} else {
		ky_text(out, " accepts connections, and waited for something else");
	}
	if (code) {
		ky_text(out, " in ");
		ky_say_function(out, code);
		ky_say_line(out, code);
	}
	ky_text(out, ", ");
	ky_say_many(out, of->waits, "time", "times");
	ky_text(out, " for up to ");
	ky_say_ns(out, of->worst_ns);
	ky_text(out, ", ");
	ky_say_ns(out, of->elsewhere_ns);
	ky_text(out, " in all.");
	out = &found->impact;
	ky_text(out, "Meanwhile connections waited in the accept queue of ");
	ky_text(out, ky_trace_name(facts->trace, queue->address));
	ky_text(out, ": up to ");
	ky_say_many(out, queue->pending.max, "connection", "connections");
	ky_text(out, " at a reading; nothing of that shows in a task.");
	ky_text(&found->action,
		"Spawn a task for each connection and call accept() again at once; bound them by "
		"a semaphore if need be. Several tasks may accept from one listener.");
}

static void report(struct ky_findings *findings, const struct acceptor *of,
		   const struct ky_resource_use *use)
{
	const struct ky_facts *facts = &findings->facts;
	uint64_t lasted_ns = facts->report->to_ns - facts->report->from_ns;
	const struct ky_queue_use *queue = longest_queue(use);
	/* Known by what it spawned: one connection waited for half of the time, or more. */
	struct ky_finding *found = !of->connections || queue->waited_ns >= lasted_ns / 2 ?
					   ky_findings_add(findings, KY_FINDING_ACCEPT_DELAYED) :
					   NULL;
	uint32_t score;

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = facts->trace->tasks[of->task].name;
	found->culprit.code = ky_code_own_line(&facts->profile->code, of->longest->stack);
	found->culprit.resource = "accept queue";
	found->confidence = of->connections ? KY_CONFIDENCE_POSSIBLE : KY_CONFIDENCE_LIKELY;
	found->victims = queue->pending.max;
	found->delay_ns = queue->waited_ns;
	/* What connections waited, of all that was waited for; no more than it was elsewhere. */
	score = ky_share_ppm(queue->waited_ns, queue->waited_ns + facts->poll_ns + facts->ready_ns);
	if (score > ky_share_ppm(of->elsewhere_ns, lasted_ns))
		score = ky_share_ppm(of->elsewhere_ns, lasted_ns);
	ky_finding_judge(found, score, of->worst_ns);
	say(found, of, queue, facts);
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "wait",
							 .from_ns = of->longest->time_ns,
							 .to_ns = of->longest->end_ns,
							 .task = facts->trace->tasks[of->task].id,
							 .stack = of->longest->stack,
							 .event = "AwaitPlaceEvent"});
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "readings",
							 .from_ns = use->from_ns,
							 .to_ns = use->to_ns,
							 .task = UINT64_MAX,
							 .stack = KY_NONE,
							 .event = "TcpAcceptQueueEvent"});
}

static void judge(struct ky_findings *findings, const uint8_t *is_accept, uint8_t *numbers,
		  const struct ky_resource_use *use)
{
	const struct ky_facts *facts = &findings->facts;
	struct acceptor acceptors[ACCEPTORS_MAX], *worst = NULL;
	uint32_t count = find_acceptors(acceptors, numbers, facts, is_accept);

	if (!count)
		count = find_spawner(findings, acceptors, numbers);
	if (!count)
		return;
	add_waits(acceptors, numbers, facts, is_accept);
	for (uint32_t i = 0; i < count; i++)
		if (acceptors[i].longest && acceptors[i].waits >= acceptors[i].connections / 2 &&
		    (!worst || acceptors[i].elsewhere_ns > worst->elsewhere_ns))
			worst = &acceptors[i];
	if (worst)
		report(findings, worst, use);
}

void ky_find_accept_delays(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	struct ky_resource_use *use = NULL;
	uint8_t *is_accept, *numbers;

	if (!facts->profile)
		return;
	if (ky_resource_use(facts->trace, facts->report->from_ns, facts->report->to_ns, &use)) {
		findings->failed = true;
		return;
	}
	if (use && longest_queue(use)) {
		is_accept = find_stacks(facts);
		numbers = ky_alloc(facts->trace->task_count + (size_t)1);
		if (is_accept && numbers)
			judge(findings, is_accept, numbers, use);
		else
			findings->failed = true;
		ky_free(numbers);
		ky_free(is_accept);
	}
	ky_free(use);
}
