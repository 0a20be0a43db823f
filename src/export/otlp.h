/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* otlp.h - a trace as OpenTelemetry's protocol has it: bodies of requests to /v1/metrics and
 * /v1/traces, in protobuf, not packed.
 *
 *   metrics  kymo.task.poll.duration, kymo.task.poll.delay: exponential histograms in seconds by
 *            kymo.site, of the KY_OTLP_SITES with the most poll time, and "other";
 *            kymo.task.poll.slow, kymo.lost.records: sums. All are of this trace alone (delta).
 *   traces   findings, and the longest polls beyond KY_FIND_LONG_NS, as spans; under the trace id
 *            that a field of a span of the same task says (otlp_ids.h), else under one of the task,
 *            and for findings of the recording.
 *   profiles stacks, to /v1development/profiles
 *
 * Invariants:  deterministic: the same trace has the same bytes and ids, so a receiver that gets
 *              one twice can tell. Counts and sums are those of `kymo report`. No metadata of the
 *              program, no argument, no field of a span but its trace's id gets out.
 * Threads:     owner.
 */
#ifndef KY_EXPORT_OTLP_H
#define KY_EXPORT_OTLP_H

#include <analyze/findings/findings.h>
#include <base/buf.h>
#include <export/export.h>

#define KY_OTLP_SITES 200u
#define KY_OTLP_POLL_SPANS 1000u /* the longest; KY_REPORT_WORST_MAX of the report */

struct ky_otlp {
	const struct ky_trace *trace; /* with a reading of the wall clock */
	const struct ky_report *report;
	const struct ky_findings *findings;
	uint64_t from_ns, to_ns; /* as the report was made with; to 0: no end */
	/* What a text is outside of this machine; valid until the next call. NULL: itself. */
	const char *(*clean)(void *ctx, const char *text);
	void *clean_ctx;
	/* set by them */
	uint64_t poll_count, delay_count, slow_count;
	uint32_t site_count, poll_spans, finding_spans;
	uint32_t named_spans; /* of both: under a recorded trace id */
};

/* Appends. Returns 0; -ENOMEM, KYMO_E_LIMIT. */
/* Open polls are told by the segment in which they end; at the end of the process by the last. */
static inline bool ky_otlp_is_whole(const struct ky_poll *poll)
{
	return !(poll->flags & KY_POLL_OPEN) || (poll->flags & KY_POLL_AT_EXIT);
}

int ky_otlp_metrics(struct ky_buf *out, struct ky_otlp *otlp);
int ky_otlp_traces(struct ky_buf *out, struct ky_otlp *otlp);

/* Samples as OpenTelemetry's profiles, of all kinds that there are, each a profile: a protocol that
 * is in development. export: with code and symbols; its kind is changed. Returns the same. */
int ky_otlp_profiles(struct ky_buf *out, struct ky_export *export, uint64_t *profile_count);

/* ---- for all of them ---- */

/* Messages inside messages: one buffer a depth. */
struct ky_otlp_writer {
	const struct ky_otlp *otlp;
	struct ky_buf value, pair;   /* of an attribute */
	struct ky_buf inner, middle; /* points, events, links */
	struct ky_buf item;          /* a metric or a span */
	struct ky_buf scope;         /* its items */
};

void ky_otlp_begin(struct ky_otlp_writer *writer, const struct ky_otlp *otlp);
/* Appends resource and scope with what is in writer->scope. Returns as above, after release.
 * is_of_metrics: the resource is the process alone: what differs from trace to trace would make
 * each a time series of its own. */
int ky_otlp_end(struct ky_otlp_writer *writer, struct ky_buf *out, bool is_of_metrics);

/* An attribute as field of `out`. Texts are cleaned. */
void ky_otlp_text(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		  const char *key, const char *text);
void ky_otlp_number(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		    const char *key, uint64_t number);
void ky_otlp_share(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		   const char *key, uint32_t ppm);
void ky_otlp_flag(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		  const char *key);
/* A field that is a text. */
void ky_otlp_field(struct ky_otlp_writer *writer, struct ky_buf *out, uint32_t field,
		   const char *text);
/* "(unnamed)" where there is none. */
const char *ky_otlp_site(const struct ky_otlp *otlp, uint32_t name);

#endif
