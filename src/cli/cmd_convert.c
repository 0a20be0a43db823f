/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <cli/bucket_input.h>
#include <cli/traces.h>
#include <base/out_text.h>
#include <cli/shared_options.h>
#include <cli/progress.h>
#include <edit/rewrite.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <string.h>
#include <unistd.h>

enum {
	KEY_RECOMPRESS = KY_OPTION_KEY_OWN,
	KEY_MIX
};

struct convert_arguments {
	struct ky_input input;
	struct ky_time_range range;
	struct ky_output output;
	struct ky_compression compression;
	bool is_recompress, is_mix, is_json;
};

static const struct argp_option options[] = {
	{"recompress", KEY_RECOMPRESS, 0, 0,
	 "Keep the bytes as they are inside the compression: no sorting, no new chunks", 0},
	{"mix", KEY_MIX, 0, 0,
	 "Write several processes into one file, which does not separate their ids", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct convert_arguments *arguments = state->input;

	(void)text;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->input;
		state->child_inputs[1] = &arguments->output;
		state->child_inputs[2] = &arguments->compression;
		state->child_inputs[3] = &arguments->is_json;
		state->child_inputs[4] = &arguments->range;
		return 0;
	case KEY_RECOMPRESS:
		arguments->is_recompress = true;
		return 0;
	case KEY_MIX:
		arguments->is_mix = true;
		return 0;
	case ARGP_KEY_END:
		if (!arguments->output.path)
			ky_option_error("say where to write with --output FILE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void say_done(const struct ky_rewrite *done, bool is_json)
{
	char events[KY_OUT_CELL_BYTES], raw[KY_OUT_CELL_BYTES], stored[KY_OUT_CELL_BYTES];

	if (is_json)
		(void)printf("{\"events\":%" PRIu64 ",\"chunks\":%" PRIu64 ",\"raw_bytes\":%" PRIu64
			     ",\"stored_bytes\":%" PRIu64 ",\"indexed\":%s}\n",
			     done->events, done->chunks, done->raw_bytes, done->stored_bytes,
			     done->is_indexed ? "true" : "false");
	else if (strcmp(done->output, "-") != 0 && !ky_cli_is_quiet())
		(void)printf("%s: %s events, %s in %s\n", done->output,
			     ky_out_count(events, done->events), ky_out_bytes(raw, done->raw_bytes),
			     ky_out_bytes(stored, done->stored_bytes));
}

int ky_cmd_convert(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_input_argp, 0, 0, 0},
						     {&ky_output_argp, 0, 0, 0},
						     {&ky_compression_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_time_range_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		"FILE|DIRECTORY... -o FILE",
		"Writes traces anew as one file: sorted by time in chunks of at most 256 KiB, "
		"every event with all its fields and annotations, also those that kymo does not"
		" know. With --recompress only the compression changes. The file appears under "
		"its name when it is whole.\vWithout --compress the name of FILE decides: .zst is "
		"zstd (level 3), .gz gzip (level 6), neither is none. "
		"--from, --to and --last choose what is fetched of a bucket.",
		children,
		0,
		0};
	struct convert_arguments arguments = {.is_mix = false};
	struct ky_rewrite rewrite = {.input = &arguments.input};
	int code;

	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (code)
		return code;
	code = ky_output_check(&arguments.output, arguments.is_json);
	if (code)
		return code;
	rewrite.output = arguments.output.path;
	rewrite.level = arguments.compression.level;
	rewrite.compression = arguments.compression.kind;
	rewrite.is_recompress = arguments.is_recompress;
	rewrite.is_forced = arguments.output.may_replace;
	rewrite.is_mix = arguments.is_mix;
	if (ky_traces_code(&arguments.input, ky_rewrite_prepare(&rewrite)))
		return KY_EXIT_USAGE;
	code = ky_bucket_range_check(&arguments.input, &arguments.range);
	if (code)
		return code;
	code = arguments.is_mix ? ky_traces_open_in(&arguments.input, &arguments.range) :
				  ky_traces_open_one(&arguments.input, &arguments.range,
						     ", or write them all with --mix");
	if (!code)
		code = ky_traces_rewrite(&rewrite);
	ky_progress_quiet();
	if (rewrite.stored_bytes)
		say_done(&rewrite, arguments.is_json);
	ky_traces_close(&arguments.input);
	return code;
}
