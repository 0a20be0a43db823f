/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <cli/bucket_input.h>
#include <cli/cli.h>
#include <cli/export_file.h>

#include <base/quantity.h>
#include <send/push_child.h>
#include <cli/request_bodies.h>
#include <cli/traces.h>
#include <base/out_text.h>
#include <cli/shared_options.h>
#include <cli/progress.h>
#include <report/syscall_name.h>
#include <edit/trace_symbols.h>
#include <errno.h>
#include <export/export.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <string.h>
#include <unistd.h>

#define PUSH_NS UINT64_C(30000000000)

enum {
	KEY_FORMAT = KY_OPTION_KEY_OWN,
	KEY_LIVE,
	KEY_PUSH,
	KEY_PUSH_TIMEOUT,
	KEY_EXPERIMENTAL
};

struct export_format {
	const char *name;
	int (*put)(struct ky_buf *out, const struct ky_export *export); /* samples */
	int (*put_timeline)(struct ky_buf *out, struct ky_export *export);
	bool is_gzip, is_binary;
	uint32_t bodies; /* of requests: bits of enum ky_push_signal; 0: it is no such format */
	bool is_hidden;
};
#define BODY(signal) (1u << (signal))
#define OTLP_BODIES (BODY(KY_PUSH_TRACES) | BODY(KY_PUSH_METRICS))

static const struct export_format formats[] = {
	{.name = "folded", .put = ky_export_folded},
	{.name = "pprof", .put = ky_export_pprof, .is_gzip = true, .is_binary = true},
	{.name = "speedscope", .put = ky_export_speedscope},
	{.name = "firefox", .put = ky_export_firefox},
	{.name = "perfetto", .put_timeline = ky_export_perfetto, .is_binary = true},
	{.name = "chrome", .put_timeline = ky_export_chrome},
	{.name = "otlp", .is_binary = true, .bodies = OTLP_BODIES},
	{.name = "otlp-traces", .is_binary = true, .bodies = BODY(KY_PUSH_TRACES)},
	{.name = "otlp-metrics", .is_binary = true, .bodies = BODY(KY_PUSH_METRICS)},
	{.name = "otlp-profiles", .is_binary = true, .bodies = BODY(KY_PUSH_PROFILES)},
	/* Of the processes that analyse segments: push_child.h. */
	{.name = KY_PUSH_FORMAT_OTLP, .is_binary = true, .bodies = OTLP_BODIES, .is_hidden = true},
	{.name = KY_PUSH_FORMAT_PPROF,
	 .put = ky_export_pprof,
	 .is_binary = true,
	 .bodies = BODY(KY_PUSH_PPROF),
	 .is_hidden = true},
};
#define FORMAT_NAMES                                                                               \
	"folded, pprof, speedscope, firefox, perfetto, chrome, otlp, otlp-traces, otlp-metrics "   \
	"or otlp-profiles"
#define FORMAT_COUNT (sizeof(formats) / sizeof(formats[0]))

struct export_arguments {
	struct ky_input input;
	struct ky_trace_symbols_options names;
	const struct export_format *format;
	struct ky_output output;
	struct ky_time_range range;
	struct ky_filter filter;
	uint32_t kind;
	bool has_kind, is_live, is_json, is_experimental;
	const char *push; /* NULL: to a file */
	uint64_t push_ns;
};

static const struct argp_option options[] = {
	{"format", KEY_FORMAT,
	 "folded|pprof|speedscope|firefox|perfetto|chrome|otlp|otlp-traces|otlp-metrics|"
	 "otlp-profiles",
	 0, "The format to write; must be given", 0},
	{"push", KEY_PUSH, "URL", 0,
	 "Send it to a receiver at URL: otlp, or pprof as Pyroscope and Parca take it", 0},
	{"experimental", KEY_EXPERIMENTAL, NULL, 0,
	 "With otlp: send profiles, too, whose protocol is in development", 0},
	{"push-timeout", KEY_PUSH_TIMEOUT, "DURATION", 0,
	 "With --push: try for at most DURATION (default 30s)", 0},
	{"kind", 'k', "cpu|off-cpu|waiting|heap", 0, "Which samples (default cpu)", 0},
	{"live", KEY_LIVE, 0, 0, "With --kind heap: only what was not freed", 0},
	{0},
};

static void parse_format(struct export_arguments *arguments, const char *text)
{
	for (size_t i = 0; i < FORMAT_COUNT; i++)
		if (strcmp(formats[i].name, text) == 0)
			arguments->format = &formats[i];
	if (!arguments->format)
		ky_option_error("--format is " FORMAT_NAMES ", not '%s'", text);
}

static void parse_kind(struct export_arguments *arguments, const char *text)
{
	uint32_t i;

	for (i = 0; i <= KY_STACK_ALLOC; i++)
		if (strcmp(ky_export_kind_name(i), text) == 0)
			break;
	if (i > KY_STACK_ALLOC)
		ky_option_error("--kind is cpu, off-cpu, waiting or heap, not '%s'", text);
	arguments->kind = i;
	arguments->has_kind = true;
}

static bool is_sample_format(const struct export_format *format)
{
	return format->put != NULL;
}

static void check(const struct export_arguments *arguments)
{
	const struct export_format *format = arguments->format;

	if (!format)
		ky_option_error("say which format with --format " FORMAT_NAMES);
	if (arguments->has_kind && !is_sample_format(format))
		ky_option_error("--kind chooses samples, which %s does not have; leave it out",
				format->name);
	if (arguments->is_live && arguments->kind != KY_STACK_ALLOC)
		ky_option_error("--live goes with --kind heap");
	if (arguments->push && !format->bodies && strcmp(format->name, "pprof") != 0)
		ky_option_error("--push goes with --format otlp and pprof, not with %s",
				format->name);
	if (arguments->push)
		ky_request_bodies_check(arguments->push, is_sample_format(format));
	if (!arguments->push && !format->is_hidden && format->bodies == OTLP_BODIES)
		ky_option_error(
			"otlp is two requests: send them with --push URL, or write one with "
			"--format otlp-traces or otlp-metrics");
	if (format->bodies == BODY(KY_PUSH_PROFILES) && !arguments->is_experimental)
		ky_option_error("otlp-profiles is a protocol in development, which receivers may "
				"not read tomorrow; add --experimental");
	if (arguments->is_experimental && (is_sample_format(format) || !format->bodies))
		ky_option_error("--experimental goes with --format otlp, not with %s",
				format->name);
	if (!is_sample_format(format) && format->bodies &&
	    (arguments->filter.has_task || arguments->filter.has_worker))
		ky_option_error("--task and --worker choose rows, which %s does not have; leave "
				"them out",
				format->name);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct export_arguments *arguments = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &arguments->input;
		state->child_inputs[1] = &arguments->range;
		state->child_inputs[2] = &arguments->filter;
		state->child_inputs[3] = &arguments->output;
		state->child_inputs[4] = &arguments->names;
		state->child_inputs[5] = &arguments->is_json;
		return 0;
	case KEY_FORMAT:
		parse_format(arguments, text);
		return 0;
	case 'k':
		parse_kind(arguments, text);
		return 0;
	case KEY_LIVE:
		arguments->is_live = true;
		return 0;
	case KEY_PUSH:
		arguments->push = text;
		return 0;
	case KEY_EXPERIMENTAL:
		arguments->is_experimental = true;
		return 0;
	case KEY_PUSH_TIMEOUT:
		if (!ky_quantity_in(ky_quantity_ns, text, 0, UINT64_C(86400000000000),
				    &arguments->push_ns))
			ky_option_error("--push-timeout is a duration such as 30s, at most 24h, "
					"not '%s'",
					text);
		return 0;
	case ARGP_KEY_END:
		check(arguments);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int resolve(const struct ky_trace *trace, const struct ky_time_range *range,
		   struct ky_export *export)
{
	struct ky_time_span span = {.start_ns = trace->run_first_ns, .end_ns = trace->run_last_ns};

	if (trace->clock_sync_count) {
		span.sync_monotonic_ns = trace->clock_syncs->monotonic_ns;
		span.sync_realtime_ns = trace->clock_syncs->realtime_ns;
	}
	return ky_time_range_resolve(range, &span, &export->from_ns, &export->to_ns);
}

/* What is to be exported. Returns an exit code. */
static int choose(const struct ky_trace *trace, const struct export_arguments *arguments,
		  struct ky_export *export)
{
	int code;

	*export = (struct ky_export){.trace = trace,
				     .kind = arguments->kind,
				     .syscall_name = ky_syscall_name,
				     .task = KY_NONE,
				     .worker = KY_NONE,
				     .is_live = arguments->is_live};
	code = resolve(trace, &arguments->range, export);
	if (code)
		return code;
	if (arguments->filter.has_task) {
		export->task = ky_trace_task(trace, arguments->filter.task);
		if (export->task == KY_NONE) {
			ky_cli_error("the trace has no task %" PRIu64, arguments->filter.task);
			return KY_EXIT_TROUBLE;
		}
	}
	if (arguments->filter.has_worker) {
		export->worker = ky_trace_worker(trace, arguments->filter.worker);
		if (export->worker == KY_NONE) {
			ky_cli_error("the trace has no worker %" PRIu64, arguments->filter.worker);
			return KY_EXIT_TROUBLE;
		}
	}
	if (!is_sample_format(arguments->format) || arguments->format->bodies || arguments->push)
		return KY_EXIT_OK;
	if (ky_export_prepare(export)) {
		ky_cli_error("out of memory");
		return KY_EXIT_TROUBLE;
	}
	if (export->row_count)
		return KY_EXIT_OK;
	ky_cli_error("no sample of kind %s is in this trace%s; kymo report says what is",
		     ky_export_kind_name(export->kind),
		     trace->samples.counts[export->kind] ? " and this part of it" : "");
	return KY_EXIT_TROUBLE;
}

/* ---- the file ---- */

static bool is_gzip(const struct export_arguments *arguments)
{
	const char *dot = strrchr(arguments->output.path, '.');

	return arguments->format->is_gzip ||
	       (!is_sample_format(arguments->format) && dot && strcmp(dot, ".gz") == 0);
}

static int open_file(struct ky_export_file *out, const struct export_arguments *arguments)
{
	return ky_export_file_open(out, arguments->output.path, arguments->output.may_replace,
				   is_gzip(arguments),
				   arguments->format->is_binary ? "application/octet-stream" :
								  "text/plain; charset=utf-8");
}

/* ---- what came of it ---- */

static void print_json(struct ky_buf *out)
{
	ky_json_close(out, "}");
	ky_out_text(out, "\n");
	(void)ky_cli_print(out);
	ky_buf_release(out);
}

static bool is_quiet(const struct export_arguments *arguments)
{
	return strcmp(arguments->output.path, "-") == 0 || ky_cli_is_quiet();
}

static void say_timeline_json(const struct export_arguments *arguments,
			      const struct ky_track_counts *counts)
{
	struct ky_buf out;

	ky_buf_init(&out, 0);
	ky_json_open(&out, NULL, "{");
	ky_json_text(&out, "output", arguments->output.path);
	ky_json_text(&out, "format", arguments->format->name);
	ky_json_number(&out, "polls", counts->polls);
	ky_json_number(&out, "parks", counts->parks);
	ky_json_number(&out, "driver_turns", counts->turns);
	ky_json_number(&out, "wakes", counts->wakes);
	ky_json_number(&out, "tasks", counts->tasks);
	ky_json_number(&out, "spans", counts->spans);
	ky_json_number(&out, "blocking_runs", counts->runs);
	ky_json_number(&out, "losses", counts->losses);
	ky_json_number(&out, "counter_values", counts->counter_values);
	ky_json_number(&out, "events", counts->instants);
	ky_json_number(&out, "counted_polls", counts->counted_polls);
	print_json(&out);
}

static void say_timeline(const struct export_arguments *arguments,
			 const struct ky_track_counts *counts)
{
	char polls[KY_OUT_CELL_BYTES], wakes[KY_OUT_CELL_BYTES], tasks[KY_OUT_CELL_BYTES],
		spans[KY_OUT_CELL_BYTES];

	if (counts->counted_polls)
		ky_cli_notice("%s polls are in the trace as counts alone, and have no slices",
			      ky_out_count(polls, counts->counted_polls));
	if (arguments->is_json)
		say_timeline_json(arguments, counts);
	else if (!is_quiet(arguments))
		(void)printf("%s: %s polls, %s wakes, %s tasks, %s spans\n", arguments->output.path,
			     ky_out_count(polls, counts->polls), ky_out_count(wakes, counts->wakes),
			     ky_out_count(tasks, counts->tasks),
			     ky_out_count(spans, counts->spans));
}

static void say_done_json(const struct export_arguments *arguments, const struct ky_export *export)
{
	struct ky_buf out;

	ky_buf_init(&out, 0);
	ky_json_open(&out, NULL, "{");
	ky_json_text(&out, "output", arguments->output.path);
	ky_json_text(&out, "format", arguments->format->name);
	ky_json_text(&out, "kind", ky_export_kind_name(arguments->kind));
	ky_json_number(&out, "samples", export->row_count);
	ky_json_number(&out, "sum", export->value_sum);
	ky_json_text(&out, "unit",
		     export->is_counted             ? "samples" :
		     export->kind == KY_STACK_ALLOC ? "bytes" :
						      "ns");
	print_json(&out);
}

static void say_done(const struct export_arguments *arguments, const struct ky_export *export)
{
	char rows[KY_OUT_CELL_BYTES], sum[KY_OUT_CELL_BYTES];

	if (arguments->is_json)
		say_done_json(arguments, export);
	if (arguments->is_json || is_quiet(arguments))
		return;
	if (export->is_counted)
		ky_out_count(sum, export->value_sum);
	else if (export->kind == KY_STACK_ALLOC)
		ky_out_bytes(sum, export->value_sum);
	else
		ky_out_duration(sum, export->value_sum);
	(void)printf("%s: %s samples, %s%s\n", arguments->output.path,
		     ky_out_count(rows, export->row_count), sum,
		     export->is_counted ? " in all" : "");
}

/* ---- both kinds of formats ---- */

static int put_timeline(const struct export_arguments *arguments, struct ky_export *export)
{
	struct ky_export_file file = {.file.fd = -1};
	struct ky_buf bytes;
	int result;

	ky_buf_init(&bytes, (size_t)UINT32_MAX);
	ky_progress_step("writing");
	result = open_file(&file, arguments);
	if (!result) {
		export->flush = ky_export_file_pass_on;
		export->flush_ctx = &file;
		export->is_packed_later = is_gzip(arguments);
		result = arguments->format->put_timeline(&bytes, export);
		result = ky_export_file_close(&file, &bytes, result);
		export->flush_ctx = NULL;
	}
	ky_buf_release(&bytes);
	ky_progress_quiet();
	if (result)
		return ky_export_file_say(&file, result);
	say_timeline(arguments, &export->counts);
	return KY_EXIT_OK;
}

static int put_samples(const struct export_arguments *arguments, struct ky_export *export,
		       const struct ky_trace_symbols *symbols)
{
	struct ky_export_file file = {.file.fd = -1};
	struct ky_code_stacks code;
	struct ky_buf bytes;
	int result;

	ky_progress_step("naming code");
	result = ky_code_stacks_make(&code, export->trace, symbols->table);
	if (result) {
		ky_cli_error("out of memory");
		return KY_EXIT_TROUBLE;
	}
	export->code = &code;
	export->symbols = symbols->table;
	ky_buf_init(&bytes, (size_t)UINT32_MAX);
	ky_progress_step("writing");
	result = arguments->format->put(&bytes, export);
	if (!result) {
		result = open_file(&file, arguments);
		if (!result)
			result = ky_export_file_close(&file, &bytes, 0);
	}
	ky_buf_release(&bytes);
	export->code = NULL;
	ky_code_stacks_release(&code);
	ky_progress_quiet();
	if (result)
		return ky_export_file_say(&file, result);
	say_done(arguments, export);
	return KY_EXIT_OK;
}

/* ---- requests ---- */

static void say_requests_json(const struct export_arguments *arguments,
			      const struct ky_request_bodies *bodies)
{
	struct ky_buf out;

	ky_buf_init(&out, 0);
	ky_json_open(&out, NULL, "{");
	ky_json_text(&out, "output", arguments->push ? arguments->push : arguments->output.path);
	ky_json_text(&out, "format", arguments->format->name);
	if (is_sample_format(arguments->format)) {
		ky_json_number(&out, "profiles", bodies->profile_count);
		ky_json_number(&out, "samples", bodies->sample_count);
	} else {
		ky_json_number(&out, "polls", bodies->otlp.poll_count);
		ky_json_number(&out, "delays", bodies->otlp.delay_count);
		ky_json_number(&out, "sites", bodies->otlp.site_count);
		ky_json_number(&out, "slow_polls", bodies->otlp.slow_count);
		ky_json_number(&out, "poll_spans", bodies->otlp.poll_spans);
		ky_json_number(&out, "findings", bodies->otlp.finding_spans);
		ky_json_number(&out, "in_recorded_traces", bodies->otlp.named_spans);
		ky_json_number(&out, "profiles", bodies->profile_count);
	}
	print_json(&out);
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void say_requests(const struct export_arguments *arguments,
			 const struct ky_request_bodies *bodies)
{
	const char *to = arguments->push ? arguments->push : arguments->output.path;
	char cells[5][KY_OUT_CELL_BYTES];

	if (arguments->is_json) {
		say_requests_json(arguments, bodies);
	} else if (ky_cli_is_quiet() || (!arguments->push && is_quiet(arguments))) {
		return;
	} else if (is_sample_format(arguments->format)) {
		(void)printf("%s: %s profile%s, %s sample%s\n", to,
			     ky_out_count(cells[0], bodies->profile_count),
			     plural(bodies->profile_count),
			     ky_out_count(cells[1], bodies->sample_count),
			     plural(bodies->sample_count));
	} else {
		(void)printf("%s: %s poll%s at %s place%s; spans: %s finding%s, the longest %s of "
			     "%s slow poll%s\n",
			     *to ? to : "OTEL_EXPORTER_OTLP_ENDPOINT",
			     ky_out_count(cells[0], bodies->otlp.poll_count),
			     plural(bodies->otlp.poll_count),
			     ky_out_count(cells[1], bodies->otlp.site_count),
			     plural(bodies->otlp.site_count),
			     ky_out_count(cells[2], bodies->otlp.finding_spans),
			     plural(bodies->otlp.finding_spans),
			     ky_out_count(cells[3], bodies->otlp.poll_spans),
			     ky_out_count(cells[4], bodies->otlp.slow_count),
			     plural(bodies->otlp.slow_count));
	}
}

static int make_requests(const struct export_arguments *arguments, struct ky_export *export,
			 const struct ky_trace_symbols *symbols, struct ky_request_bodies *bodies)
{
	if (is_sample_format(arguments->format))
		return ky_request_bodies_pprof(bodies, export, symbols->table,
					       !arguments->has_kind);
	if (arguments->is_experimental) {
		int result = ky_request_bodies_profiles(bodies, export, symbols->table);

		if (result)
			return result;
	}
	return ky_request_bodies_otlp(bodies, export, symbols->table);
}

/* A file of one request, or for the parent of this process all of them. */
static int write_requests(const struct export_arguments *arguments,
			  const struct ky_request_bodies *bodies)
{
	struct ky_export_file file = {.file.fd = -1};
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	for (uint32_t i = 0; i < KY_PUSH_SIGNALS; i++) {
		const struct ky_buf *body = &bodies->bodies[i].bytes;

		if (!(arguments->format->bodies & BODY(i)))
			continue;
		if (arguments->format->is_hidden)
			ky_push_frame(&out, i, body);
		else
			(void)ky_buf_append(&out, body->bytes, body->used);
	}
	result = out.failed;
	if (!result)
		result = open_file(&file, arguments);
	if (!result)
		result = ky_export_file_close(&file, &out, 0);
	ky_buf_release(&out);
	return result ? ky_export_file_say(&file, result) : KY_EXIT_OK;
}

static int put_requests(const struct export_arguments *arguments, struct ky_export *export,
			const struct ky_trace_symbols *symbols)
{
	struct ky_request_bodies bodies;
	int code;

	if (!export->trace->clock_sync_count) {
		ky_cli_error("%s has the time of day, and this trace has no reading of it",
			     arguments->format->name);
		return KY_EXIT_TROUBLE;
	}
	ky_request_bodies_init(&bodies);
	ky_progress_step("finding causes");
	code = make_requests(arguments, export, symbols, &bodies);
	if (code) {
		ky_cli_error("%s: %s", arguments->format->name, kymo_error_text(code));
		code = KY_EXIT_TROUBLE;
	} else if (is_sample_format(arguments->format) && !bodies.profile_count &&
		   !arguments->format->is_hidden) {
		ky_cli_error("no sample is in this trace; kymo report says what is");
		code = KY_EXIT_TROUBLE;
	} else if (arguments->push) {
		ky_progress_step("sending");
		code = ky_request_bodies_push(&bodies, arguments->push,
					      is_sample_format(arguments->format),
					      arguments->push_ns);
	} else {
		code = write_requests(arguments, &bodies);
	}
	ky_progress_quiet();
	if (!code)
		say_requests(arguments, &bodies);
	ky_request_bodies_release(&bodies);
	return code;
}

static int export_trace(struct export_arguments *arguments, struct ky_trace *trace)
{
	struct ky_trace_symbols symbols = {0};
	struct ky_export export;
	int code = choose(trace, arguments, &export);

	/* A segment that leaves has its names, or shall have none. */
	arguments->names.has_no_files = arguments->format->is_hidden;
	if (!code && arguments->format->put_timeline)
		return put_timeline(arguments, &export);
	/* It reads the input again: not where there is no code to name. */
	if (!code && (is_sample_format(arguments->format) || trace->samples.stack_count))
		code = ky_traces_code(&arguments->input,
				      ky_trace_symbols_open(&symbols, &arguments->input,
							    &arguments->names, NULL, NULL));
	if (!code && (arguments->format->bodies || arguments->push))
		code = put_requests(arguments, &export, &symbols);
	else if (!code)
		code = put_samples(arguments, &export, &symbols);
	ky_trace_symbols_close(&symbols);
	ky_export_release(&export);
	return code;
}

int ky_cmd_export(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&ky_input_argp, 0, 0, 0},     {&ky_time_range_argp, 0, 0, 0},
		{&ky_filter_argp, 0, 0, 0},    {&ky_output_argp, 0, 0, 0},
		{&ky_debug_dir_argp, 0, 0, 0}, {&ky_json_argp, 0, 0, 0},
		{&ky_common_argp, 0, 0, 0},    {0}};
	static const struct argp argp = {
		options,
		parse,
		"FILE|DIRECTORY... --format FORMAT",
		"Writes a trace for other tools. Its samples: folded stacks (flamegraph.pl, "
		"inferno), pprof (go tool pprof), speedscope, the Firefox profiler. Values are "
		"nanoseconds, or bytes; samples that do not say what they stand for are counted. "
		"What ran when, with wakes as arrows: perfetto (ui.perfetto.dev, "
		"trace_processor), chrome (trace events as JSON). What a collector takes: otlp, "
		"sent with --push URL, or one of its two requests as a file (otlp-traces, "
		"otlp-metrics). Standard output is the default; -o s3://BUCKET/KEY puts it into a "
		"bucket.\v" KY_OPTION_TIME_TEXT,
		children,
		0,
		0};
	struct export_arguments arguments = {.output.path = "-", .push_ns = PUSH_NS};
	struct ky_trace *trace = NULL;
	int code;

	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (code)
		return code;
	if (!arguments.push && strcmp(arguments.output.path, "-") == 0 &&
	    (arguments.format->is_binary || is_gzip(&arguments)) && isatty(STDOUT_FILENO)) {
		ky_cli_error("%s does not go to a terminal; give -o FILE", arguments.format->name);
		return KY_EXIT_USAGE;
	}
	code = ky_traces_open_one(&arguments.input, &arguments.range, "");
	if (!code)
		code = ky_traces_load(&arguments.input, &trace);
	if (!code) {
		code = export_trace(&arguments, trace);
		if (ky_traces_say_damage(&arguments.input, trace))
			code = KY_EXIT_TROUBLE;
	}
	ky_trace_close(trace);
	ky_traces_close(&arguments.input);
	return code;
}
