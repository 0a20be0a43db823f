/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* More work than the workers can do: no poll is long, and tasks wait behind many short ones while
 * every worker is busy. Where another one was idle it is no overload: hot_worker.c. */
#include <analyze/findings/find.h>

#include <analyze/findings/driven_kinds.h>
#include <analyze/findings/say.h>
#include <analyze/wake_cause.h>
#include <analyze/wake_walk.h>
#include <base/alloc.h>
#include <base/earlier.h>
#include <base/text.h>

/* Of the time that is known: the workers of the busiest runtime were in polls. */
static uint32_t busy_ppm(const struct ky_facts *facts)
{
	const struct ky_report *report = facts->report;
	uint32_t most = 0;

	for (uint32_t i = 0; i < report->worker_count; i++) {
		uint32_t of = facts->trace->workers[report->workers[i].worker].runtime;
		uint64_t busy = 0, known = 0;

		for (uint32_t j = 0; j < report->worker_count; j++) {
			const struct ky_worker_use *use = &report->workers[j];

			if (facts->trace->workers[use->worker].runtime != of)
				continue;
			busy += use->busy_ns;
			known += use->span_ns - use->unknown_ns;
		}
		if (ky_share_ppm(busy, known) > most)
			most = ky_share_ppm(busy, known);
	}
	return most;
}

/* Wakes of a kind of task, by what they say of its delays. */
struct kind_wakes {
	uint64_t yields;  /* deferred: it gave its worker away, with more to do */
	uint64_t outside; /* I/O, a timer, another thread: somebody waits for what it does */
};

/* Who stood in line. A task that yields with more to do asked for that, and what a program makes
 * for itself, as a batch of steps that wake each other, keeps nobody waiting. */
struct ready_line {
	struct kind_wakes *kinds; /* by the facts' kinds */
	uint64_t ready_ns;        /* the account, without those that never wait */
	uint64_t slow_ns, slow_count, worst_ns;
	uint64_t outside_count; /* from KY_FIND_WORST_NS_MIN on, of kinds that are woken so */
	uint64_t behind_ns;
};

static bool read_wakes(struct ready_line *line, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_wake_walk walk = {
		.trace = trace, .from_ns = facts->report->from_ns, .to_ns = facts->report->to_ns};
	struct ky_wake_namer namer = {0};
	struct ky_wake wake;

	if (ky_wake_namer_make(&namer, trace, facts->profile ? &facts->profile->code : NULL))
		return false;
	while (ky_wake_walk_next(&walk, &wake)) {
		const struct ky_kind_facts *kind = ky_facts_kind(facts,
								 trace->tasks[wake.woken].name);
		uint32_t cause = ky_wake_namer_cause(&namer, &wake).kind;

		if (!kind)
			continue;
		line->kinds[kind - facts->kinds].yields += cause == KY_WAKE_DEFERRED;
		line->kinds[kind - facts->kinds].outside += ky_wake_is_from_outside(&wake, cause);
	}
	ky_wake_namer_release(&namer);
	return true;
}

/* Nine of ten of its polls end because Tokio's budget, or a yield, ends them. */
static bool is_restless(const struct ready_line *line, const struct ky_facts *facts, size_t kind)
{
	return facts->kinds[kind].poll_count > KY_FIND_STUCK_WAITS &&
	       ky_share_ppm(line->kinds[kind].yields, facts->kinds[kind].poll_count) >=
		       KY_FIND_BUSY_PPM;
}

static void read_delays(struct ready_line *line, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;
		uint64_t row = ky_column_find(polls, facts->report->from_ns);

		for (; row < polls->row_count; row++) {
			const struct ky_kind_facts *kind;
			size_t at;

			ky_trace_poll(trace, worker, row, &poll);
			if (poll.start_ns >= facts->report->to_ns)
				break;
			kind = poll.delay_state || poll.delay_ns <= KY_FIND_LONG_NS ?
				       NULL :
				       ky_facts_kind(facts, trace->tasks[poll.task].name);
			at = kind ? (size_t)(kind - facts->kinds) : 0;
			if (!kind || kind->is_runtimes || is_restless(line, facts, at))
				continue;
			line->slow_ns += poll.delay_ns;
			line->slow_count++;
			line->worst_ns = ky_later(line->worst_ns, poll.delay_ns);
			line->outside_count += line->kinds[at].outside &&
					       poll.delay_ns >= KY_FIND_WORST_NS_MIN;
		}
	}
}

static bool is_behind(const struct ky_why_group *group)
{
	return group->part == KY_PART_BEHIND_UNSPLIT || group->part == KY_PART_LIFO;
}

/* Behind short polls with no other worker idle: of the delays that were split, those of tasks that
 * wait; where all of these are of the others, as large a part as of those. */
static void read_parts(struct ready_line *line, const struct ky_facts *facts)
{
	uint64_t ns[2] = {0}, behind_ns[2] = {0};
	uint32_t which;

	for (uint32_t i = 0; i < facts->why->group_count; i++) {
		const struct ky_why_group *group = &facts->why->groups[i];
		const struct ky_kind_facts *kind = ky_facts_kind(facts, group->victim);
		uint64_t short_ns = group->ns - group->long_ns, idle_ns;

		if (!kind || kind->is_runtimes)
			continue;
		which = is_restless(line, facts, (size_t)(kind - facts->kinds));
		ns[which] += group->ns;
		if (!is_behind(group))
			continue;
		idle_ns = group->part == KY_PART_LIFO ? 0 : group->idle_ns - group->idle_long_ns;
		behind_ns[which] += short_ns - ky_earlier(idle_ns, short_ns);
	}
	which = !ns[0];
	line->behind_ns = ky_ppm_of(line->slow_ns, ky_share_ppm(behind_ns[which], ns[which]));
}

static bool find_line(struct ready_line *line, const struct ky_facts *facts)
{
	line->kinds = ky_alloc((facts->kind_count + (size_t)1) * sizeof(*line->kinds));
	if (!line->kinds || !read_wakes(line, facts))
		return false;
	line->ready_ns = facts->ready_ns;
	for (uint32_t i = 0; i < facts->kind_count; i++)
		if (!facts->kinds[i].is_runtimes && is_restless(line, facts, i))
			line->ready_ns -= ky_earlier(facts->report->groups[i].delay_ns,
						     line->ready_ns);
	read_delays(line, facts);
	read_parts(line, facts);
	return true;
}

static void report(struct ky_findings *findings, const struct ready_line *line,
		   const struct ky_kind_facts *most, uint32_t busy_ppm)
{
	const struct ky_facts *facts = &findings->facts;
	struct ky_finding *found = ky_findings_add(findings, KY_FINDING_OVERLOAD);

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = most->name;
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = line->slow_count;
	found->delay_ns = line->behind_ns;
	ky_finding_judge(found, ky_share_ppm(line->behind_ns, line->ready_ns), line->worst_ns);
	if (line->outside_count < KY_FIND_SAMPLES_MIN)
		found->severity = KY_SEVERITY_INFO;
	ky_text(&found->statement, "The workers were in polls ");
	ky_say_ppm(&found->statement, busy_ppm);
	ky_text(&found->statement,
		" of the time, with short ones: tasks that are ready stand in line. ");
	ky_say_ppm(&found->statement, ky_share_ppm(most->busy_ns, facts->poll_ns));
	ky_text(&found->statement, " of the work is of ");
	ky_say_kind(&found->statement, facts->trace, most->name);
	ky_text(&found->statement, ".");
	ky_say_many(&found->impact, line->slow_count, "task that was ready waited",
		    "tasks that were ready waited");
	ky_text(&found->impact, " over 1 ms, ");
	ky_say_ns(&found->impact, line->behind_ns);
	ky_text(&found->impact, " in all while short polls of others ran");
	ky_text(&found->impact, line->outside_count ?
					"." :
					". None of them had I/O, a timer or another thread to "
					"answer late by 3 ms or more: it may be a batch.");
	ky_text(&found->action,
		"Do less work, or more of it elsewhere: more workers or CPUs, fewer "
		"tasks at once (a semaphore at the entry), or a cheaper poll.");
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "workers",
							 .from_ns = facts->report->from_ns,
							 .to_ns = facts->report->to_ns,
							 .task = UINT64_MAX,
							 .stack = KY_NONE,
							 .event = "PollStart"});
}

void ky_find_overload(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	const struct ky_kind_facts *most = NULL;
	struct ready_line line = {.kinds = NULL};
	uint32_t busy = busy_ppm(facts);

	if (busy < KY_FIND_BUSY_PPM)
		return;
	for (uint32_t i = 0; i < facts->kind_count; i++)
		if (!facts->kinds[i].is_runtimes &&
		    (!most || facts->kinds[i].busy_ns > most->busy_ns))
			most = &facts->kinds[i];
	if (!most)
		return;
	if (!find_line(&line, facts))
		findings->failed = true;
	else if (line.behind_ns)
		report(findings, &line, most, busy);
	ky_free(line.kinds);
}
