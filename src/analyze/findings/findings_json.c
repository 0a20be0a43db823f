/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/findings/findings.h>

#include <base/json_write.h>
#include <base/text.h>

#define KEY_DIGITS 16u
#define SCORE_DIGITS 6u /* parts per million */

static void hex_text(struct ky_buf *out, const char *key, uint64_t number)
{
	char digits[KEY_DIGITS + 1] = "";

	for (uint32_t i = KEY_DIGITS; i-- > 0; number >>= 4)
		digits[i] = "0123456789abcdef"[number & 15];
	ky_json_text(out, key, digits);
}

static void fraction(struct ky_buf *out, const char *key, uint32_t ppm)
{
	char text[2 + SCORE_DIGITS + 1] = "0.000000";
	uint32_t i = 2 + SCORE_DIGITS;

	if (ppm >= 1000000) {
		text[0] = '1';
		ppm = 0;
	}
	while (i-- > 2) {
		text[i] = (char)('0' + ppm % 10);
		ppm /= 10;
	}
	ky_json_key(out, key);
	ky_text(out, text);
}

static void text_or_null(struct ky_buf *out, const char *key, const char *text)
{
	if (text && *text)
		ky_json_text(out, key, text);
	else
		ky_json_null(out, key);
}

static void sentence(struct ky_buf *out, const char *key, const struct ky_buf *text)
{
	ky_json_key(out, key);
	ky_json_string(out, (const char *)text->bytes, text->used);
}

static void culprit(struct ky_buf *out, const struct ky_trace *trace,
		    const struct ky_culprit_of *culprit)
{
	const struct ky_code_line *code = culprit->code;

	ky_json_open(out, "culprit", "{");
	ky_json_text(out, "kind", culprit->kind);
	text_or_null(out, "task",
		     culprit->task != KY_NONE ? ky_trace_name(trace, culprit->task) : NULL);
	text_or_null(out, "function", code ? code->name : NULL);
	if (code && *code->file) {
		struct ky_buf site;

		ky_buf_init(&site, 0);
		ky_text(&site, code->file);
		if (code->line) {
			ky_text(&site, ":");
			ky_text_u64(&site, code->line);
		}
		sentence(out, "site", &site);
		out->failed = out->failed ? out->failed : site.failed;
		ky_buf_release(&site);
	} else {
		ky_json_null(out, "site");
	}
	text_or_null(out, "thread",
		     culprit->thread != KY_NONE ? ky_trace_name(trace, culprit->thread) : NULL);
	text_or_null(out, "resource", culprit->resource);
	text_or_null(out, "callee", culprit->callee ? culprit->callee->name : NULL);
	ky_json_close(out, "}");
}

static void evidence(struct ky_buf *out, const struct ky_trace *trace,
		     const struct ky_finding *finding)
{
	ky_json_open(out, "evidence", "[");
	for (uint32_t i = 0; i < finding->evidence_count; i++) {
		const struct ky_evidence *one = &finding->evidence[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "kind", one->kind);
		ky_json_signed(out, "from_ns", (int64_t)(one->from_ns - trace->run_first_ns));
		ky_json_signed(out, "to_ns", (int64_t)(one->to_ns - trace->run_first_ns));
		ky_json_number_or_null(out, "thread", one->tid != 0, one->tid);
		ky_json_number_or_null(out, "task", one->task != UINT64_MAX, one->task);
		text_or_null(out, "event", one->event);
		ky_json_number_or_null(out, "stack", one->stack != KY_NONE, one->stack);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
	ky_json_open(out, "missing", "[");
	for (uint32_t i = 0; i < finding->missing_count; i++) {
		ky_json_open(out, NULL, "{");
		ky_json_text(out, "capability", finding->missing[i].capability);
		ky_json_text(out, "effect", finding->missing[i].effect);
		text_or_null(out, "action", finding->missing[i].action);
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void one_finding(struct ky_buf *out, const struct ky_trace *trace,
			const struct ky_finding *finding)
{
	ky_json_open(out, NULL, "{");
	ky_json_text(out, "id", ky_finding_name(finding));
	ky_json_number(out, "version", ky_finding_version(finding));
	hex_text(out, "key", finding->key);
	ky_json_text(out, "severity", ky_severity_name(finding->severity));
	fraction(out, "score", finding->score_ppm);
	ky_json_text(out, "confidence", ky_confidence_name(finding->confidence));
	sentence(out, "statement", &finding->statement);
	culprit(out, trace, &finding->culprit);
	ky_json_open(out, "impact", "{");
	ky_json_number(out, "victims", finding->victims);
	ky_json_number(out, "delay_ns", finding->delay_ns);
	fraction(out, "share", finding->score_ppm);
	ky_json_number(out, "worst_ns", finding->worst_ns);
	sentence(out, "statement", &finding->impact);
	ky_json_close(out, "}");
	evidence(out, trace, finding);
	sentence(out, "action", &finding->action);
	ky_json_key(out, "doc");
	ky_text(out, "\"docs/findings.md#");
	ky_text(out, ky_finding_anchor(finding));
	ky_text(out, "\"");
	ky_json_close(out, "}");
}

void ky_findings_report_json(struct ky_buf *out, const struct ky_findings *findings,
			     const struct ky_report *report, const struct ky_stack_profile *profile)
{
	const struct ky_trace *trace = findings->facts.trace;
	const char *id = ky_trace_metadata(trace, "trace.id");

	ky_text(out, "{");
	ky_json_text(out, "schema", "kymo.findings/1");
	ky_process_json(out, trace);
	ky_json_open(out, "trace", "{");
	text_or_null(out, "id", id);
	ky_json_number_text(out, "start_mono_ns", trace->run_first_ns);
	ky_json_number_text(out, "start_unix_ns", ky_trace_unix_ns(trace, trace->run_first_ns));
	ky_json_number(out, "duration_ns", trace->run_last_ns - trace->run_first_ns);
	ky_json_close(out, "}");
	ky_json_open(out, "findings", "[");
	for (uint32_t i = 0; i < findings->count; i++)
		one_finding(out, trace, &findings->list[i]);
	ky_json_close(out, "]");
	ky_json_key(out, "tables");
	ky_report_json(out, trace, report, profile);
	ky_json_close(out, "}");
}
