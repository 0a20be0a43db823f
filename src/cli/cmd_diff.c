/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <base/alloc.h>
#include <base/out_text.h>
#include <base/quantity.h>
#include <cli/progress.h>
#include <cli/shared_options.h>
#include <cli/traces.h>
#include <edit/input_processes.h>
#include <errno.h>
#include <report/diff_text.h>
#include <string.h>
#include <unistd.h>

#define PLACES_SHOWN 20u

/* One run, by names of its own. */
struct read_run {
	struct ky_run_place *places;
	char **names;
	uint32_t count;
	uint64_t begin_unix_ns;
	bool is_b;
};

struct diff_arguments {
	struct ky_input input; /* its options; the groups are read one after the other */
	uint64_t limit;
	bool is_json;
	struct read_run runs[KY_DIFF_RUNS_MAX];
	uint32_t run_count;
	/* Of all runs. */
	const char **names;
	uint32_t name_count;
};

static const struct argp_option options[] = {
	{"limit", 'n', "N", 0, "Print at most N places; 0: all (default 20)", 0},
	{0},
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct diff_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->input;
		state->child_inputs[1] = &arguments->is_json;
		return 0;
	case ARGP_KEY_ARGS:
		arguments->input.arguments = state->argv + state->next;
		arguments->input.argument_count = (size_t)(state->argc - state->next);
		if (arguments->input.argument_count != 2)
			ky_option_error("name two groups, A and B, each a directory of traces or a "
					"file");
		return 0;
	case ARGP_KEY_NO_ARGS:
		ky_option_error("name two groups, A and B, each a directory of traces or a file");
		return 0;
	case 'n':
		if (ky_quantity_number(text, &arguments->limit))
			ky_option_error("--limit is a number of places, not '%s'", text);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int say_memory(void)
{
	ky_cli_error("out of memory");
	return KY_EXIT_TROUBLE;
}

/* ---- reading ---- */

static int keep(struct read_run *run, const struct ky_run_places *places,
		const struct ky_trace *trace)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < places->count; i++)
		count += places->places[i].poll_count > 0;
	run->places = ky_alloc(count * sizeof(*run->places) + 1);
	run->names = ky_alloc(count * sizeof(*run->names) + 1);
	for (uint32_t i = 0; i < places->count && run->places && run->names; i++) {
		const char *name = ky_trace_name(trace, i);

		if (!places->places[i].poll_count)
			continue;
		run->places[run->count] = places->places[i];
		run->names[run->count] = ky_alloc(strlen(name) + 1);
		if (!run->names[run->count])
			return -ENOMEM;
		memcpy(run->names[run->count++], name, strlen(name) + 1);
	}
	return run->places && run->names ? 0 : -ENOMEM;
}

static int read_run(struct diff_arguments *arguments, struct ky_input *input, bool is_b)
{
	struct ky_run_places places = {0};
	struct ky_trace *trace = NULL;
	struct read_run *run;
	int code = ky_traces_load(input, &trace);

	if (!code && arguments->run_count == KY_DIFF_RUNS_MAX) {
		ky_cli_error("more than %u runs", KY_DIFF_RUNS_MAX);
		code = KY_EXIT_TROUBLE;
	}
	if (!code) {
		run = &arguments->runs[arguments->run_count++];
		run->is_b = is_b;
		run->begin_unix_ns = ky_trace_unix_ns(trace, trace->run_first_ns);
		ky_progress_step("measuring places");
		if (ky_run_places_make(&places, trace) || keep(run, &places, trace))
			code = say_memory();
		ky_run_places_release(&places);
		if (ky_traces_say_damage(input, trace))
			code = KY_EXIT_TROUBLE;
	}
	ky_trace_close(trace);
	return code;
}

/* Each process of the group is a run. */
static int read_group(struct diff_arguments *arguments, size_t group)
{
	struct ky_input input = arguments->input;
	int code;

	input.arguments = arguments->input.arguments + group;
	input.argument_count = 1;
	code = ky_traces_open(&input);
	if (!code && input.process_count < 2)
		code = read_run(arguments, &input, group == 1);
	for (size_t i = 0; i < input.process_count && input.process_count > 1 && !code; i++) {
		ky_input_processes_choose(&input, i);
		code = read_run(arguments, &input, group == 1);
	}
	ky_traces_close(&input);
	return code;
}

/* ---- the places of all runs ---- */

static uint32_t number_of(const struct diff_arguments *arguments, const char *name)
{
	for (uint32_t i = 0; i < arguments->name_count; i++)
		if (strcmp(arguments->names[i], name) == 0)
			return i;
	return UINT32_MAX;
}

static int number_names(struct diff_arguments *arguments)
{
	uint32_t capacity = 0;

	for (uint32_t run = 0; run < arguments->run_count; run++)
		capacity += arguments->runs[run].count;
	arguments->names = ky_alloc(capacity * sizeof(*arguments->names) + 1);
	if (!arguments->names)
		return -ENOMEM;
	for (uint32_t run = 0; run < arguments->run_count; run++)
		for (uint32_t i = 0; i < arguments->runs[run].count; i++)
			if (number_of(arguments, arguments->runs[run].names[i]) == UINT32_MAX)
				arguments->names[arguments->name_count++] =
					arguments->runs[run].names[i];
	return 0;
}

static int compare(struct diff_arguments *arguments, struct ky_diff **out)
{
	struct ky_diff_input input = {.run_count = arguments->run_count};
	uint64_t begins[KY_DIFF_RUNS_MAX];
	bool is_b[KY_DIFF_RUNS_MAX];
	struct ky_run_place *cells;
	int result = number_names(arguments);

	if (result)
		return result;
	input.place_count = arguments->name_count;
	cells = ky_alloc((size_t)input.run_count * input.place_count * sizeof(*cells) + 1);
	if (!cells)
		return -ENOMEM;
	for (uint32_t run = 0; run < input.run_count; run++) {
		const struct read_run *from = &arguments->runs[run];

		begins[run] = from->begin_unix_ns;
		is_b[run] = from->is_b;
		for (uint32_t i = 0; i < from->count; i++)
			cells[(size_t)run * input.place_count +
			      number_of(arguments, from->names[i])] = from->places[i];
	}
	input.cells = cells;
	input.is_b = is_b;
	input.is_interleaved = ky_diff_is_interleaved(begins, is_b, input.run_count);
	result = ky_diff_make(out, &input);
	ky_free(cells);
	return result;
}

static void release(struct diff_arguments *arguments)
{
	for (uint32_t run = 0; run < arguments->run_count; run++) {
		for (uint32_t i = 0; i < arguments->runs[run].count; i++)
			ky_free(arguments->runs[run].names[i]);
		ky_free(arguments->runs[run].names);
		ky_free(arguments->runs[run].places);
	}
	ky_free((void *)arguments->names);
}

static int print(struct diff_arguments *arguments)
{
	struct ky_diff *diff = NULL;
	struct ky_buf out;
	int code, result;

	ky_progress_step("comparing the runs");
	if (compare(arguments, &diff))
		return say_memory();
	ky_buf_init(&out, 0);
	if (arguments->is_json) {
		ky_diff_json(&out, diff, arguments->names);
		ky_out_text(&out, "\n");
	} else {
		ky_diff_text(&out, diff, arguments->names, arguments->limit,
			     ky_out_is_coloured(STDOUT_FILENO));
	}
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	code = diff->is_conclusive && diff->slower_count ? KY_EXIT_TROUBLE : KY_EXIT_OK;
	ky_diff_free(diff);
	return result ? KY_EXIT_TROUBLE : code;
}

int ky_cmd_diff(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_input_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		options,
		parse,
		"FILE|DIRECTORY FILE|DIRECTORY",
		"Compares the polls of two groups of runs, A and B, place by place. Each is a "
		"directory of traces; each process is a run. A verdict needs 8 runs of each, "
		"recorded in turns. Exits with 1 where a place became slower.",
		children,
		0,
		0};
	struct diff_arguments *arguments = ky_alloc(sizeof(*arguments));
	int code;

	if (!arguments)
		return say_memory();
	arguments->limit = PLACES_SHOWN;
	arguments->input.has_words_before = true;
	code = ky_option_parse(&argp, argc, argv, 0, arguments);
	for (size_t group = 0; group < 2 && !code; group++)
		code = read_group(arguments, group);
	if (!code)
		code = print(arguments);
	release(arguments);
	ky_free(arguments);
	return code;
}
