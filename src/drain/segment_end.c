/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Lists of which each event may need another chunk, and what ends a segment: report, metadata,
 * index. */
#include <drain/segment_stage.h>

#include <wire/segment_index.h>

static void room(struct ky_segment *segment, uint64_t ns)
{
	ky_segment_room(segment, ns, 0, 0);
}

/* ---- losses ---- */

void ky_segment_header_drops(struct ky_segment *segment, uint64_t ns)
{
	struct ky_loss loss;

	for (uint32_t cause = 1; cause <= 4; cause++) {
		if (ky_convert_header_drops(segment->convert, cause, &loss, ns))
			ky_segment_loss(segment, &loss, ns);
	}
	ky_convert_drops_reported(segment->convert, ns);
}

void ky_segment_truncated(struct ky_segment *segment, uint64_t ns)
{
	struct ky_drain_common *common = segment->common;
	struct ky_loss loss = {
		.cause = KY_LOSS_CORRUPT, .from_ns = segment->chunk->segment_ns, .to_ns = ns};

	loss.count = ky_ring_view_truncated(&common->ring) + (uint64_t)segment->cut.truncated_count;
	if (!loss.count)
		return;
	common->stats.records_lost += loss.count;
	ky_segment_loss(segment, &loss, ns);
}

/* ---- what was counted ---- */

static void write_late_wakes(struct ky_segment *segment, uint64_t ns)
{
	struct ky_list_at at = {0};

	while (ky_retain_next_wake(segment->convert, &at, ns)) {
		room(segment, ns);
		ky_retain_wake(segment->convert, &at, ns);
	}
}

static void write_counts(struct ky_segment *segment, uint64_t ns)
{
	struct ky_list_at count = {0}, worker = {0};
	uint32_t bytes;

	while (ky_retain_next_count(segment->convert, &count, &bytes)) {
		ky_segment_room(segment, ns, 1, bytes);
		ky_retain_count(segment->convert, &count, ns);
	}
	while (ky_retain_next_worker(segment->convert, &worker)) {
		room(segment, ns);
		ky_retain_worker(segment->convert, &worker, ns);
	}
}

void ky_segment_counts(struct ky_segment *segment, uint64_t ns, bool is_end)
{
	if (is_end)
		write_late_wakes(segment, ns);
	if (is_end && ky_retain_holds_spans(segment->convert) && !segment->common->is_cut)
		ky_segment_open_spans(segment, ns, true);
	if (ky_retain_has_counts(segment->convert))
		write_counts(segment, ns);
	ky_retain_is_reported(segment->convert, ns);
}

/* ---- what the ring's tables hold ---- */

void ky_segment_counters(struct ky_segment *segment, uint64_t ns)
{
	const struct ky_ring_side *area = segment->common->ring.side;
	struct ky_counter_news *news = ky_convert_counters(segment->convert);
	uint32_t count = area ? ky_counter_count(area) : 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t value = ky_counter_value(area, i);

		if (!ky_counter_is_news(news, i, value))
			continue;
		room(segment, ns);
		ky_convert_counter(segment->convert, i, value, ns);
	}
}

void ky_segment_open_spans(struct ky_segment *segment, uint64_t ns, bool is_at_exit)
{
	struct ky_list_at at = {0};
	struct ky_open_span span;

	while (ky_convert_next_open_span(segment->convert, &at, &span)) {
		room(segment, ns);
		ky_convert_open_span(segment->convert, &span, ns, is_at_exit);
	}
}

void ky_segment_places(struct ky_segment *segment, uint64_t ns)
{
	struct ky_list_at at = {0};
	struct ky_place_seen seen;

	while (ky_convert_next_place(segment->convert, &at, &seen, ns)) {
		room(segment, ns);
		ky_convert_place(segment->convert, &at, &seen, ns);
	}
}

void ky_segment_allocs(struct ky_segment *segment, uint64_t ns)
{
	struct ky_list_at at = {0};
	struct ky_alloc_seen seen;

	while (ky_convert_next_alloc(segment->convert, &at, &seen, ns)) {
		room(segment, ns);
		ky_convert_alloc(segment->convert, &at, &seen, ns);
	}
}

/* ---- the end ---- */

static void write_report(struct ky_segment *segment, uint64_t ns,
			 const struct ky_segment_report *report)
{
	const struct ky_ring_header *header = segment->common->ring.header;
	struct ky_trc_enc *enc = &segment->chunk->enc;

	ky_segment_room(segment, ns, 0, 0);
	ky_trc_enc_event(enc, KY_EV_RECORDER_REPORT, ns);
	ky_trc_enc_varint(enc, segment->common->stats.events_written + enc->event_count);
	ky_trc_enc_varint(enc, segment->common->stats.records_read);
	ky_trc_enc_varint(enc, segment->common->stats.records_lost);
	ky_trc_enc_varint(enc, segment->common->stats.records_late);
	ky_trc_enc_varint(enc, report->cpu_ns);
	ky_trc_enc_varint(enc, segment->cut.ring_slots ?
				       segment->cut.ring_slots :
				       ky_ring_view_usable(&segment->common->ring));
	ky_trc_enc_varint(enc, report->open_slots);
	ky_trc_enc_varint(enc, segment->common->directory_at);
	ky_trc_enc_varint(enc, atomic_load_explicit(&header->directory_overflow_count,
						    memory_order_relaxed));
	ky_trc_enc_varint(enc,
			  atomic_load_explicit(&header->fork_disarmed_count, memory_order_relaxed));
}

static void write_index(struct ky_segment *segment, uint64_t ns)
{
	struct ky_index_head head = {KY_INDEX_VERSION, segment->index_chunks};
	struct ky_index_tail tail = {0, KY_INDEX_MAGIC};
	struct ky_buf whole;

	ky_buf_init(&whole, 0);
	tail.index_bytes = (uint32_t)(sizeof(head) + segment->index.used + sizeof(tail));
	ky_buf_append(&whole, &head, sizeof(head));
	ky_buf_append(&whole, segment->index.bytes, segment->index.used);
	ky_buf_append(&whole, &tail, sizeof(tail));
	/* Without memory for it the segment has no index, which readers must accept anyway. */
	if (!whole.failed && !segment->index.failed) {
		ky_trc_enc_event(&segment->chunk->enc, KY_EV_SEGMENT_INDEX, ns);
		ky_trc_enc_bytes(&segment->chunk->enc, whole.bytes, whole.used);
	}
	ky_buf_release(&whole);
}

/* Not where a record stands that had nothing to report: a reader of the chunk on disk knows its
 * events, and nothing else of it. */
static void end_chunk(struct ky_segment *segment)
{
	if (!segment->chunk->out.failed)
		segment->chunk->last_ns = ky_trc_enc_last_ns(&segment->chunk->enc);
	ky_segment_write_out(segment, true);
}

void ky_segment_seal(struct ky_segment *segment, uint64_t ns,
		     const struct ky_segment_report *report)
{
	const struct ky_drain_common *common = segment->common;

	if (!segment->is_open && !ky_retain_has_counts(segment->convert))
		return;
	if (!common->is_cut) /* all that were ever dropped, not those of this range */
		ky_segment_header_drops(segment, ns);
	ky_segment_counts(segment, ns, common->is_final);
	ky_segment_flush(segment);
	if (!segment->is_open)
		return; /* refused: there is nothing to seal */
	ky_segment_begin_chunk(segment, ns);
	if (!common->is_cut)
		segment->cut.cover_to = segment->chunk->last_ticks;
	ky_segment_report_refused(segment, ns);
	if (common->is_final)
		ky_segment_open_polls(segment, ns, !common->is_cut || common->is_dead);
	write_report(segment, ns, report);
	ky_segment_metadata(segment, ns, true);
	write_index(segment, ns);
	end_chunk(segment);
	segment->is_open = false;
	ky_convert_counters(segment->convert)->reported =
		0; /* the next segment needs their values */
}

void ky_segment_last_word(struct ky_segment *segment, uint64_t ns,
			  const struct ky_segment_report *report)
{
	if (segment->is_open || !segment->refused_records)
		return;
	ky_segment_begin_chunk(segment, ns);
	segment->chunk->is_segment_start = true;
	ky_segment_report_refused(segment, ns);
	write_report(segment, ns, report);
	ky_segment_metadata(segment, ns, true);
	end_chunk(segment);
}
