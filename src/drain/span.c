/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Spans: their begins and ends from the ring, and those that are open from its side area. */
#include <drain/convert_stage.h>

#include <drain/task_ready.h>

#include <kymo/emit.h>

/* Sane for whatever a hostile ring says: not after `ns`. */
uint64_t ky_convert_began_ns(struct ky_convert *convert, uint64_t begin_ticks, uint64_t ns)
{
	uint64_t begin_ns = ky_timeline_ns(&convert->common->timeline, begin_ticks);

	return begin_ns < ns ? begin_ns : ns;
}

uint32_t ky_convert_span_event(struct ky_convert *convert, const struct ky_dthread *thread,
			       enum ky_event_id event, uint64_t word, uint64_t ns)
{
	uint64_t task = thread->depth ? thread->stack[thread->depth - 1].task : 0;
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t pool = ky_name_pool(&convert->common->names, &convert->chunk,
				     (uint32_t)word & KY_NAME_MASK);

	ky_trc_enc_event(enc, event, ns);
	ky_trc_enc_opt_varint(enc, thread->depth != 0, task);
	ky_trc_enc_varint(enc, word >> KYMO_NAME_BITS);
	return pool;
}

void ky_convert_span_longest(struct ky_convert *convert, uint64_t word, uint64_t length_ns)
{
	if (length_ns <= convert->sums.span_max_ns)
		return;
	convert->sums.span_max_ns = length_ns;
	convert->sums.span_max_word = word;
}

void ky_convert_span_begin(struct ky_convert *convert, const struct ky_dthread *thread,
			   const struct ky_rec *rec, uint64_t ns)
{
	uint64_t parent = rec[1].ticks;
	uint32_t pool;

	if (convert->retain.is_on &&
	    !ky_retain_writes_span_begin(convert, rec->a >> KYMO_NAME_BITS, parent))
		return;
	pool = ky_convert_span_event(convert, thread, KY_EV_SPAN_ENTER, rec->a, ns);
	ky_trc_enc_opt_varint(&convert->chunk.enc, parent != 0, parent);
	ky_trc_enc_u32(&convert->chunk.enc, pool);
}

void ky_convert_span_end(struct ky_convert *convert, const struct ky_dthread *thread,
			 const struct ky_rec *rec, uint64_t ns)
{
	uint64_t begin_ns = ky_convert_began_ns(convert, rec[1].ticks, ns), parent = 0;
	uint32_t pool;

	ky_convert_span_longest(convert, rec->a, ns - begin_ns);
	if (convert->retain.is_on &&
	    !ky_retain_writes_span(convert, rec->a, rec[1].ticks, ns - begin_ns, ns, &parent))
		return;
	pool = ky_convert_span_event(convert, thread, KY_EV_SPAN_EXIT, rec->a, ns);
	ky_trc_enc_u32(&convert->chunk.enc, pool);
	ky_trc_enc_varint(&convert->chunk.enc, begin_ns);
	ky_trc_enc_opt_varint(&convert->chunk.enc, parent != 0, parent);
}

void ky_convert_span_run(struct ky_convert *convert, const struct ky_dthread *thread,
			 const struct ky_rec *rec, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	bool is_start = rec->type == KYMO_RECORD_SPAN_IN;

	if (convert->retain.is_on && !ky_retain_writes_span_run(convert))
		return;
	ky_trc_enc_event(enc, is_start ? KY_EV_SPAN_RUN_START : KY_EV_SPAN_RUN_END, ns);
	ky_trc_enc_varint(enc, rec->a >> KYMO_NAME_BITS);
	ky_trc_enc_varint(enc, thread->tid);
	if (is_start)
		ky_trc_enc_varint(enc, thread->depth ? thread->stack[thread->depth - 1].task : 0);
}

void ky_convert_span_follows(struct ky_convert *convert, const struct ky_rec *rec, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;

	ky_trc_enc_event(enc, KY_EV_SPAN_FOLLOWS, ns);
	ky_trc_enc_varint(enc, rec->a >> KYMO_NAME_BITS);
	ky_trc_enc_varint(enc, rec[1].ticks);
}

bool ky_convert_next_open_span(struct ky_convert *convert, struct ky_list_at *at,
			       struct ky_open_span *span)
{
	const struct ky_ring_side *area = convert->common->ring.side;

	for (at->entry++; area && at->entry < KY_SPANS; at->entry++)
		if (ky_ring_span(area, at->entry, span))
			return true;
	return false;
}

void ky_convert_open_span(struct ky_convert *convert, const struct ky_open_span *span, uint64_t ns,
			  bool is_at_exit)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t pool = ky_name_pool(&convert->common->names, &convert->chunk, span->name);

	ky_trc_enc_event(enc, KY_EV_OPEN_SPAN, ns);
	ky_trc_enc_varint(enc, span->id);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, ky_convert_began_ns(convert, span->begin_ticks, ns));
	ky_trc_enc_u8(enc, is_at_exit);
}
