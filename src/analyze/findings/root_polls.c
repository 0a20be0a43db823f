/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Long polls of the future of a block_on that drives a runtime of the current thread: while it
 * runs, no task of the runtime is polled, and the driver is not checked for timers and I/O. Such
 * polls are known by their bounds, and what they cost by samples alone. */
#include <analyze/findings/find.h>

#include <analyze/culprit.h>
#include <analyze/findings/say.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>
#include <wire/trc.h>

struct root_case {
	uint32_t task, tid;
	uint64_t count, ns, worst_ns; /* of its long polls, at the least */
	uint64_t behind_ns, victims;  /* ready time of tasks meanwhile */
	uint64_t sampled_ns;          /* on CPU */
	uint32_t *stacks;             /* of those samples */
	uint32_t stack_count, capacity;
	const struct ky_trace_root_poll *longest;
};

/* Tasks of a LocalSet are polled within it. */
static uint64_t inner_ns(const struct ky_trace *trace, const struct ky_trace_root_poll *root)
{
	uint64_t ns = 0;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;
		struct ky_poll poll;

		if (trace->workers[worker].tid != root->tid)
			continue;
		for (uint64_t row = ky_column_find(polls, root->begin_max_ns);
		     row < polls->row_count; row++) {
			ky_trace_poll(trace, worker, row, &poll);
			if (poll.start_ns >= root->end_min_ns)
				break;
			ns += ky_overlap(poll.start_ns, poll.start_ns + poll.duration_ns,
					 root->begin_max_ns, root->end_min_ns);
		}
	}
	return ns;
}

/* Those that stood ready in it are polled next. */
static void add_behind(struct root_case *one, const struct ky_trace *trace,
		       const struct ky_trace_root_poll *root)
{
	uint64_t length_ns = root->end_min_ns - root->begin_max_ns;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;
		struct ky_poll poll;

		if (trace->workers[worker].tid != root->tid)
			continue;
		for (uint64_t row = ky_column_find(polls, root->end_min_ns); row < polls->row_count;
		     row++) {
			uint64_t ns;

			ky_trace_poll(trace, worker, row, &poll);
			if (poll.start_ns > root->end_ns + length_ns)
				break;
			ns = poll.delay_state ?
				     0 :
				     ky_overlap(poll.start_ns - poll.delay_ns, poll.start_ns,
						root->begin_max_ns, root->end_min_ns);
			one->behind_ns += ns;
			one->victims += ns > 0;
		}
	}
}

static bool add_samples(struct root_case *one, const struct ky_samples *samples,
			const struct ky_trace_root_poll *root)
{
	for (uint32_t i = ky_samples_of_from(samples, KY_STACK_CPU, root->begin_max_ns);
	     i < samples->row_count && samples->rows[i].time_ns <= root->end_min_ns; i++) {
		const struct ky_stack_row *row = &samples->rows[i];

		if (row->kind != KY_STACK_CPU || row->tid != root->tid || row->stack == KY_NONE)
			continue;
		if (ky_grow(&one->stacks, &one->capacity, one->stack_count + 1,
			    sizeof(*one->stacks)))
			return false;
		one->stacks[one->stack_count++] = row->stack;
		one->sampled_ns += row->value;
	}
	return true;
}

static bool collect(struct root_case *one, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;

	for (uint32_t i = 0; i < trace->root_poll_count; i++) {
		const struct ky_trace_root_poll *root = &trace->root_polls[i];
		uint64_t ns = root->end_min_ns > root->begin_max_ns ?
				      root->end_min_ns - root->begin_max_ns :
				      0;

		/* The first one has the start of the program in it. */
		if (root->task != one->task || !root->begin_min_ns || ns <= KY_FIND_LONG_NS ||
		    root->end_ns > facts->report->to_ns ||
		    root->begin_max_ns < facts->report->from_ns)
			continue;
		ns -= ky_earlier(ns, inner_ns(trace, root));
		if (ns <= KY_FIND_LONG_NS)
			continue;
		one->tid = root->tid;
		one->count++;
		one->ns += ns;
		if (!one->longest || ns > one->worst_ns)
			one->longest = root;
		one->worst_ns = ky_later(one->worst_ns, ns);
		add_behind(one, trace, root);
		if (facts->profile && !add_samples(one, &trace->samples, root))
			return false;
	}
	return true;
}

/* Where it waits next, which is in the function that ran. */
static const struct ky_code_line *place_of(const struct ky_facts *facts, uint32_t task)
{
	const struct ky_samples *samples = &facts->trace->samples;

	for (uint32_t i = 0; facts->profile && i < samples->row_count; i++) {
		const struct ky_stack_row *row = &samples->rows[i];
		const struct ky_code_line *line = row->kind == KY_STACK_PLACE &&
								  row->task == task &&
								  row->stack != KY_NONE ?
							  ky_code_own_line(&facts->profile->code,
									   row->stack) :
							  NULL;

		if (line && ky_code_is_own(line))
			return line;
	}
	return NULL;
}

static void say(struct ky_finding *found, const struct root_case *one, const struct ky_facts *facts,
		bool is_busy)
{
	struct ky_buf *out = &found->statement;

	ky_text(out, "The future of the block_on that drives a runtime of the current thread ");
	ky_text(out, is_busy ? "ran on CPU" : "was blocked");
	ky_text(out, " for up to ");
	ky_say_ns(out, one->worst_ns);
	ky_text(out, ": ");
	ky_say_many(out, one->count, "long poll, ", "long polls, ");
	ky_say_ns(out, one->ns);
	ky_text(out, ".");
	ky_say_many(&found->impact, one->victims, "task that was ready", "tasks that were ready");
	ky_text(&found->impact, " waited ");
	ky_say_ns(&found->impact, one->behind_ns);
	ky_text(&found->impact, " meanwhile, ");
	ky_say_ppm(&found->impact, ky_share_ppm(one->behind_ns, facts->ready_ns));
	ky_text(&found->impact, " of all time from wake to poll, and the driver was not checked "
				"for timers and I/O.");
	ky_text(&found->action,
		is_busy ?
			"Spawn this work with spawn_blocking(), or yield between its steps: "
			"the body of main is polled on the thread that polls all tasks." :
			"Await the asynchronous form of what blocks, or use spawn_blocking(): the "
			"body of main is polled on the thread that polls all tasks.");
}

static void report(struct ky_findings *findings, const struct root_case *one)
{
	const struct ky_facts *facts = &findings->facts;
	bool is_sampled = facts->profile && facts->trace->samples.counts[KY_STACK_CPU];
	bool is_busy = !is_sampled || one->sampled_ns * 2 >= one->ns;
	struct ky_finding *found = ky_findings_add(findings, is_busy ? KY_FINDING_CPU_HEAVY_POLL :
								       KY_FINDING_BLOCKING_CALL);
	uint32_t polls_ppm = ky_share_ppm(one->ns, facts->poll_ns + one->ns);
	uint32_t ready_ppm = ky_share_ppm(one->behind_ns, facts->ready_ns);
	struct ky_culprit culprit = {0};

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = facts->trace->tasks[one->task].name;
	if (is_busy && one->stack_count >= KY_FIND_SAMPLES_MIN)
		(void)ky_culprit_of_stacks(&culprit, &facts->profile->code, one->stacks,
					   one->stack_count);
	found->culprit.code = culprit.line ? culprit.line : place_of(facts, one->task);
	found->culprit.callee = culprit.callee;
	found->confidence = is_sampled ? KY_CONFIDENCE_LIKELY : KY_CONFIDENCE_POSSIBLE;
	found->victims = one->victims;
	found->delay_ns = one->behind_ns;
	ky_finding_judge(found, polls_ppm > ready_ppm ? polls_ppm : ready_ppm, one->worst_ns);
	/* Nobody was seen to wait: then its length harms nothing. */
	if (one->count < KY_FIND_SAMPLES_MIN || ready_ppm < KY_FIND_SHARE_PPM_MIN)
		found->severity = KY_SEVERITY_INFO;
	ky_findings_doubt_few(findings, found, one->count, one->worst_ns, false);
	say(found, one, facts, is_busy);
	ky_finding_lacks(
		found, "PollCostEvent",
		"What these polls cost is known by samples, and where they were blocked is "
		"not recorded.",
		NULL);
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "poll",
							 .from_ns = one->longest->begin_max_ns,
							 .to_ns = one->longest->end_min_ns,
							 .task = facts->trace->tasks[one->task].id,
							 .tid = one->tid,
							 .stack = KY_NONE,
							 .event = "RootPollEvent"});
}

void ky_find_root_polls(struct ky_findings *findings)
{
	const struct ky_trace *trace = findings->facts.trace;

	for (uint32_t i = 0; trace->root_poll_count && i < trace->task_count; i++) {
		struct root_case one = {.task = i};

		if (!(trace->tasks[i].flags & KY_TASK_ROOT) ||
		    !(trace->tasks[i].id & KY_TASK_ID_ROOT_OF_RUNTIME))
			continue;
		if (!collect(&one, &findings->facts))
			findings->failed = true;
		else if (one.count)
			report(findings, &one);
		ky_free(one.stacks);
	}
}
