/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/traces.h>

#include <cli/cli.h>
#include <cli/bucket_input.h>
#include <base/out_text.h>
#include <cli/progress.h>
#include <edit/input_processes.h>
#include <kymo/base.h>

static void notice(const char *text)
{
	ky_cli_notice("%s", text);
}

int ky_traces_code(const struct ky_input *input, int result)
{
	if (!result)
		return KY_EXIT_OK;
	ky_cli_error("%s", input->error);
	return KY_EXIT_TROUBLE;
}

int ky_traces_open_in(struct ky_input *input, const struct ky_time_range *range)
{
	int code = KY_EXIT_OK;

	input->view = (struct ky_input_view){notice, ky_progress_step, ky_progress_count};
	ky_progress_open();
	if (ky_bucket_is_input(input))
		code = ky_bucket_input_fetch(input, range);
	return code ? code : ky_traces_code(input, ky_input_open(input));
}

int ky_traces_open(struct ky_input *input)
{
	return ky_traces_open_in(input, NULL);
}

int ky_traces_open_file(struct ky_input *input, char **path)
{
	input->arguments = path;
	input->argument_count = 1;
	return ky_traces_open(input);
}

int ky_traces_open_named(struct ky_input *input, struct ky_trace_symbols *symbols, char **path,
			 ky_trace_symbols_fn each, void *ctx)
{
	static const struct ky_trace_symbols_options no_dirs;
	int code = ky_traces_open_file(input, path);

	return code ? code :
		      ky_traces_code(input,
				     ky_trace_symbols_open(symbols, input, &no_dirs, each, ctx));
}

int ky_traces_open_one(struct ky_input *input, const struct ky_time_range *range,
		       const char *instead)
{
	int code = ky_traces_open_in(input, range);
	struct ky_buf list;

	if (code || input->process_count < 2)
		return code;
	ky_buf_init(&list, 0);
	ky_input_processes_list(&list, input);
	(void)ky_buf_append(&list, "", 1);
	ky_cli_error("the tasks, workers and threads of these files have the same numbers, as %s; "
		     "choose one with --pid, or by its files%s",
		     list.failed ? "they are of several processes" : (const char *)list.bytes,
		     instead);
	ky_buf_release(&list);
	return KY_EXIT_TROUBLE;
}

static int print_heading(const struct ky_input *input, size_t process)
{
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	ky_out_format(&out, "%sProcess %zu of %zu: ", process ? "\n" : "", process + 1,
		      input->process_count);
	ky_input_processes_name(&out, input, process);
	ky_out_text(&out, "\n\n");
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

int ky_traces_each(struct ky_input *input, bool is_json, int (*print)(void *ctx), void *ctx)
{
	int code = KY_EXIT_OK;

	if (input->process_count < 2)
		return print(ctx);
	for (size_t i = 0; i < input->process_count; i++) {
		int result;

		ky_input_processes_choose(input, i);
		result = is_json ? KY_EXIT_OK : print_heading(input, i);
		if (!result)
			result = print(ctx);
		code = result > code ? result : code;
	}
	return code;
}

int ky_traces_load(struct ky_input *input, struct ky_trace **out)
{
	return ky_traces_code(input, ky_input_trace(input, out));
}

void ky_traces_close(struct ky_input *input)
{
	ky_progress_close();
	ky_input_close(input);
}

int ky_traces_say_limits(const struct ky_input *input)
{
	for (size_t i = 0; i < input->count; i++)
		if (ky_input_limit(input, i))
			ky_cli_error("%s", ky_input_limit(input, i));
	return ky_input_is_limited(input) || input->is_damaged ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

int ky_traces_say_damage(struct ky_input *input, const struct ky_trace *trace)
{
	ky_input_note_damage(input, trace);
	return ky_traces_say_limits(input);
}

int ky_traces_rewrite(struct ky_rewrite *rewrite)
{
	int result = ky_rewrite_run(rewrite);

	if (result == KYMO_E_LIMIT)
		(void)ky_traces_say_limits(rewrite->input);
	return ky_traces_code(rewrite->input, result) || rewrite->is_partial ? KY_EXIT_TROUBLE :
									       KY_EXIT_OK;
}
