/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <base/out_text.h>
#include <base/quantity.h>
#include <cli/progress.h>
#include <cli/shared_options.h>
#include <cli/traces.h>
#include <errno.h>
#include <report/chain_text.h>
#include <report/task_text.h>
#include <unistd.h>

#define EVENTS_SHOWN 100u
#define LINKS_SHOWN 40u

enum {
	KEY_CHAIN = KY_OPTION_KEY_OWN
};

struct task_arguments {
	struct ky_input input;
	struct ky_time_range range;
	struct ky_trace_symbols_options names;
	struct ky_trace_symbols symbols;
	uint64_t task_id, limit;
	bool has_limit, is_chain, is_json, is_wall;
};

static const struct argp_option options[] = {
	{"chain", KEY_CHAIN, NULL, 0,
	 "Say what its time depended on: of what it waited for, what that did meanwhile", 0},
	{"limit", 'n', "N", 0,
	 "Print at most N events, with --chain the N longest steps; 0: all (default: of text 100 "
	 "or 40, else all)",
	 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct task_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->input;
		state->child_inputs[1] = &arguments->range;
		state->child_inputs[2] = &arguments->names;
		state->child_inputs[3] = &arguments->is_json;
		state->child_inputs[4] = &arguments->is_wall;
		return 0;
	case ARGP_KEY_ARGS:
		text = state->argv[state->next];
		if (ky_quantity_number(text, &arguments->task_id))
			ky_option_error("the first word is a task id, not '%s'; `kymo view tasks` "
					"lists them",
					text);
		arguments->input.arguments = state->argv + state->next + 1;
		arguments->input.argument_count = (size_t)(state->argc - state->next - 1);
		if (!arguments->input.argument_count)
			ky_option_error("name a trace file after the task id");
		return 0;
	case ARGP_KEY_NO_ARGS:
		ky_option_error("name a task id and a trace file");
		return 0;
	case KEY_CHAIN:
		arguments->is_chain = true;
		return 0;
	case 'n':
		if (ky_quantity_number(text, &arguments->limit))
			ky_option_error("--limit is a number, not '%s'", text);
		arguments->has_limit = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int resolve(const struct ky_trace *trace, struct task_arguments *arguments,
		   struct ky_task_life_options *out)
{
	struct ky_time_span span = {.start_ns = trace->run_first_ns, .end_ns = trace->run_last_ns};

	if (trace->clock_sync_count) {
		span.sync_monotonic_ns = trace->clock_syncs[0].monotonic_ns;
		span.sync_realtime_ns = trace->clock_syncs[0].realtime_ns;
	}
	if (arguments->is_wall && !trace->clock_sync_count)
		return ky_say_no_wall_clock("--clock trace");
	out->task = ky_trace_task(trace, arguments->task_id);
	if (out->task == KY_NONE) {
		ky_cli_error("the trace has no task %llu; `kymo view tasks` lists them",
			     (unsigned long long)arguments->task_id);
		return KY_EXIT_TROUBLE;
	}
	if (arguments->is_chain && !ky_trace_is_task(&trace->tasks[out->task])) {
		ky_cli_error("%llu is %s, which no worker polls: --chain is of tasks",
			     (unsigned long long)arguments->task_id,
			     ky_trace_is_run(&trace->tasks[out->task]) ?
				     "a closure of the blocking pool" :
				     "the future of a block_on");
		return KY_EXIT_TROUBLE;
	}
	return ky_time_range_resolve(&arguments->range, &span, &out->from_ns, &out->to_ns);
}

/* What was made of the task: one of the two. */
struct task_answer {
	struct ky_task_life *life;
	struct ky_task_chain *chain;
};

static void put(const struct ky_report_view *view, const struct task_answer *answer,
		const struct task_arguments *arguments)
{
	uint64_t limit = arguments->limit;

	if (!arguments->has_limit && !arguments->is_json)
		limit = answer->chain ? LINKS_SHOWN : EVENTS_SHOWN;
	if (answer->chain && arguments->is_json)
		ky_chain_json(view->out, NULL, answer->chain, limit);
	else if (answer->chain)
		ky_chain_text(view, answer->chain, limit);
	else if (arguments->is_json)
		ky_task_life_json(view->out, answer->life, limit, view->code);
	else
		ky_task_text(view, answer->life, limit, view->code);
	if (arguments->is_json)
		ky_out_text(view->out, "\n");
}

static int print(const struct ky_trace *trace, const struct task_answer *answer,
		 const struct task_arguments *arguments, const struct ky_code_stacks *stacks)
{
	const struct ky_report report = {0}; /* no other names to tell apart */
	struct ky_report_view view = {.trace = trace,
				      .report = &report,
				      .code = stacks,
				      .is_coloured = ky_out_is_coloured(STDOUT_FILENO),
				      .is_wall = arguments->is_wall};
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	view.out = &out;
	put(&view, answer, arguments);
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	if (result == -ENOMEM)
		ky_cli_error("out of memory");
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

static int make_and_print(const struct ky_trace *trace, struct task_arguments *arguments)
{
	struct ky_task_life_options options_of_life = {0};
	struct ky_code_stacks stacks;
	struct task_answer answer = {0};
	bool is_named = arguments->symbols.table != NULL;
	int result = 0, code = resolve(trace, arguments, &options_of_life);

	if (code)
		return code;
	ky_progress_step("following the task");
	if (is_named)
		result = ky_code_stacks_make(&stacks, trace, arguments->symbols.table);
	if (!result && arguments->is_chain)
		result = ky_chain_make(&answer.chain, trace, options_of_life.task,
				       options_of_life.from_ns, options_of_life.to_ns,
				       is_named ? &stacks : NULL);
	else if (!result)
		result = ky_task_life_make(&answer.life, trace, &options_of_life);
	if (result) {
		ky_cli_error("out of memory");
		code = KY_EXIT_TROUBLE;
	} else {
		code = print(trace, &answer, arguments, is_named ? &stacks : NULL);
	}
	ky_task_life_free(answer.life);
	ky_chain_free(answer.chain);
	if (is_named)
		ky_code_stacks_release(&stacks);
	return code;
}

static int print_process(void *ctx)
{
	struct task_arguments *arguments = ctx;
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

int ky_cmd_task(int argc, char **argv)
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
		"TASK FILE|DIRECTORY...",
		"Says what happened to one task, in the order of time: who spawned and woke it, "
		"its polls, where it waited, when it was off CPU, its end. TASK is its "
		"id.\v" KY_OPTION_TIME_TEXT,
		children,
		0,
		0};
	struct task_arguments arguments = {.input.has_words_before = true};
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (!code)
		code = ky_traces_open_in(&arguments.input, &arguments.range);
	if (!code)
		code = ky_traces_each(&arguments.input, arguments.is_json, print_process,
				      &arguments);
	ky_traces_close(&arguments.input);
	return code;
}
