/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <analyze/report.h>
#include <analyze/why_code.h>
#include <base/out_text.h>
#include <base/quantity.h>
#include <cli/progress.h>
#include <cli/shared_options.h>
#include <cli/traces.h>
#include <edit/trace_symbols.h>
#include <errno.h>
#include <report/why_text.h>
#include <unistd.h>

enum {
	KEY_WORST = KY_OPTION_KEY_OWN,
	KEY_OVER,
	KEY_TASK
};

struct why_arguments {
	struct ky_input input;
	struct ky_time_range range;
	struct ky_why_options how;
	uint64_t worst_count;
	bool is_json, is_wall;
	struct ky_trace_symbols_options names;
	struct ky_trace_symbols symbols; /* table NULL: there is no code to name */
};

static const struct argp_option options[] = {
	{"worst", KEY_WORST, "N", 0,
	 "Print the N longest delays one by one (default 10, at most 1000)", 0},
	{"over", KEY_OVER, "DURATION", 0,
	 "Explain delays longer than DURATION (default 1ms); 0: all of them", 0},
	{"task", KEY_TASK, "ID", 0, "Explain the delays of this task alone, each of them", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct why_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->input;
		state->child_inputs[1] = &arguments->range;
		state->child_inputs[2] = &arguments->names;
		state->child_inputs[3] = &arguments->is_json;
		state->child_inputs[4] = &arguments->is_wall;
		return 0;
	case KEY_WORST:
		if (!ky_quantity_in(ky_quantity_number, text, 1, KY_WHY_WORST_MAX,
				    &arguments->worst_count))
			ky_option_error("--worst is a number from 1 to 1000, not '%s'", text);
		return 0;
	case KEY_OVER:
		if (ky_quantity_ns(text, &arguments->how.over_ns))
			ky_option_error("--over is a duration such as 1ms, not '%s'", text);
		return 0;
	case KEY_TASK:
		if (ky_quantity_number(text, &arguments->how.task_id))
			ky_option_error("--task is a task id, not '%s'", text);
		arguments->how.has_task = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int resolve(const struct ky_trace *trace, struct why_arguments *arguments)
{
	struct ky_time_span span = {.start_ns = trace->run_first_ns, .end_ns = trace->run_last_ns};
	int code;

	if (trace->clock_sync_count) {
		span.sync_monotonic_ns = trace->clock_syncs[0].monotonic_ns;
		span.sync_realtime_ns = trace->clock_syncs[0].realtime_ns;
	}
	code = ky_time_range_resolve(&arguments->range, &span, &arguments->how.from_ns,
				     &arguments->how.to_ns);
	if (!code && arguments->is_wall && !trace->clock_sync_count)
		code = ky_say_no_wall_clock("--clock trace");
	return code;
}

static int print(const struct ky_trace *trace, const struct ky_report *report,
		 const struct ky_why *why, const struct ky_code_stacks *code,
		 struct why_arguments *arguments)
{
	const struct ky_code_names names = ky_trace_symbols_names(&arguments->symbols);
	struct ky_report_view view = {.trace = trace,
				      .report = report,
				      .is_coloured = ky_out_is_coloured(STDOUT_FILENO),
				      .names = &names,
				      .is_wall = arguments->is_wall,
				      .code = code};
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	view.out = &out;
	if (arguments->is_json) {
		ky_why_json(&out, trace, why);
		ky_out_text(&out, "\n");
	} else {
		ky_why_text(&view, why);
	}
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	if (result == -ENOMEM)
		ky_cli_error("out of memory");
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

static int make_and_print(const struct ky_trace *trace, struct why_arguments *arguments)
{
	struct ky_report_options report_options = {.worst_count = 1};
	struct ky_report *report = NULL;
	struct ky_why *why = NULL;
	struct ky_code_stacks stacks;
	bool is_named = arguments->symbols.table && trace->samples.stack_count;
	int code = resolve(trace, arguments);

	if (code)
		return code;
	if (arguments->how.has_task && ky_trace_task(trace, arguments->how.task_id) == KY_NONE) {
		ky_cli_error(
			"the trace has no task %llu; `kymo events -t TaskSpawnEvent` lists tasks",
			(unsigned long long)arguments->how.task_id);
		return KY_EXIT_TROUBLE;
	}
	arguments->how.worst_count = (uint32_t)arguments->worst_count;
	report_options.from_ns = arguments->how.from_ns;
	report_options.to_ns = arguments->how.to_ns;
	ky_progress_step("splitting the slow delays");
	/* Its groups tell which names read alike when they are shortened. */
	code = ky_report_make(&report, trace, &report_options);
	if (!code)
		code = ky_why_make(&why, trace, &arguments->how);
	if (!code && is_named)
		code = ky_code_stacks_make(&stacks, trace, arguments->symbols.table);
	is_named &= !code && why;
	if (is_named)
		ky_why_find_code(why, trace, &stacks);
	if (code) {
		ky_cli_error("out of memory");
		code = KY_EXIT_TROUBLE;
	} else {
		code = print(trace, report, why, is_named ? &stacks : NULL, arguments);
	}
	if (is_named)
		ky_code_stacks_release(&stacks);
	ky_why_free(why);
	ky_report_free(report);
	return code;
}

static int print_process(void *ctx)
{
	struct why_arguments *arguments = ctx;
	struct ky_trace *trace = NULL;
	int result = 0, code = ky_traces_load(&arguments->input, &trace);

	if (!code && trace->samples.stack_count)
		result = ky_trace_symbols_open(&arguments->symbols, &arguments->input,
					       &arguments->names, NULL, NULL);
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

int ky_cmd_why(int argc, char **argv)
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
		"Says why tasks were late: splits each slow delay from wake to poll into what the "
		"worker did in whose queue the task stood, and adds up what all of them waited "
		"for. Each process has its own part.\v" KY_OPTION_TIME_TEXT,
		children,
		0,
		0};
	struct why_arguments arguments = {.worst_count = KY_WHY_WORST,
					  .how = {.over_ns = KY_WHY_OVER_NS}};
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (!code)
		code = ky_traces_open(&arguments.input);
	if (!code)
		code = ky_traces_each(&arguments.input, arguments.is_json, print_process,
				      &arguments);
	ky_traces_close(&arguments.input);
	return code;
}
