/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A task that takes items from an unbounded channel, and once it has begun never waits for one
 * again: each time it asks there is one, so the channel holds more and more of them.
 *
 * A send into a channel that is not empty wakes no task and leaves no event. What is left is that
 * the wakes by sends end, while the task is polled on and waits elsewhere. */
#include <analyze/findings/find.h>

#include <analyze/findings/memory_growth.h>
#include <analyze/findings/say.h>
#include <analyze/share.h>
#include <analyze/wake_cause.h>
#include <analyze/wake_walk.h>
#include <base/alloc.h>
#include <base/text.h>

/* Of a stack, once each: what issued a wake there, or where a task waits. */
#define WAKE_ASKED 1u
#define SENDS 2u    /* into an unbounded channel */
#define DEFERRED 4u /* a yield, or an exhausted budget */
#define POINT_ASKED 8u
#define TAKES 16u /* from a channel */

struct consumer {
	uint64_t last_ns, from_ns; /* of the last send that woke it; and the last loss after it */
	uint64_t busy_ns;          /* the rest is of polls, waits and wakes since from_ns */
	uint64_t known_ns, most_ns, end_ns;
	uint32_t sends, stack, waker; /* stack and waker: of that send */
	uint32_t before, after;       /* polls up to last_ns, and since from_ns */
	uint32_t deferred;            /* wakes */
	uint32_t most;                /* stack of the longest wait; KY_NONE */
	uint32_t heap_samples;        /* of blocks of channels that live at the end */
	double heap_bytes;
	bool waits; /* for an item */
};

struct queues {
	const struct ky_facts *facts;
	struct consumer *of; /* by task */
	uint8_t *stacks;     /* bits above */
	uint64_t judged_ns, last_loss_ns;
};

static uint8_t ask(struct queues *queues, const struct ky_wake *wake)
{
	const struct ky_code_stacks *code = &queues->facts->profile->code;
	uint8_t *bits = &queues->stacks[wake->stack];
	const struct ky_code_line *line;
	struct ky_code_walk walk;

	if (*bits & WAKE_ASKED)
		return *bits;
	*bits |= WAKE_ASKED;
	if (ky_wake_cause_of(code, wake).kind == KY_WAKE_DEFERRED)
		*bits |= DEFERRED;
	ky_code_walk_begin(&walk, code, wake->stack);
	while ((line = ky_code_walk_next(&walk)) && !ky_code_is_own(line))
		if (ky_text_contains(line->name, "mpsc::") &&
		    (ky_text_contains(line->name, "UnboundedSender") ||
		     ky_text_contains(line->name, "unbounded::send")))
			*bits |= SENDS;
	return *bits;
}

static bool takes(struct queues *queues, uint32_t stack)
{
	static const char *const parts[] = {"mpsc::chan::Rx", "Receiver", "::recv", "::poll_recv"};
	uint8_t *bits = &queues->stacks[stack];
	const struct ky_code_line *line;
	struct ky_code_walk walk;

	if (*bits & POINT_ASKED)
		return (*bits & TAKES) != 0;
	*bits |= POINT_ASKED;
	ky_code_walk_begin(&walk, &queues->facts->profile->code, stack);
	while ((line = ky_code_walk_next(&walk)) && !ky_code_is_own(line))
		if (ky_text_contains(line->name, "mpsc::") && KY_LINE_HAS(line, parts))
			*bits |= TAKES;
	return (*bits & TAKES) != 0;
}

static void take_wake(struct queues *queues, const struct ky_wake *wake, bool is_second)
{
	struct consumer *one = &queues->of[wake->woken];
	uint8_t bits;

	if (wake->stack == KY_NONE || (is_second && !one->sends))
		return;
	bits = ask(queues, wake);
	if (is_second) {
		one->deferred += (bits & DEFERRED) && wake->time_ns > one->from_ns;
		return;
	}
	if (!(bits & SENDS))
		return;
	one->sends++;
	if (wake->time_ns < one->last_ns)
		return;
	one->last_ns = wake->time_ns;
	one->stack = wake->stack;
	one->waker = wake->waker;
}

/* First the sends; then, of the tasks that they woke, what they were woken by since. */
static void read_wakes(struct queues *queues, bool is_second)
{
	struct ky_wake_walk walk = {.trace = queues->facts->trace,
				    .from_ns = queues->facts->report->from_ns,
				    .to_ns = queues->judged_ns};
	struct ky_wake wake;

	while (ky_wake_walk_next(&walk, &wake))
		take_wake(queues, &wake, is_second);
}

static void read_polls(struct queues *queues)
{
	const struct ky_trace *trace = queues->facts->trace;
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;
		uint64_t row = ky_column_find(polls, queues->facts->report->from_ns);

		for (; row < polls->row_count; row++) {
			struct consumer *one;

			ky_trace_poll(trace, worker, row, &poll);
			if (poll.start_ns >= queues->judged_ns)
				break;
			one = &queues->of[poll.task];
			one->before += poll.start_ns <= one->last_ns;
			if (poll.start_ns <= one->from_ns)
				continue;
			one->after++;
			one->busy_ns += poll.duration_ns;
			if (poll.start_ns + poll.duration_ns > one->end_ns)
				one->end_ns = poll.start_ns + poll.duration_ns;
		}
	}
}

static uint64_t begin_of(const struct ky_stack_row *wait)
{
	return wait->end_ns > wait->value ? wait->end_ns - wait->value : 0;
}

static void read_points(struct queues *queues)
{
	const struct ky_samples *samples = &queues->facts->trace->samples;

	for (uint32_t i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		struct consumer *one;

		if (row->kind != KY_STACK_PLACE || row->task == KY_NONE || row->stack == KY_NONE ||
		    row->reason == KY_PLACE_REPORTED_POLLED || !queues->of[row->task].sends)
			continue;
		one = &queues->of[row->task];
		/* A wait that began before the send is the one that it ended. */
		if (row->end_ns <= one->from_ns || begin_of(row) <= one->last_ns)
			continue;
		one->waits |= takes(queues, row->stack);
		if (!ky_place_has_time(row))
			continue;
		one->known_ns += row->value;
		if (one->most == KY_NONE || row->value > one->most_ns) {
			one->most = row->stack;
			one->most_ns = row->value;
		}
	}
}

static uint64_t since_ns(const struct queues *queues, const struct consumer *one)
{
	return queues->judged_ns > one->from_ns ? queues->judged_ns - one->from_ns : 0;
}

/* Of the time in which the task was watched. */
static uint32_t share_of(const struct queues *queues, uint32_t task)
{
	uint64_t first_ns = queues->facts->trace->tasks[task].first_ns;

	if (first_ns < queues->facts->report->from_ns)
		first_ns = queues->facts->report->from_ns;
	return first_ns < queues->judged_ns ? ky_share_ppm(since_ns(queues, &queues->of[task]),
							   queues->judged_ns - first_ns) :
					      0;
}

/* It goes on to the end, for longer than a queue that empties now and then stays filled. */
static bool is_growing(const struct queues *queues, uint32_t task)
{
	const struct consumer *one = &queues->of[task];

	return one->sends && !one->waits && one->after >= KY_FIND_QUEUE_ITEMS &&
	       (uint64_t)one->after * one->sends >= (uint64_t)one->before * KY_FIND_STUCK_TIMES &&
	       share_of(queues, task) >= KY_FIND_HALF_PPM &&
	       since_ns(queues, one) >= KY_FIND_STUCK_NS_MIN &&
	       queues->judged_ns - one->end_ns < since_ns(queues, one) / KY_FIND_STUCK_TIMES &&
	       ky_trace_is_task(&queues->facts->trace->tasks[task]);
}

/* Where it waits since is known for most of the time, or its polls end by the budget alone, which
 * only what is ready uses up. */
static bool is_sure(const struct queues *queues, const struct consumer *one)
{
	uint64_t idle_ns = since_ns(queues, one);

	idle_ns -= one->busy_ns < idle_ns ? one->busy_ns : idle_ns;
	return ky_share_ppm(one->known_ns, idle_ns) >= KY_FIND_HALF_PPM ||
	       ky_share_ppm(one->deferred, one->after) >= KY_FIND_HALF_PPM;
}

/* Channels hold items in blocks of 32: those that a send made since, and that live at the end. */
static void read_heap(struct consumer *one, const struct queues *queues)
{
	static const char *const parts[] = {"mpsc::block", "mpsc::list"};
	const struct ky_samples *samples = &queues->facts->trace->samples;

	for (uint32_t i = 0; i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		const struct ky_code_line *line;
		struct ky_code_walk walk;
		bool is_block = false;

		if (row->kind != KY_STACK_ALLOC || row->stack == KY_NONE ||
		    row->time_ns <= one->from_ns || row->flags & KY_ROW_UNWEIGHTED ||
		    (row->flags & KY_ROW_FREED && row->end_ns < queues->judged_ns))
			continue;
		ky_code_walk_begin(&walk, &queues->facts->profile->code, row->stack);
		while (!is_block && (line = ky_code_walk_next(&walk)) && !ky_code_is_own(line))
			is_block = KY_LINE_HAS(line, parts);
		one->heap_samples += is_block;
		one->heap_bytes += is_block ? (double)row->value * row->weight : 0;
	}
}

static void say_statement(struct ky_buf *out, const struct queues *queues, uint32_t task)
{
	const struct ky_trace *trace = queues->facts->trace;
	const struct consumer *one = &queues->of[task];
	const struct ky_code_line *line = ky_code_own_line(&queues->facts->profile->code,
							   one->stack);

	ky_text(out, "Task ");
	ky_text_u64(out, trace->tasks[task].id);
	ky_text(out, " of ");
	ky_say_kind(out, trace, trace->tasks[task].name);
	ky_text(out, " takes items from an unbounded channel. A send");
	if (line && ky_code_is_own(line)) {
		ky_text(out, " by ");
		ky_say_function(out, line);
		ky_say_line(out, line);
	}
	ky_text(out, " woke it for the last time ");
	ky_say_ns(out, since_ns(queues, one));
	ky_text(out, " before the end; since then it was polled ");
	ky_say_many(out, one->after, "time", "times");
	ky_text(out, is_sure(queues, one) ?
			     " and never waited for an item: there always was one." :
			     ", and no send woke it again: it seems to find an item each time.");
}

static void say_impact(struct ky_buf *out, const struct consumer *one,
		       const struct ky_memory_growth *memory)
{
	ky_text(out, "Items seem to come faster than they are taken, and the channel has no "
		     "bound: each waits for all before it");
	if (one->heap_samples) {
		ky_text(out, ". Blocks of channels hold about ");
		ky_say_bytes(out, ky_whole(one->heap_bytes));
		ky_text(out, " at the end (");
		ky_say_many(out, one->heap_samples, "sample", "samples");
		ky_text(out, ")");
	}
	if (!memory->reading_count) {
		ky_text(out, ". No two readings of the process's memory are in the trace.");
		return;
	}
	ky_text(out, memory->is_steady ? ". The process's resident memory grew all the time, by " :
		     memory->is_less   ? ". The process's resident memory shrank by " :
					 ". The process's resident memory grew by ");
	ky_say_bytes(out, memory->bytes);
	ky_text(out, " in ");
	ky_say_ns(out, memory->lasted_ns);
	if (memory->to_limit_ns) {
		ky_text(out, "; at that pace it reaches the limit of ");
		ky_say_bytes(out, memory->limit_bytes);
		ky_text(out, " in ");
		ky_say_ahead(out, memory->to_limit_ns);
	}
	ky_text(out, ".");
}

static void judge(struct ky_finding *found, const struct queues *queues, uint32_t task,
		  const struct ky_memory_growth *memory)
{
	const struct consumer *one = &queues->of[task];
	bool is_certain = is_sure(queues, one);

	bool grows = one->heap_samples >= KY_FIND_SAMPLES_MIN || memory->is_steady;

	ky_finding_judge(found, share_of(queues, task), since_ns(queues, one));
	if (!memory->to_limit_ns || memory->to_limit_ns / 1000000000 > KY_FIND_LIMIT_NEAR_S)
		found->severity = found->severity > KY_SEVERITY_WARNING ? KY_SEVERITY_WARNING :
									  found->severity;
	if (!grows)
		found->severity = KY_SEVERITY_INFO;
	found->confidence = is_certain && grows ? KY_CONFIDENCE_LIKELY : KY_CONFIDENCE_POSSIBLE;
	if (!grows)
		ky_finding_lacks(found, "growth of memory",
				 "A task that takes all that is there each time leaves the same "
				 "events: five readings of memory that grow at an even pace, or "
				 "samples of the heap, would show the difference.",
				 "Record for 5 s or more, or with --alloc.");
	else if (is_certain)
		ky_finding_lacks(found, "length of channels",
				 "How many items the channel holds, and how old they are, is not "
				 "recorded.",
				 NULL);
	else
		ky_finding_lacks(found, "await points of waits below 10 ms",
				 "Where the task waits is not known, so it may wait for rare items "
				 "beside a timer; nor is how many items the channel holds.",
				 NULL);
}

static void report(struct ky_findings *findings, const struct queues *queues, uint32_t task,
		   uint64_t count)
{
	const struct ky_facts *facts = &findings->facts;
	struct consumer *one = &queues->of[task];
	struct ky_finding *found = ky_findings_add(findings, KY_FINDING_QUEUE_GROWTH);
	struct ky_memory_growth memory;

	if (!found)
		return;
	read_heap(one, queues);
	ky_memory_growth_find(&memory, facts, one->from_ns, queues->judged_ns);
	found->culprit.kind = "task";
	found->culprit.task = facts->trace->tasks[task].name;
	found->culprit.resource = "unbounded channel";
	if (one->most != KY_NONE)
		found->culprit.code = ky_code_own_line(&facts->profile->code, one->most);
	found->victims = count;
	judge(found, queues, task, &memory);
	say_statement(&found->statement, queues, task);
	say_impact(&found->impact, one, &memory);
	ky_text(&found->action,
		"Bound the channel (mpsc::channel(N)), so that senders wait or see that it is "
		"full; take items faster: several at once (recv_many), in more tasks, or without "
		"a wait for each.");
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "wakes",
							 .from_ns = one->last_ns,
							 .to_ns = queues->judged_ns,
							 .task = facts->trace->tasks[task].id,
							 .stack = one->stack,
							 .event = "WakeEvent"});
	if (one->most != KY_NONE)
		ky_finding_evidence(found,
				    &(struct ky_evidence){.kind = "wait",
							  .from_ns = one->from_ns,
							  .to_ns = queues->judged_ns,
							  .task = facts->trace->tasks[task].id,
							  .stack = one->most,
							  .event = "AwaitPlaceEvent"});
}

/* Of each kind the task that has been at it for the longest share of its time. */
static void report_kinds(struct ky_findings *findings, const struct queues *queues)
{
	const struct ky_facts *facts = &findings->facts;
	struct {
		uint32_t task, count;
	} *kinds = ky_alloc((facts->kind_count + (size_t)1) * sizeof(*kinds));

	findings->failed |= !kinds;
	for (uint32_t i = 0; kinds && i < facts->trace->task_count; i++) {
		const struct ky_kind_facts *kind =
			is_growing(queues, i) ? ky_facts_kind(facts, facts->trace->tasks[i].name) :
						NULL;
		size_t at = kind ? (size_t)(kind - facts->kinds) : 0;

		if (!kind)
			continue;
		if (!kinds[at].count++ ||
		    queues->of[i].from_ns < queues->of[kinds[at].task].from_ns)
			kinds[at].task = i;
	}
	for (uint32_t i = 0; kinds && i < facts->kind_count; i++)
		if (kinds[i].count)
			report(findings, queues, kinds[i].task, kinds[i].count);
	ky_free(kinds);
}

void ky_find_queue_growth(struct ky_findings *findings, const struct ky_last_polls *polls)
{
	const struct ky_trace *trace = findings->facts.trace;
	struct queues queues = {.facts = &findings->facts, .judged_ns = polls->judged_ns};
	bool has_sends = false;

	if (!queues.facts->profile)
		return;
	queues.of = ky_alloc((trace->task_count + (size_t)1) * sizeof(*queues.of));
	queues.stacks = ky_alloc(trace->samples.stack_count + (size_t)1);
	findings->failed |= !queues.of || !queues.stacks;
	for (uint32_t i = 0; i < trace->loss_count; i++)
		if (trace->losses[i].from_ns < queues.judged_ns &&
		    trace->losses[i].to_ns > queues.last_loss_ns)
			queues.last_loss_ns = trace->losses[i].to_ns;
	if (queues.of && queues.stacks) {
		read_wakes(&queues, false);
		for (uint32_t i = 0; i < trace->task_count; i++) {
			struct consumer *one = &queues.of[i];

			has_sends |= one->sends > 0;
			one->most = KY_NONE;
			one->from_ns = one->last_ns > queues.last_loss_ns ? one->last_ns :
									    queues.last_loss_ns;
		}
	}
	if (has_sends) {
		read_wakes(&queues, true);
		read_polls(&queues);
		read_points(&queues);
		report_kinds(findings, &queues);
	}
	ky_free(queues.of);
	ky_free(queues.stacks);
}
