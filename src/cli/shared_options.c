/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/nearest.h>
#include <cli/shared_options.h>

#include <base/quantity.h>
#include <cli/cli.h>
#include <edit/input.h>
#include <base/out_text.h>
#include <ring/ring_finder.h>
#include <session/session_options.h>
#include <edit/trace_symbols.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MAX 64u /* of one command */

enum option_key {
	KEY_COLOR = KY_OPTION_KEY_OWN - 0x80,
	KEY_USAGE,
	KEY_PID,
	KEY_HOST,
	KEY_MAX_BYTES,
	KEY_MAX_RATIO,
	KEY_MAX_MEMORY,
	KEY_MAX_FETCH,
	KEY_FROM,
	KEY_TO,
	KEY_LAST,
	KEY_CLOCK,
	KEY_TASK,
	KEY_WORKER,
	KEY_COMPRESS,
	KEY_RING_DIR,
	KEY_REDACT,
	KEY_KEEP_CLASSES
};

/* ---- words that are no options ---- */

/* By its letter, or by the first `name_bytes` of name where that is not NULL. */
static const struct argp_option *find_option(const struct argp *argp, char letter, const char *name,
					     size_t name_bytes)
{
	const struct argp_option *found = NULL;

	for (const struct argp_option *option = argp->options;
	     option && (option->name || option->key || option->doc); option++) {
		if (name ? option->name && strlen(option->name) == name_bytes &&
				    memcmp(option->name, name, name_bytes) == 0 :
			   option->key == letter)
			return option;
	}
	for (const struct argp_child *child = argp->children; child && child->argp && !found;
	     child++)
		found = find_option(child->argp, letter, name, name_bytes);
	return found;
}

static size_t list_names(const struct argp *argp, const char **names, size_t count)
{
	for (const struct argp_option *option = argp->options;
	     option && (option->name || option->key || option->doc); option++)
		if (option->name && count < NAMES_MAX)
			names[count++] = option->name;
	for (const struct argp_child *child = argp->children; child && child->argp; child++)
		count = list_names(child->argp, names, count);
	return count;
}

__attribute__((noreturn)) static void refuse_name(const struct argp *argp, const char *command,
						  const char *name, size_t name_bytes)
{
	const char *names[NAMES_MAX], *nearest;
	char typed[64];

	(void)snprintf(typed, sizeof(typed), "%.*s", (int)name_bytes, name);
	nearest = ky_nearest(typed, names, list_names(argp, names, 0));
	if (nearest)
		ky_option_error("there is no option '--%s'; did you mean '--%s'?", typed, nearest);
	ky_option_error("there is no option '--%s'; `%s --help` lists them", typed, command);
}

/* A word such as --name or --name=value. Returns the option whose value the next word is, or
 * NULL. */
static const struct argp_option *check_name(const struct argp *argp, const char *command,
					    const char *name)
{
	size_t name_bytes = strcspn(name, "=");
	const struct argp_option *option = find_option(argp, 0, name, name_bytes);

	if (!option)
		refuse_name(argp, command, name, name_bytes);
	if (name[name_bytes] && !option->arg)
		ky_option_error("--%s takes no value, so '%s' is one too many", option->name,
				name + name_bytes + 1);
	if (name[name_bytes] || (option->flags & OPTION_ARG_OPTIONAL))
		return NULL;
	return option->arg ? option : NULL;
}

/* A word such as -jq or -n5: the same. */
static const struct argp_option *check_letters(const struct argp *argp, const char *command,
					       const char *letters)
{
	for (; *letters; letters++) {
		const struct argp_option *option = find_option(argp, *letters, NULL, 0);

		if (!option)
			ky_option_error("there is no option '-%c'; `%s --help` lists them",
					*letters, command);
		if (option->arg)
			return letters[1] ? NULL : option;
	}
	return NULL;
}

/* Before argp, whose own sentences are two and name no way out. */
static void check_words(const struct argp *argp, int argc, char **argv, unsigned flags)
{
	for (int i = 1; i < argc; i++) {
		const struct argp_option *open;
		const char *word = argv[i];

		if (strcmp(word, "--") == 0)
			return;
		if (word[0] != '-' || !word[1]) {
			if (flags & ARGP_IN_ORDER)
				return;
			continue;
		}
		open = word[1] == '-' ? check_name(argp, argv[0], word + 2) :
					check_letters(argp, argv[0], word + 1);
		if (open && ++i == argc)
			ky_option_error("%s needs a value: %s", word, open->arg);
	}
}

int ky_option_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
	int err;

	check_words(argp, argc, argv, flags);
	err = argp_parse(argp, argc, argv, flags | ARGP_NO_HELP, NULL, input);
	if (!err)
		return KY_EXIT_OK;
	ky_cli_error("%s", kymo_error_text(-err));
	return KY_EXIT_TROUBLE;
}

void ky_option_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	ky_cli_error_list(format, args);
	va_end(args);
	exit(argp_err_exit_status);
}

/* ---- every command ---- */

static const struct argp_option common_options[] = {
	{"color", KEY_COLOR, "auto|always|never", 0,
	 "Colour: auto is on a terminal, unless NO_COLOR is set (default auto)", -1},
	{"quiet", 'q', 0, 0, "No progress, and no line about what was done", -1},
	{"help", 'h', 0, 0, "Print this text", -1},
	{"usage", KEY_USAGE, 0, 0, "Print the options in short", -1},
	{"version", 'V', 0, 0, "Print the version", -1},
	{0},
};

static void parse_color(const char *text)
{
	static const char *const names[] = {[KY_OUT_COLOUR_AUTO] = "auto",
					    [KY_OUT_COLOUR_ALWAYS] = "always",
					    [KY_OUT_COLOUR_NEVER] = "never"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) == 0) {
			ky_out_set_colour(i);
			return;
		}
	}
	ky_option_error("--color is auto, always or never, not '%s'", text);
}

__attribute__((noreturn)) static void print_help(const struct argp_state *state, unsigned flags)
{
	/* Where a letter and a name stand side by side the argument of one is that of both. */
	(void)setenv("ARGP_HELP_FMT", "no-dup-args-note", 1);
	argp_state_help(state, stdout, flags);
	exit(ky_cli_finish(KY_EXIT_OK));
}

static error_t parse_common(int key, char *text, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_INIT:
		ky_cli_set_quiet(false);
		return 0;
	case KEY_COLOR:
		parse_color(text);
		return 0;
	case 'q':
		ky_cli_set_quiet(true);
		return 0;
	case 'h':
		print_help(state, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK);
	case KEY_USAGE:
		print_help(state, ARGP_HELP_USAGE);
	case 'V':
		(void)printf("kymo %s\n", KYMO_VERSION_STRING);
		exit(ky_cli_finish(KY_EXIT_OK));
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ky_common_argp = {common_options, parse_common, 0, 0, 0, 0, 0};

static const struct argp_option json_options[] = {
	{"json", 'j', 0, 0, "Print JSON: one object, or one a line where there are several", 0},
	{0},
};

static error_t parse_json(int key, char *text, struct argp_state *state)
{
	bool *is_json = state->input;

	(void)text;
	if (key != 'j')
		return ARGP_ERR_UNKNOWN;
	*is_json = true;
	return 0;
}

const struct argp ky_json_argp = {json_options, parse_json, 0, 0, 0, 0, 0};

/* ---- what is read ---- */

static const struct argp_option choice_options[] = {
	{"service", 's', "NAME", 0, "Only what is of this service", 0},
	{"host", KEY_HOST, "NAME", 0, "Only what is of this host", 0},
	{"max-fetch", KEY_MAX_FETCH, "SIZE", 0, "Fetch at most this much of a bucket (default 2G)",
	 0},
	{0},
};

static error_t parse_choice(int key, char *text, struct argp_state *state)
{
	struct ky_input *input = state->input;

	switch (key) {
	case 's':
		input->service = text;
		return 0;
	case KEY_HOST:
		input->host = text;
		return 0;
	case KEY_MAX_FETCH:
		if (!ky_quantity_in(ky_quantity_bytes, text, 1, UINT64_MAX,
				    &input->fetch_bytes_max))
			ky_option_error("--max-fetch is a size such as 2G, not '%s'", text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ky_choice_argp = {choice_options, parse_choice, 0, 0, 0, 0, 0};

static const struct argp_option input_options[] = {
	{"pid", KEY_PID, "PID", 0, "Only what is of this process", 0},
	{0, 0, 0, 0, "Limits:", 90},
	{"max-bytes", KEY_MAX_BYTES, "SIZE", 0,
	 "Refuse a file that unpacks to more (default: no absolute limit)", 90},
	{"max-ratio", KEY_MAX_RATIO, "N", 0,
	 "Refuse a file that unpacks to more than N times its size and 64M (default 1000)", 90},
	{"max-memory", KEY_MAX_MEMORY, "SIZE", 0,
	 "Use at most this much memory (default 3G, for sorting events 256M)", 90},
	{0},
};

static error_t parse_input(int key, char *text, struct argp_state *state)
{
	struct ky_input *input = state->input;
	uint64_t value = 0;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = input;
		return 0;
	case ARGP_KEY_ARGS:
		input->arguments = state->argv + state->next;
		input->argument_count = (size_t)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS:
		if (!input->has_words_before)
			ky_option_error("name a trace file, a directory of traces, or '-' for "
					"standard input");
		return 0;
	case KEY_PID:
		if (ky_quantity_number(text, &input->pid))
			ky_option_error("--pid is a number, not '%s'", text);
		input->has_pid = true;
		return 0;
	case KEY_MAX_BYTES:
		if (ky_quantity_bytes(text, &input->inflate.unpacked_bytes_max))
			ky_option_error("--max-bytes is a size such as 512M, not '%s'", text);
		return 0;
	case KEY_MAX_MEMORY:
		if (!ky_quantity_in(ky_quantity_bytes, text, 1, UINT64_MAX,
				    &input->memory_bytes_max))
			ky_option_error("--max-memory is a size such as 2G, not '%s'", text);
		return 0;
	case KEY_MAX_RATIO:
		if (!ky_quantity_in(ky_quantity_number, text, 1, UINT32_MAX, &value))
			ky_option_error("--max-ratio is a number such as 1000, not '%s'", text);
		input->inflate.ratio_max = (uint32_t)value;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child input_children[] = {{&ky_choice_argp, 0, 0, 0}, {0}};
const struct argp ky_input_argp = {input_options, parse_input, 0, 0, input_children, 0, 0};

static const struct argp_option debug_dir_options[] = {
	{"debug-dir", 'd', "DIR", 0,
	 "Search DIR, too, for files and debug information; may be repeated", 0},
	{0},
};

static error_t parse_debug_dir(int key, char *text, struct argp_state *state)
{
	struct ky_trace_symbols_options *symbols = state->input;

	if (key != 'd')
		return ARGP_ERR_UNKNOWN;
	if (symbols->debug_dir_count == KY_DEBUG_DIRS_MAX)
		ky_option_error("--debug-dir can be given %u times at most", KY_DEBUG_DIRS_MAX);
	else
		symbols->debug_dirs[symbols->debug_dir_count++] = text;
	return 0;
}

const struct argp ky_debug_dir_argp = {debug_dir_options, parse_debug_dir, 0, 0, 0, 0, 0};

/* ---- which part of it ---- */

static const struct argp_option time_options[] = {
	{"from", KEY_FROM, "TIME", 0, "Only what begins at or after TIME", 0},
	{"to", KEY_TO, "TIME", 0, "Only what begins before TIME", 0},
	{"last", KEY_LAST, "DURATION", 0, "Only the last DURATION, such as 500ms, 30s or 5m", 0},
	{0},
};

static void parse_time(const char *name, const char *text, struct ky_moment *out)
{
	if (ky_moment_parse(out, text) != 0)
		ky_option_error("--%s is a time such as 1.5s after the start, @NANOSECONDS or "
				"2026-05-18T12:30:00, not '%s'",
				name, text);
}

static error_t parse_time_range(int key, char *text, struct argp_state *state)
{
	struct ky_time_range *range = state->input;

	switch (key) {
	case KEY_FROM:
		parse_time("from", text, &range->from);
		return 0;
	case KEY_TO:
		parse_time("to", text, &range->to);
		return 0;
	case KEY_LAST:
		if (!ky_quantity_in(ky_quantity_ns, text, 1, UINT64_MAX, &range->last_ns))
			ky_option_error("--last is a duration such as 500ms, 30s or 5m, not '%s'",
					text);
		return 0;
	case ARGP_KEY_END:
		if (range->last_ns && (range->from.kind || range->to.kind))
			ky_option_error("--last and --from or --to exclude each other; give one");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ky_time_range_argp = {time_options, parse_time_range, 0, 0, 0, 0, 0};

static const struct argp_option clock_options[] = {
	{"clock", KEY_CLOCK, "trace|wall", 0,
	 "Print times from the start of the trace, or of the wall clock in UTC (default trace)", 0},
	{0},
};

static error_t parse_clock(int key, char *text, struct argp_state *state)
{
	bool *is_wall = state->input;

	if (key != KEY_CLOCK)
		return ARGP_ERR_UNKNOWN;
	*is_wall = strcmp(text, "wall") == 0;
	if (!*is_wall && strcmp(text, "trace") != 0)
		ky_option_error("--clock is trace or wall, not '%s'", text);
	return 0;
}

const struct argp ky_clock_argp = {clock_options, parse_clock, 0, 0, 0, 0, 0};

int ky_say_no_wall_clock(const char *give_instead)
{
	ky_cli_error("this trace has no reading of the wall clock; give %s", give_instead);
	return KY_EXIT_TROUBLE;
}

static int resolve(const struct ky_moment *moment, const struct ky_time_span *span, uint64_t *out)
{
	*out = 0;
	if (!moment->kind)
		return 0;
	return ky_moment_resolve(moment, span->start_ns, span->sync_monotonic_ns,
				 span->sync_realtime_ns, out);
}

int ky_time_range_resolve(const struct ky_time_range *range, const struct ky_time_span *span,
			  uint64_t *from_ns, uint64_t *to_ns)
{
	if (resolve(&range->from, span, from_ns) || resolve(&range->to, span, to_ns)) {
		return ky_say_no_wall_clock("--from and --to relative to its start, such as 1.5s");
	}
	if (range->to.kind && *to_ns <= *from_ns) {
		ky_cli_error("--to lies at or before --from");
		return KY_EXIT_USAGE;
	}
	if (range->last_ns && range->last_ns < span->end_ns)
		*from_ns = span->end_ns - range->last_ns;
	return KY_EXIT_OK;
}

static const struct argp_option filter_options[] = {
	{"task", KEY_TASK, "ID", 0, "Only what belongs to this task", 0},
	{"worker", KEY_WORKER, "ID", 0, "Only what belongs to this worker", 0},
	{0},
};

static void parse_id(const char *name, const char *text, uint64_t *out)
{
	if (ky_quantity_number(text, out))
		ky_option_error("--%s is a number, not '%s'", name, text);
}

static error_t parse_filter(int key, char *text, struct argp_state *state)
{
	struct ky_filter *filter = state->input;

	switch (key) {
	case KEY_TASK:
		parse_id("task", text, &filter->task);
		filter->has_task = true;
		return 0;
	case KEY_WORKER:
		parse_id("worker", text, &filter->worker);
		filter->has_worker = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ky_filter_argp = {filter_options, parse_filter, 0, 0, 0, 0, 0};

/* ---- what is written ---- */

static const struct argp_option output_options[] = {
	{"output", 'o', "FILE", 0, "Write to FILE; '-' is standard output", 0},
	{"force", 'f', 0, 0, "Replace FILE when it exists", 0},
	{0},
};

static error_t parse_output(int key, char *text, struct argp_state *state)
{
	struct ky_output *output = state->input;

	switch (key) {
	case 'o':
		output->path = text;
		if (text[0] == '\0')
			ky_option_error("--output is a file, or '-' for standard output");
		return 0;
	case 'f':
		output->may_replace = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ky_output_argp = {output_options, parse_output, 0, 0, 0, 0, 0};

int ky_output_check(const struct ky_output *output, bool is_json)
{
	if (!output->path || strcmp(output->path, "-") != 0 || (!is_json && !isatty(STDOUT_FILENO)))
		return KY_EXIT_OK;
	ky_cli_error("a trace does not go to a terminal or together with --json; give -o FILE");
	return KY_EXIT_USAGE;
}

static const struct argp_option compression_options[] = {
	{"compress", KEY_COMPRESS, "zstd[:LEVEL]|gzip[:LEVEL]|none", 0,
	 "How to compress; LEVEL is 1 to 19 of zstd, 1 to 9 of gzip", 0},
	{0},
};

static bool read_compression(struct ky_compression *out, const char *text)
{
	const char *colon = strchr(text, ':');
	size_t name_bytes = colon ? (size_t)(colon - text) : strlen(text);
	uint64_t level = 0;

	if (colon && !ky_quantity_in(ky_quantity_number, colon + 1, 1, 19, &level))
		return false;
	out->level = (uint32_t)level;
	out->is_chosen = true;
	out->kind = KYMO_COMPRESSION_NONE;
	if (name_bytes == 4 && memcmp(text, "zstd", 4) == 0)
		out->kind = KYMO_COMPRESSION_ZSTD;
	else if (name_bytes == 4 && memcmp(text, "gzip", 4) == 0 && level <= 9)
		out->kind = KYMO_COMPRESSION_GZIP;
	(void)ky_compressor_choose(&out->compressor, out->kind, level ? (int)level : 1);
	return out->kind != KYMO_COMPRESSION_NONE || strcmp(text, "none") == 0;
}

static error_t parse_compression(int key, char *text, struct argp_state *state)
{
	struct ky_compression *compression = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		*compression = (struct ky_compression){.is_chosen = false};
		ky_compressor_zstd(&compression->compressor, 1);
		return 0;
	case KEY_COMPRESS:
		if (!read_compression(compression, text))
			ky_option_error("--compress is zstd[:1-19], gzip[:1-9] or none, not '%s'",
					text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ky_compression_argp = {compression_options, parse_compression, 0, 0, 0, 0, 0};

static const struct argp_option pair_options[] = {
	{"metadata", 'm', "KEY=VALUE", 0, "A pair for the trace; may be repeated", 0},
	{0},
};

static bool add_pair(struct ky_pairs *pairs, char *text)
{
	char *equals = strchr(text, '=');

	if (pairs->count == KY_OPTION_PAIRS_MAX || !equals || equals == text ||
	    equals - text > 255 || strlen(equals + 1) > 1024)
		return false;
	*equals = '\0';
	pairs->pairs[pairs->count++] = (struct kymo_key_value){.key = text, .value = equals + 1};
	return true;
}

static error_t parse_pairs(int key, char *text, struct argp_state *state)
{
	if (key != 'm')
		return ARGP_ERR_UNKNOWN;
	if (!add_pair(state->input, text))
		ky_option_error("--metadata is KEY=VALUE, KEY of at most 255 and VALUE of at most "
				"1,024 bytes, at most %u times, not '%s'",
				KY_OPTION_PAIRS_MAX, text);
	return 0;
}

const struct argp ky_pairs_argp = {pair_options, parse_pairs, 0, 0, 0, 0, 0};

/* ---- which rings ---- */

static const struct argp_option ring_options[] = {
	{"ring-dir", KEY_RING_DIR, "DIR", 0,
	 "Search DIR alone for rings (default: KYMO_RING_DIR, /dev/shm/kymo-UID, and what running "
	 "processes map)",
	 0},
	{0},
};

static error_t parse_ring(int key, char *text, struct argp_state *state)
{
	struct ky_ring_query *query = state->input;

	if (key != KEY_RING_DIR)
		return ARGP_ERR_UNKNOWN;
	if (text[0] == '\0')
		ky_option_error("--ring-dir is a directory");
	if (strlen(text) >= KY_RING_DIRECTORY_BYTES)
		ky_option_error("--ring-dir has %zu bytes, and may have %u", strlen(text),
				KY_RING_DIRECTORY_BYTES - 1);
	query->ring_directory = text;
	return 0;
}

const struct argp ky_ring_argp = {ring_options, parse_ring, 0, 0, 0, 0, 0};

/* ---- what others shall not read ---- */

static const struct argp_option redact_options[] = {
	{"redact", KEY_REDACT, "args|values|names", 0, "What to replace (default values)", 0},
	{"keep", KEY_KEEP_CLASSES, "LIST", 0,
	 "What stays of it: paths, args, memory, values, names, or all; with commas between", 0},
	{0},
};

static uint32_t class_of(const char *text, size_t count)
{
	for (uint32_t i = 0; i < KY_REDACT_CLASSES; i++)
		if (strlen(ky_redact_class_name(i)) == count &&
		    memcmp(ky_redact_class_name(i), text, count) == 0)
			return 1u << i;
	return count == 3 && memcmp(text, "all", count) == 0 ? UINT32_MAX : 0;
}

static error_t parse_redact(int key, char *text, struct argp_state *state)
{
	struct ky_redact_choice *choice = state->input;
	size_t count;

	switch (key) {
	case KEY_REDACT:
		choice->level = ky_redact_level(text);
		if (!choice->level)
			ky_option_error("--redact is args, values or names, not '%s'", text);
		return 0;
	case KEY_KEEP_CLASSES:
		for (const char *at = text;; at += count + 1) {
			uint32_t class;

			count = strcspn(at, ",");
			class = class_of(at, count);
			if (!class)
				ky_option_error("--keep is a list of paths, args, memory, values, "
						"names, or all, not '%s'",
						text);
			choice->kept |= class;
			if (!at[count])
				return 0;
		}
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp ky_redact_argp = {redact_options, parse_redact, 0, 0, 0, 0, 0};
