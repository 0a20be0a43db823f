/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* findings.h - all findings of a trace, worst first.
 *
 * Invariants:  deterministic: the same trace gives the same bytes on every machine.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_FINDINGS_H
#define KY_ANALYZE_FINDINGS_FINDINGS_H

#include <analyze/findings/facts.h>
#include <analyze/findings/finding.h>

struct ky_findings_options {
	/* What a system call is called; NULL, or returns NULL: it is told by its number. */
	const char *(*call_name)(const struct ky_trace *trace, uint32_t number);
};

struct ky_findings {
	struct ky_facts facts;
	struct ky_findings_options options;
	struct ky_finding *list; /* severity, causes before the recording, score, key */
	uint32_t count, capacity;
	uint32_t alarm_count; /* above info: the first ones */
	bool failed;          /* memory was short */
};

/* options: NULL: none. Returns 0, -ENOMEM. What it is made from has to live as long. */
int ky_findings_make(struct ky_findings **out, const struct ky_trace *trace,
		     const struct ky_report *report, const struct ky_stack_profile *profile,
		     const struct ky_findings_options *options);
void ky_findings_free(struct ky_findings *findings);

/* What `kymo report --json` prints, one object: docs/findings.schema.json, with the report and the
 * profile under "tables". Errors: buf->failed. */
void ky_findings_report_json(struct ky_buf *out, const struct ky_findings *findings,
			     const struct ky_report *report,
			     const struct ky_stack_profile *profile);

/* For those that find: a new finding of that id, empty; NULL where memory is short. */
struct ky_finding *ky_findings_add(struct ky_findings *findings, enum ky_finding_id id);
/* Those that were found before: the one of that id and kind of task; NULL. */
struct ky_finding *ky_findings_of_task(const struct ky_findings *findings, enum ky_finding_id id,
				       uint32_t task);
/* Takes the last one back. */
void ky_findings_drop(struct ky_findings *findings);
/* Sets score and severity by what it explains of which account. */
void ky_finding_judge(struct ky_finding *finding, uint32_t score_ppm, uint64_t worst_ns);
/* Lowers it to info where so few waits or polls from KY_FIND_WORST_NS_MIN on, the longest of which
 * has `worst_ns`, may have been made by the machine. Of polls its share is known and left out. */
void ky_findings_doubt_few(const struct ky_findings *findings, struct ky_finding *finding,
			   uint64_t count, uint64_t worst_ns, bool are_polls);
/* Adds one piece of evidence; beyond KY_FINDING_EVIDENCE_MAX it is left out. */
void ky_finding_evidence(struct ky_finding *finding, const struct ky_evidence *evidence);
/* Adds what the trace lacks, constant text; beyond KY_FINDING_MISSING_MAX it is left out.
 * action: NULL: none is known. */
void ky_finding_lacks(struct ky_finding *finding, const char *capability, const char *effect,
		      const char *action);

#endif
