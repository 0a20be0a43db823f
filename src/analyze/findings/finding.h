/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* finding.h - one conclusion about a trace: a cause, what it did, and what to do about it.
 *
 * Score:       the largest share that a cause explains in one of three accounts, each in task-time:
 *              ready (from wake to poll), inside polls, waiting for something that another task
 *              has. Time that the kernel took is no task's.
 * Severity:    "info" unless the cause explains KY_FIND_SHARE_PPM_MIN of an account, and its worst
 *              case is longer than KY_FIND_WORST_NS_MIN.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_FINDING_H
#define KY_ANALYZE_FINDINGS_FINDING_H

#include <analyze/code_stacks.h>
#include <base/buf.h>

#define KY_FINDING_EVIDENCE_MAX 3u
#define KY_FINDING_MISSING_MAX 16u

enum ky_find_constant {
#define KY_CONSTANT(name, value) KY_FIND_##name = (value),
#include <analyze/findings/constants.def>
#undef KY_CONSTANT
};

enum ky_finding_id {
#define KY_FINDING(name, id, version, anchor) KY_FINDING_##name,
#include <analyze/findings/findings.def>
#undef KY_FINDING
	KY_FINDING_IDS
};

enum ky_severity {
	KY_SEVERITY_INFO,
	KY_SEVERITY_WARNING,
	KY_SEVERITY_CRITICAL
};

/* Proven: events say so. Likely: samples do, or a rule with a known error. Possible: the trace
 * lacks what would tell. */
enum ky_confidence {
	KY_CONFIDENCE_POSSIBLE,
	KY_CONFIDENCE_LIKELY,
	KY_CONFIDENCE_PROVEN
};

struct ky_evidence {
	const char *kind; /* "poll", "wait", "stop", "readings" ..; constant text */
	uint64_t from_ns, to_ns;
	uint64_t task;     /* id; UINT64_MAX: none */
	uint32_t tid;      /* 0: none */
	uint32_t stack;    /* index in samples.stacks; KY_NONE */
	const char *event; /* type of the events that say so; constant text */
};

/* What the trace lacks. */
struct ky_missing {
	const char *capability, *effect; /* constant text */
	const char *action; /* what would record it; constant text; NULL: nothing known */
};

struct ky_culprit_of {
	const char *kind;     /* "task", "thread", "process", "machine", "runtime"; constant text */
	uint32_t task;        /* name index of a kind of tasks; KY_NONE */
	uint32_t thread;      /* name index; KY_NONE */
	const char *resource; /* constant text; NULL */
	const struct ky_code_line *code;   /* function and line; NULL: not known */
	const struct ky_code_line *callee; /* of the program, which that calls; NULL: none */
};

struct ky_finding {
	uint8_t id, severity, confidence; /* enums above */
	uint32_t score_ppm;
	uint64_t key; /* of the id and the culprit's names: the same in another trace */
	struct ky_culprit_of culprit;
	uint64_t victims;  /* delays, waits or tasks that were harmed */
	uint64_t delay_ns; /* by so much in all */
	uint64_t worst_ns; /* the longest of them, or of what the culprit did */
	struct ky_evidence evidence[KY_FINDING_EVIDENCE_MAX];
	uint32_t evidence_count;
	struct ky_missing missing[KY_FINDING_MISSING_MAX];
	uint32_t missing_count;
	/* Sentences: what happened; whom it hurt; what to do. */
	struct ky_buf statement, impact, action;
};

/* "blocking_call"; the section of docs/findings.md. */
const char *ky_finding_name(const struct ky_finding *finding);
const char *ky_finding_anchor(const struct ky_finding *finding);
uint32_t ky_finding_version(const struct ky_finding *finding);
/* Not of the program: what the recording cannot say. It stands after causes of harm. */
bool ky_finding_is_of_recording(const struct ky_finding *finding);
const char *ky_severity_name(uint32_t severity);
const char *ky_confidence_name(uint32_t confidence);

#endif
