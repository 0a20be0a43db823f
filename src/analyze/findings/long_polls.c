/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Long polls, by what made them long: poll_rule.h. */
#include <analyze/findings/find.h>

#include <analyze/findings/poll_rule.h>
#include <analyze/findings/say.h>
#include <base/earlier.h>
#include <base/text.h>
#include <read/turns.h>

/* The first that fits is the cause: what is more special comes first. */
static const struct ky_poll_rule *const rules[] = {
	&ky_rule_nested_block_on,  &ky_rule_in_place_blocked,  &ky_rule_in_place_busy,
	&ky_rule_log_writing,      &ky_rule_lifo_slot_blocked, &ky_rule_blocking_call,
	&ky_rule_log_writing_busy, &ky_rule_huge_drop,         &ky_rule_allocation_burst,
	&ky_rule_page_fault_storm, &ky_rule_coop_budget,       &ky_rule_redundant_wakes,
	&ky_rule_lifo_slot_busy,   &ky_rule_cpu_heavy_poll,
};

static void say_statement(struct ky_finding *found, const struct ky_poll_case *one,
			  const struct ky_poll_rule *rule, const struct ky_findings *findings)
{
	struct ky_buf *out = &found->statement;

	ky_text(out, "Polls of ");
	ky_say_kind(out, one->facts->trace, one->kind->name);
	ky_text(out, " ");
	rule->say(out, one, &findings->options);
	ky_text(out, " for up to ");
	ky_say_ns(out, one->worst_ns);
	ky_text(out, ": ");
	ky_say_many(out, one->kind->long_count, "long poll, ", "long polls, ");
	ky_say_ns(out, one->ns);
	ky_text(out, ", ");
	ky_say_ppm(out, ky_share_ppm(one->ns, one->facts->poll_ns));
	ky_text(out, " of the time in polls.");
}

static void say_impact(struct ky_finding *found, const struct ky_poll_case *one,
		       const struct ky_poll_rule *rule)
{
	struct ky_buf *out = &found->impact;

	if (!found->victims) {
		ky_text(out,
			"No other task was seen to wait for these polls; the tasks of this kind "
			"were late by them.");
		return;
	}
	ky_say_many(out, found->victims, "task that was ready", "tasks that were ready");
	ky_text(out, " waited ");
	ky_say_ns(out, one->behind_ns);
	ky_text(out, " for these polls, ");
	ky_say_ppm(out, ky_share_ppm(one->behind_ns, one->facts->ready_ns));
	ky_text(out, " of all time from wake to poll.");
	if (rule->say_impact)
		rule->say_impact(out, one);
}

static void add_evidence(struct ky_finding *found, const struct ky_poll_case *one)
{
	const struct ky_poll *poll = &one->kind->longest.poll;
	const struct ky_trace *trace = one->facts->trace;

	ky_finding_evidence(found,
			    &(struct ky_evidence){.kind = "poll",
						  .from_ns = poll->start_ns,
						  .to_ns = poll->start_ns + poll->duration_ns,
						  .task = trace->tasks[poll->task].id,
						  .tid = ky_trace_thread_at(trace, poll->worker,
									    poll->start_ns),
						  .stack = KY_NONE,
						  .event = "PollStart"});
	if (one->most != KY_NONE) {
		const struct ky_stack_row *row = &trace->samples.rows[one->most];

		ky_finding_evidence(
			found,
			&(struct ky_evidence){
				.kind = one->is_blocked ? "off_cpu" : "cpu_sample",
				.from_ns = row->time_ns,
				.to_ns = row->time_ns + (one->is_blocked ? row->value : 0),
				.task = trace->tasks[row->task].id,
				.tid = row->tid,
				.stack = row->stack,
				.event = one->is_blocked ? "OffCpuEvent" : "CpuSampleEvent"});
	}
}

static void set_missing(struct ky_finding *found, const struct ky_poll_case *one)
{
	if (one->is_unknown)
		ky_finding_lacks(found, "PollCostEvent",
				 "The trace does not say whether these polls ran or were blocked.",
				 NULL);
	else if (one->is_guessed)
		ky_finding_lacks(found, "PollCostEvent",
				 "The time of these polls is split into time on CPU and time "
				 "blocked by samples alone.",
				 NULL);
	else if (!one->row_count)
		ky_finding_lacks(found, one->is_blocked ? "OffCpuEvent" : "CpuSampleEvent",
				 "No sample fell in these polls: their code is not known.", NULL);
	else if (one->facts->is_lossy)
		ky_finding_lacks(found, "lost records",
				 "Polls across a loss are in no figure: there may be more.", NULL);
}

/* All of them at one time, as when a program starts and its pages and caches are cold: what does
 * not come again is no cause, unless it lasted for as long as people see. A recording in which it
 * had no time to come again does not tell. */
static bool was_once(const struct ky_poll_case *one)
{
	const struct ky_kind_facts *kind = one->kind;
	const struct ky_report *report = one->facts->report;

	return report->to_ns - report->from_ns >= KY_FIND_AGAIN_NS &&
	       kind->long_last_ns - kind->long_first_ns < KY_FIND_STUCK_NS_MIN &&
	       ky_later(one->worst_ns, one->behind_worst_ns) < KY_FIND_CRITICAL_NS;
}

/* Most of the time is in polls so short that a neighbour that keeps its time slice can make them:
 * those that are longer explain too little, and nobody waited for long. */
static bool is_by_short_ones(const struct ky_poll_case *one)
{
	const struct ky_kind_facts *kind = one->kind;
	uint64_t ns = kind->heavy_sums[one->is_blocked ? KY_OWN_BLOCKED : KY_OWN_CPU];

	if (one->is_guessed || one->is_unknown)
		ns = kind->heavy_ns;
	return ky_share_ppm(ns, one->facts->poll_ns) < KY_FIND_SHARE_PPM_MIN &&
	       one->behind_worst_ns < KY_FIND_WORST_NS_MIN;
}

/* Each is short, but they come all the time: what they are made of is a fourth of what polls do,
 * or, where they only compute, most of what others wait for. */
static bool is_often(const struct ky_poll_case *one, const struct ky_poll_rule *rule)
{
	const struct ky_kind_facts *kind = one->kind;
	bool is_work = rule == &ky_rule_cpu_heavy_poll;
	uint32_t ppm = is_work ? ky_share_ppm(one->behind_ns, one->facts->ready_ns) :
				 ky_share_ppm(one->ns, one->facts->poll_ns);

	return !one->is_guessed && !one->is_unknown &&
	       ppm >= (is_work ? KY_FIND_HALF_PPM : KY_FIND_OFTEN_PPM) &&
	       (is_work ? kind->behind_delays : kind->long_count) >= KY_FIND_OFTEN_POLLS &&
	       one->ns / kind->long_count >= KY_FIND_LONG_NS / 2 &&
	       ky_later(one->worst_ns, one->behind_worst_ns) >= KY_FIND_OFTEN_NS;
}

/* No sample of a profiled process fell in them, and nothing else says which half they are of. */
static bool is_guess(const struct ky_poll_case *one)
{
	return one->is_guessed && !one->is_unknown && !one->row_count;
}

/* Calls are timed by the clock alone: where the kernel's counters of no such poll are there, what
 * came a few times may have been ready to run, for as long as the workers waited for a CPU. */
static bool may_be_ready(const struct ky_poll_case *one)
{
	return one->is_blocked && !one->kind->cost_count &&
	       one->kind->heavy_count < KY_FIND_STUCK_WAITS &&
	       ky_may_have_starved(one->facts, one->worst_ns);
}

static void add(struct ky_findings *findings, const struct ky_poll_case *one,
		const struct ky_poll_rule *rule, enum ky_confidence confidence)
{
	struct ky_finding *found = ky_findings_add(findings, rule->id);
	uint32_t polls_ppm = ky_share_ppm(one->ns, one->facts->poll_ns);
	uint32_t ready_ppm = ky_share_ppm(one->behind_ns, one->facts->ready_ns);
	bool is_once = was_once(one);

	if (!found)
		return;
	found->culprit.kind = "task";
	found->culprit.task = one->kind->name;
	found->culprit.code = one->culprit.line;
	found->culprit.callee = one->culprit.callee;
	found->confidence = (uint8_t)confidence;
	found->victims = one->behind_ns ? one->kind->behind_delays : 0;
	found->delay_ns = one->behind_ns ? one->behind_ns : one->ns;
	ky_finding_judge(found, polls_ppm > ready_ppm ? polls_ppm : ready_ppm,
			 ky_later(one->worst_ns, one->behind_worst_ns));
	if (is_once || is_guess(one) || is_by_short_ones(one) || may_be_ready(one))
		found->severity = KY_SEVERITY_INFO;
	if (!is_once && is_often(one, rule)) {
		if (found->severity < KY_SEVERITY_WARNING)
			found->severity = KY_SEVERITY_WARNING;
	} else if (one->kind->heavy_count || one->behind_worst_ns < KY_FIND_WORST_NS_MIN) {
		/* Where short ones add up it is their sum that harms. */
		ky_findings_doubt_few(findings, found, one->kind->heavy_count,
				      ky_later(one->worst_ns, one->behind_worst_ns), true);
	}
	say_statement(found, one, rule, findings);
	say_impact(found, one, rule);
	ky_text(&found->action, rule->action);
	add_evidence(found, one);
	set_missing(found, one);
}

static void find_in(struct ky_findings *findings, struct ky_kind_facts *kind, bool is_blocked)
{
	enum ky_confidence confidence = KY_CONFIDENCE_LIKELY;
	struct ky_poll_case one;

	if (ky_poll_case_make(&one, &findings->facts, kind, is_blocked)) {
		findings->failed = true;
		return;
	}
	if (is_blocked && ky_is_lock_case(&one)) {
		kind->is_lock_bound = true;
		kind->lock_behind_ns = one.behind_ns;
		one.worst_ns = 0;
	}
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules) && one.worst_ns > KY_FIND_LONG_NS;
	     i++)
		if (rules[i]->is_blocked == is_blocked && rules[i]->fits(&one, &confidence)) {
			add(findings, &one, rules[i],
			    one.is_guessed ? KY_CONFIDENCE_POSSIBLE : confidence);
			break;
		}
	ky_poll_case_release(&one);
}

void ky_find_long_polls(struct ky_findings *findings)
{
	for (uint32_t i = 0; i < findings->facts.kind_count; i++) {
		struct ky_kind_facts *kind = &findings->facts.kinds[i];

		if (kind->is_runtimes || !kind->long_count ||
		    (ky_share_ppm(ky_kind_long_ns(kind), findings->facts.poll_ns) <
			     KY_FIND_EXAMINED_PPM &&
		     ky_share_ppm(kind->behind_ns, findings->facts.ready_ns) <
			     KY_FIND_EXAMINED_PPM))
			continue;
		find_in(findings, kind, true);
		find_in(findings, kind, false);
	}
}
