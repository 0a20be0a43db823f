/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <analyze/findings/findings.h>
#include <analyze/report.h>
#include <base/quantity.h>
#include <cli/traces.h>
#include <report/findings_text.h>
#include <report/profile_text.h>
#include <cli/progress.h>
#include <report/report_text.h>
#include <report/syscall_name.h>
#include <base/out_text.h>
#include <cli/shared_options.h>
#include <edit/trace_symbols.h>
#include <errno.h>
#include <kymo/base.h>
#include <unistd.h>

enum {
	KEY_LONG_POLL = KY_OPTION_KEY_OWN,
	KEY_FULL
};

struct report_arguments {
	struct ky_input input;
	struct ky_time_range range;
	uint64_t long_poll_ns, limit;
	bool is_json, is_wall, is_full;
	struct ky_trace_symbols_options names;
	struct ky_trace_symbols symbols; /* table NULL: there is no code to name */
};

static const struct argp_option options[] = {
	{"full", KEY_FULL, NULL, 0, "Print the tables below the findings", 0},
	{"limit", 'n', "N", 0, "Print the N worst of each kind (default 10, at most 1000)", 0},
	{"long-poll", KEY_LONG_POLL, "DURATION", 0,
	 "Report apart what ran inside polls longer than DURATION (default 1ms)", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct report_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->input;
		state->child_inputs[1] = &arguments->range;
		state->child_inputs[2] = &arguments->names;
		state->child_inputs[3] = &arguments->is_json;
		state->child_inputs[4] = &arguments->is_wall;
		return 0;
	case 'n':
		if (!ky_quantity_in(ky_quantity_number, text, 1, 1000, &arguments->limit))
			ky_option_error("--limit is a number from 1 to 1000, not '%s'", text);
		return 0;
	case KEY_FULL:
		arguments->is_full = true;
		return 0;
	case KEY_LONG_POLL:
		if (ky_quantity_ns(text, &arguments->long_poll_ns))
			ky_option_error("--long-poll is a duration such as 1ms, not '%s'", text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int resolve(const struct ky_trace *trace, const struct ky_time_range *range,
		   struct ky_report_options *out)
{
	struct ky_time_span span = {.start_ns = trace->run_first_ns, .end_ns = trace->run_last_ns};

	if (trace->clock_sync_count) {
		span.sync_monotonic_ns = trace->clock_syncs[0].monotonic_ns;
		span.sync_realtime_ns = trace->clock_syncs[0].realtime_ns;
	}
	return ky_time_range_resolve(range, &span, &out->from_ns, &out->to_ns);
}

static int print(const struct ky_trace *trace, const struct ky_report *report,
		 const struct ky_stack_profile *profile, const struct ky_findings *findings,
		 struct report_arguments *arguments)
{
	bool is_coloured = ky_out_is_coloured(STDOUT_FILENO);
	const struct ky_code_names names = ky_trace_symbols_names(&arguments->symbols);
	struct ky_buf out;
	int result;

	ky_progress_step("writing the report");
	ky_buf_init(&out, 0);
	if (arguments->is_json) {
		ky_findings_report_json(&out, findings, report, profile);
		ky_out_text(&out, "\n");
	} else {
		ky_findings_text(&out, findings, &names, is_coloured, arguments->is_full);
	}
	if (arguments->is_full && !arguments->is_json) {
		ky_out_text(&out, "\n");
		ky_report_text(&out, trace, report, profile, (uint32_t)arguments->limit,
			       is_coloured, &names, arguments->is_wall);
		ky_profile_text(&out, trace, profile, is_coloured);
	}
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	if (result == -ENOMEM)
		ky_cli_error("out of memory");
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

static int make_and_print(const struct ky_trace *trace, struct report_arguments *arguments)
{
	struct ky_report_options report_options = {.worst_count = (uint32_t)arguments->limit};
	struct ky_stack_profile_options profile_options = {.long_poll_ns = arguments->long_poll_ns};
	struct ky_stack_profile *profile = NULL;
	struct ky_findings *findings = NULL;
	struct ky_report *report = NULL;
	char span[KY_OUT_CELL_BYTES];
	int code;

	if (!arguments->is_json)
		report_options.worst_count = KY_REPORT_WORST_MAX; /* many fold into few */
	code = resolve(trace, &arguments->range, &report_options);
	if (!code && arguments->is_wall && !trace->clock_sync_count)
		code = ky_say_no_wall_clock("--clock trace");
	if (code)
		return code;
	if (trace->event_count &&
	    ((arguments->range.from.kind && report_options.from_ns > trace->last_ns) ||
	     (arguments->range.to.kind && report_options.to_ns <= trace->first_ns)))
		ky_cli_notice("--from and --to leave nothing: the trace goes from 0 s to %s s",
			      ky_out_seconds(span, trace->last_ns - trace->run_first_ns));
	profile_options.from_ns = report_options.from_ns;
	profile_options.to_ns = report_options.to_ns;
	ky_progress_step("finding what was slow");
	code = ky_report_make(&report, trace, &report_options);
	ky_progress_step("naming code");
	if (!code)
		code = ky_stack_profile_make(&profile, trace, report, arguments->symbols.table,
					     &profile_options);
	ky_progress_step("finding causes");
	if (!code)
		code = ky_findings_make(
			&findings, trace, report, profile,
			&(struct ky_findings_options){.call_name = ky_trace_call_name});
	if (code) {
		ky_stack_profile_free(profile);
		ky_report_free(report);
		ky_cli_error("out of memory");
		return KY_EXIT_TROUBLE;
	}
	code = print(trace, report, profile, findings, arguments);
	ky_findings_free(findings);
	ky_stack_profile_free(profile);
	ky_report_free(report);
	return code;
}

static int print_process(void *ctx)
{
	struct report_arguments *arguments = ctx;
	struct ky_trace *trace = NULL;
	int result = 0, code = ky_traces_load(&arguments->input, &trace);

	if (!code && trace->samples.stack_count)
		result = ky_trace_symbols_open(&arguments->symbols, &arguments->input,
					       &arguments->names, NULL, NULL);
	else if (!code && !arguments->is_json)
		result = ky_trace_symbols_of(&arguments->symbols, &arguments->input, trace,
					     &arguments->names);
	if (!code)
		code = ky_traces_code(&arguments->input, result);
	if (!code) {
		code = make_and_print(trace, arguments);
		if (ky_traces_say_damage(&arguments->input, trace))
			code = KY_EXIT_TROUBLE;
	}
	ky_trace_symbols_close(&arguments->symbols);
	ky_trace_close(trace);
	return code;
}

int ky_cmd_report(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_input_argp, 0, 0, 0},
						     {&ky_time_range_argp, 0, 0, 0},
						     {&ky_debug_dir_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_clock_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		"FILE|DIRECTORY...",
		"Says why tasks were late: at most five findings, worst first, each with what "
		"happened, what caused it, whom it harmed, and what to do; or that the service is "
		"healthy. With --full the tables they rest on follow: the longest polls and waits, "
		"how busy each worker was, tasks by name, samples (what ran, what held threads "
		"back, where tasks wait, what allocates), and what the trace does not contain. "
		"Each process has its own report.\v" KY_OPTION_TIME_TEXT,
		children,
		0,
		0};
	struct report_arguments arguments = {.limit = KY_REPORT_WORST};
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (!code)
		code = ky_traces_open_in(&arguments.input, &arguments.range);
	if (!code)
		code = ky_traces_each(&arguments.input, arguments.is_json, print_process,
				      &arguments);
	ky_traces_close(&arguments.input);
	return code;
}
