/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <cli/query_run.h>
#include <cli/shared_options.h>

enum {
	KEY_SCHEMA = KY_OPTION_KEY_OWN
};

struct query_arguments {
	struct ky_query_run run;
	const char *sql;
	bool is_schema;
};

static const struct argp_option options[] = {
	{"schema", KEY_SCHEMA, 0, 0, "Print the tables, views, columns and functions", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct query_arguments *arguments = state->input;
	struct ky_input *input = &arguments->run.input;

	(void)text;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = input;
		state->child_inputs[1] = &arguments->run;
		state->child_inputs[2] = &arguments->run.names;
		state->child_inputs[3] = &arguments->run.is_json;
		return 0;
	case ARGP_KEY_ARGS:
		arguments->sql = state->argv[state->next];
		input->arguments = state->argv + state->next + 1;
		input->argument_count = (size_t)(state->argc - state->next - 1);
		return 0;
	case ARGP_KEY_NO_ARGS:
		return 0;
	case KEY_SCHEMA:
		arguments->is_schema = true;
		return 0;
	case ARGP_KEY_END:
		if (arguments->is_schema)
			return 0;
		if (!arguments->sql)
			ky_option_error("name the SQL, in quotes, and a trace file");
		if (!input->argument_count)
			ky_option_error("name a trace file after the SQL");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int answer(struct ky_query_run *run, void *ctx)
{
	const struct query_arguments *arguments = ctx;
	int code = ky_query_prepare(run->query, arguments->sql, NULL, NULL);

	code = ky_query_run_code(run, code);
	return code ? code : ky_query_run_print(run, NULL, 0);
}

static int print_schema(void)
{
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	ky_query_schema(&out);
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

int ky_cmd_query(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&ky_input_argp, 0, 0, 0},     {&ky_query_argp, 0, 0, 0},
		{&ky_debug_dir_argp, 0, 0, 0}, {&ky_json_argp, 0, 0, 0},
		{&ky_common_argp, 0, 0, 0},    {0}};
	static const struct argp argp = {
		options,
		parse,
		"SQL FILE|DIRECTORY...",
		"Answers one SELECT over a trace. Its tables are those of `kymo view`, read where "
		"they lie: nothing is imported, and nothing can be written. Each process has its "
		"own part.",
		children,
		0,
		0};
	struct query_arguments arguments = {
		.run = {.each = answer, .input.has_words_before = true}};
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	arguments.run.ctx = &arguments;
	if (!code)
		code = arguments.is_schema ? print_schema() : ky_query_run(&arguments.run);
	return code;
}
