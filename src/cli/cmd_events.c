/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/nearest.h>
#include <cli/cli.h>

#include <base/alloc.h>
#include <base/quantity.h>
#include <report/event_format.h>
#include <cli/traces.h>
#include <base/out_text.h>
#include <cli/shared_options.h>
#include <analyze/task_polls.h>
#include <edit/trace_symbols.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <string.h>

#define TYPES_MAX 64u
#define FLUSH_BYTES 65536u

enum events_format {
	FORMAT_TEXT,
	FORMAT_JSONL,
	FORMAT_CSV
};
enum {
	KEY_FORMAT = KY_OPTION_KEY_OWN,
	KEY_STORED,
	KEY_SYMBOLS,
	KEY_NO_SYMBOLS
};

struct events_arguments {
	struct ky_input input;
	const char *types[TYPES_MAX];
	size_t type_count;
	struct ky_time_range range;
	struct ky_filter filter;
	uint64_t limit;
	struct ky_trace_symbols_options symbols;
	bool has_limit, has_format, is_json, is_stored_order;
	bool is_named, is_raw; /* --symbols, --no-symbols */
	bool is_wall;          /* --clock */
	enum events_format format;
};

struct event_run {
	const struct events_arguments *arguments;
	struct ky_catalog catalog;
	struct ky_csv_columns columns;
	struct ky_event_clock clock;
	struct ky_event_stream *stream;
	struct ky_trace_symbols symbols; /* table NULL: addresses stay numbers */
	struct ky_task_polls polls;      /* for --task */
	bool *is_chosen;                 /* by shape; NULL: all */
	uint64_t from_ns, to_ns, printed, late;
	struct ky_buf out;
};

static const struct argp_option options[] = {
	{"type", 't', "NAME", 0,
	 "Only events of this name; NAME* is all that begin so; may be repeated", 0},
	{"limit", 'n', "N", 0, "Print at most N events", 0},
	{"format", KEY_FORMAT, "text|jsonl|csv", 0,
	 "The format to print (default text); jsonl is one object a line, the same as --json", 0},
	{"stored-order", KEY_STORED, 0, 0, "In the order of the files, not of time", 0},
	{"symbols", KEY_SYMBOLS, 0, 0,
	 "Name code addresses from the files that hold them; without it text shows the names in "
	 "the trace",
	 0},
	{"no-symbols", KEY_NO_SYMBOLS, 0, 0, "Print code addresses as numbers", 0},
	{0},
};

static void parse_format(struct events_arguments *arguments, const char *text)
{
	static const char *const names[] = {
		[FORMAT_TEXT] = "text", [FORMAT_JSONL] = "jsonl", [FORMAT_CSV] = "csv"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]) == 0) {
			arguments->format = (enum events_format)i;
			arguments->has_format = true;
			return;
		}
	}
	ky_option_error("--format is text, jsonl or csv, not '%s'", text);
}

/* What goes together, once all is known. */
static void check(struct events_arguments *arguments)
{
	if (arguments->is_json && arguments->has_format && arguments->format != FORMAT_JSONL)
		ky_option_error("--json is --format jsonl; give one of the two");
	if (arguments->is_json)
		arguments->format = FORMAT_JSONL;
	arguments->is_named |= arguments->symbols.debug_dir_count > 0;
	if (arguments->is_named && arguments->is_raw)
		ky_option_error("--symbols (or --debug-dir) and --no-symbols exclude each "
				"other");
	if (arguments->is_named && arguments->format == FORMAT_CSV)
		ky_option_error("CSV has addresses only; take --format jsonl for names");
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct events_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->input;
		state->child_inputs[1] = &arguments->range;
		state->child_inputs[2] = &arguments->filter;
		state->child_inputs[3] = &arguments->symbols;
		state->child_inputs[4] = &arguments->is_json;
		state->child_inputs[5] = &arguments->is_wall;
		return 0;
	case 't':
		if (arguments->type_count == TYPES_MAX)
			ky_option_error("--type can be given %u times at most", TYPES_MAX);
		else
			arguments->types[arguments->type_count++] = text;
		return 0;
	case 'n':
		if (ky_quantity_number(text, &arguments->limit))
			ky_option_error("--limit is a number, not '%s'", text);
		arguments->has_limit = true;
		return 0;
	case KEY_FORMAT:
		parse_format(arguments, text);
		return 0;
	case KEY_STORED:
		arguments->is_stored_order = true;
		return 0;
	case KEY_SYMBOLS:
		arguments->is_named = true;
		return 0;
	case KEY_NO_SYMBOLS:
		arguments->is_raw = true;
		return 0;
	case ARGP_KEY_END:
		check(arguments);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* "PollStart" is what people call PollStartEvent. */
static const char event_suffix[] = "Event";
#define SUFFIX_BYTES (sizeof(event_suffix) - 1)

static bool has_suffix(const struct ky_shape *shape)
{
	return shape->name_bytes > SUFFIX_BYTES &&
	       memcmp(shape->name + shape->name_bytes - SUFFIX_BYTES, event_suffix, SUFFIX_BYTES) ==
		       0;
}

static bool is_match(const char *wanted, const struct ky_shape *shape, bool is_short)
{
	size_t count = strlen(wanted), name_bytes = shape->name_bytes;

	if (is_short && has_suffix(shape))
		name_bytes -= SUFFIX_BYTES;
	if (count && wanted[count - 1] == '*')
		return name_bytes >= count - 1 && memcmp(shape->name, wanted, count - 1) == 0;
	return name_bytes == count && memcmp(shape->name, wanted, count) == 0;
}

/* Chooses what is named so. Returns whether there is any. */
static bool choose(struct event_run *run, const char *wanted, bool is_short)
{
	bool is_found = false;

	for (uint32_t i = 0; i < run->catalog.count; i++) {
		if (!run->catalog.shapes[i].count ||
		    !is_match(wanted, &run->catalog.shapes[i], is_short))
			continue;
		run->is_chosen[i] = true;
		is_found = true;
	}
	return is_found;
}

/* "PollStart[Event]" */
static void list_name(struct ky_buf *list, const struct ky_shape *shape)
{
	bool is_long = has_suffix(shape);

	ky_out_safe(list, shape->name, shape->name_bytes - (is_long ? SUFFIX_BYTES : 0));
	ky_out_text(list, is_long ? "[Event]" : "");
}

static void say_unknown_type(const struct ky_catalog *catalog, const char *wanted)
{
	const char **names = ky_alloc(((size_t)catalog->count + 1) * sizeof(*names));
	const char *nearest = NULL;
	struct ky_buf list;
	size_t count = 0;

	ky_buf_init(&list, 0);
	for (uint32_t i = 0; names && i < catalog->count; i++) {
		bool is_repeated = false;

		for (size_t j = 0; j < count && !is_repeated; j++)
			is_repeated = strcmp(names[j], catalog->shapes[i].name) == 0;
		if (is_repeated || !catalog->shapes[i].count)
			continue;
		names[count++] = catalog->shapes[i].name;
		ky_out_text(&list, count > 1 ? ", " : "");
		list_name(&list, &catalog->shapes[i]);
	}
	if (names)
		nearest = ky_nearest(wanted, names, count);
	(void)ky_buf_append(&list, "", 1);
	ky_cli_error("no event in this trace is named '%s'%s%s%s; it has, with or without what "
		     "stands in []: %s",
		     wanted, nearest ? "; did you mean " : "", nearest ? nearest : "",
		     nearest ? "?" : "", list.failed ? "..." : (const char *)list.bytes);
	ky_buf_release(&list);
	ky_free((void *)names);
}

static int choose_shapes(struct event_run *run)
{
	const struct events_arguments *arguments = run->arguments;
	bool is_any = false;

	if (!arguments->type_count)
		return KY_EXIT_OK;
	run->is_chosen = ky_alloc((size_t)run->catalog.count + 1);
	if (!run->is_chosen) {
		ky_cli_error("out of memory");
		return KY_EXIT_TROUBLE;
	}
	for (size_t i = 0; i < arguments->type_count; i++) {
		bool is_this = choose(run, arguments->types[i], false) ||
			       choose(run, arguments->types[i], true);

		is_any |= is_this;
		if (!is_this)
			say_unknown_type(&run->catalog, arguments->types[i]);
	}
	return is_any ? KY_EXIT_OK : KY_EXIT_TROUBLE;
}

static int resolve_times(struct event_run *run)
{
	const struct ky_catalog *catalog = &run->catalog;
	const struct ky_time_span span = {
		.start_ns = catalog->first_ns,
		.end_ns = catalog->last_ns,
		.sync_monotonic_ns = catalog->sync_monotonic_ns,
		.sync_realtime_ns = catalog->sync_realtime_ns,
	};
	int code = ky_time_range_resolve(&run->arguments->range, &span, &run->from_ns, &run->to_ns);

	if (!run->to_ns)
		run->to_ns = UINT64_MAX;
	return code;
}

static int set_clock(struct event_run *run)
{
	run->clock = (struct ky_event_clock){
		.start_ns = run->catalog.first_ns,
		.sync_monotonic_ns = run->catalog.sync_monotonic_ns,
		.sync_realtime_ns = run->catalog.sync_realtime_ns,
		.is_wall = run->arguments->is_wall,
	};
	if (run->clock.is_wall && !run->clock.sync_realtime_ns)
		return ky_say_no_wall_clock("--clock trace");
	return KY_EXIT_OK;
}

static bool is_in_time(const struct event_run *run, const struct ky_event *event)
{
	if (!run->from_ns && run->to_ns == UINT64_MAX)
		return true;
	return event->has_timestamp && event->timestamp_ns && event->timestamp_ns >= run->from_ns &&
	       event->timestamp_ns < run->to_ns;
}

static bool slice_is(const struct ky_slice *slice, const char *text)
{
	return slice->count == strlen(text) && memcmp(slice->bytes, text, slice->count) == 0;
}

static bool ends_in(const struct ky_slice *slice, const char *text)
{
	size_t count = strlen(text);

	return slice->count >= count &&
	       memcmp(slice->bytes + slice->count - count, text, count) == 0;
}

/* A field that names the thing: by its role, or by what writers call it. */
static bool names_number(const struct ky_event *event, const char *role, const char *suffix,
			 const char *other, uint64_t number)
{
	for (uint16_t i = 0; i < event->schema->field_count; i++) {
		const struct ky_schema_field *field = &event->schema->fields[i];
		const struct ky_value *value = &event->values[i];
		bool is_integer = value->type == KY_TYPE_VARINT || value->type == KY_TYPE_U8 ||
				  value->type == KY_TYPE_U16 || value->type == KY_TYPE_U32;

		if (is_integer && value->is_present && value->as.number == number &&
		    (slice_is(&field->role, role) || ends_in(&field->name, suffix) ||
		     slice_is(&field->name, other)))
			return true;
	}
	return false;
}

static bool is_of_task(struct event_run *run, const struct ky_event *event)
{
	uint64_t wanted = run->arguments->filter.task;

	return ky_task_polls_note(&run->polls, event, wanted) ||
	       names_number(event, "tokio.task_id", "task_id", "", wanted);
}

static bool is_wanted(struct event_run *run, const struct ky_event *event, uint32_t shape)
{
	const struct events_arguments *arguments = run->arguments;

	/* First, because it keeps track of what is open whatever else is filtered. */
	if (arguments->filter.has_task && !is_of_task(run, event))
		return false;
	if (run->is_chosen && (shape >= run->catalog.count || !run->is_chosen[shape]))
		return false;
	if (!is_in_time(run, event))
		return false;
	return !arguments->filter.has_worker ||
	       names_number(event, "tokio.worker_id", "worker_id", "target_worker",
			    arguments->filter.worker);
}

static void print_event(struct event_run *run, const struct ky_event *event, uint32_t shape)
{
	const struct ky_shape *known = shape < run->catalog.count ? &run->catalog.shapes[shape] :
								    NULL;

	switch (run->arguments->format) {
	case FORMAT_JSONL:
		ky_event_json(&run->out, run->stream, event, known, &run->clock,
			      run->symbols.table);
		break;
	case FORMAT_CSV:
		ky_event_csv(&run->out, &run->columns, shape, run->stream, event);
		break;
	default:
		ky_event_text(&run->out, run->stream, event, known, &run->clock,
			      run->symbols.table);
	}
	run->printed++;
	run->late += event->is_late;
}

/* The wall clock may be set meanwhile: what comes after a reading goes by that one. */
static void follow_clock(struct ky_event_clock *clock, const struct ky_event *event)
{
	uint64_t realtime_ns = 0;

	if (event->schema->event == KY_EV_CLOCK_SYNC && event->has_timestamp)
		realtime_ns = ky_event_number(event, KY_F_CLOCK_SYNC_realtime_ns, 0);
	if (!realtime_ns)
		return;
	clock->sync_monotonic_ns = event->timestamp_ns;
	clock->sync_realtime_ns = realtime_ns;
}

/* Returns 0 or the first error of reading or of stdout. */
static int print_events(struct event_run *run)
{
	const struct events_arguments *arguments = run->arguments;
	const struct ky_event *event;
	int result = 0;

	if (arguments->format == FORMAT_CSV)
		ky_csv_header(&run->out, &run->columns);
	while (!(arguments->has_limit && run->printed >= arguments->limit)) {
		uint32_t shape;

		result = ky_event_stream_next(run->stream, &event);
		if (result <= 0)
			break;
		follow_clock(&run->clock, event);
		shape = ky_catalog_find(&run->catalog, event->source, event->schema);
		if (is_wanted(run, event, shape))
			print_event(run, event, shape);
		if (run->out.used < FLUSH_BYTES && !run->out.failed)
			continue;
		result = ky_cli_print(&run->out);
		if (result)
			return result;
		result = 0;
	}
	return result < 0 ? result : ky_cli_print(&run->out);
}

static int prepare(struct event_run *run, struct ky_input *input)
{
	int result = ky_catalog_read(&run->catalog, input->sources, input->count);

	if (result) {
		ky_cli_error("%s", result == KYMO_E_LIMIT ?
					   "more than 65,536 shapes of events: this is no "
					   "recorder's trace" :
					   kymo_error_text(result));
		return KY_EXIT_TROUBLE;
	}
	result = choose_shapes(run);
	if (!result)
		result = resolve_times(run);
	if (!result)
		result = set_clock(run);
	if (result)
		return result;
	if (run->arguments->format != FORMAT_CSV)
		return KY_EXIT_OK;
	result = ky_csv_columns_make(&run->columns, &run->catalog, run->is_chosen);
	if (result)
		ky_cli_error("%s", result == KYMO_E_LIMIT ?
					   "more than 4,096 columns; choose events with --type" :
					   "out of memory");
	run->columns.wall = run->clock.is_wall ? &run->clock : NULL;
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

/* Silence would leave open whether the filters or the trace are to blame. */
static void say_nothing_matches(const struct event_run *run, struct ky_input *input)
{
	const struct events_arguments *arguments = run->arguments;
	const struct ky_catalog *catalog = &run->catalog;
	char span[KY_OUT_CELL_BYTES], text[160];

	if (run->printed || !catalog->event_count || (arguments->has_limit && !arguments->limit))
		return;
	(void)snprintf(text, sizeof(text),
		       "none of the %" PRIu64 " events matches; the trace goes from 0 s to %s s",
		       catalog->event_count,
		       ky_out_seconds(span, catalog->last_ns - catalog->first_ns));
	ky_input_notice(input, text);
}

/* Whether there is anything to name, so that most traces are not read once more for it. */
static bool has_code(const struct event_run *run)
{
	bool has_names = run->arguments->is_named, has_code = false;

	for (uint32_t i = 0; i < run->catalog.count; i++) {
		const struct ky_shape *shape = &run->catalog.shapes[i];
		const char *at = shape->body;

		if (!shape->count)
			continue;
		has_names |= shape->event == KY_EV_SYMBOL || shape->event == KY_EV_PROCESS_MAP;
		if (run->is_chosen && !run->is_chosen[i])
			continue;
		has_code |= shape->event == KY_EV_CRASH || shape->event == KY_EV_STUCK_THREAD;
		for (uint16_t j = 0; j < shape->field_count; j++) {
			const char *name;
			size_t name_bytes;
			uint8_t type;

			at = ky_shape_field(at, &type, &name, &name_bytes);
			type &= (uint8_t)~KY_TYPE_OPTIONAL;
			has_code |= type == KY_TYPE_STACK || type == KY_TYPE_POOLED_STACK;
		}
	}
	return has_names && has_code;
}

/* In text always, as far as the trace has them; elsewhere when asked for. Returns an exit code. */
static int open_symbols(struct event_run *run, struct ky_input *input)
{
	const struct events_arguments *arguments = run->arguments;

	if (arguments->is_raw || (!arguments->is_named && arguments->format != FORMAT_TEXT) ||
	    !has_code(run))
		return KY_EXIT_OK;
	return ky_traces_code(input, ky_trace_symbols_open(&run->symbols, input,
							   &arguments->symbols, NULL, NULL));
}

static int stream_events(struct event_run *run, struct ky_input *input)
{
	struct ky_event_stream_options stream_options = {
		.reorder_bytes_max = input->memory_bytes_max,
		.is_stored_order = run->arguments->is_stored_order,
		.errbuf = input->error,
		.errbuf_bytes = sizeof(input->error),
	};
	const char *notice;
	int code, result = ky_event_stream_open(&run->stream, input->sources, input->count,
						&stream_options);

	if (!result)
		result = print_events(run);
	if (result && !ferror(stdout)) /* that one ky_cli_finish() says */
		(void)ky_traces_code(input, ky_input_result(input, result));
	if (run->catalog.processes.is_reported)
		ky_input_notice(input, run->catalog.processes.text);
	for (uint32_t i = 0; run->stream && (notice = ky_event_stream_notice(run->stream, i)); i++)
		ky_input_notice(input, notice);
	if (!result)
		say_nothing_matches(run, input);
	input->is_damaged |= run->stream && ky_event_stream_is_damaged(run->stream);
	if (run->late)
		ky_cli_notice("%" PRIu64
			      " events came too late to be sorted into place; give more than "
			      "256M with --max-memory",
			      run->late);
	ky_input_note_unsealed(input, &run->catalog.unsealed);
	code = ky_traces_say_limits(input);
	if (ferror(stdout))
		errno = -result; /* the cause, for ky_cli_finish() */
	return result ? KY_EXIT_TROUBLE : code;
}

int ky_cmd_events(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&ky_input_argp, 0, 0, 0},  {&ky_time_range_argp, 0, 0, 0},
		{&ky_filter_argp, 0, 0, 0}, {&ky_debug_dir_argp, 0, 0, 0},
		{&ky_json_argp, 0, 0, 0},   {&ky_clock_argp, 0, 0, 0},
		{&ky_common_argp, 0, 0, 0}, {0}};
	static const struct argp argp = {
		options,
		parse,
		"FILE|DIRECTORY...",
		"Prints every event with all its fields, in the order of time. Several files of "
		"one process are one trace; '-' is standard input. The end of a poll belongs "
		"to the poll's task.\v" KY_OPTION_TIME_TEXT,
		children,
		0,
		0};
	static struct events_arguments arguments = {.limit = 0};
	struct event_run run = {.arguments = &arguments};
	int code;

	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (code)
		return code;
	arguments.symbols.has_no_files = !arguments.is_named;
	ky_buf_init(&run.out, 0);
	if (ky_catalog_init(&run.catalog)) {
		ky_catalog_release(&run.catalog);
		ky_cli_error("out of memory");
		return KY_EXIT_TROUBLE;
	}
	code = ky_traces_open_one(&arguments.input, &arguments.range, "");
	if (!code)
		code = prepare(&run, &arguments.input);
	if (!code)
		code = open_symbols(&run, &arguments.input);
	if (!code)
		code = stream_events(&run, &arguments.input);
	ky_event_stream_close(run.stream);
	ky_trace_symbols_close(&run.symbols);
	ky_csv_columns_release(&run.columns);
	ky_catalog_release(&run.catalog);
	ky_free(run.is_chosen);
	ky_task_polls_release(&run.polls);
	ky_buf_release(&run.out);
	ky_traces_close(&arguments.input);
	return code;
}
