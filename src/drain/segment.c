/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Events into chunks, chunks into segments, one index row per chunk. */
#include <drain/drain_state.h>

#include <kymo/base.h>
#include <string.h>
#include <time.h>
#include <wire/segment_index.h>

/* ---- what the index says about workers ---- */

void ky_drain_touch_worker(struct ky_drain *drain, uint32_t index)
{
	struct ky_worker *worker = &drain->workers[index];

	if (worker->chunk_serial == drain->chunk.serial)
		return;
	worker->chunk_serial = drain->chunk.serial;
	worker->busy_ns = 0;
	worker->longest_start_ns = worker->longest_ns = worker->longest_task = 0;
	worker->poll_count = 0;
	drain->chunk.touched[drain->chunk.touched_count++] = index;
}

static void book_open_polls(struct ky_drain *drain)
{
	const struct ky_chunk_state *chunk = &drain->chunk;

	for (uint32_t i = 0; i < drain->thread_count; i++) {
		const struct ky_dthread *thread = drain->threads[i];
		uint32_t worker;
		uint64_t from;

		if (!thread->depth || !ky_poll_is_outer(&thread->stack[0]))
			continue;
		worker = thread->stack[0].worker;
		from = thread->stack[0].start_ns > chunk->first_ns ? thread->stack[0].start_ns :
								     chunk->first_ns;
		if (chunk->last_ns <= from)
			continue;
		ky_drain_touch_worker(drain, worker);
		drain->workers[worker].busy_ns += chunk->last_ns - from;
	}
}

static void add_index_row(struct ky_drain *drain)
{
	const struct ky_chunk_state *chunk = &drain->chunk;
	struct ky_index_chunk row = {
		.raw_offset = drain->segment_offset,
		.first_ns = chunk->first_ns,
		.last_ns = chunk->last_ns,
		.lost_count = chunk->lost_count,
		.raw_bytes = (uint32_t)drain->out.used,
		.event_count = (uint32_t)drain->enc.event_count,
		.loss_count = chunk->loss_count,
		.worker_count = chunk->touched_count,
	};

	ky_buf_append(&drain->index, &row, sizeof(row));
	for (uint32_t i = 0; i < chunk->touched_count; i++) {
		const struct ky_worker *worker = &drain->workers[chunk->touched[i]];
		struct ky_index_worker about = {
			.busy_ns = worker->busy_ns,
			.longest_start_ns = worker->longest_start_ns,
			.longest_ns = worker->longest_ns,
			.longest_task = worker->longest_task,
			.worker_id = ky_worker_id(chunk->touched[i]),
			.poll_count = worker->poll_count,
		};

		ky_buf_append(&drain->index, &about, sizeof(about));
	}
	drain->index_chunks++;
}

/* ---- chunks ---- */

void ky_drain_refused(struct ky_drain *drain, const struct ky_chunk_loss *loss)
{
	uint64_t events = loss->event_count;

	drain->stats.chunks_refused += loss->chunk_count;
	drain->stats.records_lost += loss->record_count;
	drain->stats.events_written -= events < drain->stats.events_written ?
					       events :
					       drain->stats.events_written;
	if (!drain->refused_records || loss->first_ns < drain->refused_first_ns)
		drain->refused_first_ns = loss->first_ns;
	if (!drain->refused_records || loss->last_ns > drain->refused_last_ns)
		drain->refused_last_ns = loss->last_ns;
	drain->refused_records += loss->record_count + loss->told_count;
}

static void lose_chunk(struct ky_drain *drain, const struct ky_chunk *chunk)
{
	struct ky_chunk_loss loss = {.chunk_count = 0};

	ky_chunk_lose(&loss, chunk);
	loss.event_count = 0; /* they have not been counted as written */
	ky_drain_refused(drain, &loss);
	/* The segment ends where it got to; what follows must stand on its own. */
	drain->is_segment_open = false;
	drain->side.counters_told = 0;
}

/* Not where a record stands that had nothing to tell: who finds the chunk on disk knows its events,
 * and nothing else of it. */
static void end_with_last_event(struct ky_drain *drain)
{
	if (!drain->out.failed)
		drain->chunk.last_ns = ky_trc_enc_last_ns(&drain->enc);
}

static void hand_out(struct ky_drain *drain, bool is_end)
{
	struct ky_chunk_state *chunk = &drain->chunk;
	struct ky_chunk about = {
		.bytes = drain->out.bytes,
		.byte_count = drain->out.used,
		.event_count = drain->enc.event_count,
		.record_count = drain->records_told - chunk->records_from,
		.told_loss_count = chunk->told_count,
		.told_loss_from_ns = chunk->told_from_ns,
		.first_ns = chunk->first_ns,
		.last_ns = chunk->last_ns,
		.last_ticks = drain->told_ticks,
		.last_ties = drain->told_ties,
		.is_segment_start = chunk->is_segment_start,
		.is_segment_end = is_end,
	};
	int err = drain->out.failed;

	chunk->is_open = false;
	chunk->span_ns = 0;
	if (!err && drain->options.chunk)
		err = drain->options.chunk(drain->options.chunk_ctx, &about);
	if (err) {
		drain->stats.last_sink_error = err;
		lose_chunk(drain, &about);
		return;
	}
	if (!is_end)
		add_index_row(drain);
	drain->segment_offset += about.byte_count;
	drain->stats.chunks_written++;
	drain->stats.events_written += about.event_count;
}

void ky_drain_flush(struct ky_drain *drain)
{
	if (!drain->chunk.is_open)
		return;
	end_with_last_event(drain);
	book_open_polls(drain);
	hand_out(drain, false);
}

void ky_drain_write_clock(struct ky_drain *drain, uint64_t ticks, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	struct ky_timeline_piece piece;

	if (drain->is_muted || !ky_timeline_piece(&drain->timeline, ticks, &piece))
		return;
	drain->clock_ticks = piece.ticks;
	drain->clock_span = piece.span;
	drain->clock_serial = drain->chunk.serial;
	ky_trc_enc_event(enc, KY_EV_COUNTER_CLOCK, ns);
	ky_trc_enc_varint(enc, piece.ticks);
	ky_trc_enc_varint(enc, piece.ns);
	ky_trc_enc_varint(enc, piece.q48);
}

static void begin_chunk(struct ky_drain *drain, uint64_t ns)
{
	struct ky_chunk_state *chunk = &drain->chunk;

	ky_buf_clear(&drain->out);
	ky_trc_enc_begin(&drain->enc);
	chunk->is_open = true;
	chunk->span_ns = KY_CHUNK_SPAN_MAX_NS;
	chunk->is_segment_start = false;
	chunk->serial++;
	chunk->first_ns = ns;
	chunk->last_ns = ns;
	chunk->records_from = drain->records_told;
	chunk->lost_count = 0;
	chunk->told_count = chunk->told_from_ns = 0;
	chunk->loss_count = 0;
	chunk->touched_count = 0;
	ky_trc_enc_event(&drain->enc, KY_EV_CLOCK_SYNC, ns);
	ky_trc_enc_varint(&drain->enc, ky_timeline_realtime_ns(&drain->timeline, ns));
	if (drain->record_ticks)
		ky_drain_write_clock(drain, drain->record_ticks, ns);
}

static void tell_refused(struct ky_drain *drain, uint64_t ns)
{
	uint64_t count = drain->refused_records;

	if (!count)
		return;
	drain->refused_records = 0;
	ky_drain_loss(drain, 0, count, true, drain->refused_first_ns, drain->refused_last_ns,
		      KY_LOSS_WRITE_ERROR, ns);
}

/* A late event may lie a little before the chunk's first one. */
static bool fits_backwards(const struct ky_drain *drain, uint64_t ns)
{
	const struct ky_chunk_state *chunk = &drain->chunk;

	return chunk->is_open && ns < chunk->first_ns &&
	       chunk->last_ns - ns < KY_CHUNK_SPAN_MAX_NS &&
	       drain->enc.event_count < KY_CHUNK_EVENTS_MAX - KY_RECORD_EVENTS_MAX &&
	       drain->out.used <= KY_CHUNK_BYTES_SOFT - KY_RECORD_BYTES_MAX;
}

void ky_drain_turn(struct ky_drain *drain, uint64_t ns)
{
	if (fits_backwards(drain, ns)) {
		drain->chunk.first_ns = ns;
		return;
	}
	drain->is_muted = false;
	ky_drain_flush(drain);
	begin_chunk(drain, ns);
	if (!drain->is_segment_open) {
		drain->is_segment_open = true;
		drain->start_ns = ns;
		if (!drain->is_cut)
			drain->cover_from = drain->cover_whole_from = drain->told_ticks;
		drain->chunk.is_segment_start = true;
		drain->segment_offset = 0;
		drain->index_chunks = 0;
		ky_buf_clear(&drain->index);
		ky_drain_write_start(drain, ns);
	}
	ky_drain_write_open_polls(drain, ns, false);
	tell_refused(drain, ns);
}

/* ---- the end ---- */

static void write_report(struct ky_drain *drain, uint64_t ns)
{
	const struct ky_ring_header *header = drain->ring.header;
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t open = 0;

	for (uint32_t i = 0; i < drain->listed_count; i++) {
		const struct ky_slot_cursor *cursor = &drain->cursors[drain->listed[i]];

		open += cursor->thread && !cursor->is_complete && !cursor->is_parked;
	}
	ky_drain_ready(drain, ns);
	ky_trc_enc_event(enc, KY_EV_RECORDER_REPORT, ns);
	ky_trc_enc_varint(enc, drain->stats.events_written + enc->event_count);
	ky_trc_enc_varint(enc, drain->stats.records_read);
	ky_trc_enc_varint(enc, drain->stats.records_lost);
	ky_trc_enc_varint(enc, drain->stats.records_late);
	ky_trc_enc_varint(enc, drain->cpu_ns);
	ky_trc_enc_varint(enc, drain->ring_slots ? drain->ring_slots :
						   ky_ring_view_usable(&drain->ring));
	ky_trc_enc_varint(enc, open);
	ky_trc_enc_varint(enc, drain->directory_at);
	ky_trc_enc_varint(enc, atomic_load_explicit(&header->directory_overflow_count,
						    memory_order_relaxed));
	ky_trc_enc_varint(enc,
			  atomic_load_explicit(&header->fork_disarmed_count, memory_order_relaxed));
}

static void write_index(struct ky_drain *drain, uint64_t ns)
{
	struct ky_index_head head = {KY_INDEX_VERSION, drain->index_chunks};
	struct ky_index_tail tail = {0, KY_INDEX_MAGIC};
	struct ky_buf whole;

	ky_buf_init(&whole, 0);
	tail.index_bytes = (uint32_t)(sizeof(head) + drain->index.used + sizeof(tail));
	ky_buf_append(&whole, &head, sizeof(head));
	ky_buf_append(&whole, drain->index.bytes, drain->index.used);
	ky_buf_append(&whole, &tail, sizeof(tail));
	/* Without memory for it the segment has no index, which readers must bear anyway. */
	if (!whole.failed && !drain->index.failed) {
		ky_trc_enc_event(&drain->enc, KY_EV_SEGMENT_INDEX, ns);
		ky_trc_enc_bytes(&drain->enc, whole.bytes, whole.used);
	}
	ky_buf_release(&whole);
}

int ky_drain_seal(struct ky_drain *drain)
{
	uint64_t ns = drain->end_ns > drain->merged_ns ? drain->end_ns : drain->merged_ns;

	if (!drain->is_segment_open && !drain->retain.has_counts)
		return 0;
	if (!drain->is_cut) /* all that were ever dropped, not those of this range */
		ky_drain_header_drops(drain, ns);
	ky_retain_tell(drain, ns, drain->is_final);
	ky_drain_flush(drain);
	if (!drain->is_segment_open)
		return 0; /* refused: there is nothing to seal */
	begin_chunk(drain, ns);
	if (!drain->is_cut)
		drain->cover_to = drain->told_ticks;
	tell_refused(drain, ns);
	if (drain->is_final)
		ky_drain_write_open_polls(drain, ns, !drain->is_cut || drain->is_dead);
	write_report(drain, ns);
	ky_drain_write_metadata(drain, ns, true);
	write_index(drain, ns);
	end_with_last_event(drain);
	hand_out(drain, true);
	drain->is_segment_open = false;
	drain->side.counters_told = 0; /* the next segment needs their values, too */
	return 0;
}

void ky_drain_last_word(struct ky_drain *drain)
{
	uint64_t ns = drain->merged_ns;

	if (drain->is_segment_open || !drain->refused_records)
		return;
	begin_chunk(drain, ns);
	drain->chunk.is_segment_start = true;
	tell_refused(drain, ns);
	write_report(drain, ns);
	ky_drain_write_metadata(drain, ns, true);
	end_with_last_event(drain);
	hand_out(drain, true);
}
