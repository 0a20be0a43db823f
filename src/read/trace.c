/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/load.h>
#include <read/turns.h>
#include <base/text.h>
#include <string.h>

#define HOT_EVENTS 32u /* decoded at once; they stay in the first-level cache */

static void failure(struct ky_buf *out, const char *name, int code)
{
	if (name) {
		ky_text(out, name);
		ky_text(out, ": byte 0: ");
	}
	if (code == KYMO_E_NOT_TRACE)
		ky_text(out, "this is not a trace: it does not begin with TRC");
	else
		ky_text(out, kymo_error_text(code));
}

static void fail_text(const struct ky_trace_options *options, const char *name, int code)
{
	struct ky_buf text;

	if (!options->errbuf)
		return;
	ky_buf_init(&text, 64u << 10);
	failure(&text, name, code);
	ky_text_copy(options->errbuf, options->errbuf_bytes, &text);
	ky_buf_release(&text);
}

/* at: byte of the file up to which it was read. */
static void fail_memory(const struct ky_trace_options *options, const char *name, uint64_t at)
{
	struct ky_buf text;

	if (!options->errbuf)
		return;
	ky_buf_init(&text, 64u << 10);
	ky_text(&text, name ? name : "(memory)");
	ky_text(&text, ": byte ");
	ky_text_u64(&text, at);
	ky_text(&text, ": the trace takes more than the ");
	ky_text_u64(&text, options->memory_bytes_max);
	ky_text(&text, " bytes of memory that ");
	ky_text(&text, options->memory_option ? options->memory_option : "memory_bytes_max");
	ky_text(&text, " allows; raise it, or read fewer files at once");
	ky_text_copy(options->errbuf, options->errbuf_bytes, &text);
	ky_buf_release(&text);
}

static int add_notice(void *ctx, uint64_t offset, int code, const char *text)
{
	struct ky_load *load = ctx;
	struct ky_trace *trace = load->trace;
	struct ky_notice *notice;
	uint32_t name;

	/* Streams of several threads overlap: the lost stretch may begin that much earlier. */
	if (code && load->max_ns && !load->damage_from_ns)
		load->damage_from_ns = load->max_ns - trace->files[load->file].reorder_ns;
	if (trace->notice_count >= 1000)
		return 0; /* a file of nothing but damage: the first thousand say it */
	if (!ky_pages_array(&trace->pages, &trace->notices, &trace->notice_capacity,
			    trace->notice_count + 1, sizeof(*trace->notices)))
		return trace->pages.failed;
	name = ky_names_intern(&trace->private->names, text, strlen(text));
	if (name == UINT32_MAX)
		return trace->pages.failed;
	notice = &trace->notices[trace->notice_count++];
	notice->file = load->file;
	notice->offset = offset;
	notice->code = code;
	notice->text = trace->private->names.names[name].text;
	return 0;
}

static int add_left_out(struct ky_load *load, const char *name, int code)
{
	struct ky_buf text;
	int result;

	ky_buf_init(&text, 64u << 10);
	failure(&text, name ? name : "(memory)", code);
	ky_text(&text, "; left out");
	ky_buf_append(&text, "", 1);
	result = text.failed ? -ENOMEM : add_notice(load, 0, code, (const char *)text.bytes);
	ky_buf_release(&text);
	return result;
}

static int ignore_notice(void *ctx, uint64_t offset, int code, const char *text)
{
	(void)ctx;
	(void)offset;
	(void)code;
	(void)text;
	return 0;
}

/* Time of the first event that has one, to put files in order; UINT64_MAX: none. */
static int peek(struct ky_byte_source *source, const struct ky_trace_options *options,
		uint64_t *first_ns)
{
	struct ky_frame_reader reader;
	struct ky_frame frame;
	int result;

	*first_ns = UINT64_MAX;
	result = ky_frame_reader_init(&reader, source, &options->limits, KY_PAGE_BYTES,
				      ignore_notice, NULL);
	if (result < 0)
		return result;
	do {
		result = ky_frame_reader_next(&reader, &frame);
		if (result == 1 && frame.kind == KY_FRAME_EVENT && frame.timestamp_ns != 0)
			*first_ns = frame.timestamp_ns;
	} while (result == 1 && *first_ns == UINT64_MAX);
	ky_frame_reader_release(&reader);
	return result == -ENOMEM ? result : 0;
}

/* Fills order[] with the numbers of the sources by their first time stamp; given order where a
 * source cannot be read twice. */
static int order_sources(struct ky_byte_source *sources, uint32_t count,
			 const struct ky_trace_options *options, uint32_t *order, uint64_t *first)
{
	uint32_t i, k;
	int result;

	for (i = 0; i < count; i++)
		order[i] = i;
	for (i = 0; count > 1 && i < count; i++) {
		if (!sources[i].seek)
			return 0;
		result = peek(&sources[i], options, &first[i]);
		if (result < 0)
			return result;
	}
	for (i = 1; count > 1 && i < count; i++) {
		uint32_t moved = order[i];

		for (k = i; k > 0 && first[order[k - 1]] > first[moved]; k--)
			order[k] = order[k - 1];
		order[k] = moved;
	}
	return 0;
}

static int load_frames(struct ky_load *load, struct ky_frame_reader *reader)
{
	struct ky_hot_event events[HOT_EVENTS];
	struct ky_frame frame;
	uint32_t count;
	int result;

	for (;;) {
		while ((count = ky_frame_reader_hot(reader, events, HOT_EVENTS)) > 0) {
			result = ky_load_hot(load, events, count);
			if (result < 0)
				return result;
		}
		result = ky_frame_reader_next(reader, &frame);
		if (result != 1)
			return result;
		result = ky_load_frame(load, &frame);
		if (result < 0)
			return result;
	}
}

/* number: of the source, as it was given */
static int load_source(struct ky_load *load, struct ky_byte_source *source, uint32_t number,
		       const struct ky_trace_options *options)
{
	struct ky_trace *trace = load->trace;
	struct ky_trace_input *file = &trace->files[load->file];
	struct ky_frame_reader reader;
	uint32_t name;
	int result;

	name = ky_names_intern(&trace->private->names, source->name ? source->name : "",
			       source->name ? strlen(source->name) : 0);
	if (name == UINT32_MAX)
		return trace->pages.failed;
	file->name = trace->private->names.names[name].text;
	file->container = source->container ? source->container : "raw";
	file->stored_bytes = source->stored_bytes;
	result = ky_frame_reader_init(&reader, source, &options->limits, options->raw_bytes_max,
				      add_notice, load);
	if (result < 0)
		return result;
	ky_frame_reader_leave_out(&reader, ky_copies_source(load->copies, number));
	load->reader = &reader;
	load->pool_serial++;
	load->last_ns = 0;
	load->max_ns = 0;
	if (load->type_of_serial)
		memset(load->type_of_serial, 0, load->serial_capacity * sizeof(uint32_t));
	load->span_role_count = 0;
	if (load->span_role_of_serial)
		memset(load->span_role_of_serial, 0, load->span_serial_capacity * sizeof(uint32_t));
	if (load->custom_of_serial)
		memset(load->custom_of_serial, 0, load->custom_capacity * sizeof(uint32_t));
	result = load_frames(load, &reader);
	load->stopped_at = reader.window_offset;
	file->raw_bytes = reader.raw_bytes;
	file->is_torn = reader.is_torn;
	file->last_ns = load->max_ns;
	if (file->stored_bytes == 0)
		file->stored_bytes = reader.raw_bytes;
	load->reader = NULL;
	ky_frame_reader_release(&reader);
	return result;
}

/* A source that is no trace is left out with a notice, as long as another one is. */
static int load_sources(struct ky_load *load, struct ky_byte_source *sources, const uint32_t *order,
			const struct ky_trace_options *options)
{
	struct ky_trace *trace = load->trace;
	int result, first_error = 0;
	uint32_t i, failed = 0;

	for (i = 0; i < trace->file_count; i++) {
		struct ky_byte_source *source = &sources[order[i]];

		load->file = i;
		load->stopped_at = 0;
		result = load_source(load, source, order[i], options);
		if (result == 0)
			continue;
		if (trace->pages.failed == KYMO_E_LIMIT)
			fail_memory(options, source->name, load->stopped_at);
		else if (result == -ENOMEM || trace->pages.failed)
			fail_text(options, NULL, result);
		if (result == -ENOMEM || trace->pages.failed)
			return result;
		if (first_error == 0) {
			first_error = result;
			fail_text(options, source->name, result);
		}
		failed++;
		result = add_left_out(load, source->name, result);
		if (result < 0)
			return result;
	}
	return failed == trace->file_count ? first_error : 0;
}

/* What is made of all the events, in this order. */
static int finish_all(struct ky_trace *trace)
{
	int result = ky_load_finish(trace);

	if (result == 0)
		result = ky_pair(trace);
	if (result == 0)
		ky_retained_workers(trace);
	if (result == 0)
		result = ky_delay(trace);
	if (result == 0)
		result = ky_turns_finish(trace);
	if (result == 0)
		result = ky_roots_finish(trace);
	if (result == 0)
		result = ky_spawns_finish(trace);
	if (result == 0)
		result = ky_run_waiters_finish(trace);
	if (result == 0)
		result = ky_spans_finish(trace);
	if (result == 0)
		result = ky_stops_finish(trace);
	if (result == 0)
		result = ky_samples_finish(trace);
	if (result == 0)
		result = ky_queues_finish(trace);
	if (result == 0)
		result = ky_left_outs_finish(trace);
	if (result == 0) {
		ky_labels_finish(trace);
		ky_custom_finish(trace);
	}
	return result;
}

static int load_all(struct ky_trace *trace, struct ky_byte_source *sources,
		    const struct ky_trace_options *options)
{
	struct ky_load load = {.trace = trace,
			       .private = trace->private,
			       .symbols = options->symbols,
			       .list_rows_max = options->list_rows_max};
	size_t count = trace->file_count;
	uint32_t *order = ky_pages_alloc(&trace->pages, count * sizeof(*order));
	uint64_t *first = ky_pages_alloc(&trace->pages, count * sizeof(*first));
	int result;

	load.pool_name = ky_pages_alloc(&trace->pages, KY_POOL_CACHE * sizeof(uint32_t));
	load.pool_stamp = ky_pages_alloc(&trace->pages, KY_POOL_CACHE * sizeof(uint32_t));
	load.stack_of = ky_pages_alloc(&trace->pages, 2 * KY_STACK_CACHE * sizeof(uint32_t));
	load.stack_stamp = load.stack_of ? load.stack_of + KY_STACK_CACHE : NULL;
	if (order && first && load.pool_name && load.pool_stamp && load.stack_of) {
		result = order_sources(sources, (uint32_t)count, options, order, first);
		if (result == 0)
			result = ky_copies_open(&load.copies, sources, (uint32_t)count,
						&options->limits, options->raw_bytes_max);
		if (result == 0)
			result = load_sources(&load, sources, order, options);
		trace->copy_count = ky_copies_count(load.copies);
		if (result == 0 && !ky_load_unrecorded(&load))
			result = trace->pages.failed;
		ky_copies_close(load.copies);
	} else {
		result = trace->pages.failed;
	}
	ky_pages_free(&trace->pages, order, count * sizeof(*order));
	ky_pages_free(&trace->pages, first, count * sizeof(*first));
	ky_pages_free(&trace->pages, load.pool_name, KY_POOL_CACHE * sizeof(uint32_t));
	ky_pages_free(&trace->pages, load.pool_stamp, KY_POOL_CACHE * sizeof(uint32_t));
	ky_pages_free(&trace->pages, load.stack_of, 2 * KY_STACK_CACHE * sizeof(uint32_t));
	ky_pages_free(&trace->pages, load.type_of_serial, load.serial_capacity * sizeof(uint32_t));
	ky_pages_free(&trace->pages, load.span_roles, load.span_role_capacity * sizeof(uint32_t));
	ky_pages_free(&trace->pages, load.span_role_of_serial,
		      load.span_serial_capacity * sizeof(uint32_t));
	ky_pages_free(&trace->pages, load.custom_of_serial,
		      load.custom_capacity * sizeof(uint32_t));
	return result ? result : finish_all(trace);
}

/* What failed is no one file: it came before them all or, pairing, after them all. */
static void fail_whole(const struct ky_trace *trace, const struct ky_byte_source *sources,
		       const struct ky_trace_options *options, int code)
{
	const struct ky_trace_input *last = NULL;

	if (trace && trace->files)
		last = &trace->files[trace->file_count - 1];
	if (!trace || trace->pages.failed != KYMO_E_LIMIT)
		fail_text(options, NULL, code);
	else if (last && last->name)
		fail_memory(options, last->name, last->raw_bytes);
	else
		fail_memory(options, sources[0].name, 0);
}

static int make_trace(struct ky_trace **out, size_t source_count,
		      const struct ky_trace_options *options)
{
	struct ky_trace *trace = ky_alloc(sizeof(*trace));
	struct ky_trace_private *private;

	*out = trace;
	if (!trace)
		return -ENOMEM;
	ky_pages_init(&trace->pages, options->memory_bytes_max);
	private = ky_alloc(sizeof(*private));
	trace->private = private;
	if (!private)
		return -ENOMEM;
	ky_names_init(&private->names, &trace->pages);
	ky_id_map_init(&private->tasks, &trace->pages);
	ky_id_map_init(&private->workers, &trace->pages);
	ky_id_map_init(&private->threads, &trace->pages);
	ky_id_map_init(&private->runtimes, &trace->pages);
	ky_id_map_init(&private->long_delays, &trace->pages);
	ky_id_map_init(&private->wake_sources, &trace->pages);
	ky_id_map_init(&private->custom_types, &trace->pages);
	ky_id_map_init(&private->queues, &trace->pages);
	ky_id_map_init(&private->span_ids, &trace->pages);
	ky_column_init(&trace->notifies, &trace->pages, sizeof(struct ky_notify_row));
	trace->files = ky_pages_alloc(&trace->pages, source_count * sizeof(*trace->files));
	trace->file_count = (uint32_t)source_count;
	for (uint32_t i = 0; trace->files && i < source_count; i++)
		trace->files[i].process = KY_NONE;
	return trace->files ? 0 : trace->pages.failed;
}

int ky_trace_open(struct ky_trace **out, struct ky_byte_source *sources, size_t source_count,
		  const struct ky_trace_options *options)
{
	struct ky_trace_options settled;
	int result;

	*out = NULL;
	memset(&settled, 0, sizeof(settled));
	if (options)
		settled = *options;
	if (settled.errbuf && settled.errbuf_bytes > 0)
		settled.errbuf[0] = '\0';
	if (settled.raw_bytes_max == 0)
		settled.raw_bytes_max = KY_RAW_BYTES_MAX_DEFAULT;
	if (settled.memory_bytes_max == 0)
		settled.memory_bytes_max = KY_MEMORY_BYTES_MAX_DEFAULT;
	if (source_count == 0 || source_count > UINT32_MAX)
		return -EINVAL;
	result = make_trace(out, source_count, &settled);
	if (result == 0)
		result = load_all(*out, sources, &settled);
	if (result < 0) {
		if (settled.errbuf && settled.errbuf_bytes > 0 && settled.errbuf[0] == '\0')
			fail_whole(*out, sources, &settled, result);
		ky_trace_close(*out);
		*out = NULL;
	}
	return result;
}

static void release_lists(struct ky_trace *trace)
{
	struct ky_pages *pages = &trace->pages;

	ky_pages_free(pages, trace->files, 0);
	ky_pages_free(pages, trace->types, 0);
	ky_pages_free(pages, trace->workers, 0);
	ky_pages_free(pages, trace->tasks, 0);
	ky_pages_free(pages, trace->threads, 0);
	ky_pages_free(pages, trace->runtimes, 0);
	ky_pages_free(pages, trace->losses, 0);
	ky_pages_free(pages, trace->blocking_runs, 0);
	ky_pages_free(pages, trace->parked_on, 0);
	ky_pages_free(pages, trace->samples.rows, 0);
	ky_pages_free(pages, trace->samples.stacks, 0);
	ky_pages_free(pages, trace->samples.frames, 0);
	ky_pages_free(pages, trace->samples.slots, 0);
	ky_pages_free(pages, trace->samples.gone, 0);
	ky_pages_free(pages, trace->metadata, 0);
	ky_pages_free(pages, trace->clock_syncs, 0);
	ky_pages_free(pages, trace->notices, 0);
	ky_pages_free(pages, trace->open_polls, 0);
	ky_pages_free(pages, trace->retentions, 0);
	ky_pages_free(pages, trace->histograms, 0);
	ky_pages_free(pages, trace->sums, 0);
	ky_pages_free(pages, trace->triggers, 0);
	ky_pages_free(pages, trace->stuck, 0);
	ky_pages_free(pages, trace->wake_sources, 0);
	ky_pages_free(pages, trace->thread_cpus, 0);
	ky_pages_free(pages, trace->off_windows, 0);
	ky_pages_free(pages, trace->thread_uses, 0);
	ky_pages_free(pages, trace->poll_costs, 0);
	ky_pages_free(pages, trace->failed_calls, 0);
	ky_pages_free(pages, trace->socket_waits, 0);
	ky_pages_free(pages, trace->states, 0);
	ky_pages_free(pages, trace->stops, 0);
	ky_pages_free(pages, trace->throttles, 0);
	ky_pages_free(pages, trace->root_polls, 0);
	ky_pages_free(pages, trace->handovers, 0);
	ky_pages_free(pages, trace->resources, 0);
	ky_pages_free(pages, trace->crashes, 0);
	ky_pages_free(pages, trace->spans, 0);
	ky_pages_free(pages, trace->counters, 0);
	ky_pages_free(pages, trace->annotations, 0);
	ky_pages_free(pages, trace->custom_types, 0);
	ky_pages_free(pages, trace->custom_fields, 0);
	ky_pages_free(pages, trace->custom_rows, 0);
	ky_pages_free(pages, trace->custom_values, 0);
	ky_pages_free(pages, trace->left_outs, 0);
	ky_pages_free(pages, trace->span_fields, 0);
	ky_pages_free(pages, trace->request_waits, 0);
	ky_pages_free(pages, trace->spawn_windows, 0);
	ky_pages_free(pages, trace->spawns, 0);
}

void ky_trace_close(struct ky_trace *trace)
{
	struct ky_trace_private *private;
	uint32_t i;

	if (!trace)
		return;
	private = trace->private;
	for (i = 0; i < trace->worker_count; i++) {
		ky_column_release(&trace->workers[i].polls);
		ky_column_release(&trace->workers[i].parks);
		ky_column_release(&trace->workers[i].wakes);
		ky_column_release(&trace->workers[i].turns);
		ky_column_release(&trace->workers[i].edges);
	}
	ky_column_release(&trace->notifies);
	ky_queues_release(trace);
	release_lists(trace);
	if (private) {
		ky_spans_release_events(trace);
		ky_names_release(&private->names);
		ky_id_map_release(&private->tasks);
		ky_id_map_release(&private->workers);
		ky_id_map_release(&private->threads);
		ky_id_map_release(&private->runtimes);
		ky_id_map_release(&private->long_delays);
		ky_id_map_release(&private->wake_sources);
		ky_id_map_release(&private->custom_types);
		ky_id_map_release(&private->queues);
		ky_free(private->long_durations);
		ky_free(private->gaps);
		ky_free(private->processes);
		ky_free(private->borders);
		ky_free(private->open_runs);
		ky_free(private->live_ready);
		ky_free(private->buckets);
		ky_free(private->held);
		ky_free(private->served);
		ky_free(private);
	}
	ky_pages_release(&trace->pages);
	ky_free(trace);
}

const char *ky_trace_name(const struct ky_trace *trace, uint32_t name)
{
	return name < trace->private->names.count ? trace->private->names.names[name].text : "";
}

uint32_t ky_trace_name_count(const struct ky_trace *trace)
{
	return trace->private->names.count;
}

const char *ky_trace_metadata(const struct ky_trace *trace, const char *key)
{
	uint32_t i, name = ky_names_find(&trace->private->names, key, strlen(key));

	for (i = 0; name != KY_NONE && i < trace->metadata_count; i++)
		if (trace->metadata[i].key == name)
			return ky_trace_name(trace, trace->metadata[i].value);
	return NULL;
}

bool ky_trace_is_run(const struct ky_task *task)
{
	return task->poll_count == 0 && (task->flags & KY_TASK_BLOCKING) != 0;
}

bool ky_trace_is_task(const struct ky_task *task)
{
	return !ky_trace_is_run(task) && !(task->flags & KY_TASK_ROOT);
}

uint32_t ky_trace_pid(const struct ky_trace *trace)
{
	const char *text = ky_trace_metadata(trace, "pid");
	uint32_t pid = 0;

	for (; text && *text >= '0' && *text <= '9' && pid < INT32_MAX / 10; text++)
		pid = pid * 10 + (uint32_t)(*text - '0');
	return pid;
}

uint32_t ky_trace_thread_name(const struct ky_trace *trace, uint32_t tid)
{
	uint32_t thread = ky_id_map_find(&trace->private->threads, tid);

	return tid && thread < trace->thread_count ? trace->threads[thread].name : KY_NONE;
}

uint32_t ky_trace_task(const struct ky_trace *trace, uint64_t task_id)
{
	return ky_id_map_find(&trace->private->tasks, task_id);
}

uint32_t ky_trace_worker(const struct ky_trace *trace, uint64_t worker_id)
{
	if (worker_id < KY_SMALL_WORKERS)
		return trace->private->lane_of_worker[worker_id] - 1u;
	return ky_id_map_find(&trace->private->workers, worker_id);
}

uint64_t ky_trace_unix_ns(const struct ky_trace *trace, uint64_t time_ns)
{
	uint32_t low = 0, high = trace->clock_sync_count;
	const struct ky_clock_sync *sync;

	if (high == 0)
		return 0;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (trace->clock_syncs[middle].monotonic_ns <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	sync = &trace->clock_syncs[low ? low - 1 : 0];
	return sync->realtime_ns + (time_ns - sync->monotonic_ns);
}

static void fill_poll(const struct ky_trace *trace, uint32_t worker, uint64_t row,
		      const struct ky_poll_row *poll, uint32_t delay, struct ky_poll *out)
{
	uint32_t at;

	out->flags = poll->site >> 24;
	out->duration_ns = out->flags & KY_POLL_LONG ?
				   trace->private->long_durations[poll->duration_ns] :
				   poll->duration_ns;
	out->task = poll->task;
	out->name = (poll->site & 0xffffffu) == 0xffffffu ? KY_NONE : poll->site & 0xffffffu;
	out->worker = worker;
	out->delay_ns = delay;
	out->delay_state = 0;
	if (delay == KY_DELAY_LONG) {
		at = ky_id_map_find(&trace->private->long_delays, (uint64_t)worker << 40 | row);
		out->delay_ns = at == UINT32_MAX ? delay : trace->private->long_durations[at];
	} else if (delay > KY_DELAY_LONG) {
		out->delay_ns = UINT64_MAX;
		out->delay_state = delay;
	}
}

void ky_trace_poll(const struct ky_trace *trace, uint32_t worker, uint64_t row, struct ky_poll *out)
{
	ky_trace_poll_began(trace, worker, row, ky_column_time(&trace->workers[worker].polls, row),
			    out);
}

void ky_trace_poll_began(const struct ky_trace *trace, uint32_t worker, uint64_t row,
			 uint64_t start_ns, struct ky_poll *out)
{
	const struct ky_column *polls = &trace->workers[worker].polls;

	out->start_ns = start_ns;
	fill_poll(trace, worker, row, ky_column_row(polls, row), *ky_column_extra(polls, row), out);
}

void ky_trace_poll_at(const struct ky_trace *trace, uint32_t worker, const struct ky_cursor *cursor,
		      struct ky_poll *out)
{
	out->start_ns = cursor->time_ns;
	fill_poll(trace, worker, cursor->row, (const void *)cursor->at,
		  cursor->extra[cursor->place], out);
}

bool ky_trace_poll_exceeds(const struct ky_trace *trace, uint32_t worker, uint64_t row, uint64_t ns)
{
	const struct ky_poll_row *poll = ky_column_row(&trace->workers[worker].polls, row);

	return (poll->site >> 24 & KY_POLL_LONG ?
			trace->private->long_durations[poll->duration_ns] :
			poll->duration_ns) > ns;
}

bool ky_trace_is_loss_of(const struct ky_worker *worker, const struct ky_trace_loss *loss)
{
	return loss->tid == 0 || worker->tid == 0 || worker->moved_count > 0 ||
	       loss->tid == worker->tid;
}

void ky_trace_park(const struct ky_trace *trace, uint32_t worker, uint64_t row, struct ky_park *out)
{
	const struct ky_column *parks = &trace->workers[worker].parks;
	const struct ky_park_row *park = ky_column_row(parks, row);

	out->start_ns = ky_column_time(parks, row);
	out->flags = park->word >> 24;
	out->duration_ns = out->flags & KY_PARK_LONG ?
				   trace->private->long_durations[park->duration_ns] :
				   park->duration_ns;
	out->sched_wait_ns = park->sched_wait_ns;
	out->due_ns = UINT64_MAX;
	if (out->flags & KY_PARK_TIMEOUT) {
		out->flags &= ~(uint32_t)KY_PARK_TIMEOUT;
		out->sched_wait_ns = UINT32_MAX;
		if (park->sched_wait_ns < KY_PARK_TIMEOUT_MAX)
			out->due_ns = out->start_ns +
				      (uint64_t)(park->sched_wait_ns - 1) * 1000000u;
	}
	ky_ready_take(park->word & 0xffff, &out->ready_count, &out->ready_descriptor);
	out->wait = park->word >> 16 & 0xff;
}

static void fill_wake(const struct ky_trace *trace, uint32_t worker, const struct ky_wake_row *wake,
		      struct ky_wake *out)
{
	out->woken = wake->woken;
	out->waker = wake->waker;
	out->worker = worker;
	out->stack = KY_NONE;
	out->tid = 0;
	if (wake->word >> KY_WAKE_SOURCE_SHIFT) {
		out->stack = trace->wake_sources[(wake->word >> KY_WAKE_SOURCE_SHIFT) - 1].stack;
		out->tid = trace->wake_sources[(wake->word >> KY_WAKE_SOURCE_SHIFT) - 1].tid;
	}
	if (wake->word >> 16 & 1)
		out->origin = (uint8_t)(wake->word >> 8);
	else if (wake->waker != KY_NONE)
		out->origin = wake->waker == wake->woken ? 128 + 1 : 128 + 2;
	else
		out->origin = (wake->word & 0xff) != 255 ? 128 + 3 : 128 + 4;
}

void ky_trace_wake(const struct ky_trace *trace, uint32_t worker, uint64_t row, struct ky_wake *out)
{
	const struct ky_column *wakes = &trace->workers[worker].wakes;

	out->time_ns = ky_column_time(wakes, row);
	fill_wake(trace, worker, ky_column_row(wakes, row), out);
}

void ky_trace_wake_at(const struct ky_trace *trace, uint32_t worker, const struct ky_cursor *cursor,
		      struct ky_wake *out)
{
	out->time_ns = cursor->time_ns;
	fill_wake(trace, worker, (const void *)cursor->at, out);
}
