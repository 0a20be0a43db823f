/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/json_write.h>
#include <cli/cli.h>

#include <base/alloc.h>
#include <analyze/catalog.h>
#include <analyze/code_addresses.h>
#include <cli/traces.h>
#include <cli/shared_options.h>
#include <analyze/report.h>
#include <base/out_text.h>
#include <cli/progress.h>
#include <edit/rewrite.h>
#include <edit/trace_symbols.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <read/symbol_table.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <wire/trc_enc.h>

#define UNNAMED_ROWS_MAX 20u

struct symbolize_arguments {
	struct ky_input input;
	struct ky_trace_symbols_options symbols;
	struct ky_output output;
	bool is_json;
};

/* Addresses of one module that have no name, for one reason. */
struct unnamed {
	uint32_t module; /* UINT32_MAX: none */
	uint32_t why;
	uint64_t count;
	bool is_kernel;
};

/* An address as it is written: with a window where modules took turns at it. */
struct symbolize_target {
	uint64_t address, time_ns;
	uint64_t from_ns, to_ns; /* 0, UINT64_MAX: always */
	uint32_t module;
	bool is_named;
};

struct symbolize_job {
	const struct symbolize_arguments *arguments;
	struct ky_input *input;
	struct ky_trace_symbols symbols;
	struct ky_code_addresses addresses;
	struct symbolize_target *targets;
	uint32_t target_count, target_capacity;
	struct unnamed unnamed[UNNAMED_ROWS_MAX];
	uint32_t unnamed_count;
	uint64_t had, named, not_named, rows;
	bool is_damaged, is_written;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct symbolize_arguments *arguments = state->input;

	(void)text;
	if (key != ARGP_KEY_INIT)
		return ARGP_ERR_UNKNOWN;
	state->child_inputs[0] = &arguments->input;
	state->child_inputs[1] = &arguments->output;
	state->child_inputs[2] = &arguments->symbols;
	state->child_inputs[3] = &arguments->is_json;
	return 0;
}

/* ---- which addresses ---- */

static int collect(void *ctx, const struct ky_event *event)
{
	struct symbolize_job *job = ctx;

	return ky_code_addresses_event(&job->addresses, event->schema, event->values,
				       event->has_timestamp ? event->timestamp_ns : 0);
}

/* The stack of a crash is in no event: it is walked whenever it is read. */
static int collect_crashes(struct symbolize_job *job)
{
	struct ky_crash_stack stack;
	int err = 0;

	for (uint32_t i = 0; i < job->symbols.crash_count && !err; i++) {
		if (ky_trace_symbols_crash(&job->symbols, i, &stack))
			continue;
		for (uint32_t j = 0; j < stack.count && !err; j++)
			err = ky_code_addresses_add(&job->addresses, stack.frames[j],
						    job->symbols.crashes[i].time_ns);
	}
	return err;
}

static int add_target(struct symbolize_job *job, const struct symbolize_target *target)
{
	if (ky_grow(&job->targets, &job->target_capacity, job->target_count + 1, sizeof(*target)))
		return -ENOMEM;
	job->targets[job->target_count++] = *target;
	return 0;
}

/* Modules took turns at this address: one target for each that was there while it was seen. */
static int add_shared(struct symbolize_job *job, const struct ky_code_address *address)
{
	const struct ky_code_map *map = ky_symbol_table_map(job->symbols.table);
	int err = 0;

	for (uint32_t i = 0; i < map->count && !err; i++) {
		const struct ky_code_module *module = &map->modules[i];
		struct symbolize_target target = {
			.address = address->address,
			.time_ns = module->from_ns > address->first_ns ? module->from_ns :
									 address->first_ns,
			.from_ns = module->from_ns,
			.to_ns = module->to_ns,
			.module = module->number,
		};

		if (address->address < module->start || address->address >= module->end ||
		    target.time_ns >= module->to_ns ||
		    (address->last_ns && module->from_ns > address->last_ns))
			continue;
		err = add_target(job, &target);
	}
	return err;
}

static int add_targets(struct symbolize_job *job)
{
	struct ky_code_map *map = ky_symbol_table_map(job->symbols.table);
	int err = 0;

	for (uint32_t i = 0; i < job->addresses.count && !err; i++) {
		const struct ky_code_address *address = &job->addresses.list[i];
		struct symbolize_target target = {.address = address->address,
						  .time_ns = address->first_ns,
						  .to_ns = UINT64_MAX};
		struct ky_code_place place;
		bool is_shared;

		ky_code_map_find(map, address->address, address->first_ns, &place, &is_shared);
		target.module = place.module;
		err = is_shared ? add_shared(job, address) : add_target(job, &target);
	}
	return err;
}

/* By module, so that each file is opened once. */
static int compare(const void *a, const void *b)
{
	const struct symbolize_target *x = a, *y = b;

	if (x->module != y->module)
		return x->module < y->module ? -1 : 1;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->from_ns < y->from_ns ? -1 : x->from_ns > y->from_ns;
}

static void count_unnamed(struct symbolize_job *job, const struct symbolize_target *target,
			  uint32_t why)
{
	bool is_kernel = target->address >= KY_CODE_KERNEL_START;
	struct unnamed *row = job->unnamed;

	job->not_named++;
	for (uint32_t i = 0; i < job->unnamed_count; i++, row++) {
		if (row->module == target->module && row->why == why &&
		    row->is_kernel == is_kernel) {
			row->count++;
			return;
		}
	}
	if (job->unnamed_count == UNNAMED_ROWS_MAX)
		return;
	job->unnamed[job->unnamed_count++] = (struct unnamed){target->module, why, 1, is_kernel};
}

static void find_symbol(struct symbolize_job *job)
{
	if (job->target_count > 1)
		qsort(job->targets, job->target_count, sizeof(*job->targets), compare);
	for (uint32_t i = 0; i < job->target_count; i++) {
		struct symbolize_target *target = &job->targets[i];
		const struct ky_symbol_frame *frames;
		uint32_t count;

		if (ky_symbol_table_has(job->symbols.table, target->address, target->time_ns)) {
			job->had++;
			continue;
		}
		count = ky_symbol_table_find(job->symbols.table, target->address, target->time_ns,
					     &frames);
		target->is_named = frames[0].why == KY_SYMBOL_FOUND;
		job->named += target->is_named;
		job->rows += target->is_named ? count : 0;
		if (!target->is_named)
			count_unnamed(job, target, frames[0].why);
	}
}

/* ---- writing ---- */

static void put_row(struct ky_trc_enc *enc, const struct ky_symbol_entry *entry)
{
	uint32_t name = ky_trc_enc_string(enc, 0, entry->name, strlen(entry->name));
	uint32_t file = ky_trc_enc_string(enc, 0, entry->file, strlen(entry->file));

	ky_trc_enc_event(enc, KY_EV_SYMBOL, 0);
	ky_trc_enc_varint(enc, entry->address);
	ky_trc_enc_varint(enc, entry->code_bytes);
	ky_trc_enc_u32(enc, name);
	ky_trc_enc_varint(enc, entry->depth);
	ky_trc_enc_u32(enc, file);
	ky_trc_enc_varint(enc, entry->line);
	ky_trc_enc_opt_varint(enc, entry->from_ns != 0, entry->from_ns);
	ky_trc_enc_opt_varint(enc, entry->to_ns != UINT64_MAX, entry->to_ns);
}

struct symbolize_writer {
	struct ky_trc_enc enc;
	struct ky_buf bytes;
	ky_chunk_fn chunk;
	void *ctx;
};

static int pass_on(struct symbolize_writer *writer)
{
	struct ky_chunk chunk = {
		.bytes = writer->bytes.bytes,
		.byte_count = writer->bytes.used,
		.event_count = writer->enc.event_count,
	};
	int result = writer->bytes.failed;

	if (!result && writer->enc.event_count)
		result = writer->chunk(writer->ctx, &chunk);
	ky_buf_clear(&writer->bytes);
	ky_trc_enc_begin(&writer->enc);
	return result;
}

static int put_entry(struct symbolize_writer *writer, const struct ky_symbol_entry *entry)
{
	size_t bound = strlen(entry->name) + strlen(entry->file) + 1024;

	if (writer->enc.event_count && (writer->enc.event_count >= KY_CHUNK_EVENTS_MAX ||
					writer->bytes.used + bound > KY_CHUNK_BYTES_MAX)) {
		int result = pass_on(writer);

		if (result)
			return result;
	}
	put_row(&writer->enc, entry);
	return writer->bytes.failed;
}

static int put_target(struct symbolize_job *job, struct symbolize_writer *writer,
		      const struct symbolize_target *target)
{
	const struct ky_symbol_frame *frames;
	uint32_t count = ky_symbol_table_find(job->symbols.table, target->address, target->time_ns,
					      &frames);
	int result = 0;

	for (uint32_t i = count; i-- > 0 && !result;) { /* the outermost first */
		struct ky_symbol_entry entry = {
			.address = target->address,
			.code_bytes = frames[i].code_bytes,
			.depth = frames[i].depth,
			.from_ns = target->from_ns,
			.to_ns = target->to_ns,
			.name = frames[i].name,
			.file = frames[i].file,
			.line = frames[i].line,
		};

		result = put_entry(writer, &entry);
	}
	return result;
}

/* All of them in one place: those that stood in the trace, then the new ones. */
static int write_symbols(void *ctx, ky_chunk_fn chunk, void *chunk_ctx)
{
	struct symbolize_job *job = ctx;
	struct symbolize_writer writer = {.chunk = chunk, .ctx = chunk_ctx};
	struct ky_symbol_entry entry;
	int result;

	ky_buf_init(&writer.bytes, 0);
	result = ky_trc_enc_init(&writer.enc, &writer.bytes);
	if (!result)
		ky_trc_enc_begin(&writer.enc);
	for (uint32_t i = 0; !result && ky_symbol_table_entry(job->symbols.table, i, &entry); i++)
		result = put_entry(&writer, &entry);
	for (uint32_t i = 0; i < job->target_count && !result; i++)
		if (job->targets[i].is_named)
			result = put_target(job, &writer, &job->targets[i]);
	if (!result)
		result = pass_on(&writer);
	ky_trc_enc_release(&writer.enc);
	ky_buf_release(&writer.bytes);
	return result;
}

static bool is_kept(void *ctx, const struct ky_event *event)
{
	(void)ctx;
	return event->schema->event != KY_EV_SYMBOL;
}

/* ---- saying it ---- */

static const char *what(const struct symbolize_job *job, const struct unnamed *row)
{
	const struct ky_code_map *map = ky_symbol_table_map(job->symbols.table);

	for (uint32_t i = 0; i < map->count; i++)
		if (map->modules[i].number == row->module)
			return ky_code_module_path(map, &map->modules[i]);
	return row->is_kernel ? "kernel" : "";
}

static void say_json(struct symbolize_job *job, const char *output)
{
	struct ky_buf out;

	ky_buf_init(&out, 0);
	ky_out_text(&out, "{\"file\":");
	ky_json_string(&out, output, strlen(output));
	ky_out_format(&out,
		      ",\"addresses\":%" PRIu64 ",\"named\":%" PRIu64 ",\"had_names\":%" PRIu64
		      ",\"rows\":%" PRIu64 ",\"written\":%s,\"unnamed\":[",
		      job->had + job->named + job->not_named, job->named, job->had, job->rows,
		      job->is_written ? "true" : "false");
	for (uint32_t i = 0; i < job->unnamed_count; i++) {
		const char *path = what(job, &job->unnamed[i]);

		ky_out_text(&out, i ? ",{\"module\":" : "{\"module\":");
		ky_json_string(&out, path, strlen(path));
		ky_out_format(&out, ",\"addresses\":%" PRIu64 ",\"why\":\"%s\"}",
			      job->unnamed[i].count, ky_symbol_why_text(job->unnamed[i].why));
	}
	ky_out_text(&out, "]}\n");
	(void)ky_cli_print(&out);
	ky_buf_release(&out);
}

static void say_text(struct symbolize_job *job, const char *output)
{
	uint64_t all = job->had + job->named + job->not_named;
	char cells[3][KY_OUT_CELL_BYTES];
	struct ky_buf out;

	ky_buf_init(&out, 0);
	ky_out_safe(&out, output, strlen(output));
	ky_out_format(&out, ": %s of %s addresses have names",
		      ky_out_count(cells[0], job->had + job->named), ky_out_count(cells[1], all));
	if (job->had && job->named)
		ky_out_format(&out, " (%s of them new)", ky_out_count(cells[2], job->named));
	else if (job->had)
		ky_out_text(&out, ", all of them before");
	ky_out_text(&out, job->is_written ? "\n" : "; nothing was written\n");
	for (uint32_t i = 0; i < job->unnamed_count; i++) {
		const char *path = what(job, &job->unnamed[i]);

		ky_out_format(&out, "  %8s not: ", ky_out_count(cells[0], job->unnamed[i].count));
		ky_out_safe(&out, path, strlen(path));
		ky_out_format(&out, "%s%s\n", path[0] ? ": " : "",
			      ky_symbol_why_text(job->unnamed[i].why));
	}
	(void)ky_cli_print(&out);
	ky_buf_release(&out);
}

/* ---- one output ---- */

static void release(struct symbolize_job *job)
{
	ky_code_addresses_release(&job->addresses);
	ky_trace_symbols_close(&job->symbols);
	ky_free(job->targets);
}

static int write_trace(struct symbolize_job *job, const char *output, bool is_forced)
{
	struct ky_rewrite rewrite = {
		.input = job->input,
		.output = output,
		.is_forced = is_forced,
		.keep = is_kept,
		.tail = write_symbols,
		.hook_ctx = job,
	};
	int code;

	if (ky_traces_code(job->input, ky_rewrite_prepare(&rewrite)))
		return KY_EXIT_USAGE;
	code = ky_traces_rewrite(&rewrite);
	job->is_written = rewrite.stored_bytes > 0;
	return code;
}

/* output NULL: where the input stands. */
static int symbolize(const struct symbolize_arguments *arguments, struct ky_input *input,
		     const char *output)
{
	struct symbolize_job job = {.arguments = arguments, .input = input};
	const char *place = output ? output : input->arguments[0];
	int code = ky_traces_code(input, ky_trace_symbols_open(&job.symbols, input,
							       &arguments->symbols, collect, &job));

	if (!code && (collect_crashes(&job) || add_targets(&job) || job.addresses.refused_count)) {
		ky_cli_error("%s: too many addresses", place);
		code = KY_EXIT_TROUBLE;
	}
	ky_progress_step("naming code");
	if (!code)
		find_symbol(&job);
	if (!code && !output && job.symbols.is_damaged) {
		ky_cli_error("%s: is damaged, and stays as it is; write what can be read of it "
			     "elsewhere with -o FILE",
			     place);
		code = KY_EXIT_TROUBLE;
	} else if (!code && (output || job.named)) {
		code = write_trace(&job, place, !output || arguments->output.may_replace);
	}
	ky_progress_quiet();
	if (!code || job.is_written) {
		if (arguments->is_json)
			say_json(&job, place);
		else if (strcmp(place, "-") != 0 && !ky_cli_is_quiet())
			say_text(&job, place);
	}
	release(&job);
	return code;
}

static bool is_active(const char *path)
{
	static const char suffix[] = ".active";
	size_t count = strlen(path);

	return count >= sizeof(suffix) - 1 &&
	       strcmp(path + count - (sizeof(suffix) - 1), suffix) == 0;
}

static bool is_replaceable(const char *path)
{
	struct stat st;

	if (is_active(path)) {
		ky_cli_error("%s: is still being written; give -o FILE", path);
		return false;
	}
	if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
		return true;
	ky_cli_error("%s: is no file that could be replaced; give -o FILE", path);
	return false;
}

static bool is_among(const struct ky_input *input, const char *path)
{
	for (size_t i = 0; i < input->count; i++)
		if (strcmp(input->sources[i].name, path) == 0)
			return true;
	return false;
}

static int each_in_place(const struct symbolize_arguments *arguments)
{
	const struct ky_input *input = &arguments->input;
	int code = KY_EXIT_OK;

	for (size_t i = 0; i < input->paths.count; i++) {
		char *path = input->paths.paths[i];
		struct ky_input one = {.inflate = arguments->input.inflate,
				       .memory_bytes_max = arguments->input.memory_bytes_max};
		int result;

		if (input->has_pid && !is_among(input, path))
			continue;
		result = is_replaceable(path) ? ky_traces_open_file(&one, &path) : KY_EXIT_TROUBLE;

		if (!result)
			result = symbolize(arguments, &one, NULL);
		ky_traces_close(&one);
		code = result ? result : code;
	}
	return code;
}

int ky_cmd_symbolize(int argc, char **argv)
{
	static const struct argp_child children[] = {
		{&ky_input_argp, 0, 0, 0},     {&ky_output_argp, 0, 0, 0},
		{&ky_debug_dir_argp, 0, 0, 0}, {&ky_json_argp, 0, 0, 0},
		{&ky_common_argp, 0, 0, 0},    {0}};
	static const struct argp argp = {
		NULL,
		parse,
		"FILE|DIRECTORY...",
		"Finds the functions, source lines and inlined calls of the code addresses of a "
		"trace and writes them into it, so that its readers need no files. Works on "
		"another machine with --debug-dir. A file whose build id is not the recorded one "
		"gives no names.\vWithout --output every file of the input is replaced by itself "
		"with the names.",
		children,
		0,
		0};
	struct symbolize_arguments arguments = {.is_json = false};
	int code;

	code = ky_option_parse(&argp, argc, argv, 0, &arguments);
	if (code)
		return code;
	code = ky_output_check(&arguments.output, arguments.is_json);
	if (code)
		return code;
	/* Others on this machine come first: what was recorded may still run here. */
	(void)setpriority(PRIO_PROCESS, 0, 10);
	code = arguments.output.path ? ky_traces_open_one(&arguments.input, "") :
				       ky_traces_open(&arguments.input);
	if (!code)
		code = arguments.output.path ?
			       symbolize(&arguments, &arguments.input, arguments.output.path) :
			       each_in_place(&arguments);
	ky_traces_close(&arguments.input);
	return code;
}
