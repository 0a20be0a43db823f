/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/cli.h>

#include <analyze/report.h>
#include <cli/bucket_survey.h>
#include <cli/traces.h>
#include <base/out_text.h>
#include <cli/shared_options.h>
#include <report/profile_text.h>
#include <edit/trace_symbols.h>
#include <analyze/type_groups.h>
#include <report/loss_text.h>
#include <report/report_cells.h>
#include <report/watched_text.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <string.h>
#include <unistd.h>

#define ROWS_MAX 20u

struct info_arguments {
	struct ky_input input;
	struct ky_time_range range;
	bool is_json;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct info_arguments *arguments = state->input;

	(void)text;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &arguments->input;
	state->child_inputs[1] = &arguments->is_json;
	state->child_inputs[2] = &arguments->range;
	return 0;
}

static void row(struct ky_buf *out, const char *label, const char *text)
{
	ky_out_format(out, "%-9s ", label);
	ky_out_safe(out, text, strlen(text));
	ky_out_text(out, "\n");
}

static void print_files(struct ky_buf *out, const struct ky_trace *trace)
{
	char stored[KY_OUT_CELL_BYTES], raw[KY_OUT_CELL_BYTES];
	uint32_t sealed = 0, torn = 0;

	for (uint32_t i = 0; i < trace->file_count; i++) {
		const struct ky_trace_input *file = &trace->files[i];

		sealed += file->is_sealed;
		torn += file->is_torn;
		if (i >= ROWS_MAX)
			continue;
		ky_out_safe(out, file->name, strlen(file->name));
		ky_out_format(out, "  %s, %s", file->container,
			      ky_out_bytes(stored, file->stored_bytes));
		if (strcmp(file->container, "raw") != 0)
			ky_out_format(out, ", unpacked %s", ky_out_bytes(raw, file->raw_bytes));
		ky_out_text(out, file->is_torn   ? ", torn\n" :
				 file->is_sealed ? ", sealed\n" :
						   "\n");
	}
	if (trace->file_count > ROWS_MAX)
		ky_out_format(out, "... and %u more\n", trace->file_count - ROWS_MAX);
	if (trace->file_count > 1)
		ky_out_format(out, "%u files, %s, unpacked %s; %u sealed, %u torn\n",
			      trace->file_count, ky_out_bytes(stored, trace->stored_bytes),
			      ky_out_bytes(raw, trace->raw_bytes), sealed, torn);
	ky_out_text(out, "\n");
}

static void print_time(struct ky_buf *out, const struct ky_trace *trace)
{
	char utc[KY_OUT_CELL_BYTES], span[KY_OUT_CELL_BYTES];
	bool has_run = trace->run_last_ns > trace->run_first_ns;
	uint64_t first = has_run ? trace->run_first_ns : trace->first_ns;
	uint64_t all = trace->last_ns - trace->first_ns;
	uint64_t run = has_run ? trace->run_last_ns - trace->run_first_ns : all;
	uint64_t unix_ns = ky_trace_unix_ns(trace, first);

	if (unix_ns)
		ky_out_format(out, "%-9s %s UTC\n", "Started", ky_out_utc(utc, unix_ns));
	else
		row(out, "Started", "wall clock unknown: the trace has no reading of it");
	/* Time stamps outside the scheduler's own events may be strays of another clock. */
	if (all > 2 * run)
		ky_out_format(out,
			      "%-9s %s s by polls, parks and wakes; all time stamps span %s s\n",
			      "Lasted", ky_out_seconds(span, run), ky_out_seconds(utc, all));
	else
		ky_out_format(out, "%-9s %s s\n", "Lasted", ky_out_seconds(span, all));
	ky_out_format(out, "%-9s monotonic, from %s s to %s s; %u reading%s of the wall clock\n",
		      "Clock", ky_out_seconds(span, trace->first_ns),
		      ky_out_seconds(utc, trace->last_ns), trace->clock_sync_count,
		      trace->clock_sync_count == 1 ? "" : "s");
}

static void print_source(struct ky_buf *out, const struct ky_trace *trace)
{
	const char *service = ky_trace_metadata(trace, "service");
	const char *hostname = ky_trace_metadata(trace, "host");
	const char *pid = ky_trace_metadata(trace, "pid");
	const char *source = ky_trace_metadata(trace, "kymo.source");
	const char *version = ky_trace_metadata(trace, "kymo.version");
	struct ky_buf line;

	ky_buf_init(&line, 0);
	ky_out_format(&line, "%s", service ? service : "not named in the trace");
	if (pid)
		ky_out_format(&line, ", pid %s", pid);
	if (hostname)
		ky_out_format(&line, ", on %s", hostname);
	(void)ky_buf_append(&line, "", 1);
	if (!line.failed)
		row(out, "Service", (const char *)line.bytes);
	ky_buf_release(&line);
	ky_out_format(out, "%-9s ", "Source");
	if (trace->is_kymo) {
		ky_out_text(out, "kymo");
		if (version) {
			ky_out_text(out, " ");
			ky_out_safe(out, version, strlen(version));
		}
		if (source) {
			ky_out_text(out, ", ");
			ky_out_safe(out, source, strlen(source));
		}
	}
	if (trace->is_dial9)
		ky_out_text(out, trace->is_kymo ? " and dial9" : "dial9");
	if (!trace->is_kymo && !trace->is_dial9)
		ky_out_text(out, "an unknown writer of TRC version 1");
	ky_out_text(out, "\n");
}

/* Several traces of one process. */
static void print_copies(struct ky_buf *out, const struct ky_trace *trace)
{
	char count[KY_OUT_CELL_BYTES], span[KY_OUT_CELL_BYTES];
	uint32_t shown = 0;

	if (trace->copy_count)
		ky_out_format(out,
			      "%-9s %s event%s in more than one of these files, counted once\n",
			      "Copies", ky_out_count(count, trace->copy_count),
			      trace->copy_count == 1 ? " is" : "s are");
	for (uint32_t i = 0; i < trace->loss_count && shown < trace->unrecorded_count; i++) {
		const struct ky_trace_loss *loss = &trace->losses[i];

		if (strcmp(ky_trace_name(trace, loss->cause), KY_CAUSE_NOT_RECORDED) != 0)
			continue;
		if (shown++ < ROWS_MAX)
			ky_out_format(out,
				      "%-9s %s s that these files do not hold; nothing is lost\n",
				      shown == 1 ? "Not kept" : "",
				      ky_out_seconds(span, loss->to_ns - loss->from_ns));
	}
	if (shown > ROWS_MAX)
		ky_out_format(out, "%-9s ... and %u more\n", "", shown - ROWS_MAX);
}

static void print_samples(struct ky_buf *out, const struct ky_trace *trace)
{
	const char *source = ky_trace_metadata(trace, "sampling.cpu");
	const char *rate = ky_trace_metadata(trace, "sampling.cpu.rate_hz");
	const char *kernel = ky_trace_metadata(trace, "sampling.cpu.kernel");
	const char *refused = ky_trace_metadata(trace, "sampling.cpu.refused");
	const char *choice = ky_trace_metadata(trace, "sampling.cpu.choice");
	char count[KY_OUT_CELL_BYTES];

	if (source && strcmp(source, "off") != 0) {
		struct ky_buf line;

		ky_buf_init(&line, 0);
		ky_out_text(&line, source);
		if (rate && strcmp(rate, "0") != 0)
			ky_out_format(&line, ", %s Hz of CPU time%s", rate,
				      ky_profile_windows_text(count, trace));
		if (kernel)
			ky_out_format(&line, ", the kernel %s", kernel);
		if (refused)
			ky_out_format(&line, " (%s)", refused);
		if (choice && strchr(choice, ':'))
			ky_out_format(&line, "; at the end %s", choice);
		(void)ky_buf_append(&line, "", 1);
		if (!line.failed)
			row(out, "Sampling", (const char *)line.bytes);
		ky_buf_release(&line);
	}
}

static void print_retention(struct ky_buf *out, const struct ky_trace *trace)
{
	char polls[KY_OUT_CELL_BYTES], wakes[KY_OUT_CELL_BYTES], all[KY_OUT_CELL_BYTES];

	if (!trace->retention_count)
		return;
	ky_out_format(out, "%-9s %s of %s polls and %s of", "Counted",
		      ky_out_count(polls, trace->counted[KY_COUNTED_POLL]),
		      ky_out_count(all, trace->polls + trace->counted[KY_COUNTED_POLL]),
		      ky_out_count(wakes, trace->counted[KY_COUNTED_WAKE]));
	ky_out_format(out, " %s wakes are in histograms and sums only (retention policy)\n",
		      ky_out_count(all, trace->wakes + trace->counted[KY_COUNTED_WAKE]));
}

static void print_counts(struct ky_buf *out, const struct ky_trace *trace)
{
	char a[KY_OUT_CELL_BYTES], b[KY_OUT_CELL_BYTES], c[KY_OUT_CELL_BYTES];
	uint32_t spawned = 0, ended = 0, live = 0, workers = 0, tasks = 0;

	for (uint32_t i = 0; i < trace->task_count; i++) {
		if (!ky_trace_is_task(&trace->tasks[i]))
			continue;
		tasks++;
		spawned += (trace->tasks[i].flags & KY_TASK_SPAWN_SEEN) != 0;
		ended += (trace->tasks[i].flags & KY_TASK_ENDED) != 0;
		live += (trace->tasks[i].flags & KY_TASK_LIVE_AT_START) != 0;
	}
	for (uint32_t i = 0; i < trace->worker_count; i++)
		workers += !trace->workers[i].is_thread_lane && !trace->workers[i].is_shared;
	ky_out_format(out, "%-9s %s", "Events", ky_out_count(a, trace->event_count));
	if (trace->back_steps)
		ky_out_format(out, ", %s steps back in time in file order",
			      ky_out_count(b, trace->back_steps));
	ky_out_text(out, "\n");
	ky_out_format(out, "%-9s %s seen: %s with their spawn, %s to their end", "Tasks",
		      ky_out_count(a, tasks), ky_out_count(b, spawned), ky_out_count(c, ended));
	if (live)
		ky_out_format(out, ", %s alive at the start", ky_out_count(a, live));
	ky_out_text(out, "\n");
	if (trace->blocking_count)
		ky_out_format(out, "%-9s %s run%s\n", "Blocking",
			      ky_out_count(a, trace->blocking_count),
			      trace->blocking_count == 1 ? "" : "s");
	ky_out_format(out, "%-9s %u", "Workers", workers);
	if (trace->runtime_count)
		ky_out_format(out, " in %u runtime%s", trace->runtime_count,
			      trace->runtime_count == 1 ? "" : "s");
	ky_out_text(out, "\n");
	print_retention(out, trace);
	print_copies(out, trace);
	ky_loss_rows(out, trace);
	print_samples(out, trace);
	ky_out_text(out, "\n");
}

static void print_types(struct ky_buf *out, const struct ky_type_rows *rows, bool is_coloured)
{
	struct ky_table table;

	ky_table_begin(&table, "lrl", "Event|Count|");
	for (uint32_t i = 0; i < rows->count; i++) {
		const struct ky_type_row *type = &rows->rows[i];
		bool is_member = type->prefix_bytes && type->group_names > 1;
		bool is_first = i == 0 || !rows->rows[i - 1].prefix_bytes ||
				rows->rows[i - 1].prefix_bytes != type->prefix_bytes ||
				memcmp(rows->rows[i - 1].name, type->name, type->prefix_bytes) != 0;

		if (is_member && is_first) {
			ky_table_format(&table, "%.*s", (int)type->prefix_bytes, type->name);
			ky_table_count(&table, type->group_count);
			ky_table_format(&table, "over %u names:", type->group_names);
		}
		ky_table_format(&table, "%s%s", is_member ? "  " : "", type->name);
		ky_table_count(&table, type->count);
		if (type->schema_count > 1)
			ky_table_format(&table, "in %u shapes", type->schema_count);
		else
			ky_table_cell(&table, "");
	}
	ky_table_end(&table, out, 0, is_coloured);
}

static void plain_cell(struct ky_table *table, uint64_t number, bool is_known)
{
	if (is_known)
		ky_table_format(table, "%" PRIu64, number);
	else
		ky_table_cell(table, "-");
}

static const char *serves(const struct ky_trace *trace, uint32_t number)
{
	const struct ky_worker *worker = &trace->workers[number];

	if (worker->is_thread_lane)
		return "nested polls";
	return worker->is_shared ? "shared id" : ky_report_runtime(trace, number);
}

static void print_workers(struct ky_buf *out, const struct ky_trace *trace, bool is_coloured)
{
	struct ky_table table;
	uint32_t shown = 0;

	if (!trace->worker_count)
		return;
	ky_table_begin(&table, "rllrrr", "Worker|Runtime|Thread|Polls|Parks|Wakes");
	for (uint32_t i = 0; i < trace->worker_count && shown < 64; i++, shown++) {
		const struct ky_worker *worker = &trace->workers[i];

		plain_cell(&table, worker->id, !worker->is_thread_lane);
		ky_table_cell(&table, serves(trace, i));
		ky_report_thread_cell(&table, trace, worker->tid);
		ky_table_count(&table, worker->poll_count);
		ky_table_count(&table, worker->park_count);
		ky_table_count(&table, worker->wake_count);
	}
	ky_out_text(out, "\n");
	ky_table_end(&table, out, 0, is_coloured);
	if (trace->worker_count > shown)
		ky_out_format(out, "... and %u more\n", trace->worker_count - shown);
}

static void print_threads(struct ky_buf *out, const struct ky_trace *trace, bool is_coloured)
{
	struct ky_table table;

	if (!trace->thread_count)
		return;
	ky_table_begin(&table, "rlrl", "Thread|Name|Lost|");
	for (uint32_t i = 0; i < trace->thread_count && i < ROWS_MAX; i++) {
		const struct ky_trace_thread *thread = &trace->threads[i];
		const char *name = ky_trace_name(trace, thread->name);

		plain_cell(&table, thread->tid, true);
		ky_table_cell(&table, *name ? name : "-");
		ky_table_count(&table, thread->lost_count);
		ky_table_cell(&table, thread->has_exited ? "exited" : "");
	}
	ky_out_text(out, "\n");
	ky_table_end(&table, out, 0, is_coloured);
	if (trace->thread_count > ROWS_MAX)
		ky_out_format(out, "... and %u more\n", trace->thread_count - ROWS_MAX);
}

static void print_metadata(struct ky_buf *out, const struct ky_trace *trace, bool is_coloured)
{
	struct ky_table table;

	if (!trace->metadata_count)
		return;
	ky_table_begin(&table, "ll", "Metadata|");
	for (uint32_t i = 0; i < trace->metadata_count; i++) {
		ky_table_cell(&table, ky_trace_name(trace, trace->metadata[i].key));
		ky_table_cell(&table, ky_trace_name(trace, trace->metadata[i].value));
	}
	ky_out_text(out, "\n");
	ky_table_end(&table, out, 0, is_coloured);
}

static void print_text(struct ky_buf *out, const struct ky_trace *trace, bool is_coloured,
		       const struct ky_code_names *names)
{
	struct ky_type_rows rows;

	print_files(out, trace);
	print_source(out, trace);
	ky_watched_text(out, trace, names);
	print_time(out, trace);
	print_counts(out, trace);
	if (ky_type_rows_make(&rows, trace)) {
		out->failed = -ENOMEM;
		return;
	}
	print_types(out, &rows, is_coloured);
	ky_type_rows_release(&rows);
	print_workers(out, trace, is_coloured);
	print_threads(out, trace, is_coloured);
	print_metadata(out, trace, is_coloured);
}

static int print(const struct ky_trace *trace, bool is_json, struct ky_trace_symbols *symbols)
{
	const struct ky_code_names names = ky_trace_symbols_names(symbols);
	struct ky_buf out;
	int result;

	ky_buf_init(&out, 0);
	if (is_json) {
		ky_info_json(&out, trace);
		ky_out_text(&out, "\n");
	} else {
		print_text(&out, trace, ky_out_is_coloured(STDOUT_FILENO), &names);
	}
	result = ky_cli_print(&out);
	ky_buf_release(&out);
	if (result == -ENOMEM)
		ky_cli_error("out of memory");
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

static int print_process(void *ctx)
{
	static const struct ky_trace_symbols_options no_dirs;
	struct info_arguments *arguments = ctx;
	struct ky_trace_symbols symbols = {.table = NULL};
	struct ky_trace *trace = NULL;
	int code = ky_traces_load(&arguments->input, &trace);

	if (!code && !arguments->is_json)
		code = ky_traces_code(&arguments->input,
				      ky_trace_symbols_of(&symbols, &arguments->input, trace,
							  &no_dirs));
	if (!code) {
		code = print(trace, arguments->is_json, &symbols);
		if (ky_traces_say_damage(&arguments->input, trace))
			code = KY_EXIT_TROUBLE;
	}
	ky_trace_symbols_close(&symbols);
	ky_trace_close(trace);
	return code;
}

int ky_cmd_info(int argc, char **argv)
{
	static const struct argp_child children[] = {{&ky_input_argp, 0, 0, 0},
						     {&ky_json_argp, 0, 0, 0},
						     {&ky_time_range_argp, 0, 0, 0},
						     {&ky_common_argp, 0, 0, 0},
						     {0}};
	static const struct argp argp = {
		NULL,
		parse,
		"FILE|DIRECTORY...",
		"Says what a trace is: what was recorded, when and for how long, its events by "
		"type, workers, threads, tasks, losses and metadata. Files of one process are "
		"one trace, and each process has its own section; '-' is standard input. Of "
		"s3://BUCKET/PREFIX it lists the processes, from the names and indexes of their "
		"segments alone.\v--from, --to and --last choose what is listed of a bucket.",
		children,
		0,
		0};
	struct info_arguments arguments = {.is_json = false};
	int code = ky_option_parse(&argp, argc, argv, 0, &arguments);

	if (!code && ky_bucket_is_input(&arguments.input))
		return ky_bucket_survey(&arguments.input, &arguments.range, arguments.is_json);
	if (!code)
		code = ky_bucket_range_check(&arguments.input, &arguments.range);
	if (!code)
		code = ky_traces_open(&arguments.input);
	if (!code)
		code = ky_traces_each(&arguments.input, arguments.is_json, print_process,
				      &arguments);
	ky_traces_close(&arguments.input);
	return code;
}
