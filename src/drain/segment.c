/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Events into chunks, chunks into segments, one index row per chunk; and what each chunk and each
 * segment begins with, so that it stands on its own. */
#include <drain/segment_stage.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <wire/segment_index.h>

#define INDEX_BYTES_MAX ((size_t)64 << 20)
#define LIVE_TASKS_MAX 65536u

/* ---- what the index says about workers ---- */

static void book_open_polls(struct ky_segment *segment)
{
	const struct ky_open_chunk *chunk = segment->chunk;

	for (uint32_t i = 0; i < segment->common->threads.count; i++) {
		const struct ky_dthread *thread = segment->common->threads.list[i];
		uint32_t worker;
		uint64_t from;

		if (!thread->depth || !ky_poll_is_outer(&thread->stack[0]))
			continue;
		worker = thread->stack[0].worker;
		from = thread->stack[0].start_ns > chunk->first_ns ? thread->stack[0].start_ns :
								     chunk->first_ns;
		if (chunk->last_ns <= from)
			continue;
		ky_worker_touch(segment->workers, worker, chunk->serial);
		segment->workers->list[worker].busy_ns += chunk->last_ns - from;
	}
}

static void add_index_row(struct ky_segment *segment)
{
	const struct ky_open_chunk *chunk = segment->chunk;
	struct ky_index_chunk row = {
		.raw_offset = segment->offset,
		.first_ns = chunk->first_ns,
		.last_ns = chunk->last_ns,
		.lost_count = chunk->lost_count,
		.raw_bytes = (uint32_t)segment->chunk->out.used,
		.event_count = (uint32_t)segment->chunk->enc.event_count,
		.loss_count = chunk->loss_count,
		.worker_count = segment->workers->touched_count,
	};

	ky_buf_append(&segment->index, &row, sizeof(row));
	for (uint32_t i = 0; i < segment->workers->touched_count; i++) {
		const struct ky_drain_worker *worker =
			&segment->workers->list[segment->workers->touched[i]];
		struct ky_index_worker about = {
			.busy_ns = worker->busy_ns,
			.longest_start_ns = worker->longest_start_ns,
			.longest_ns = worker->longest_ns,
			.longest_task = worker->longest_task,
			.worker_id = ky_worker_id(segment->workers->touched[i]),
			.poll_count = worker->poll_count,
		};

		ky_buf_append(&segment->index, &about, sizeof(about));
	}
	segment->index_chunks++;
}

/* ---- chunks ---- */

void ky_segment_refused(struct ky_segment *segment, const struct ky_chunk_loss *loss)
{
	uint64_t events = loss->event_count;

	segment->common->stats.chunks_refused += loss->chunk_count;
	segment->common->stats.records_lost += loss->record_count;
	segment->common->stats.events_written -= events < segment->common->stats.events_written ?
							 events :
							 segment->common->stats.events_written;
	if (!segment->refused_records || loss->first_ns < segment->refused_first_ns)
		segment->refused_first_ns = loss->first_ns;
	if (!segment->refused_records || loss->last_ns > segment->refused_last_ns)
		segment->refused_last_ns = loss->last_ns;
	segment->refused_records += loss->record_count + loss->reported_count;
}

static void lose_chunk(struct ky_segment *segment, const struct ky_chunk *chunk)
{
	struct ky_chunk_loss loss = {.chunk_count = 0};

	ky_chunk_lose(&loss, chunk);
	loss.event_count = 0; /* they have not been counted as written */
	ky_segment_refused(segment, &loss);
	/* The segment ends where it got to; what follows must stand on its own. */
	segment->is_open = false;
	ky_convert_counters(segment->convert)->reported = 0;
}

/* Not where a record stands that had nothing to report: a reader of the chunk on disk knows its
 * events, and nothing else of it. */
static void end_with_last_event(struct ky_open_chunk *chunk)
{
	if (!chunk->out.failed)
		chunk->last_ns = ky_trc_enc_last_ns(&chunk->enc);
}

void ky_segment_write_out(struct ky_segment *segment, bool is_end)
{
	struct ky_open_chunk *chunk = segment->chunk;
	struct ky_chunk about = {
		.bytes = segment->chunk->out.bytes,
		.byte_count = segment->chunk->out.used,
		.event_count = segment->chunk->enc.event_count,
		.record_count = segment->chunk->records_reported - chunk->records_from,
		.reported_loss_count = chunk->reported_count,
		.reported_loss_from_ns = chunk->reported_from_ns,
		.first_ns = chunk->first_ns,
		.last_ns = chunk->last_ns,
		.last_ticks = segment->chunk->last_ticks,
		.last_ties = segment->chunk->last_ties,
		.is_segment_start = chunk->is_segment_start,
		.is_segment_end = is_end,
	};
	int err = segment->chunk->out.failed;

	chunk->is_open = false;
	chunk->span_ns = 0;
	if (!err && segment->sink)
		err = segment->sink(segment->sink_ctx, &about);
	if (err) {
		segment->common->stats.last_sink_error = err;
		lose_chunk(segment, &about);
		return;
	}
	if (!is_end)
		add_index_row(segment);
	segment->offset += about.byte_count;
	segment->common->stats.chunks_written++;
	segment->common->stats.events_written += about.event_count;
}

void ky_segment_flush(struct ky_segment *segment)
{
	if (!segment->chunk->is_open)
		return;
	end_with_last_event(segment->chunk);
	book_open_polls(segment);
	ky_segment_write_out(segment, false);
}

void ky_segment_flush_old(struct ky_segment *segment)
{
	const struct ky_open_chunk *chunk = segment->chunk;
	uint64_t now_ns = segment->common->now_ns;

	if (chunk->is_open && now_ns > chunk->first_ns &&
	    now_ns - chunk->first_ns >= KY_CHUNK_SPAN_MAX_NS)
		ky_segment_flush(segment);
}

void ky_segment_begin_chunk(struct ky_segment *segment, uint64_t ns)
{
	ky_chunk_begin(segment->chunk, ns);
	segment->workers->touched_count = 0;
}

void ky_segment_report_refused(struct ky_segment *segment, uint64_t ns)
{
	struct ky_loss loss = {.cause = KY_LOSS_WRITE_ERROR,
			       .count = segment->refused_records,
			       .from_ns = segment->refused_first_ns,
			       .to_ns = segment->refused_last_ns,
			       .is_exact = true};
	struct ky_loss unsent = {.cause = KY_LOSS_UNSENT,
				 .count = segment->common->unsent_count,
				 .from_ns = ns,
				 .to_ns = ns,
				 .is_exact = true};

	segment->refused_records = segment->common->unsent_count = 0;
	if (loss.count)
		ky_segment_loss(segment, &loss, ns);
	if (unsent.count)
		ky_segment_loss(segment, &unsent, ns);
}

void ky_segment_open_polls(struct ky_segment *segment, uint64_t ns, bool is_at_exit)
{
	const struct ky_thread_table *threads = &segment->common->threads;

	for (uint32_t i = 0; i < threads->count; i++) {
		/* Room only: this must not begin another chunk, which would report them again. */
		if (segment->chunk->out.used > KY_CHUNK_BYTES_SOFT)
			return;
		ky_convert_open_polls(segment->convert, threads->list[i], ns, is_at_exit);
	}
}

/* ---- the start of a segment ---- */

static void room(struct ky_segment *segment, uint64_t ns)
{
	ky_segment_room(segment, ns, 0, 0);
}

static void write_threads(struct ky_segment *segment, uint64_t ns)
{
	const struct ky_thread_table *threads = &segment->common->threads;

	for (uint32_t i = 0; i < threads->count; i++) {
		if (threads->list[i]->is_done)
			continue;
		room(segment, ns);
		ky_convert_thread(segment->convert, threads->list[i], ns);
	}
}

static void write_runtime(struct ky_segment *segment, uint32_t index, uint64_t ns)
{
	if (!ky_convert_is_runtime(segment->convert, index))
		return;
	room(segment, ns);
	ky_convert_runtime(segment->convert, index, ns);
}

static void write_workers(struct ky_segment *segment, uint64_t ns)
{
	const struct ky_worker_table *workers = segment->workers;

	for (uint32_t i = 0; i < workers->count; i++) {
		if (!workers->list[i].has_begun || workers->list[i].is_ended)
			continue;
		room(segment, ns);
		ky_convert_worker(segment->convert, i, ns);
	}
}

static void write_module(struct ky_segment *segment, struct ky_name_module *module, uint64_t ns)
{
	room(segment, ns);
	ky_convert_module(segment->convert, module, ns);
}

static void write_live_tasks(struct ky_segment *segment, uint64_t ns)
{
	const struct ky_task_table *tasks = ky_convert_tasks(segment->convert);
	uint32_t listed = tasks->count < LIVE_TASKS_MAX ? tasks->count : LIVE_TASKS_MAX;

	room(segment, ns);
	ky_convert_live_tasks(segment->convert, listed, ns);
	for (uint32_t i = 0; i < tasks->capacity && listed; i++) {
		if (!tasks->entries[i].key)
			continue;
		listed--;
		room(segment, ns);
		ky_convert_live_task(segment->convert, &tasks->entries[i], ns);
	}
}

void ky_segment_policy(struct ky_segment *segment, const struct ky_retain_policy *before,
		       uint64_t ns)
{
	struct ky_list_at at = {0};

	while (ky_retain_next_rule(segment->convert, before, &at)) {
		room(segment, ns);
		ky_retain_write_rule(segment->convert, &at, ns);
	}
}

static void write_start(struct ky_segment *segment, uint64_t ns)
{
	struct ky_drain_common *common = segment->common;

	ky_segment_metadata(segment, ns, false);
	write_threads(segment, ns);
	for (uint32_t i = 0; i < common->runtimes.count; i++) {
		if (!common->runtimes.list[i].is_ended)
			write_runtime(segment, i, ns);
	}
	write_workers(segment, ns);
	for (uint32_t i = 0; i < common->modules.count; i++)
		write_module(segment, &common->modules.list[i], ns);
	ky_segment_policy(segment, NULL, ns);
	write_live_tasks(segment, ns);
}

void ky_segment_announce(struct ky_segment *segment, uint64_t ns)
{
	struct ky_drain_common *common = segment->common;

	for (uint32_t i = 0; segment->is_open && i < common->modules.count; i++) {
		if (!common->modules.list[i].is_announced)
			write_module(segment, &common->modules.list[i], ns);
	}
	for (uint32_t i = 0; segment->is_open && i < common->runtimes.count; i++) {
		const struct ky_runtime *runtime = &common->runtimes.list[i];

		if (!runtime->is_announced && runtime->is_described && !runtime->is_ended)
			write_runtime(segment, i, ns);
	}
}

/* ---- the next chunk ---- */

/* A late event may lie a little before the chunk's first one. */
static bool fits_backwards(const struct ky_segment *segment, uint64_t ns)
{
	const struct ky_open_chunk *chunk = segment->chunk;

	return chunk->is_open && ns < chunk->first_ns &&
	       chunk->last_ns - ns < KY_CHUNK_SPAN_MAX_NS &&
	       segment->chunk->enc.event_count < KY_CHUNK_EVENTS_MAX - KY_RECORD_EVENTS_MAX &&
	       segment->chunk->out.used <= KY_CHUNK_BYTES_SOFT - KY_RECORD_BYTES_MAX;
}

void ky_segment_turn(struct ky_segment *segment, uint64_t ns)
{
	struct ky_open_chunk *chunk = segment->chunk;

	if (fits_backwards(segment, ns)) {
		chunk->first_ns = ns;
		return;
	}
	chunk->is_muted = false;
	ky_segment_flush(segment);
	ky_segment_begin_chunk(segment, ns);
	if (!segment->is_open) {
		segment->is_open = true;
		chunk->segment_ns = ns;
		if (!segment->common->is_cut)
			segment->cut.cover_from = segment->cut.cover_whole_from =
				chunk->last_ticks > segment->common->from_ticks ?
					chunk->last_ticks :
					segment->common->from_ticks;
		chunk->is_segment_start = true;
		segment->offset = 0;
		segment->index_chunks = 0;
		ky_buf_clear(&segment->index);
		write_start(segment, ns);
	}
	ky_segment_open_polls(segment, ns, false);
	ky_segment_report_refused(segment, ns);
}

void ky_segment_room(struct ky_segment *segment, uint64_t ns, uint32_t events, uint32_t bytes)
{
	if (!ky_chunk_takes(segment->chunk, ns, events, bytes))
		ky_segment_turn(segment, ns);
}

void ky_segment_loss(struct ky_segment *segment, const struct ky_loss *loss, uint64_t ns)
{
	room(segment, ns);
	ky_chunk_loss(segment->chunk, loss, ns);
}

/* ---- the stage ---- */

int ky_segment_open(struct ky_segment **out, struct ky_drain_common *common,
		    struct ky_convert *convert, const struct ky_drain_options *options)
{
	struct ky_segment *segment = ky_alloc(sizeof(*segment));

	*out = segment;
	if (!segment)
		return -ENOMEM;
	segment->common = common;
	segment->convert = convert;
	segment->chunk = ky_convert_chunk(convert);
	segment->workers = ky_convert_workers(convert);
	segment->sink = options->chunk;
	segment->sink_ctx = options->chunk_ctx;
	ky_buf_init(&segment->index, INDEX_BYTES_MAX);
	if (options->hostname)
		strncpy(segment->hostname, options->hostname, sizeof(segment->hostname) - 1);
	else if (gethostname(segment->hostname, sizeof(segment->hostname) - 1) != 0)
		segment->hostname[0] = 0;
	return 0;
}

void ky_segment_close(struct ky_segment *segment)
{
	if (!segment)
		return;
	ky_buf_release(&segment->index);
	ky_free(segment);
}

bool ky_segment_is_open(const struct ky_segment *segment)
{
	return segment->is_open;
}

void ky_segment_first_step(struct ky_segment *segment)
{
	if (!segment->first_now_ns)
		segment->first_now_ns = segment->common->now_ns;
}

struct ky_segment_cut *ky_segment_cut(struct ky_segment *segment)
{
	return &segment->cut;
}
