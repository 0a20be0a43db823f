/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/request_bodies.h>

#include <analyze/stack_profile.h>
#include <base/now.h>
#include <cli/cli.h>
#include <cli/shared_options.h>
#include <edit/redact.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <report/syscall_name.h>
#include <string.h>

void ky_request_bodies_init(struct ky_request_bodies *bodies)
{
	memset(bodies, 0, sizeof(*bodies));
	for (uint32_t i = 0; i < KY_PUSH_SIGNALS; i++) {
		bodies->bodies[i].signal = i;
		ky_buf_init(&bodies->bodies[i].bytes, 0);
	}
}

void ky_request_bodies_release(struct ky_request_bodies *bodies)
{
	for (uint32_t i = 0; i < KY_PUSH_SIGNALS; i++)
		ky_buf_release(&bodies->bodies[i].bytes);
}

static const char *clean(void *ctx, const char *text)
{
	return ky_redact_text(ctx, text);
}

/* ---- OpenTelemetry ---- */

static int write_otlp(struct ky_request_bodies *out)
{
	struct ky_redact redact;
	int result = ky_redact_init(&redact, KY_REDACT_LEVEL_ARGS);

	out->otlp.clean = clean;
	out->otlp.clean_ctx = &redact;
	if (!result)
		result = ky_otlp_traces(&out->bodies[KY_PUSH_TRACES].bytes, &out->otlp);
	if (!result)
		result = ky_otlp_metrics(&out->bodies[KY_PUSH_METRICS].bytes, &out->otlp);
	ky_redact_release(&redact);
	return result;
}

int ky_request_bodies_otlp(struct ky_request_bodies *out, const struct ky_export *export,
			   struct ky_symbol_table *symbols)
{
	const struct ky_report_options report_options = {.from_ns = export->from_ns,
							 .to_ns = export->to_ns,
							 .worst_count = KY_REPORT_WORST_MAX};
	const struct ky_stack_profile_options profile_options = {.from_ns = export->from_ns,
								 .to_ns = export->to_ns};
	const struct ky_findings_options findings_options = {.call_name = ky_trace_call_name};
	struct ky_stack_profile *profile = NULL;
	struct ky_findings *findings = NULL;
	struct ky_report *report = NULL;
	int result;

	result = ky_report_make(&report, export->trace, &report_options);
	if (!result)
		result = ky_stack_profile_make(&profile, export->trace, report, symbols,
					       &profile_options);
	if (!result)
		result = ky_findings_make(&findings, export->trace, report, profile,
					  &findings_options);
	out->otlp = (struct ky_otlp){.trace = export->trace,
				     .report = report,
				     .findings = findings,
				     .from_ns = export->from_ns,
				     .to_ns = export->to_ns};
	if (!result)
		result = write_otlp(out);
	ky_findings_free(findings);
	ky_stack_profile_free(profile);
	ky_report_free(report);
	return result;
}

/* ---- profiles ---- */

static int add_profile(struct ky_request_bodies *out, struct ky_export *export)
{
	int result = ky_export_prepare(export);

	if (!result && export->row_count) {
		result = ky_export_pprof_series(&out->bodies[KY_PUSH_PPROF].bytes, export);
		out->profile_count++;
		out->sample_count += export->row_count;
	}
	ky_export_release(export);
	return result;
}

struct named_code {
	struct ky_code_stacks code;
	struct ky_redact redact;
};

/* Either way it is to be released. */
static int name_code(struct named_code *named, struct ky_export *export,
		     struct ky_symbol_table *symbols)
{
	int result;

	memset(named, 0, sizeof(*named));
	result = ky_code_stacks_make(&named->code, export->trace, symbols);
	if (!result)
		result = ky_redact_init(&named->redact, KY_REDACT_LEVEL_ARGS);
	export->code = &named->code;
	export->symbols = symbols;
	export->clean = clean;
	export->clean_ctx = &named->redact;
	return result;
}

static void release_code(struct named_code *named, struct ky_export *export)
{
	export->code = NULL;
	export->clean = NULL;
	ky_redact_release(&named->redact);
	ky_code_stacks_release(&named->code);
}

int ky_request_bodies_pprof(struct ky_request_bodies *out, struct ky_export *export,
			    struct ky_symbol_table *symbols, bool are_all_kinds)
{
	uint32_t from = are_all_kinds ? 0 : export->kind;
	uint32_t to = are_all_kinds ? KY_STACK_ALLOC : export->kind;
	struct named_code named;
	int result = name_code(&named, export, symbols);

	for (uint32_t kind = from; !result && kind <= to; kind++) {
		export->kind = kind;
		result = add_profile(out, export);
	}
	release_code(&named, export);
	return result;
}

int ky_request_bodies_profiles(struct ky_request_bodies *out, struct ky_export *export,
			       struct ky_symbol_table *symbols)
{
	struct named_code named;
	int result;

	if (!export->trace->samples.row_count || !symbols)
		return 0;
	result = name_code(&named, export, symbols);
	if (!result)
		result = ky_otlp_profiles(&out->bodies[KY_PUSH_PROFILES].bytes, export,
					  &out->profile_count);
	release_code(&named, export);
	return result;
}

/* ---- to a receiver ---- */

void ky_request_bodies_check(const char *url, bool is_pprof)
{
	char why[KY_PUSH_WHY_BYTES] = "out of memory";
	struct ky_push_target target;
	int result = ky_push_target_read(&target, is_pprof, url, NULL, why);

	ky_push_target_release(&target);
	if (result)
		ky_option_error("--push: %s", why);
}

static int send(struct ky_push *push, struct ky_request_bodies *bodies, const char *name,
		uint64_t timeout_ns)
{
	uint64_t end_ns = ky_now_ns(CLOCK_MONOTONIC) + timeout_ns, due_ns, now_ns, rejected;
	enum ky_verdict verdict;
	char why[KY_PUSH_WHY_BYTES] = "";

	ky_push_stop_at(push, end_ns);
	for (;;) {
		verdict = ky_push_send(push, bodies->bodies, KY_PUSH_SIGNALS, NULL, &due_ns,
				       &rejected, why);
		now_ns = ky_now_ns(CLOCK_MONOTONIC);
		if (verdict != KY_VERDICT_AGAIN || due_ns >= end_ns)
			break;
		if (due_ns > now_ns)
			ky_sleep_ns(due_ns - now_ns);
	}
	if (rejected)
		ky_cli_error("%s took it without %" PRIu64 " spans or points", name, rejected);
	if (verdict != KY_VERDICT_TAKEN)
		ky_cli_error("%s", why);
	return verdict == KY_VERDICT_TAKEN && !rejected ? KY_EXIT_OK : KY_EXIT_TROUBLE;
}

int ky_request_bodies_push(struct ky_request_bodies *bodies, const char *url, bool is_pprof,
			   uint64_t timeout_ns)
{
	char why[KY_PUSH_WHY_BYTES] = "out of memory";
	struct ky_push_target target;
	struct ky_push *push = NULL;
	int code = KY_EXIT_TROUBLE;

	if (ky_push_target_read(&target, is_pprof, url, NULL, why) == 0 &&
	    ky_push_open(&push, &target, why) == 0)
		code = send(push, bodies, target.name, timeout_ns);
	else
		ky_cli_error("--push: %s", why);
	ky_push_close(push);
	ky_push_target_release(&target);
	return code;
}
