/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <base/quantity.h>
#include <cli/input.h>
#include <base/out_text.h>
#include <cli/progress.h>
#include <edit/rewrite.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <kymo/recorder.h>
#include <string.h>
#include <unistd.h>

enum {
	KEY_RECOMPRESS = KY_KEY_FIRST_FREE,
	KEY_LEVEL,
	KEY_MIX,
	KEY_FORCE = 'f'
};

struct arguments {
	struct ky_input input;
	const char *output;
	uint64_t level;
	uint32_t compression; /* enum kymo_compression; DEFAULT: by the name */
	bool is_recompress, is_forced, is_mix, is_json;
};

static const struct argp_option options[] = {
	{"output", 'o', "FILE", 0, "Write to FILE ('-': standard output); must be given", 0},
	{"compress", 'c', "KIND", 0,
	 "zstd, gzip or none; default by the name of FILE: .zst, .gz, else none", 0},
	{"level", KEY_LEVEL, "N", 0,
	 "Compression level: zstd 1 to 19 (default 3), gzip 1 to 9 (default 6)", 0},
	{"recompress", KEY_RECOMPRESS, 0, 0,
	 "Keep the bytes as they are inside the compression: no sorting, no new chunks", 0},
	{"force", KEY_FORCE, 0, 0, "Replace FILE when it exists", 0},
	{"mix", KEY_MIX, 0, 0,
	 "Write several processes into one file, where nothing tells their ids apart", 0},
	{"json", 'j', 0, 0, "Say what was written as one JSON object on standard output", 0},
	{0},
};

static void parse_compression(struct argp_state *state, struct arguments *arguments,
			      const char *text)
{
	if (strcmp(text, "zstd") == 0)
		arguments->compression = KYMO_COMPRESSION_ZSTD;
	else if (strcmp(text, "gzip") == 0)
		arguments->compression = KYMO_COMPRESSION_GZIP;
	else if (strcmp(text, "none") == 0)
		arguments->compression = KYMO_COMPRESSION_NONE;
	else
		argp_error(state, "--compress is zstd, gzip or none, not '%s'", text);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->input;
		return 0;
	case 'o':
		arguments->output = text;
		return 0;
	case 'c':
		parse_compression(state, arguments, text);
		return 0;
	case KEY_LEVEL:
		if (ky_quantity_number(text, &arguments->level) || !arguments->level ||
		    arguments->level > 19)
			argp_error(state, "--level takes a number from 1 to 19, not '%s'", text);
		return 0;
	case KEY_RECOMPRESS:
		arguments->is_recompress = true;
		return 0;
	case KEY_FORCE:
		arguments->is_forced = true;
		return 0;
	case KEY_MIX:
		arguments->is_mix = true;
		return 0;
	case 'j':
		arguments->is_json = true;
		return 0;
	case ARGP_KEY_END:
		if (!arguments->output)
			argp_error(state, "say where to write with -o FILE");
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
	else if (strcmp(done->output, "-") != 0)
		(void)printf("%s: %s events, %s in %s\n", done->output,
			     ky_out_count(events, done->events), ky_out_bytes(raw, done->raw_bytes),
			     ky_out_bytes(stored, done->stored_bytes));
}

int ky_cmd_convert(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_input_argp, 0, 0, 0}, {0}};
	static const struct argp argp = {
		options,
		parse,
		"FILE|DIRECTORY... -o FILE",
		"Writes traces anew as one file: sorted by time in chunks of at most 256 KiB, "
		"every event with all its fields and annotations, also those that kymo does not"
		" know. With --recompress only the compression changes. The file appears under "
		"its name when it is whole.",
		children,
		0,
		0};
	struct arguments arguments = {.level = 0};
	struct ky_rewrite rewrite = {.input = &arguments.input};
	int code;

	if (argp_parse(&argp, argc, argv, 0, 0, &arguments))
		return KY_EXIT_USAGE;
	if (strcmp(arguments.output, "-") == 0 && (arguments.is_json || isatty(STDOUT_FILENO))) {
		ky_cli_error(
			"a trace does not go to a terminal or together with --json; give -o FILE");
		return KY_EXIT_USAGE;
	}
	rewrite.output = arguments.output;
	rewrite.level = arguments.level;
	rewrite.compression = arguments.compression;
	rewrite.is_recompress = arguments.is_recompress;
	rewrite.is_forced = arguments.is_forced;
	rewrite.is_mix = arguments.is_mix;
	code = ky_rewrite_prepare(&rewrite);
	if (!code)
		code = ky_input_open(&arguments.input);
	if (!code)
		code = ky_rewrite_run(&rewrite);
	ky_progress_quiet();
	if (rewrite.stored_bytes)
		say_done(&rewrite, arguments.is_json);
	ky_input_close(&arguments.input);
	return code;
}
