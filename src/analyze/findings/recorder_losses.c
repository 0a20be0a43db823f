/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the recorder lost, did not watch or held back: no cause of harm, but a limit of what can be
 * concluded. Its score is the largest share of it, its rank the time of the workers in gaps. */
#include <analyze/findings/find.h>

#include <analyze/findings/metadata_value.h>
#include <analyze/findings/say.h>
#include <base/text.h>
#include <string.h>

struct losses {
	const struct ky_trace_loss *longest; /* gap; NULL: no record is lost */
	uint64_t gap_count, records;
	uint64_t lost_ns, span_ns; /* of all workers: in gaps, and in all */
	uint64_t samples, samples_kept, switches;
	uint64_t unwatched_count, unwatched_ns;
	uint64_t held_back, polls; /* polls that are counted alone, of all */
	uint32_t time_ppm, records_ppm;
};

/* A dump begins somewhere, and between two of them nothing was recorded: that is no loss. */
static bool is_counted(const struct ky_facts *facts, const struct ky_trace_loss *loss)
{
	static const char *const others[] = {"horizon", "flight", KY_CAUSE_NOT_RECORDED};
	const char *cause = ky_trace_name(facts->trace, loss->cause);
	uint64_t to_ns = facts->report->to_ns ? facts->report->to_ns : UINT64_MAX;

	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strcmp(cause, others[i]) == 0)
			return false;
	return loss->from_ns < to_ns && loss->to_ns >= facts->report->from_ns;
}

/* Of a worker's time in the range: the union of the gaps that may have its records. */
static uint64_t gaps_ns(const struct ky_facts *facts, const struct ky_worker *worker,
			uint64_t from_ns, uint64_t to_ns)
{
	const struct ky_trace *trace = facts->trace;
	uint64_t ns = 0;

	for (uint32_t i = 0; i < trace->loss_count && from_ns < to_ns; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];
		uint64_t begin_ns = loss->from_ns > from_ns ? loss->from_ns : from_ns;
		uint64_t end_ns = loss->to_ns < to_ns ? loss->to_ns : to_ns;

		if (begin_ns >= end_ns || !is_counted(facts, loss) ||
		    !ky_trace_is_loss_of(worker, loss))
			continue;
		ns += end_ns - begin_ns;
		from_ns = end_ns; /* they ascend by their begin */
	}
	return ns;
}

static void add_workers(struct losses *losses, const struct ky_facts *facts)
{
	const struct ky_report *report = facts->report;

	for (uint32_t i = 0; i < facts->trace->worker_count; i++) {
		const struct ky_worker *worker = &facts->trace->workers[i];
		uint64_t from_ns = worker->first_ns, to_ns = worker->last_ns;

		if (from_ns < report->from_ns)
			from_ns = report->from_ns;
		if (report->to_ns && to_ns > report->to_ns)
			to_ns = report->to_ns;
		if (!worker->is_worker || worker->is_shared || worker->is_thread_lane ||
		    from_ns >= to_ns)
			continue;
		losses->span_ns += to_ns - from_ns;
		losses->lost_ns += gaps_ns(facts, worker, from_ns, to_ns);
	}
	losses->time_ppm = ky_share_ppm(losses->lost_ns, losses->span_ns);
}

static void add_records(struct losses *losses, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;
	uint64_t kept = trace->has_recorder_report ?
				trace->recorder_report[KY_F_RECORDER_REPORT_records_read] :
				trace->event_count;

	for (uint32_t i = 0; i < trace->loss_count; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];

		if (!is_counted(facts, loss))
			continue;
		losses->gap_count++;
		losses->records += loss->record_count;
		if (!losses->longest ||
		    loss->to_ns - loss->from_ns > losses->longest->to_ns - losses->longest->from_ns)
			losses->longest = loss;
	}
	losses->records_ppm = ky_share_ppm(losses->records, losses->records + kept);
}

static void collect(struct losses *losses, const struct ky_facts *facts)
{
	const struct ky_trace *trace = facts->trace;

	*losses = (struct losses){.samples = trace->lost_samples,
				  .switches = ky_trace_lost_switches(trace),
				  .unwatched_count = ky_metadata_number(trace, "watchdog.late"),
				  .unwatched_ns = ky_metadata_number(trace,
								     "watchdog.unwatched_ns"),
				  .held_back = facts->report->polls_counted,
				  .polls = facts->report->polls.count};
	for (uint32_t kind = 0; kind < KY_STACK_KINDS; kind++)
		losses->samples_kept += trace->samples.counts[kind];
	add_records(losses, facts);
	add_workers(losses, facts);
}

static void say_statement(struct ky_buf *out, const struct losses *losses,
			  const struct ky_trace *trace)
{
	if (losses->longest) {
		ky_say_many(out, losses->records, "record was lost in ", "records were lost in ");
		ky_say_many(out, losses->gap_count, "gap (", "gaps (");
		ky_say_ppm(out, losses->records_ppm);
		ky_text(out, " of the records, ");
		ky_say_ppm(out, losses->time_ppm);
		ky_text(out, " of the workers' time; the longest ");
		ky_say_ns(out, losses->longest->to_ns - losses->longest->from_ns);
		ky_text(out, ", cause ");
		ky_text(out, ky_trace_name(trace, losses->longest->cause));
		ky_text(out, "). ");
	}
	if (losses->samples) {
		ky_say_many(out, losses->samples, "sample was lost, ", "samples were lost, ");
		ky_say_ppm(out,
			   ky_share_ppm(losses->samples, losses->samples + losses->samples_kept));
		ky_text(out, " of them. ");
	}
	if (losses->switches)
		ky_say_many(out, losses->switches, "switch record of the kernel was lost. ",
			    "switch records of the kernel were lost. ");
	if (losses->unwatched_count) {
		ky_text(out, "The watchdog checked nothing for ");
		ky_say_ns(out, losses->unwatched_ns);
		ky_text(out, ", in ");
		ky_say_many(out, losses->unwatched_count, "interval. ", "intervals. ");
	}
	if (losses->held_back) {
		ky_say_count(out, losses->held_back);
		ky_text(out, " of ");
		ky_say_many(out, losses->polls, "poll is counted alone, ",
			    "polls are counted alone, ");
		ky_text(out, "as a threshold or throttle asks. ");
	}
	if (out->used && !out->failed)
		out->used--; /* the blank after the last sentence */
}

static void say_impact(struct ky_buf *out, const struct losses *losses)
{
	const char *between = "";

	if (losses->longest) {
		ky_text(out, "Polls and waits across a gap are in no figure, and what began and "
			     "ended in one is not seen: there may be more of each finding, and "
			     "other ones.");
		between = " ";
	}
	if (losses->samples || losses->switches) {
		ky_text(out, between);
		ky_text(out, "Code that ran or blocked rarely may have no sample.");
		between = " ";
	}
	if (losses->unwatched_count) {
		ky_text(out, between);
		ky_text(out, "Rules did not fire in that time.");
		between = " ";
	}
	if (losses->held_back) {
		ky_text(out, between);
		ky_text(out, "What those polls waited for, or made others wait for, is not known.");
	}
}

static void say_action(struct ky_buf *out, const struct losses *losses,
		       const struct ky_trace *trace)
{
	const char *cause = losses->longest ? ky_trace_name(trace, losses->longest->cause) : "";
	const char *between = "";

	if (strcmp(cause, "write-error") == 0)
		ky_text(out, "Make room where the trace is written, or lower --total-bytes.");
	else if (losses->longest)
		ky_text(out, "Raise --ring-bytes, or record less, as with `kymo set NAME "
			     "poll.threshold=1ms`; `kymo info` lists what is missing.");
	between = losses->longest ? " " : "";
	if (losses->samples) {
		ky_text(out, between);
		ky_text(out, "Raise --sample-bytes, or lower --sample.");
		between = " ";
	}
	if (losses->switches) {
		ky_text(out, between);
		ky_text(out,
			"Fewer threads on these CPUs switch less often; time off CPU is estimated "
			"by the windows that were seen whole.");
		between = " ";
	}
	if (losses->unwatched_count) {
		ky_text(out, between);
		ky_text(out, "Give the machine, or the container of kymo, more CPU.");
		between = " ";
	}
	if (losses->held_back) {
		ky_text(out, between);
		ky_text(out, "`kymo set NAME poll.threshold=off poll.throttle=off "
			     "wake.threshold=off` records each poll.");
	}
}

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static uint32_t score_of(const struct losses *losses, const struct ky_trace *trace)
{
	uint32_t ppm = larger(losses->time_ppm, losses->records_ppm);

	ppm = larger(ppm, ky_share_ppm(losses->samples, losses->samples + losses->samples_kept));
	ppm = larger(ppm,
		     ky_share_ppm(losses->unwatched_ns, trace->run_last_ns - trace->run_first_ns));
	return larger(ppm, ky_share_ppm(losses->held_back, losses->polls));
}

void ky_find_recorder_losses(struct ky_findings *findings)
{
	const struct ky_facts *facts = &findings->facts;
	const struct ky_trace_loss *gap;
	struct ky_finding *found;
	struct losses losses;

	collect(&losses, facts);
	gap = losses.longest;
	if (!gap && !losses.samples && !losses.switches && !losses.unwatched_count &&
	    !losses.held_back)
		return;
	found = ky_findings_add(findings, KY_FINDING_RECORDER_LOSSES);
	if (!found)
		return;
	found->culprit.resource = "recorder";
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = losses.gap_count;
	found->delay_ns = losses.lost_ns;
	found->worst_ns = gap ? gap->to_ns - gap->from_ns : 0;
	found->score_ppm = score_of(&losses, facts->trace);
	found->severity = KY_SEVERITY_INFO; /* it explains no harm */
	say_statement(&found->statement, &losses, facts->trace);
	say_impact(&found->impact, &losses);
	say_action(&found->action, &losses, facts->trace);
	if (gap)
		ky_finding_evidence(found, &(struct ky_evidence){.kind = "gap",
								 .from_ns = gap->from_ns,
								 .to_ns = gap->to_ns,
								 .task = UINT64_MAX,
								 .tid = gap->tid,
								 .stack = KY_NONE,
								 .event = "LossEvent"});
}
