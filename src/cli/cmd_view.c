/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <base/quantity.h>
#include <cli/query_run.h>
#include <cli/shared_options.h>
#include <query/query_view.h>

#define TEXT_ROWS 20u

enum {
	KEY_SORT = KY_OPTION_KEY_OWN,
	KEY_WHERE,
	KEY_GROUP_BY,
	KEY_COLUMNS
};

struct view_arguments {
	struct ky_query_run run;
	struct ky_view_options view;
	bool has_limit, is_list;
};

static const struct argp_option options[] = {
	{"columns", KEY_COLUMNS, "LIST", 0,
	 "Show these columns, such as 'task,busy_ns' (default: the usual ones)", 0},
	{"sort", KEY_SORT, "LIST", 0,
	 "Sort by these columns, after a - descending (default: as the view "
	 "has it)",
	 0},
	{"where", KEY_WHERE, "EXPRESSION", 0,
	 "Only rows for which this holds, such as 'duration_ns > 1e6' (SQL)", 0},
	{"group-by", KEY_GROUP_BY, "LIST", 0,
	 "One row for all that are equal in these columns, with sums and percentiles", 0},
	{"limit", 'n', "N", 0, "Print at most N rows; 0: all (default: of text 20, else all)", 0},
	{0},
};

/* argp stops at the first parser that takes the words, and this is the first. */
static void take_words(struct view_arguments *arguments, const struct argp_state *state)
{
	struct ky_input *input = &arguments->run.input;

	arguments->view.name = state->argv[state->next];
	input->arguments = state->argv + state->next + 1;
	input->argument_count = (size_t)(state->argc - state->next - 1);
	if (!input->argument_count)
		ky_option_error("name a trace after the view '%s', or no view for a list of them",
				arguments->view.name);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct view_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->run.input;
		state->child_inputs[1] = &arguments->run;
		state->child_inputs[2] = &arguments->run.names;
		state->child_inputs[3] = &arguments->run.is_json;
		return 0;
	case ARGP_KEY_ARGS:
		take_words(arguments, state);
		return 0;
	case ARGP_KEY_NO_ARGS:
		arguments->is_list = true;
		return 0;
	case KEY_SORT:
		arguments->view.sort = text;
		return 0;
	case KEY_WHERE:
		arguments->view.where = text;
		return 0;
	case KEY_GROUP_BY:
		arguments->view.group = text;
		return 0;
	case KEY_COLUMNS:
		arguments->view.columns = text;
		return 0;
	case 'n':
		if (ky_quantity_number(text, &arguments->view.limit) ||
		    arguments->view.limit > INT64_MAX / 2)
			ky_option_error("--limit is a number of rows, not '%s'", text);
		arguments->has_limit = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int show(struct ky_query_run *run, void *ctx)
{
	struct view_arguments *arguments = ctx;
	int code;

	if (!arguments->has_limit)
		arguments->view.limit = run->format == KY_ROWS_TEXT ? TEXT_ROWS : 0;
	code = ky_query_run_code(run, ky_view_prepare(run->query, &arguments->view));
	return code ? code : ky_query_run_print(run, arguments->view.name, arguments->view.limit);
}

static int list(void)
{
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	ky_view_list(&out);
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

int ky_cmd_view(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&ky_input_argp, 0, 0, 0},     {&ky_query_argp, 0, 0, 0},
		{&ky_debug_dir_argp, 0, 0, 0}, {&ky_json_argp, 0, 0, 0},
		{&ky_common_argp, 0, 0, 0},    {0}};
	static const struct argp argp = {
		options,
		parse,
		"[NAME FILE|DIRECTORY...]",
		"Shows one table of a trace: its tasks, polls, wakes, workers, spans, samples, "
		"resources, losses, or the program's own events by the name of their type. Without "
		"NAME it lists the tables. Each process has its own part.",
		children,
		0,
		0};
	struct view_arguments arguments = {.run = {.each = show, .input.has_words_before = true}};
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	arguments.run.ctx = &arguments;
	if (!code)
		code = arguments.is_list ? list() : ky_query_run(&arguments.run);
	return code;
}
