/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/findings.h>

#include <analyze/findings/find.h>
#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <read/sort.h>
#include <string.h>

static const struct {
	const char *name, *anchor;
	uint32_t version;
} ids[KY_FINDING_IDS] = {
#define KY_FINDING(name, id, version, anchor) [KY_FINDING_##name] = {id, anchor, version},
#include <analyze/findings/findings.def>
#undef KY_FINDING
};

/* Of tasks that are not polled any more. */
static void find_idle(struct ky_findings *findings)
{
	struct ky_last_polls polls;

	if (ky_last_polls_make(&polls, &findings->facts)) {
		findings->failed = true;
		return;
	}
	ky_find_lost_wakes(findings, &polls);
	ky_find_unanswered(findings, &polls);
	ky_find_stuck_pool(findings, &polls);
	ky_find_task_leaks(findings, &polls);
	ky_find_queue_growth(findings, &polls);
	ky_last_polls_release(&polls);
}

/* One file each: what it finds is in its name. */
static void (*const finders[])(struct ky_findings *) = {
	ky_find_starvation,      ky_find_long_polls,     ky_find_lock_convoy,
	ky_find_stops,           ky_find_throttling,     ky_find_overload,
	ky_find_herds,           ky_find_self_wakes,     ky_find_redundant_wakes,
	ky_find_driver_gaps,     ky_find_held_resources, ky_find_accept_queues,
	ky_find_accept_delays,   ky_find_handovers,      find_idle,
	ky_find_timed_out_waits, ky_find_hot_workers,    ky_find_root_polls,
	ky_find_recorder_losses, ky_find_recorder_setup, ky_find_uninstrumented,
};

const char *ky_finding_name(const struct ky_finding *finding)
{
	return ids[finding->id].name;
}

const char *ky_finding_anchor(const struct ky_finding *finding)
{
	return ids[finding->id].anchor;
}

uint32_t ky_finding_version(const struct ky_finding *finding)
{
	return ids[finding->id].version;
}

bool ky_finding_is_of_recording(const struct ky_finding *finding)
{
	return finding->id == KY_FINDING_RECORDER_LOSSES ||
	       finding->id == KY_FINDING_RECORDER_SETUP ||
	       finding->id == KY_FINDING_UNINSTRUMENTED_TASKS;
}

const char *ky_severity_name(uint32_t severity)
{
	return severity == KY_SEVERITY_CRITICAL ? "critical" :
	       severity == KY_SEVERITY_WARNING  ? "warning" :
						  "info";
}

const char *ky_confidence_name(uint32_t confidence)
{
	return confidence == KY_CONFIDENCE_PROVEN ? "proven" :
	       confidence == KY_CONFIDENCE_LIKELY ? "likely" :
						    "possible";
}

struct ky_finding *ky_findings_add(struct ky_findings *findings, enum ky_finding_id id)
{
	struct ky_finding *one;

	if (ky_grow(&findings->list, &findings->capacity, findings->count + 1,
		    sizeof(*findings->list))) {
		findings->failed = true;
		return NULL;
	}
	one = &findings->list[findings->count++];
	*one = (struct ky_finding){
		.id = (uint8_t)id,
		.culprit = {.kind = "runtime", .task = KY_NONE, .thread = KY_NONE}};
	ky_buf_init(&one->statement, 0);
	ky_buf_init(&one->impact, 0);
	ky_buf_init(&one->action, 0);
	return one;
}

struct ky_finding *ky_findings_of_task(const struct ky_findings *findings, enum ky_finding_id id,
				       uint32_t task)
{
	for (uint32_t i = 0; i < findings->count; i++)
		if (findings->list[i].id == id && findings->list[i].culprit.task == task)
			return &findings->list[i];
	return NULL;
}

static void release(struct ky_finding *one)
{
	ky_buf_release(&one->statement);
	ky_buf_release(&one->impact);
	ky_buf_release(&one->action);
}

void ky_findings_drop(struct ky_findings *findings)
{
	release(&findings->list[--findings->count]);
}

void ky_finding_judge(struct ky_finding *finding, uint32_t score_ppm, uint64_t worst_ns)
{
	finding->score_ppm = score_ppm;
	finding->worst_ns = worst_ns;
	finding->severity = KY_SEVERITY_INFO;
	if (score_ppm < KY_FIND_SHARE_PPM_MIN || worst_ns < KY_FIND_WORST_NS_MIN)
		return;
	finding->severity = score_ppm >= KY_FIND_CRITICAL_PPM && worst_ns >= KY_FIND_CRITICAL_NS ?
				    KY_SEVERITY_CRITICAL :
				    KY_SEVERITY_WARNING;
}

void ky_findings_doubt_few(const struct ky_findings *findings, struct ky_finding *finding,
			   uint64_t count, uint64_t worst_ns, bool are_polls)
{
	const struct ky_report *report = findings->facts.report;
	const struct ky_finding *starved = ky_findings_of_task(findings, KY_FINDING_CPU_STARVATION,
							       KY_NONE);
	bool is_starved = starved && starved->severity != KY_SEVERITY_INFO;

	/* In so short a recording they had no time to come again. */
	if (report->to_ns - report->from_ns < KY_FIND_AGAIN_NS)
		return;
	if ((count < KY_FIND_SAMPLES_MIN &&
	     worst_ns < (are_polls ? KY_FIND_STARVED_NS : KY_FIND_CRITICAL_NS)) ||
	    (is_starved && count < KY_FIND_STUCK_WAITS && worst_ns < KY_FIND_STARVED_NS))
		finding->severity = KY_SEVERITY_INFO;
}

void ky_finding_evidence(struct ky_finding *finding, const struct ky_evidence *evidence)
{
	if (finding->evidence_count < KY_FINDING_EVIDENCE_MAX)
		finding->evidence[finding->evidence_count++] = *evidence;
}

void ky_finding_lacks(struct ky_finding *finding, const char *capability, const char *effect,
		      const char *action)
{
	if (finding->missing_count < KY_FINDING_MISSING_MAX)
		finding->missing[finding->missing_count++] = (struct ky_missing){capability, effect,
										 action};
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return text ? ky_hash_bytes(hash, text, strlen(text) + 1) : hash;
}

static void set_key(struct ky_finding *one, const struct ky_trace *trace)
{
	uint64_t hash = hash_text(KY_HASH_START, ky_finding_name(one));

	hash = hash_text(hash, one->culprit.kind);
	hash = hash_text(hash, ky_trace_name(trace, one->culprit.task));
	hash = hash_text(hash, ky_trace_name(trace, one->culprit.thread));
	hash = hash_text(hash, one->culprit.resource);
	one->key = hash_text(hash, one->culprit.code ? one->culprit.code->name : NULL);
}

static bool is_worse(const void *first, const void *second, const void *ctx)
{
	const struct ky_finding *a = first, *b = second;

	(void)ctx;
	if ((a->severity == KY_SEVERITY_INFO) != (b->severity == KY_SEVERITY_INFO))
		return a->severity > b->severity;
	if (ky_finding_is_of_recording(a) != ky_finding_is_of_recording(b))
		return ky_finding_is_of_recording(b);
	if (a->severity != b->severity)
		return a->severity > b->severity;
	if (a->score_ppm != b->score_ppm)
		return a->score_ppm > b->score_ppm;
	if (a->worst_ns != b->worst_ns)
		return a->worst_ns > b->worst_ns;
	return a->id != b->id ? a->id < b->id : a->key < b->key;
}

static bool is_broken(const struct ky_findings *findings)
{
	bool is_failed = findings->failed;

	for (uint32_t i = 0; i < findings->count; i++)
		is_failed |= findings->list[i].statement.failed ||
			     findings->list[i].impact.failed || findings->list[i].action.failed;
	return is_failed;
}

int ky_findings_make(struct ky_findings **out, const struct ky_trace *trace,
		     const struct ky_report *report, const struct ky_stack_profile *profile,
		     const struct ky_findings_options *options)
{
	struct ky_findings *findings = ky_alloc(sizeof(*findings));

	*out = NULL;
	if (!findings)
		return -ENOMEM;
	if (options)
		findings->options = *options;
	if (ky_facts_make(&findings->facts, trace, report, profile)) {
		ky_free(findings);
		return -ENOMEM;
	}
	for (size_t i = 0; i < sizeof(finders) / sizeof(*finders); i++)
		finders[i](findings);
	for (uint32_t i = 0; i < findings->count; i++)
		set_key(&findings->list[i], trace);
	ky_sort(findings->list, findings->count, sizeof(*findings->list), is_worse, NULL);
	while (findings->alarm_count < findings->count &&
	       findings->list[findings->alarm_count].severity != KY_SEVERITY_INFO)
		findings->alarm_count++;
	if (is_broken(findings)) {
		ky_findings_free(findings);
		return -ENOMEM;
	}
	*out = findings;
	return 0;
}

void ky_findings_free(struct ky_findings *findings)
{
	if (!findings)
		return;
	for (uint32_t i = 0; i < findings->count; i++)
		release(&findings->list[i]);
	ky_free(findings->list);
	ky_facts_release(&findings->facts);
	ky_free(findings);
}
