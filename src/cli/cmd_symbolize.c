/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <cli/cli.h>

#include <cli/traces.h>
#include <cli/shared_options.h>
#include <base/out_text.h>
#include <cli/progress.h>
#include <edit/rewrite.h>
#include <edit/symbol_rows.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

struct symbolize_arguments {
	struct ky_input input;
	struct ky_trace_symbols_options symbols;
	struct ky_output output;
	bool is_json;
};

struct symbolize_job {
	const struct symbolize_arguments *arguments;
	struct ky_input *input;
	struct ky_symbol_rows rows;
	bool is_written;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct symbolize_arguments *arguments = state->input;

	(void)text;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &arguments->input;
	state->child_inputs[1] = &arguments->output;
	state->child_inputs[2] = &arguments->symbols;
	state->child_inputs[3] = &arguments->is_json;
	return 0;
}

/* ---- saying it ---- */

static void say_json(struct symbolize_job *job, const char *output)
{
	struct ky_symbol_rows *rows = &job->rows;
	struct ky_buf out;

	ky_buf_init(&out, 0);
	ky_out_text(&out, "{\"file\":");
	ky_json_string(&out, output, strlen(output));
	ky_out_format(&out,
		      ",\"addresses\":%" PRIu64 ",\"named\":%" PRIu64 ",\"had_names\":%" PRIu64
		      ",\"rows\":%" PRIu64 ",\"written\":%s,\"unnamed\":[",
		      rows->had + rows->named + rows->not_named, rows->named, rows->had,
		      rows->row_count, job->is_written ? "true" : "false");
	for (uint32_t i = 0; i < rows->unnamed_count; i++) {
		const char *path = ky_symbol_rows_place(rows, &rows->unnamed[i]);

		ky_out_text(&out, i ? ",{\"module\":" : "{\"module\":");
		ky_json_string(&out, path, strlen(path));
		ky_out_format(&out, ",\"addresses\":%" PRIu64 ",\"why\":\"%s\"}",
			      rows->unnamed[i].count, ky_symbol_why_text(rows->unnamed[i].why));
	}
	ky_out_text(&out, "]}\n");
	(void)ky_cli_print(&out);
	ky_buf_release(&out);
}

static void say_text(struct symbolize_job *job, const char *output)
{
	struct ky_symbol_rows *rows = &job->rows;
	uint64_t all = rows->had + rows->named + rows->not_named;
	char cells[3][KY_OUT_CELL_BYTES];
	struct ky_buf out;

	ky_buf_init(&out, 0);
	ky_out_safe(&out, output, strlen(output));
	ky_out_format(&out, ": %s of %s addresses have names",
		      ky_out_count(cells[0], rows->had + rows->named), ky_out_count(cells[1], all));
	if (rows->had && rows->named)
		ky_out_format(&out, " (%s of them new)", ky_out_count(cells[2], rows->named));
	else if (rows->had)
		ky_out_text(&out, ", all of them before");
	ky_out_text(&out, job->is_written ? "\n" : "; nothing was written\n");
	for (uint32_t i = 0; i < rows->unnamed_count; i++) {
		const char *path = ky_symbol_rows_place(rows, &rows->unnamed[i]);

		ky_out_format(&out, "  %8s not: ", ky_out_count(cells[0], rows->unnamed[i].count));
		ky_out_safe(&out, path, strlen(path));
		ky_out_format(&out, "%s%s\n", path[0] ? ": " : "",
			      ky_symbol_why_text(rows->unnamed[i].why));
	}
	(void)ky_cli_print(&out);
	ky_buf_release(&out);
}

/* ---- one output ---- */

static int write_trace(struct symbolize_job *job, const char *output, bool is_forced)
{
	struct ky_rewrite rewrite = {
		.input = job->input,
		.output = output,
		.is_forced = is_forced,
		.keep = ky_symbol_rows_keep,
		.tail = ky_symbol_rows_write,
		.hook_ctx = &job->rows,
	};
	int code;

	if (ky_traces_code(job->input, ky_rewrite_prepare(&rewrite)))
		return KY_EXIT_USAGE;
	code = ky_traces_rewrite(&rewrite);
	job->is_written = rewrite.stored_bytes > 0;
	return code;
}

/* output NULL: where the input stands. */
static int symbolize(const struct symbolize_arguments *arguments, struct ky_input *input,
		     const char *output)
{
	struct symbolize_job job = {.arguments = arguments, .input = input};
	const char *place = output ? output : input->arguments[0];
	int code = ky_traces_code(input,
				  ky_symbol_rows_open(&job.rows, input, &arguments->symbols));

	ky_progress_step("naming code");
	if (!code)
		ky_symbol_rows_name(&job.rows);
	if (!code && !output && job.rows.symbols.is_damaged) {
		ky_cli_error("%s: is damaged, and stays as it is; write what can be read of it "
			     "elsewhere with -o FILE",
			     place);
		code = KY_EXIT_TROUBLE;
	} else if (!code && (output || job.rows.named)) {
		code = write_trace(&job, place, !output || arguments->output.may_replace);
	}
	ky_progress_quiet();
	if (!code || job.is_written) {
		if (arguments->is_json)
			say_json(&job, place);
		else if (strcmp(place, "-") != 0 && !ky_cli_is_quiet())
			say_text(&job, place);
	}
	ky_symbol_rows_release(&job.rows);
	return code;
}

static bool is_active(const char *path)
{
	static const char suffix[] = ".active";
	size_t count = strlen(path);

	return count >= sizeof(suffix) - 1 &&
	       strcmp(path + count - (sizeof(suffix) - 1), suffix) == 0;
}

static bool is_replaceable(const char *path)
{
	struct stat st;

	if (is_active(path)) {
		ky_cli_error("%s: is still being written; give -o FILE", path);
		return false;
	}
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
		return true;
	ky_cli_error("%s: is no file that could be replaced; give -o FILE", path);
	return false;
}

static bool is_among(const struct ky_input *input, const char *path)
{
	for (size_t i = 0; i < input->count; i++)
		if (strcmp(input->sources[i].name, path) == 0)
			return true;
	return false;
}

static int each_in_place(const struct symbolize_arguments *arguments)
{
	const struct ky_input *input = &arguments->input;
	int code = KY_EXIT_OK;

	for (size_t i = 0; i < input->paths.count; i++) {
		char *path = input->paths.paths[i];
		struct ky_input one = {.inflate = arguments->input.inflate,
				       .memory_bytes_max = arguments->input.memory_bytes_max};
		int result;

		if (input->has_pid && !is_among(input, path))
			continue;
		result = is_replaceable(path) ? ky_traces_open_file(&one, &path) : KY_EXIT_TROUBLE;

		if (!result)
			result = symbolize(arguments, &one, NULL);
		ky_traces_close(&one);
		code = result ? result : code;
	}
	return code;
}

int ky_cmd_symbolize(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&ky_input_argp, 0, 0, 0},     {&ky_output_argp, 0, 0, 0},
		{&ky_debug_dir_argp, 0, 0, 0}, {&ky_json_argp, 0, 0, 0},
		{&ky_common_argp, 0, 0, 0},    {0}};
	static const struct argp argp = {
		NULL,
		parse,
		"FILE|DIRECTORY...",
		"Finds the functions, source lines and inlined calls of the code addresses of a "
		"trace and writes them into it, so that its readers need no files. Works on "
		"another machine with --debug-dir. A file whose build id is not the recorded one "
		"gives no names.\vWithout --output every file of the input is replaced by itself "
		"with the names.",
		children,
		0,
		0};
	struct symbolize_arguments arguments = {.is_json = false};
	int code;

	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (code)
		return code;
	code = ky_output_check(&arguments.output, arguments.is_json);
	if (code)
		return code;
	/* Others on this machine come first: what was recorded may still run here. */
	(void)setpriority(PRIO_PROCESS, 0, 10);
	code = arguments.output.path ? ky_traces_open_one(&arguments.input, NULL, "") :
				       ky_traces_open(&arguments.input);
	if (!code)
		code = arguments.output.path ?
			       symbolize(&arguments, &arguments.input, arguments.output.path) :
			       each_in_place(&arguments);
	ky_traces_close(&arguments.input);
	return code;
}
