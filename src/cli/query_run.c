/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/query_run.h>

#include <base/out_text.h>
#include <base/quantity.h>
#include <cli/cli.h>
#include <cli/progress.h>
#include <cli/shared_options.h>
#include <cli/traces.h>
#include <report/loss_text.h>
#include <report/syscall_name.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
	KEY_FORMAT = KY_OPTION_KEY_OWN + 100,
	KEY_MAX_TIME
};

static const struct argp_option options[] = {
	{"format", KEY_FORMAT, "text|json|csv", 0, "The format to print (default text)", 0},
	{"max-time", KEY_MAX_TIME, "DURATION", 0, "Stop a query that takes longer (default 10m)",
	 90},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	static const char *const names[] = {
		[KY_ROWS_TEXT] = "text", [KY_ROWS_JSON] = "json", [KY_ROWS_CSV] = "csv"};
	struct ky_query_run *run = state->input;

	switch (key) {
	case KEY_FORMAT:
		for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (strcmp(text, names[i]) == 0) {
				run->format = i;
				run->has_format = true;
				return 0;
			}
		}
		ky_option_error("--format is text, json or csv, not '%s'", text);
		return 0;
	case KEY_MAX_TIME:
		if (ky_quantity_ns(text, &run->time_max_ns) || !run->time_max_ns)
			ky_option_error("--max-time is a duration such as 30s, not '%s'", text);
		return 0;
	case ARGP_KEY_END:
		if (run->is_json && run->has_format && run->format != KY_ROWS_JSON)
			ky_option_error("--json is --format json; give one of the two");
		if (run->is_json)
			run->format = KY_ROWS_JSON;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ky_query_argp = {options, parse, 0, 0, 0, 0, 0};

int ky_query_run_code(const struct ky_query_run *run, int code)
{
	if (!code)
		return KY_EXIT_OK;
	if (run->input.error[0])
		ky_cli_error("%s", run->input.error);
	else if (code == -ENOMEM || !ky_query_error(run->query)[0])
		ky_cli_error("out of memory");
	else
		ky_cli_error("%s", ky_query_error(run->query));
	return KY_EXIT_TROUBLE;
}

/* Reads the input once more for the names of its code, when a query asks for them. */
static int open_symbols(struct ky_query_run *run)
{
	int code = 0;

	ky_progress_step("naming code");
	if (!run->has_symbols)
		code = ky_trace_symbols_open(&run->symbols, &run->input, &run->names, NULL, NULL);
	run->has_symbols = !code;
	return code;
}

static int name_code(void *ctx, const struct ky_code_stacks **out)
{
	struct ky_query_run *run = ctx;
	int code = open_symbols(run);

	if (!code)
		code = ky_code_stacks_make(&run->stacks, run->trace, run->symbols.table);
	if (!code) {
		run->is_named = true;
		*out = &run->stacks;
	}
	ky_progress_step("running the query");
	return code;
}

static int find(void *ctx, const struct ky_findings **out)
{
	struct ky_query_run *run = ctx;
	int code = run->trace->samples.stack_count ? open_symbols(run) : 0;

	ky_progress_step("finding causes");
	if (!code)
		code = ky_report_make(&run->report, run->trace, NULL);
	if (!code)
		code = ky_stack_profile_make(&run->profile, run->trace, run->report,
					     run->symbols.table, NULL);
	if (!code)
		code = ky_findings_make(
			&run->findings, run->trace, run->report, run->profile,
			&(struct ky_findings_options){.call_name = ky_trace_call_name});
	*out = run->findings;
	ky_progress_step("running the query");
	return code;
}

int ky_query_run_print(struct ky_query_run *run, const char *table, uint64_t limit)
{
	const struct ky_rows_options rows = {
		.format = run->format,
		.table = table,
		.start_ns = run->trace->run_first_ns,
		.limit = limit,
		.is_coloured = ky_out_is_coloured(STDOUT_FILENO),
		.flush = ky_cli_print,
	};
	bool is_flush;
	int code;

	ky_progress_step("running the query");
	code = ky_query_print(run->query, &rows, &is_flush);
	return is_flush ? KY_EXIT_TROUBLE : ky_query_run_code(run, code);
}

/* Beside the rows, whatever their format. */
static void say_left_out(const struct ky_trace *trace)
{
	struct ky_buf text;

	ky_buf_init(&text, 0);
	ky_left_out_text(&text, trace, "");
	for (size_t at = 0, end; !text.failed && at < text.used; at = end + 1) {
		for (end = at; text.bytes[end] != '\n'; end++)
			continue;
		ky_cli_notice("%.*s", (int)(end - at), (const char *)text.bytes + at);
	}
	ky_buf_release(&text);
}

static const char *open_error_text(int code)
{
	if (code == -ENOMEM)
		return "out of memory";
	if (code == -ELIBACC)
		return "libsqlite3.so.0 cannot be loaded, so there are no queries; install "
		       "libsqlite3-0";
	return "SQLite does not start here";
}

static int run_process(void *ctx)
{
	struct ky_query_run *run = ctx;
	struct ky_query_options query = {.time_max_ns = run->time_max_ns,
					 .memory_bytes_max = run->input.memory_bytes_max,
					 .name_code = name_code,
					 .find = find,
					 .ctx = run};
	int code = ky_traces_load(&run->input, &run->trace);

	if (!code) {
		query.trace = run->trace;
		query.sources = run->input.sources;
		query.source_count = run->input.count;
		code = ky_query_open(&run->query, &query);
		if (code) {
			ky_cli_error("%s", open_error_text(code));
			code = KY_EXIT_TROUBLE;
		}
	}
	if (!code) {
		code = run->each(run, run->ctx);
		say_left_out(run->trace);
		if (ky_traces_say_damage(&run->input, run->trace))
			code = KY_EXIT_TROUBLE;
	}
	ky_query_close(run->query);
	run->query = NULL;
	if (run->is_named)
		ky_code_stacks_release(&run->stacks);
	run->is_named = run->has_symbols = false;
	ky_findings_free(run->findings);
	ky_stack_profile_free(run->profile);
	ky_report_free(run->report);
	run->findings = NULL;
	run->profile = NULL;
	run->report = NULL;
	ky_trace_symbols_close(&run->symbols);
	ky_trace_close(run->trace);
	run->trace = NULL;
	return code;
}

int ky_query_run(struct ky_query_run *run)
{
	int code = ky_traces_open(&run->input);

	if (!code)
		code = ky_traces_each(&run->input, run->format != KY_ROWS_TEXT, run_process, run);
	ky_traces_close(&run->input);
	return code;
}
