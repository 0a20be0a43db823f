/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The process as a whole was stopped: by a signal, or a debugger. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <base/alloc.h>
#include <base/text.h>
#include <read/stops.h>

#define SIGNAL_STOP 19u
#define SIGNAL_TSTP 20u

static void say(struct ky_finding *found, const struct ky_trace_stop *longest, uint64_t count,
		uint64_t all_ns, uint64_t lasted_ns)
{
	struct ky_buf *out = &found->statement;

	ky_text(out, "The whole process was stopped ");
	if (count > 1) {
		ky_say_many(out, count, "time", "times");
		ky_text(out, ", the longest ");
	}
	ky_text(out, "for ");
	ky_say_ns(out, longest->to_ns - longest->from_ns);
	if (longest->signal_number) {
		ky_text(out, " by ");
		if (longest->signal_number == SIGNAL_STOP)
			ky_text(out, "SIGSTOP");
		else if (longest->signal_number == SIGNAL_TSTP)
			ky_text(out, "SIGTSTP");
		else {
			ky_text(out, "signal ");
			ky_text_u64(out, longest->signal_number);
		}
	}
	ky_text(out, longest->is_open ? ", and was at the end." : ".");
	ky_say_many(&found->impact, found->victims,
		    "task was polled right after it and had waited: ",
		    "tasks were polled right after and had waited: ");
	ky_say_ppm(&found->impact, ky_share_ppm(all_ns, lasted_ns));
	ky_text(&found->impact, " of the recorded time. No other figure counts it.");
	ky_text(&found->action, "Find who sends the signal, or freezes the container: the process "
				"itself did nothing.");
}

/* Tasks that are polled right after the stop: they became ready in it, and waited half of it on
 * average. */
static uint64_t victims_of(const struct ky_trace_stop *stop, const struct ky_facts *facts,
			   uint64_t *seen, uint64_t turn)
{
	const struct ky_trace *trace = facts->trace;
	uint64_t count = 0;
	struct ky_poll poll;

	for (uint32_t worker = 0; worker < trace->worker_count; worker++) {
		const struct ky_column *polls = &trace->workers[worker].polls;
		uint64_t row = ky_column_find(polls, stop->to_ns);

		for (; row < polls->row_count; row++) {
			ky_trace_poll(trace, worker, row, &poll);
			if (poll.start_ns > stop->to_ns + KY_FIND_AFTER_STOP_NS)
				break;
			count += seen[poll.task] != turn;
			seen[poll.task] = turn;
		}
	}
	return count;
}

void ky_find_stops(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	const struct ky_trace *trace = findings->facts.trace;
	const struct ky_report *report = findings->facts.report;
	const struct ky_trace_stop *longest = NULL;
	uint64_t all_ns = 0, count = 0, lasted_ns = report->to_ns - report->from_ns;
	uint64_t victims = 0, late_ns = 0, of_one, *seen;
	struct ky_finding *found;
	uint32_t score;

	seen = ky_alloc((trace->task_count + (size_t)1) * sizeof(*seen));
	if (!seen) {
		findings->failed = true;
		return;
	}

	for (uint32_t i = 0; i < trace->stop_count; i++) {
		const struct ky_trace_stop *stop = &trace->stops[i];

		if (stop->to_ns <= report->from_ns || stop->from_ns >= report->to_ns)
			continue;
		count++;
		all_ns += stop->to_ns - stop->from_ns;
		of_one = victims_of(stop, facts, seen, count);
		victims += of_one;
		late_ns += (stop->to_ns - stop->from_ns) / 2 * of_one;
		if (!longest || stop->to_ns - stop->from_ns > longest->to_ns - longest->from_ns)
			longest = stop;
	}
	ky_free(seen);
	found = longest ? ky_findings_add(findings, KY_FINDING_PROCESS_STOPPED) : NULL;
	if (!found)
		return;
	found->culprit.kind = "process";
	found->culprit.resource = "a signal or debugger that stopped the process";
	found->confidence = longest->unsure_ns ? KY_CONFIDENCE_LIKELY : KY_CONFIDENCE_PROVEN;
	found->victims = victims;
	found->delay_ns = late_ns > all_ns ? late_ns : all_ns;
	score = ky_share_ppm(late_ns, late_ns + facts->ready_ns);
	if (ky_share_ppm(all_ns, lasted_ns) > score)
		score = ky_share_ppm(all_ns, lasted_ns);
	ky_finding_judge(found, score, longest->to_ns - longest->from_ns);
	say(found, longest, count, all_ns, lasted_ns);
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "stop",
							 .from_ns = longest->from_ns,
							 .to_ns = longest->to_ns,
							 .task = UINT64_MAX,
							 .stack = KY_NONE,
							 .event = "ProcessStateEvent"});
}
