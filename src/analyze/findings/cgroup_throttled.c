/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The CPU limit of a cgroup kept the process from running. */
#include <analyze/findings/find.h>

#include <analyze/findings/say.h>
#include <base/text.h>
#include <read/stops.h>

/* The kernel adds up over CPUs: no more of it than the interval is time of the process. */
static uint64_t held_ns(const struct ky_trace_throttle *one)
{
	uint64_t interval_ns = one->to_ns - one->from_ns;

	return one->throttled_ns < interval_ns ? one->throttled_ns : interval_ns;
}

void ky_find_throttling(struct ky_findings *findings)
{
	const struct ky_trace *trace = findings->facts.trace;
	const struct ky_report *report = findings->facts.report;
	const struct ky_trace_throttle *longest = NULL;
	uint64_t all_ns = 0, count = 0, lasted_ns = report->to_ns - report->from_ns;
	struct ky_finding *found;

	for (uint32_t i = 0; i < trace->throttle_count; i++) {
		const struct ky_trace_throttle *one = &trace->throttles[i];

		if (one->to_ns <= report->from_ns || one->from_ns >= report->to_ns)
			continue;
		count++;
		all_ns += held_ns(one);
		if (!longest || held_ns(one) > held_ns(longest))
			longest = one;
	}
	found = longest ? ky_findings_add(findings, KY_FINDING_CGROUP_THROTTLED) : NULL;
	if (!found)
		return;
	found->culprit.kind = "process";
	found->culprit.resource = "CPU limit of the cgroup";
	found->confidence = KY_CONFIDENCE_PROVEN;
	found->victims = count;
	found->delay_ns = all_ns;
	ky_finding_judge(found, ky_share_ppm(all_ns, lasted_ns), held_ns(longest));
	ky_text(&found->statement, "The CPU limit of its cgroup held the process back in ");
	ky_say_many(&found->statement, count, "interval", "intervals");
	ky_text(&found->statement, ", for ");
	ky_say_ns(&found->statement, all_ns);
	ky_text(&found->statement, " in all and up to ");
	ky_say_ns(&found->statement, held_ns(longest));
	ky_text(&found->statement, " in one.");
	ky_text(&found->impact, "All threads of the group wait then: ");
	ky_say_ppm(&found->impact, found->score_ppm);
	ky_text(&found->impact, " of the recorded time, as the kernel counts it.");
	ky_text(&found->action,
		"Raise cpu.max, or run fewer workers than the limit has CPUs: threads "
		"that run together use the quota up early in each period.");
	ky_finding_evidence(found, &(struct ky_evidence){.kind = "throttling",
							 .from_ns = longest->from_ns,
							 .to_ns = longest->to_ns,
							 .task = UINT64_MAX,
							 .stack = KY_NONE,
							 .event = "CgroupThrottledEvent"});
}
