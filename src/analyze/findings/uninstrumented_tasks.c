/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Work of the process that is in no poll, closure or wake of the trace: what no finding can be
 * about. No cause of harm. */
#include <analyze/findings/find.h>

#include <analyze/findings/metadata_value.h>
#include <analyze/findings/say.h>
#include <analyze/thread_counts.h>
#include <analyze/thread_uses.h>
#include <base/alloc.h>
#include <base/text.h>

struct unseen {
	uint64_t tasks, all_tasks, first_ns; /* whose wakes are not recorded */
	uint64_t tables;     /* kinds of tasks whose functions were not recognised */
	uint64_t worker_ns;  /* CPU time of workers in no poll, and around none */
	uint64_t workers_ns; /* ... of theirs in all */
	uint64_t worker_count, counted_from_ns, counted_to_ns;
	struct ky_thread_use thread; /* CPU time of the one that used most, in no closure */
	uint64_t threads_ns;         /* of all workers and other threads */
	bool has_no_polls;
};

static void find_tasks(struct unseen *unseen, const struct ky_facts *facts)
{
	for (uint32_t i = 0; i < facts->trace->task_count; i++) {
		const struct ky_task *task = &facts->trace->tasks[i];

		if (!ky_trace_is_task(task))
			continue;
		unseen->all_tasks++;
		if (!(task->flags & KY_TASK_NOT_INSTRUMENTED))
			continue;
		if (!unseen->tasks++ || task->first_ns < unseen->first_ns)
			unseen->first_ns = task->first_ns;
	}
}

/* What the kernel counted, but for polls, and for what a worker does around a poll or a park. */
static bool find_workers(struct unseen *unseen, const struct ky_facts *facts)
{
	const struct ky_report *report = facts->report;
	struct ky_thread_count *counts = NULL;
	uint32_t count = 0;
	int result = ky_thread_counts(facts->trace, report->from_ns, report->to_ns + 1, &counts,
				      &count);

	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t j = 0; j < report->worker_count; j++) {
			const struct ky_worker_use *use = &report->workers[j];
			uint64_t seen_ns;

			if (facts->trace->workers[use->worker].id != counts[i].worker_id)
				continue;
			/* The kernel's readings may be of a part of the worker's time. */
			unseen->workers_ns += counts[i].cpu_ns;
			seen_ns = use->busy_ns +
				  (use->poll_count + use->park_count) * KY_FIND_AROUND_NS;
			if (use->unknown_ns || counts[i].cpu_ns <= seen_ns ||
			    ky_share_ppm(counts[i].cpu_ns - seen_ns, counts[i].span_ns) <
				    KY_FIND_BURDEN_PPM)
				continue;
			unseen->worker_ns += counts[i].cpu_ns - seen_ns;
			unseen->worker_count++;
		}
	}
	ky_free(counts);
	return result == 0;
}

/* Polls of roots, at most, and closures. */
static uint64_t seen_of_thread(const struct ky_trace *trace, uint32_t tid)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < trace->blocking_count; i++)
		if (trace->blocking_runs[i].tid == tid)
			ns += trace->blocking_runs[i].duration_ns;
	for (uint32_t i = 0; i < trace->root_poll_count; i++) {
		const struct ky_trace_root_poll *poll = &trace->root_polls[i];

		if (poll->tid == tid && poll->begin_min_ns && poll->end_ns > poll->begin_min_ns)
			ns += poll->end_ns - poll->begin_min_ns;
	}
	return ns;
}

static bool find_threads(struct unseen *unseen, const struct ky_facts *facts)
{
	const struct ky_report *report = facts->report;
	struct ky_thread_use *uses = NULL;
	uint32_t count = 0;
	int result = ky_thread_uses(facts->trace, report->from_ns, report->to_ns, &uses, &count);

	unseen->threads_ns = unseen->workers_ns;
	for (uint32_t i = 0; i < count; i++)
		unseen->threads_ns += uses[i].cpu_ns;
	for (uint32_t i = 0; i < count && i < KY_FINDING_EVIDENCE_MAX; i++) {
		uint64_t seen_ns = seen_of_thread(facts->trace, uses[i].tid);

		if (uses[i].cpu_ns <= seen_ns ||
		    ky_share_ppm(uses[i].cpu_ns - seen_ns, report->to_ns - report->from_ns) <
			    KY_FIND_BURDEN_PPM ||
		    uses[i].cpu_ns - seen_ns <= unseen->thread.cpu_ns)
			continue;
		unseen->thread = uses[i];
		unseen->thread.cpu_ns -= seen_ns;
	}
	ky_free(uses);
	return result == 0;
}

static void add(struct ky_finding *found, const char *capability, const char *effect,
		const char *action)
{
	ky_text(&found->impact, found->missing_count ? " " : "");
	ky_text(&found->impact, effect);
	ky_text(&found->action, found->missing_count ? " " : "");
	ky_text(&found->action, action);
	ky_finding_lacks(found, capability, effect, action);
}

static void raise_score(struct ky_finding *found, uint32_t ppm)
{
	if (ppm > found->score_ppm)
		found->score_ppm = ppm;
}

static void say_tasks(struct ky_finding *found, const struct unseen *unseen,
		      const struct ky_facts *facts)
{
	struct ky_buf *out = &found->statement;

	if (unseen->has_no_polls) {
		ky_text(out, "Polls were not recorded. ");
		add(found, "polls", "No task is seen at all.", "kymo set NAME poll=on.");
		raise_score(found, 1000000);
	}
	if (unseen->tables) {
		ky_say_many(out, unseen->tables, "kind of task has", "kinds of tasks have");
		ky_text(out, " functions that kymo did not recognise. ");
		add(found, "some kinds of tasks",
		    "Tasks of these kinds are in no poll and no wake.",
		    "See kymo doctor PROGRAM for its version of Tokio.");
	}
	if (unseen->tasks) {
		ky_say_count(out, unseen->tasks);
		ky_text(out, " of ");
		ky_say_many(out, unseen->all_tasks, "task", "tasks");
		ky_text(out, unseen->tasks == 1 ? " was" : " were");
		ky_text(out, " spawned without instrumentation: their wakes are not recorded. ");
		add(found, "wakes of some tasks",
		    "How long those tasks were ready, and what woke them, is not known.",
		    "Spawn them by the handle of the recorder, or record by kymo run, which sees "
		    "each task.");
		raise_score(found, ky_share_ppm(unseen->tasks, unseen->all_tasks));
		found->victims = unseen->tasks;
		ky_finding_evidence(found, &(struct ky_evidence){.kind = "tasks",
								 .from_ns = unseen->first_ns,
								 .to_ns = facts->report->to_ns,
								 .task = UINT64_MAX,
								 .stack = KY_NONE,
								 .event = "TaskSpawnEvent"});
	}
}

static void say_threads(struct ky_finding *found, const struct unseen *unseen,
			const struct ky_facts *facts)
{
	struct ky_buf *out = &found->statement;

	if (unseen->worker_count) {
		ky_say_ns(out, unseen->worker_ns);
		ky_text(out, " of CPU time of ");
		ky_say_many(out, unseen->worker_count, "worker was", "workers were");
		ky_text(out, " in no poll, and more than a scheduler takes. ");
		add(found, "what workers do outside of polls",
		    "A root of block_on, the driver, or tasks that kymo does not see may take it.",
		    "See what those threads ran: kymo report --full, On CPU.");
		raise_score(found, ky_share_ppm(unseen->worker_ns, unseen->workers_ns));
		found->delay_ns += unseen->worker_ns;
	}
	if (unseen->thread.cpu_ns) {
		ky_text(out, "Thread ");
		ky_text_u64(out, unseen->thread.tid);
		ky_text(out, ", ");
		ky_text(out, ky_trace_name(facts->trace, unseen->thread.name));
		ky_text(out, ", is no worker and used ");
		ky_say_ns(out, unseen->thread.cpu_ns);
		ky_text(out, " of CPU time in no closure of the blocking pool. ");
		add(found, "threads of the program's own",
		    "What such a thread does, and for which task, is in its samples alone.",
		    "kymo report --full has its samples; mark its work with spans.");
		raise_score(found, ky_share_ppm(unseen->thread.cpu_ns, unseen->threads_ns));
		found->delay_ns += unseen->thread.cpu_ns;
		found->culprit.kind = "thread";
		found->culprit.thread = unseen->thread.name;
		ky_finding_evidence(found, &(struct ky_evidence){.kind = "readings",
								 .from_ns = unseen->thread.from_ns,
								 .to_ns = unseen->thread.to_ns,
								 .task = UINT64_MAX,
								 .tid = unseen->thread.tid,
								 .stack = KY_NONE,
								 .event = "ThreadUsageEvent"});
	}
	if (out->used && !out->failed)
		out->used--; /* the blank after the last sentence */
}

void ky_find_uninstrumented(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	struct unseen unseen = {
		.has_no_polls = ky_metadata_has_word(facts->trace, "kymo.gates_off", "poll"),
		.tables = ky_metadata_number(facts->trace, "tokio.tables_refused") +
			  ky_metadata_number(facts->trace, "tokio.tables_unrecognised")};
	struct ky_finding *found;

	find_tasks(&unseen, facts);
	if (!find_workers(&unseen, facts) || !find_threads(&unseen, facts))
		findings->failed = true;
	if (!unseen.has_no_polls && !unseen.tables && !unseen.tasks && !unseen.worker_count &&
	    !unseen.thread.cpu_ns)
		return;
	found = ky_findings_add(findings, KY_FINDING_UNINSTRUMENTED_TASKS);
	if (!found)
		return;
	found->culprit.resource = "work that is not recorded";
	found->confidence = KY_CONFIDENCE_PROVEN;
	say_tasks(found, &unseen, facts);
	say_threads(found, &unseen, facts);
}
