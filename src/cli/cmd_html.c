/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <base/out_text.h>
#include <base/quantity.h>
#include <cli/page_file.h>
#include <cli/shared_options.h>
#include <string.h>
#include <unistd.h>

#define MAX_MB (KY_PAGE_TRACE_BYTES_MAX >> 20)

enum {
	KEY_MAX_MB = KY_OPTION_KEY_OWN
};

static const struct argp_option options[] = {
	{"max-mb", KEY_MAX_MB, "N", 0,
	 "Of a trace with more than N MiB (1 to 256) the page has the findings and tables of "
	 "`kymo report` alone",
	 0},
	{0},
};

struct html_arguments {
	uint64_t max_mb; /* 0: not given */
	struct ky_output output;
	struct ky_redact_choice redact;
	const char *trace;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct html_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->redact;
		state->child_inputs[1] = &arguments->output;
		return 0;
	case KEY_MAX_MB:
		if (ky_quantity_number(text, &arguments->max_mb) || !arguments->max_mb ||
		    arguments->max_mb > MAX_MB)
			ky_option_error("--max-mb is a number of MiB from 1 to 256, not '%s'",
					text);
		return 0;
	case ARGP_KEY_ARG:
		if (arguments->trace)
			ky_option_error("a page shows one trace file: `kymo convert` makes one of "
					"several");
		arguments->trace = text;
		return 0;
	case ARGP_KEY_END:
		if (!arguments->trace)
			ky_option_error("name a trace file");
		if (!arguments->output.path)
			ky_option_error("say where to write with --output FILE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int ky_cmd_html(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_redact_argp, 0, 0, 0},
						     {&ky_output_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		"FILE -o FILE",
		"Writes the viewer and a trace as one HTML file, which opens in a browser without "
		"a network.\vThe page holds the trace and the names of its code, as `kymo "
		"symbolize` finds them, without what others shall not read: " KY_OPTION_REDACT_TEXT,
		children,
		0,
		0};
	struct html_arguments arguments = {.redact.level = KY_REDACT_LEVEL_VALUES};
	char cell[KY_OUT_CELL_BYTES];
	uint64_t bytes = 0;
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (code)
		return code;
	if (strcmp(arguments.output.path, "-") == 0 && isatty(STDOUT_FILENO)) {
		ky_cli_error("a page does not go to a terminal; give -o FILE");
		return KY_EXIT_USAGE;
	}
	code = ky_page_file_write(arguments.trace, ky_redact_chosen(&arguments.redact),
				  arguments.max_mb << 20, arguments.output.path,
				  arguments.output.may_replace, &bytes);
	if (!code && strcmp(arguments.output.path, "-") != 0 && !ky_cli_is_quiet())
		(void)printf("%s: %s\n", arguments.output.path, ky_out_bytes(cell, bytes));
	return code;
}
