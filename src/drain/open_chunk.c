/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/open_chunk.h>

#include <kymo/base.h>
#include <string.h>

#define OUT_BYTES_MAX ((size_t)64 << 20)

static const char *const loss_names[KY_LOSS_COUNT] = {
	[KY_LOSS_NONE] = "corrupt",
	[KY_LOSS_SIGNAL] = "signal",
	[KY_LOSS_NO_SLOT] = "no-slot",
	[KY_LOSS_NO_STATE] = "no-state",
	[KY_LOSS_EXITED] = "exited",
	[KY_LOSS_OVERWRITTEN] = "overwritten",
	[KY_LOSS_CORRUPT] = "corrupt",
	[KY_LOSS_WRITE_ERROR] = "write-error",
	[KY_LOSS_UNSUPPORTED] = "unsupported",
	[KY_LOSS_HORIZON] = "horizon",
	[KY_LOSS_FLIGHT] = "flight",
	[KY_LOSS_SAMPLES + KY_SAMPLES_CPU] = "cpu-samples",
	[KY_LOSS_SAMPLES + KY_SAMPLES_OFF_CPU] = "off-cpu-samples",
	[KY_LOSS_SAMPLES + KY_SAMPLES_MEMORY] = "memory-samples",
	[KY_LOSS_SAMPLES + KY_SAMPLES_PLACE] = "place-samples",
	[KY_LOSS_UNSENT] = "unsent-segments",
};

int ky_chunk_init(struct ky_open_chunk *chunk, struct ky_timeline *timeline)
{
	int err;

	chunk->timeline = timeline;
	ky_buf_init(&chunk->out, OUT_BYTES_MAX);
	err = ky_buf_reserve(&chunk->out, KY_CHUNK_BYTES_MAX);
	return err ? err : ky_trc_enc_init(&chunk->enc, &chunk->out);
}

void ky_chunk_release(struct ky_open_chunk *chunk)
{
	ky_trc_enc_release(&chunk->enc);
	ky_buf_release(&chunk->out);
}

/* The buffer refuses everything, and the chunk that is not open asks for no other one. */
void ky_chunk_mute(struct ky_open_chunk *chunk, uint64_t from_ns)
{
	chunk->is_muted = true;
	chunk->out.failed = KYMO_E_AGAIN;
	chunk->first_ns = 0;
	chunk->span_ns = from_ns;
}

void ky_chunk_begin(struct ky_open_chunk *chunk, uint64_t ns)
{
	ky_buf_clear(&chunk->out);
	ky_trc_enc_begin(&chunk->enc);
	chunk->is_open = true;
	chunk->span_ns = KY_CHUNK_SPAN_MAX_NS;
	chunk->is_segment_start = false;
	chunk->serial++;
	chunk->first_ns = ns;
	chunk->last_ns = ns;
	chunk->records_from = chunk->records_reported;
	chunk->lost_count = 0;
	chunk->reported_count = chunk->reported_from_ns = 0;
	chunk->loss_count = 0;
	ky_trc_enc_event(&chunk->enc, KY_EV_CLOCK_SYNC, ns);
	ky_trc_enc_varint(&chunk->enc, ky_timeline_realtime_ns(chunk->timeline, ns));
	if (chunk->record_ticks)
		ky_chunk_write_clock(chunk, chunk->record_ticks, ns);
}

uint32_t ky_chunk_text(struct ky_open_chunk *chunk, const char *text)
{
	return ky_trc_enc_string(&chunk->enc, 0, text ? text : "", text ? strlen(text) : 0);
}

void ky_chunk_loss(struct ky_open_chunk *chunk, const struct ky_loss *loss, uint64_t ns)
{
	struct ky_trc_enc *enc = &chunk->enc;
	uint32_t cause = loss->cause < KY_LOSS_COUNT ? loss->cause : 0;
	uint32_t pool = ky_chunk_text(chunk, loss_names[cause]);

	ky_trc_enc_event(enc, KY_EV_LOSS, ns);
	ky_trc_enc_u32(enc, loss->tid);
	ky_trc_enc_varint(enc, loss->count);
	ky_trc_enc_u8(enc, loss->is_exact);
	ky_trc_enc_varint(enc, loss->from_ns);
	ky_trc_enc_varint(enc, loss->to_ns);
	ky_trc_enc_u32(enc, pool);
	chunk->lost_count += loss->count;
	chunk->loss_count++;
	if (loss->cause >= KY_LOSS_SAMPLES || !loss->count)
		return;
	chunk->reported_count += loss->count;
	if (!chunk->reported_from_ns || loss->from_ns < chunk->reported_from_ns)
		chunk->reported_from_ns = loss->from_ns;
}

void ky_chunk_write_clock(struct ky_open_chunk *chunk, uint64_t ticks, uint64_t ns)
{
	struct ky_trc_enc *enc = &chunk->enc;
	struct ky_timeline_piece piece;

	if (chunk->is_muted || !ky_timeline_piece(chunk->timeline, ticks, &piece))
		return;
	chunk->clock_ticks = piece.ticks;
	chunk->clock_span = piece.span;
	chunk->clock_serial = chunk->serial;
	ky_trc_enc_event(enc, KY_EV_COUNTER_CLOCK, ns);
	ky_trc_enc_varint(enc, piece.ticks);
	ky_trc_enc_varint(enc, piece.ns);
	ky_trc_enc_varint(enc, piece.q48);
}
