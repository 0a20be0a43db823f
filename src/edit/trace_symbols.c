/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <edit/trace_symbols.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *ky_symbol_why_text(uint32_t why)
{
	static const char *const texts[KY_SYMBOL_WHY_COUNT] = {
		[KY_SYMBOL_FOUND] = "named",
		[KY_SYMBOL_NO_MAP] = "the trace does not say what lay there",
		[KY_SYMBOL_NO_FILE] = "its file was not found; give --debug-dir",
		[KY_SYMBOL_OTHER_FILE] =
			"the file at its path is another one by now (build id); give --debug-dir",
		[KY_SYMBOL_NO_SYMBOL] = "no symbol there (stripped); give --debug-dir",
		[KY_SYMBOL_DAMAGED] = "its file cannot be read",
		[KY_SYMBOL_OTHER_BOOT] = "recorded before this system started, or on another one",
		[KY_SYMBOL_FORBIDDEN] =
			"the kernel hides its addresses (kernel.kptr_restrict); run as root",
		[KY_SYMBOL_NOT_ASKED] = "not requested",
	};

	return why < KY_SYMBOL_WHY_COUNT ? texts[why] : "";
}

static void copy_text(char *out, size_t capacity, const struct ky_slice *text)
{
	size_t count = text->count < capacity - 1 ? text->count : capacity - 1;

	memcpy(out, text->bytes, count);
	out[count] = '\0';
}

/* Whose addresses these are: SegmentMetadataEvent says it. */
static void take_process(struct ky_symbol_process *process, struct ky_event_stream *stream,
			 const struct ky_event *event)
{
	uint8_t slot = event->schema->slot_of[KY_F_SEGMENT_METADATA_entries];
	struct ky_value key, value;
	struct ky_trc_walk walk;
	char number[32];

	if (slot == 0xff || !event->values[slot].is_present ||
	    event->values[slot].type != KY_TYPE_STRING_MAP)
		return;
	ky_trc_walk_begin(&walk, &event->values[slot]);
	while (ky_event_walk_next(stream, &walk, &key, &value) > 0) {
		if (key.text.count == 3 && memcmp(key.text.bytes, "pid", 3) == 0) {
			copy_text(number, sizeof(number), &value.text);
			process->pid = (uint32_t)strtoul(number, NULL, 10);
		} else if (key.text.count == 24 &&
			   memcmp(key.text.bytes, "process.start_time_ticks", 24) == 0) {
			copy_text(number, sizeof(number), &value.text);
			process->start_time_ticks = strtoull(number, NULL, 10);
		} else if (key.text.count == 7 && memcmp(key.text.bytes, "boot_id", 7) == 0) {
			copy_text(process->boot_id, sizeof(process->boot_id), &value.text);
		}
	}
}

/* The wall clock at the last event. */
static void take_time(const struct ky_trace_symbols *out, struct ky_symbol_process *process,
		      uint64_t time_ns)
{
	if (out->sync_wall_ns && time_ns >= out->sync_ns &&
	    process->last_wall_ns < out->sync_wall_ns + (time_ns - out->sync_ns))
		process->last_wall_ns = out->sync_wall_ns + (time_ns - out->sync_ns);
}

static void take_sync(struct ky_trace_symbols *out, const struct ky_event *event)
{
	out->sync_ns = event->timestamp_ns;
	out->sync_wall_ns = ky_event_number(event, KY_F_CLOCK_SYNC_realtime_ns, 0);
}

static const struct ky_value *field(const struct ky_schema *schema, const struct ky_value *values,
				    uint32_t known)
{
	uint8_t slot = schema->slot_of[known];

	return slot == 0xff || !values[slot].is_present ? NULL : &values[slot];
}

static uint64_t number_of(const struct ky_schema *schema, const struct ky_value *values,
			  uint32_t known)
{
	const struct ky_value *value = field(schema, values, known);

	return value ? value->as.number : 0;
}

static int take_crash(struct ky_crash_copy *out, const struct ky_schema *schema,
		      const struct ky_value *values, uint64_t time_ns)
{
	const struct ky_value *registers = field(schema, values, KY_F_CRASH_registers);
	const struct ky_value *stack = field(schema, values, KY_F_CRASH_stack);

	memset(out, 0, sizeof(*out));
	out->time_ns = time_ns;
	out->pc = number_of(schema, values, KY_F_CRASH_pc);
	out->sp = number_of(schema, values, KY_F_CRASH_sp);
	out->fp = number_of(schema, values, KY_F_CRASH_fp);
	if (registers && registers->frame_count <= 32) {
		out->register_count = registers->frame_count;
		memcpy(out->registers, registers->frames, 8 * (size_t)registers->frame_count);
	}
	if (!stack || !stack->text.count || stack->text.count > KY_CRASH_COPY_BYTES_MAX ||
	    out->sp > UINT64_MAX - stack->text.count)
		return 0;
	out->stack = ky_alloc(stack->text.count);
	if (!out->stack)
		return -ENOMEM;
	out->stack_bytes = (uint32_t)stack->text.count;
	memcpy(out->stack, stack->text.bytes, stack->text.count);
	return 0;
}

static int take_event(struct ky_trace_symbols *out, struct ky_symbol_process *process,
		      struct ky_event_stream *stream, const struct ky_event *event)
{
	if (event->schema->event == KY_EV_SEGMENT_METADATA)
		take_process(process, stream, event);
	take_time(out, process, ky_event_stream_passed_ns(stream));
	if (event->schema->event == KY_EV_CLOCK_SYNC && event->has_timestamp)
		take_sync(out, event);
	if (event->has_timestamp)
		take_time(out, process, event->timestamp_ns);
	if (event->schema->event == KY_EV_CRASH && out->crash_count < KY_TRACE_CRASHES_MAX &&
	    take_crash(&out->crashes[out->crash_count++], event->schema, event->values,
		       event->has_timestamp ? event->timestamp_ns : 0))
		return -ENOMEM;
	out->has_entries |= event->schema->event == KY_EV_SYMBOL;
	out->has_map |= event->schema->event == KY_EV_PROCESS_MAP;
	return ky_symbol_table_event(out->table, event->schema, event->values);
}

static int read_all(struct ky_trace_symbols *out, struct ky_input *input,
		    struct ky_symbol_process *process, bool is_without_hot,
		    ky_trace_symbols_fn each, void *ctx)
{
	struct ky_event_stream_options options = {.is_stored_order = true,
						  .is_without_hot = is_without_hot || !each,
						  .errbuf = input->error,
						  .errbuf_bytes = sizeof(input->error)};
	struct ky_event_stream *stream = NULL;
	const struct ky_event *event;
	int result = ky_event_stream_open(&stream, input->sources, input->count, &options);

	while (!result) {
		result = ky_event_stream_next(stream, &event);
		if (result <= 0)
			break;
		result = take_event(out, process, stream, event);
		if (!result && each)
			result = each(ctx, event);
	}
	if (stream)
		take_time(out, process, ky_event_stream_passed_ns(stream));
	out->is_damaged = stream && ky_event_stream_is_damaged(stream);
	ky_event_stream_close(stream);
	return result;
}

/* One that is mistyped would give no names, without a reason. */
static int check_dirs(struct ky_input *input, const struct ky_trace_symbols_options *options)
{
	struct stat about;

	for (size_t i = 0; i < options->debug_dir_count; i++) {
		const char *dir = options->debug_dirs[i];
		int err = stat(dir, &about) != 0 ? errno : S_ISDIR(about.st_mode) ? 0 : ENOTDIR;

		if (err)
			return ky_input_fail(input, -err, "--debug-dir %s: %s", dir, strerror(err));
	}
	return 0;
}

int ky_trace_symbols_open(struct ky_trace_symbols *out, struct ky_input *input,
			  const struct ky_trace_symbols_options *options, ky_trace_symbols_fn each,
			  void *ctx)
{
	struct ky_symbolizer_options files = {.debug_dirs = options->debug_dirs,
					      .debug_dir_count = options->debug_dir_count,
					      .is_sorted = options->is_sorted};
	struct ky_symbol_source source;
	int result;

	memset(out, 0, sizeof(*out));
	result = check_dirs(input, options);
	if (result)
		return result;
	out->crashes = ky_alloc(KY_TRACE_CRASHES_MAX * sizeof(*out->crashes));
	result = out->crashes ? ky_symbol_table_open(&out->table, 0) : -ENOMEM;
	if (!result)
		result = read_all(out, input, &files.process, options->is_without_hot, each, ctx);
	if (!result && !options->has_no_files)
		result = ky_symbolizer_open(&out->symbolizer, &files);
	if (result || options->has_no_files)
		return ky_input_result(input, result);
	source = ky_symbolizer_source(out->symbolizer);
	ky_symbol_table_source(out->table, &source);
	return 0;
}

struct symbol_walk {
	const struct ky_trace_symbols *symbols;
	uint64_t time_ns;
};

static int open_code(void *ctx, uint64_t pc, struct ky_crash_code *out)
{
	const struct symbol_walk *walk = ctx;
	struct ky_code_place place;
	const struct ky_code_module *module = ky_code_map_find(
		ky_symbol_table_map(walk->symbols->table), pc, walk->time_ns, &place, NULL);
	int fd;

	if (!module)
		return -ENOENT;
	out->bias = module->load_bias;
	out->module = module->number;
	fd = ky_symbolizer_open_code(walk->symbols->symbolizer, &place);
	return fd == -ENOENT ? -ENODATA : fd;
}

int ky_trace_symbols_crash(const struct ky_trace_symbols *symbols, uint32_t index,
			   struct ky_crash_stack *out)
{
	struct symbol_walk walk = {symbols, symbols->crashes[index].time_ns};

	memset(out, 0, sizeof(*out));
	if (!symbols->symbolizer)
		return -EINVAL;
	return ky_crash_stack_walk(out, &symbols->crashes[index], open_code, &walk);
}

static void crash_at(void *ctx, uint64_t time_ns, struct ky_crash_stack *out)
{
	const struct ky_trace_symbols *symbols = ctx;

	for (uint32_t i = 0; i < symbols->crash_count && !out->count; i++)
		if (symbols->crashes[i].time_ns == time_ns)
			(void)ky_trace_symbols_crash(symbols, i, out);
}

struct ky_code_names ky_trace_symbols_names(struct ky_trace_symbols *symbols)
{
	return (struct ky_code_names){symbols->table, crash_at, symbols};
}

int ky_trace_symbols_of(struct ky_trace_symbols *out, struct ky_input *input,
			const struct ky_trace *trace,
			const struct ky_trace_symbols_options *options)
{
	memset(out, 0, sizeof(*out));
	if (!trace->crash_count && !trace->stuck_count)
		return 0;
	return ky_trace_symbols_open(out, input, options, NULL, NULL);
}

void ky_trace_symbols_close(struct ky_trace_symbols *symbols)
{
	for (uint32_t i = 0; i < symbols->crash_count; i++)
		ky_free(symbols->crashes[i].stack);
	ky_free(symbols->crashes);
	ky_symbol_table_close(symbols->table);
	ky_symbolizer_close(symbols->symbolizer);
	memset(symbols, 0, sizeof(*symbols));
}
