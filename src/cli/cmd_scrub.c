/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <base/json_write.h>
#include <base/out_text.h>
#include <cli/traces.h>
#include <cli/shared_options.h>
#include <cli/progress.h>
#include <edit/rewrite.h>
#include <kymo/base.h>
#include <string.h>
#include <unistd.h>

struct scrub_arguments {
	struct ky_input input;
	struct ky_output output;
	struct ky_compression compression;
	struct ky_redact_choice redact;
	bool is_json;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct scrub_arguments *arguments = state->input;

	(void)text;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->input;
		state->child_inputs[1] = &arguments->redact;
		state->child_inputs[2] = &arguments->output;
		state->child_inputs[3] = &arguments->compression;
		state->child_inputs[4] = &arguments->is_json;
		return 0;
	case ARGP_KEY_END:
		if (!arguments->output.path)
			ky_option_error("say where to write with --output FILE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void say_done(const struct ky_rewrite *done, const struct scrub_arguments *arguments)
{
	char events[KY_OUT_CELL_BYTES], stored[KY_OUT_CELL_BYTES];
	struct ky_buf out;

	ky_buf_init(&out, 0);
	if (arguments->is_json) {
		ky_json_open(&out, NULL, "{");
		ky_json_text(&out, "output", done->output);
		ky_json_number(&out, "events", done->events);
		ky_json_number(&out, "stored_bytes", done->stored_bytes);
		ky_json_open(&out, "redacted", "[");
		for (uint32_t i = 0; i < KY_REDACT_CLASSES; i++)
			if (done->redact->classes >> i & 1)
				ky_json_text(&out, NULL, ky_redact_class_name(i));
		ky_json_close(&out, "]");
		ky_json_close(&out, "}");
		ky_out_text(&out, "\n");
		(void)ky_cli_print(&out);
	} else if (strcmp(done->output, "-") != 0 && !ky_cli_is_quiet()) {
		ky_out_format(&out, "%s: %s events, %s, without", done->output,
			      ky_out_count(events, done->events),
			      ky_out_bytes(stored, done->stored_bytes));
		for (uint32_t i = 0; i < KY_REDACT_CLASSES; i++)
			if (done->redact->classes >> i & 1)
				ky_out_format(&out, " %s", ky_redact_class_name(i));
		ky_out_text(&out, done->redact->classes ? "\n" : " change\n");
		(void)ky_cli_print(&out);
	}
	ky_buf_release(&out);
}

static int scrub(struct scrub_arguments *arguments, struct ky_redact *redact)
{
	struct ky_rewrite rewrite = {.input = &arguments->input,
				     .redact = redact,
				     .output = arguments->output.path,
				     .level = arguments->compression.level,
				     .compression = arguments->compression.kind,
				     .is_forced = arguments->output.may_replace};
	int code;

	if (ky_traces_code(&arguments->input, ky_rewrite_prepare(&rewrite)))
		return KY_EXIT_USAGE;
	code = ky_traces_open_one(&arguments->input, NULL, "");
	if (!code)
		code = ky_traces_rewrite(&rewrite);
	ky_progress_quiet();
	if (rewrite.stored_bytes)
		say_done(&rewrite, arguments);
	ky_traces_close(&arguments->input);
	return code;
}

int ky_cmd_scrub(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_input_argp, 0, 0, 0},
						     {&ky_redact_argp, 0, 0, 0},
						     {&ky_output_argp, 0, 0, 0},
						     {&ky_compression_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		NULL,
		parse,
		"FILE|DIRECTORY... -o FILE",
		"Writes a trace anew without what others shall not read. Numbers, times and stacks "
		"stay, so that reports say the same.\v" KY_OPTION_REDACT_TEXT,
		children,
		0,
		0};
	struct scrub_arguments arguments = {.redact.level = KY_REDACT_LEVEL_VALUES};
	struct ky_redact redact;
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (code)
		return code;
	code = ky_output_check(&arguments.output, arguments.is_json);
	if (code)
		return code;
	code = ky_redact_init(&redact, ky_redact_chosen(&arguments.redact));
	if (code) {
		ky_cli_error("the system gives no random numbers: %s", kymo_error_text(code));
		return KY_EXIT_TROUBLE;
	}
	code = scrub(&arguments, &redact);
	ky_redact_release(&redact);
	return code;
}
