/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Closures that stand in line for the blocking pool and get no thread before the end: each thread
 * has one that does not return. No run and no wake says so; what does are ids that were given out
 * and never began. The pool takes them in their order, so those in line follow all that began. */
#include <analyze/findings/find.h>

#include <analyze/findings/last_polls.h>
#include <analyze/findings/pool_runs.h>
#include <analyze/findings/pool_users.h>
#include <analyze/findings/say.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>
#include <read/ascending.h>
#include <read/spawns.h>

struct pool_line {
	uint64_t *ids; /* of all tasks and closures that were seen; ascending */
	uint32_t id_count;
	uint64_t begun_id;      /* the last closure that began */
	uint64_t *submitted_ns; /* by task: when it last gave out an id that was not seen; 0 */
	uint64_t count, ns, worst_ns;
	uint64_t runs;  /* that last at the end */
	uint32_t first; /* task that waits for longest */
};

static void read_ids(struct pool_line *line, const struct ky_trace *trace)
{
	for (uint32_t i = 0; i < trace->task_count; i++) {
		const struct ky_task *task = &trace->tasks[i];

		if (task->flags & KY_TASK_ROOT)
			continue;
		line->ids[line->id_count++] = task->id;
		if (task->flags & KY_TASK_BLOCKING)
			line->begun_id = ky_later(line->begun_id, task->id);
	}
	ky_ascending_sort(line->ids, line->id_count);
}

/* Has the window an id that follows all closures that began, and was never seen? */
static bool has_unseen(const struct pool_line *line, const struct ky_spawn_window *window)
{
	uint64_t first = ky_later(window->first_id, line->begun_id + 1);

	return window->last_id >= first &&
	       ky_ascending_up_to(line->ids, line->id_count, window->last_id) -
			       ky_ascending_below(line->ids, line->id_count, first) <
		       window->last_id - first + 1;
}

static void read_windows(struct pool_line *line, const struct ky_trace *trace, uint64_t judged_ns)
{
	for (uint32_t i = 0; i < trace->spawn_window_count; i++) {
		const struct ky_spawn_window *window = &trace->spawn_windows[i];

		if (window->end_ns < judged_ns && has_unseen(line, window))
			line->submitted_ns[window->task] = ky_later(
				line->submitted_ns[window->task], window->end_ns);
	}
}

static void count_runs(struct pool_line *line, const struct ky_trace *trace, uint64_t judged_ns)
{
	for (uint32_t i = 0; i < trace->blocking_count; i++) {
		const struct ky_blocking_run *run = &trace->blocking_runs[i];

		line->runs += !run->is_end_unproven && run->start_ns < judged_ns &&
			      (run->is_open || run->start_ns + run->duration_ns >= judged_ns) &&
			      !ky_pool_run_is_workers(trace, run);
	}
}

/* Does it wait for the end of what it submitted? */
static bool joins(const struct ky_code_stacks *code, uint32_t stack)
{
	const struct ky_code_line *line;
	struct ky_code_walk walk;

	ky_code_walk_begin(&walk, code, stack);
	while ((line = ky_code_walk_next(&walk)) && !ky_code_is_own(line))
		if (ky_text_contains(line->name, "JoinHandle") ||
		    ky_text_contains(line->name, "task::join::"))
			return true;
	return false;
}

static void find_waits(struct pool_line *line, const struct ky_facts *facts,
		       const struct ky_last_polls *polls)
{
	for (uint32_t i = 0; i < facts->trace->task_count; i++) {
		const struct ky_task *task = &facts->trace->tasks[i];
		uint64_t from_ns = ky_later(polls->end_ns[i], line->submitted_ns[i]);

		if (!line->submitted_ns[i] || task->name == KY_NONE || !ky_trace_is_task(task) ||
		    !ky_report_lives(facts->report, task) || polls->points[i] != KY_IDLE_OUTSIDE ||
		    polls->judged_ns <= from_ns + KY_FIND_STUCK_NS_MIN ||
		    !joins(&facts->profile->code, polls->stacks[i]))
			continue;
		line->count++;
		line->ns += polls->judged_ns - from_ns;
		if (polls->judged_ns - from_ns <= line->worst_ns)
			continue;
		line->worst_ns = polls->judged_ns - from_ns;
		line->first = i;
	}
}

/* Where the task waits that submitted it, if that is of the culprit's kind. */
static void set_place(struct ky_finding *found, const struct pool_line *line,
		      const struct ky_facts *facts, const struct ky_last_polls *polls)
{
	const struct ky_code_line *place = ky_code_own_line(&facts->profile->code,
							    polls->stacks[line->first]);

	if (!found->culprit.code && place && ky_code_is_own(place) &&
	    facts->trace->tasks[line->first].name == found->culprit.task)
		found->culprit.code = place;
}

/* The same pool, with waits that did end. */
static void join_found(struct ky_finding *same, const struct pool_line *line,
		       const struct ky_facts *facts)
{
	uint32_t share_ppm = ky_share_ppm(line->ns, line->ns + facts->poll_ns + facts->ready_ns);

	same->victims += line->count;
	same->delay_ns += line->ns;
	ky_finding_judge(same, same->score_ppm > share_ppm ? same->score_ppm : share_ppm,
			 ky_later(same->worst_ns, line->worst_ns));
	ky_text(&same->impact, " Another ");
	ky_say_many(&same->impact, line->count, "wait", "waits");
	ky_text(&same->impact, " did not end in the recording.");
}

static void say(struct ky_finding *found, const struct pool_line *line,
		const struct ky_facts *facts, uint32_t user, uint32_t user_ppm)
{
	struct ky_buf *out = &found->statement;

	ky_say_many(out, line->count, "task waits", "tasks wait");
	ky_text(out, " for closures that get no thread of the blocking pool, for up to ");
	ky_say_ns(out, line->worst_ns);
	ky_text(out, ": ");
	ky_say_many(out, line->runs, "closure runs", "closures run");
	ky_text(out, ", and none returned since.");
	if (user != KY_NONE) {
		ky_text(out, " ");
		ky_say_ppm(out, user_ppm);
		ky_text(out, " of the time of its threads went to closures of ");
		ky_say_kind(out, facts->trace, user);
		ky_text(out, ".");
	}
	ky_text(&found->impact, "Tasks such as ");
	ky_say_kind(&found->impact, facts->trace, facts->trace->tasks[line->first].name);
	ky_text(&found->impact, " waited ");
	ky_say_ns(&found->impact, line->ns);
	ky_text(&found->impact, " in all; nothing ended these waits in the recording.");
	ky_text(&found->action,
		"Give long or endless work threads of its own, let no closure of the pool wait for "
		"another one, bound what is submitted (a semaphore before spawn_blocking()), or "
		"raise max_blocking_threads.");
}

static void report(struct ky_findings *findings, const struct pool_line *line,
		   const struct ky_last_polls *polls)
{
	const struct ky_facts *facts = &findings->facts;
	uint32_t in_line = facts->trace->tasks[line->first].name, user_ppm = 0;
	uint32_t user = ky_pool_user(facts, in_line, &user_ppm);
	uint32_t task = user != KY_NONE ? user : in_line;
	struct ky_finding *found = ky_findings_of_task(findings, KY_FINDING_BLOCKING_POOL_EXHAUSTED,
						       task);

	if (found) {
		join_found(found, line, facts);
		set_place(found, line, facts, polls);
		return;
	}
	found = ky_findings_add(findings, KY_FINDING_BLOCKING_POOL_EXHAUSTED);
	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = task;
	found->culprit.resource = "blocking pool";
	set_place(found, line, facts, polls);
	found->confidence = KY_CONFIDENCE_LIKELY;
	found->victims = line->count;
	found->delay_ns = line->ns;
	ky_finding_judge(found, ky_share_ppm(line->ns, line->ns + facts->poll_ns + facts->ready_ns),
			 line->worst_ns);
	say(found, line, facts, user, user_ppm);
	ky_finding_evidence(found,
			    &(struct ky_evidence){.kind = "wait",
						  .from_ns = polls->judged_ns - line->worst_ns,
						  .to_ns = polls->judged_ns,
						  .task = facts->trace->tasks[line->first].id,
						  .stack = polls->stacks[line->first],
						  .event = "SpawnWindowEvent"});
}

void ky_find_stuck_pool(struct ky_findings *findings, const struct ky_last_polls *polls)
{
	const struct ky_facts *facts = &findings->facts;
	size_t room = facts->trace->task_count + (size_t)1;
	struct pool_line line = {.count = 0};

	/* What is lost may have begun. */
	if (!facts->profile || !facts->trace->spawn_window_count || facts->is_lossy)
		return;
	line.ids = ky_alloc(room * sizeof(*line.ids));
	line.submitted_ns = ky_alloc(room * sizeof(*line.submitted_ns));
	findings->failed |= !line.ids || !line.submitted_ns;
	if (line.ids && line.submitted_ns) {
		read_ids(&line, facts->trace);
		read_windows(&line, facts->trace, polls->judged_ns);
		count_runs(&line, facts->trace, polls->judged_ns);
		find_waits(&line, facts, polls);
		if (line.count && line.runs)
			report(findings, &line, polls);
	}
	ky_free(line.ids);
	ky_free(line.submitted_ns);
}
