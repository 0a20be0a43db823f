/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <analyze/report.h>
#include <analyze/chain.h>
#include <analyze/span_groups.h>
#include <analyze/why_code.h>
#include <base/alloc.h>
#include <base/out_text.h>
#include <base/quantity.h>
#include <cli/progress.h>
#include <cli/shared_options.h>
#include <cli/traces.h>
#include <edit/trace_symbols.h>
#include <analyze/short_name.h>
#include <errno.h>
#include <report/what_if_text.h>
#include <report/why_text.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES_SHOWN 5u /* in a sentence about a SITE */
#define NAME_COLUMNS 100u

enum {
	KEY_WORST = KY_OPTION_KEY_OWN,
	KEY_OVER,
	KEY_TASK,
	KEY_SPAN,
	KEY_WHAT_IF
};

struct why_arguments {
	struct ky_input input;
	struct ky_time_range range;
	struct ky_why_options how;
	uint64_t worst_count;
	bool is_json, is_wall;
	const char *span;
	const char *what_ifs[KY_WHAT_IF_MAX]; /* SITE=DURATION */
	uint32_t what_if_count;
	struct ky_trace_symbols_options names;
	struct ky_trace_symbols symbols; /* table NULL: there is no code to name */
};

static const struct argp_option options[] = {
	{"worst", KEY_WORST, "N", 0,
	 "Print the N longest delays one by one (default 10, at most 1000)", 0},
	{"over", KEY_OVER, "DURATION", 0,
	 "Explain delays longer than DURATION (default 1ms); 0: all of them", 0},
	{"task", KEY_TASK, "ID", 0, "Explain the delays of this task alone, each of them", 0},
	{"span", KEY_SPAN, "NAME", 0,
	 "Explain the delays of tasks while they were in a span of this name, and what the longest "
	 "of these spans depended on",
	 0},
	{"what-if", KEY_WHAT_IF, "SITE=DURATION", 0,
	 "Compute the delays as if no poll of SITE took longer than DURATION; may be repeated", 0},
	{0},
};

/* A place may have a '=' in its name: the last one counts. */
static void take_what_if(struct why_arguments *arguments, const char *text)
{
	const char *equals = strrchr(text, '=');
	uint64_t cap_ns;

	if (!equals || equals == text || ky_quantity_ns(equals + 1, &cap_ns))
		ky_option_error("--what-if is SITE=DURATION, such as src/main.rs:41=1ms, not '%s'",
				text);
	else if (arguments->what_if_count == KY_WHAT_IF_MAX)
		ky_option_error("--what-if can be given %u times at most", KY_WHAT_IF_MAX);
	else
		arguments->what_ifs[arguments->what_if_count++] = text;
}

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
	case KEY_SPAN:
		arguments->span = text;
		return 0;
	case KEY_WHAT_IF:
		take_what_if(arguments, text);
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

/* ---- --what-if ---- */

/* "A, B and 3 more". */
static void list_places(struct ky_buf *out, const struct ky_trace *trace, const uint32_t *names,
			uint32_t count)
{
	char cell[KY_SHORT_NAME_BYTES];
	uint32_t shown = count < PLACES_SHOWN ? count : PLACES_SHOWN;

	for (uint32_t i = 0; i < shown; i++) {
		if (i)
			ky_out_text(out, i + 1 == count ? " and " : ", ");
		ky_out_text(out, ky_short_name(cell, ky_trace_name(trace, names[i]), NAME_COLUMNS));
	}
	if (count > shown)
		ky_out_format(out, " and %u more", count - shown);
}

static int say_places(const struct ky_trace *trace, const char *site, const uint32_t *names,
		      int count)
{
	uint32_t all[PLACES_SHOWN];
	struct ky_buf list;
	int all_count = 0;

	ky_buf_init(&list, 0);
	if (count == 0)
		all_count = ky_what_if_find(trace, "", all, PLACES_SHOWN);
	if (count > 0)
		list_places(&list, trace, names, (uint32_t)count);
	else if (all_count > 0)
		list_places(&list, trace, all, (uint32_t)all_count);
	if (list.failed || all_count < 0)
		ky_cli_error("out of memory");
	else if (count > 0)
		ky_cli_error("--what-if '%s' can be any of %.*s; take more of the name of one",
			     site, (int)list.used, (const char *)list.bytes);
	else if (all_count > 0)
		ky_cli_error("no task with polls has '%s' in its name, as --what-if takes it; "
			     "there are %.*s",
			     site, (int)list.used, (const char *)list.bytes);
	else
		ky_cli_error("the trace has no polls of tasks that have a name, for --what-if");
	ky_buf_release(&list);
	return KY_EXIT_TROUBLE;
}

static int find_cap(const struct ky_trace *trace, const char *text, struct ky_what_if_cap *cap)
{
	uint32_t names[PLACES_SHOWN] = {KY_NONE};
	size_t site_bytes = (size_t)(strrchr(text, '=') - text);
	char *site = strndup(text, site_bytes);
	int count = site ? ky_what_if_find(trace, site, names, PLACES_SHOWN) : -ENOMEM;
	int code = KY_EXIT_OK;

	if (count < 0) {
		ky_cli_error("out of memory");
		code = KY_EXIT_TROUBLE;
	} else if (count != 1) {
		code = say_places(trace, site, names, count);
	}
	free(site);
	cap->name = names[0];
	(void)ky_quantity_ns(text + site_bytes + 1, &cap->cap_ns);
	return code;
}

/* Finds the places. Returns an exit code. */
static int find_caps(const struct ky_trace *trace, const struct why_arguments *arguments,
		     struct ky_what_if_cap *caps)
{
	for (uint32_t i = 0; i < arguments->what_if_count; i++) {
		int code = find_cap(trace, arguments->what_ifs[i], &caps[i]);

		if (code)
			return code;
		for (uint32_t other = 0; other < i; other++) {
			if (caps[other].name != caps[i].name)
				continue;
			ky_cli_error("--what-if '%s' and '%s' are of the same place",
				     arguments->what_ifs[other], arguments->what_ifs[i]);
			return KY_EXIT_TROUBLE;
		}
	}
	return KY_EXIT_OK;
}

static int what_if_make(struct ky_what_if **out, const struct ky_trace *trace,
			const struct why_arguments *arguments, const struct ky_what_if_cap *caps)
{
	*out = calloc(1, sizeof(**out));
	return *out ? ky_what_if_make(*out, trace, &arguments->how, caps,
				      arguments->what_if_count) :
		      -ENOMEM;
}

/* ---- all ---- */

static int print(const struct ky_trace *trace, const struct ky_report *report,
		 const struct ky_why *why, const struct ky_what_if *what_if,
		 const struct ky_why_span *span, const struct ky_code_stacks *code,
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
		ky_why_json(&out, trace, why, code, what_if, span);
		ky_out_text(&out, "\n");
	} else {
		if (what_if)
			ky_what_if_text(&view, what_if);
		if (span)
			ky_why_span_text(&view, span);
		ky_why_text(&view, why);
	}
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	if (result == -ENOMEM)
		ky_cli_error("out of memory");
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

/* ---- --span ---- */

/* Those of the most time, in a sentence. */
static int say_spans(const struct ky_trace *trace, const char *wanted)
{
	struct ky_span_group *groups;
	uint32_t names[PLACES_SHOWN + 1], count;
	struct ky_buf list;

	if (!trace->span_count) {
		ky_cli_error("the trace has no spans");
		return KY_EXIT_TROUBLE;
	}
	if (ky_span_groups(trace, 0, 0, &groups, &count)) {
		ky_cli_error("out of memory");
		return KY_EXIT_TROUBLE;
	}
	ky_buf_init(&list, 0);
	for (uint32_t i = 0; i < count && i < PLACES_SHOWN; i++)
		names[i] = groups[i].name;
	list_places(&list, trace, names, count);
	(void)ky_buf_append(&list, "", 1);
	ky_cli_error("no task was in a span named '%s'; the trace has %s", wanted,
		     list.failed ? "others" : (const char *)list.bytes);
	ky_buf_release(&list);
	ky_free(groups);
	return KY_EXIT_TROUBLE;
}

/* Returns 0; else an exit status, said why. */
static int choose_spans(const struct ky_trace *trace, struct why_arguments *arguments,
			struct ky_span_times *times)
{
	arguments->how.spans = NULL;
	if (!arguments->span)
		return 0;
	if (ky_span_times_make(times, trace, arguments->span)) {
		ky_cli_error("out of memory");
		return KY_EXIT_TROUBLE;
	}
	arguments->how.spans = times;
	return times->count ? 0 : say_spans(trace, arguments->span);
}

/* Returns 0, -ENOMEM; *out has no chain where no span ended. */
static int find_worst_span(const struct ky_trace *trace, const struct why_arguments *arguments,
			   const struct ky_code_stacks *code, struct ky_why_span *out)
{
	const struct ky_trace_span *span;

	if (!arguments->span)
		return 0;
	out->span = ky_span_longest(trace, arguments->span, arguments->how.from_ns,
				    arguments->how.to_ns);
	if (out->span == KY_NONE || !trace->spans[out->span].duration_ns)
		return 0;
	span = &trace->spans[out->span];
	return ky_chain_make(&out->chain, trace, span->task, span->start_ns,
			     span->start_ns + span->duration_ns, code);
}

static int make_and_print(const struct ky_trace *trace, struct why_arguments *arguments)
{
	struct ky_report_options report_options = {.worst_count = 1};
	struct ky_report *report = NULL;
	struct ky_why *why = NULL;
	struct ky_what_if_cap caps[KY_WHAT_IF_MAX];
	struct ky_what_if *what_if = NULL;
	struct ky_code_stacks stacks;
	struct ky_span_times spans = {0};
	struct ky_why_span worst = {0};
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
	code = find_caps(trace, arguments, caps);
	if (!code)
		code = choose_spans(trace, arguments, &spans);
	if (code) {
		ky_span_times_release(&spans);
		return code;
	}
	arguments->how.worst_count = (uint32_t)arguments->worst_count;
	report_options.from_ns = arguments->how.from_ns;
	report_options.to_ns = arguments->how.to_ns;
	ky_progress_step("splitting the slow delays");
	/* Its groups tell which names read alike when they are shortened. */
	code = ky_report_make(&report, trace, &report_options);
	if (!code)
		code = ky_why_make(&why, trace, &arguments->how);
	if (!code && arguments->what_if_count)
		code = what_if_make(&what_if, trace, arguments, caps);
	if (!code && is_named)
		code = ky_code_stacks_make(&stacks, trace, arguments->symbols.table);
	is_named &= !code && why;
	if (is_named)
		ky_why_find_code(why, trace, &stacks);
	if (!code)
		code = find_worst_span(trace, arguments, is_named ? &stacks : NULL, &worst);
	if (code) {
		ky_cli_error("out of memory");
		code = KY_EXIT_TROUBLE;
	} else {
		code = print(trace, report, why, what_if, worst.chain ? &worst : NULL,
			     is_named ? &stacks : NULL, arguments);
	}
	if (is_named)
		ky_code_stacks_release(&stacks);
	free(what_if);
	ky_chain_free(worst.chain);
	ky_span_times_release(&spans);
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
		code = ky_traces_open_in(&arguments.input, &arguments.range);
	if (!code)
		code = ky_traces_each(&arguments.input, arguments.is_json, print_process,
				      &arguments);
	ky_traces_close(&arguments.input);
	return code;
}
