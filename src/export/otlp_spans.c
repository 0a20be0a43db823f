/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <export/otlp.h>

#include <base/text.h>
#include <errno.h>
#include <export/otlp_ids.h>
#include <export/proto.h>
#include <string.h>
#include <read/turns.h>

/* opentelemetry/proto/trace/v1 */
enum span_field {
	SCOPE_SPANS = 2,
	SPAN_TRACE_ID = 1,
	SPAN_ID = 2,
	SPAN_PARENT = 4,
	SPAN_NAME = 5,
	SPAN_KIND = 6,
	SPAN_START = 7,
	SPAN_END = 8,
	SPAN_ATTRIBUTES = 9,
	SPAN_EVENTS = 11,
	SPAN_LINKS = 13,
	EVENT_TIME = 1,
	EVENT_NAME = 2,
	EVENT_ATTRIBUTES = 3,
	LINK_TRACE_ID = 1,
	LINK_SPAN_ID = 2
};
#define KIND_INTERNAL 1u
#define OF_POLL "poll"
#define OF_FINDINGS "findings"

struct spans {
	struct ky_otlp *otlp;
	const struct ky_trace *trace;
	struct ky_otlp_ids ids;
	struct ky_otlp_writer writer;
};

/* Under what was recorded, else under the task's own trace. */
static bool find_id(const struct spans *spans, uint32_t task, uint64_t from_ns, uint64_t to_ns,
		    struct ky_otlp_id *out)
{
	if (ky_otlp_ids_find(&spans->ids, task, from_ns, to_ns, out))
		return true;
	memset(out, 0, sizeof(*out));
	ky_otlp_ids_derive_trace(&spans->ids, "task",
				 task == KY_NONE ? UINT64_MAX : spans->trace->tasks[task].id,
				 out->trace);
	return false;
}

static void put_head(struct spans *spans, const struct ky_otlp_id *id, const uint8_t *span,
		     uint64_t from_ns, uint64_t to_ns)
{
	struct ky_buf *out = &spans->writer.item;
	uint64_t unix_ns = ky_trace_unix_ns(spans->trace, from_ns);

	ky_proto_bytes(out, SPAN_TRACE_ID, id->trace, sizeof(id->trace));
	ky_proto_bytes(out, SPAN_ID, span, KY_OTLP_SPAN_BYTES);
	if (id->has_span)
		ky_proto_bytes(out, SPAN_PARENT, id->span, sizeof(id->span));
	ky_proto_number(out, SPAN_KIND, KIND_INTERNAL);
	ky_proto_fixed64(out, SPAN_START, unix_ns);
	/* By the same reading of the clock: its length is right across a step of the wall clock. */
	ky_proto_fixed64(out, SPAN_END, unix_ns + (to_ns > from_ns ? to_ns - from_ns : 0));
}

static void put_text(struct spans *spans, const char *key, const char *text)
{
	if (text && *text)
		ky_otlp_text(&spans->writer, &spans->writer.item, SPAN_ATTRIBUTES, key, text);
}

static void put_number(struct spans *spans, const char *key, uint64_t number)
{
	ky_otlp_number(&spans->writer, &spans->writer.item, SPAN_ATTRIBUTES, key, number);
}

static void put_sentence(struct spans *spans, const char *key, const struct ky_buf *sentence)
{
	struct ky_buf text;

	ky_buf_init(&text, 0);
	(void)ky_buf_append(&text, sentence->bytes, sentence->used);
	if (!ky_buf_append(&text, "", 1) && !text.failed)
		put_text(spans, key, (const char *)text.bytes);
	else
		spans->writer.item.failed = text.failed;
	ky_buf_release(&text);
}

static void end_span(struct spans *spans)
{
	ky_proto_message(&spans->writer.scope, SCOPE_SPANS, &spans->writer.item);
}

/* ---- polls ---- */

static void put_poll(struct spans *spans, const struct ky_worst *worst)
{
	const struct ky_poll *poll = &worst->poll;
	const struct ky_trace *trace = spans->trace;
	const struct ky_worker *worker = &trace->workers[poll->worker];
	uint32_t tid = ky_trace_thread_at(trace, poll->worker, poll->start_ns);
	uint64_t end_ns = poll->start_ns + poll->duration_ns;
	uint8_t span[KY_OTLP_SPAN_BYTES];
	struct ky_otlp_id id;
	struct ky_buf name;

	spans->otlp->named_spans += find_id(spans, poll->task, poll->start_ns, end_ns, &id);
	ky_otlp_ids_derive_span(&spans->ids, OF_POLL, trace->tasks[poll->task].id, poll->start_ns,
				span);
	put_head(spans, &id, span, poll->start_ns, end_ns);
	ky_buf_init(&name, 0);
	ky_text(&name, "poll ");
	ky_text(&name, ky_otlp_site(spans->otlp, poll->name));
	if (!ky_buf_append(&name, "", 1) && !name.failed)
		ky_otlp_field(&spans->writer, &spans->writer.item, SPAN_NAME,
			      (const char *)name.bytes);
	else
		spans->writer.item.failed = name.failed;
	ky_buf_release(&name);
	put_text(spans, "kymo.site", ky_otlp_site(spans->otlp, poll->name));
	put_number(spans, "kymo.task.id", trace->tasks[poll->task].id);
	if (worker->is_worker && !worker->is_thread_lane)
		put_number(spans, "kymo.worker.id", worker->id);
	if (tid)
		put_number(spans, "thread.id", tid);
	if (!poll->delay_state)
		put_number(spans, "kymo.poll.delay_ns", ky_worst_delay_ns(worst));
	if (worst->stopped_ns)
		put_number(spans, "kymo.poll.stopped_ns", worst->stopped_ns);
	if (poll->flags & KY_POLL_OPEN)
		ky_otlp_flag(&spans->writer, &spans->writer.item, SPAN_ATTRIBUTES,
			     "kymo.poll.is_open");
	end_span(spans);
	spans->otlp->poll_spans++;
}

/* Longest first. */
static void put_polls(struct spans *spans)
{
	const struct ky_report *report = spans->otlp->report;

	for (uint32_t i = 0; i < report->worst_poll_count && i < KY_OTLP_POLL_SPANS; i++)
		if (ky_worst_poll_ns(&report->worst_polls[i]) > KY_FIND_LONG_NS &&
		    ky_otlp_is_whole(&report->worst_polls[i].poll))
			put_poll(spans, &report->worst_polls[i]);
}

/* Is this poll among those? */
static bool has_poll(const struct spans *spans, uint64_t task, uint64_t start_ns)
{
	const struct ky_report *report = spans->otlp->report;

	for (uint32_t i = 0; i < report->worst_poll_count && i < KY_OTLP_POLL_SPANS; i++) {
		const struct ky_worst *worst = &report->worst_polls[i];

		if (worst->poll.start_ns == start_ns &&
		    spans->trace->tasks[worst->poll.task].id == task)
			return ky_worst_poll_ns(worst) > KY_FIND_LONG_NS &&
			       ky_otlp_is_whole(&worst->poll);
	}
	return false;
}

/* ---- findings ---- */

static void put_evidence(struct spans *spans, const struct ky_evidence *evidence)
{
	struct ky_otlp_writer *writer = &spans->writer;
	struct ky_buf *out = &writer->inner;
	struct ky_otlp_id id;

	ky_proto_fixed64(out, EVENT_TIME, ky_trace_unix_ns(spans->trace, evidence->from_ns));
	ky_proto_text(out, EVENT_NAME, evidence->kind);
	ky_otlp_number(writer, out, EVENT_ATTRIBUTES, "kymo.duration_ns",
		       evidence->to_ns - evidence->from_ns);
	if (evidence->task != UINT64_MAX)
		ky_otlp_number(writer, out, EVENT_ATTRIBUTES, "kymo.task.id", evidence->task);
	if (evidence->tid)
		ky_otlp_number(writer, out, EVENT_ATTRIBUTES, "thread.id", evidence->tid);
	if (evidence->event)
		ky_otlp_text(writer, out, EVENT_ATTRIBUTES, "kymo.event", evidence->event);
	ky_proto_message(&writer->item, SPAN_EVENTS, out);
	if (evidence->task == UINT64_MAX || !has_poll(spans, evidence->task, evidence->from_ns))
		return;
	(void)find_id(spans, ky_trace_task(spans->trace, evidence->task), evidence->from_ns,
		      evidence->to_ns, &id);
	ky_otlp_ids_derive_span(&spans->ids, OF_POLL, evidence->task, evidence->from_ns, id.span);
	ky_proto_bytes(out, LINK_TRACE_ID, id.trace, sizeof(id.trace));
	ky_proto_bytes(out, LINK_SPAN_ID, id.span, sizeof(id.span));
	ky_proto_message(&writer->item, SPAN_LINKS, out);
}

static void put_culprit(struct spans *spans, const struct ky_culprit_of *culprit)
{
	const struct ky_trace *trace = spans->trace;

	put_text(spans, "kymo.culprit.kind", culprit->kind);
	if (culprit->task != KY_NONE)
		put_text(spans, "kymo.site", ky_trace_name(trace, culprit->task));
	if (culprit->thread != KY_NONE)
		put_text(spans, "thread.name", ky_trace_name(trace, culprit->thread));
	put_text(spans, "kymo.culprit.resource", culprit->resource);
	if (!culprit->code)
		return;
	put_text(spans, "code.function.name", culprit->code->name);
	put_text(spans, "code.file.path", culprit->code->file);
	if (culprit->code->line)
		put_number(spans, "code.line.number", culprit->code->line);
}

static void put_facts(struct spans *spans, const struct ky_finding *finding)
{
	put_text(spans, "kymo.finding.severity", ky_severity_name(finding->severity));
	put_text(spans, "kymo.finding.confidence", ky_confidence_name(finding->confidence));
	ky_otlp_share(&spans->writer, &spans->writer.item, SPAN_ATTRIBUTES, "kymo.finding.score",
		      finding->score_ppm);
	put_sentence(spans, "kymo.finding.statement", &finding->statement);
	put_sentence(spans, "kymo.finding.impact", &finding->impact);
	put_sentence(spans, "kymo.finding.action", &finding->action);
	put_number(spans, "kymo.finding.victims", finding->victims);
	put_number(spans, "kymo.finding.delay_ns", finding->delay_ns);
	put_number(spans, "kymo.finding.worst_ns", finding->worst_ns);
}

/* Its time is that of its worst case, so that it stands beside the request that had it. */
static void put_finding(struct spans *spans, const struct ky_finding *finding)
{
	const struct ky_evidence *first = finding->evidence_count ? &finding->evidence[0] : NULL;
	const struct ky_trace *trace = spans->trace;
	uint64_t from_ns = first ? first->from_ns : spans->otlp->report->from_ns;
	uint64_t to_ns = first ? first->to_ns : spans->otlp->report->to_ns;
	uint8_t span[KY_OTLP_SPAN_BYTES];
	struct ky_otlp_id id;

	if (first && first->task != UINT64_MAX &&
	    ky_otlp_ids_find(&spans->ids, ky_trace_task(trace, first->task), from_ns, to_ns, &id)) {
		spans->otlp->named_spans++;
	} else {
		memset(&id, 0, sizeof(id));
		ky_otlp_ids_derive_trace(&spans->ids, OF_FINDINGS, trace->run_first_ns, id.trace);
	}
	ky_otlp_ids_derive_span(&spans->ids, OF_FINDINGS, finding->key, from_ns, span);
	put_head(spans, &id, span, from_ns, to_ns);
	ky_proto_text(&spans->writer.item, SPAN_NAME, ky_finding_name(finding));
	put_facts(spans, finding);
	put_culprit(spans, &finding->culprit);
	for (uint32_t i = 0; i < finding->evidence_count; i++)
		put_evidence(spans, &finding->evidence[i]);
	end_span(spans);
	spans->otlp->finding_spans++;
}

int ky_otlp_traces(struct ky_buf *out, struct ky_otlp *otlp)
{
	struct spans spans = {.otlp = otlp, .trace = otlp->trace};
	int result = ky_otlp_ids_make(&spans.ids, otlp->trace), ended;

	otlp->poll_spans = otlp->finding_spans = otlp->named_spans = 0;
	ky_otlp_begin(&spans.writer, otlp);
	if (!result) {
		for (uint32_t i = 0; i < otlp->findings->count; i++)
			put_finding(&spans, &otlp->findings->list[i]);
		put_polls(&spans);
	}
	ended = ky_otlp_end(&spans.writer, out, false);
	ky_otlp_ids_release(&spans.ids);
	return result ? result : ended;
}
