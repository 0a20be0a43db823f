/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Spans: their begins and ends from the ring, and those that are open from its side area. */
#include <drain/drain_state.h>

#include <kymo/emit.h>

#define NAME_MASK 0xffffffu

/* Sane for whatever a hostile ring says: not after `ns`. */
static uint64_t began_ns(struct ky_drain *drain, uint64_t begin_ticks, uint64_t ns)
{
	uint64_t begin_ns = ky_timeline_ns(&drain->timeline, begin_ticks);

	return begin_ns < ns ? begin_ns : ns;
}

static void put_task(struct ky_drain *drain, const struct ky_dthread *thread)
{
	uint64_t task = thread->depth ? thread->stack[thread->depth - 1].task : 0;

	ky_trc_enc_opt_varint(&drain->enc, thread->depth != 0, task);
}

void ky_drain_span_begin(struct ky_drain *drain, const struct ky_dthread *thread,
			 const struct ky_rec *rec, uint64_t ns)
{
	uint64_t parent = rec[1].ticks;
	uint32_t pool;

	if (drain->retain.is_on &&
	    !ky_retain_writes_span_begin(drain, rec->a >> KYMO_NAME_BITS, parent))
		return;
	ky_drain_ready(drain, ns);
	pool = ky_drain_name_pool(drain, (uint32_t)rec->a & NAME_MASK);
	ky_trc_enc_event(&drain->enc, KY_EV_SPAN_ENTER, ns);
	put_task(drain, thread);
	ky_trc_enc_varint(&drain->enc, rec->a >> KYMO_NAME_BITS);
	ky_trc_enc_opt_varint(&drain->enc, parent != 0, parent);
	ky_trc_enc_u32(&drain->enc, pool);
}

void ky_drain_span_end(struct ky_drain *drain, const struct ky_dthread *thread,
		       const struct ky_rec *rec, uint64_t ns)
{
	uint64_t begin_ns = began_ns(drain, rec[1].ticks, ns), parent = 0;
	uint32_t pool;

	if (ns - begin_ns > drain->sums.span_max_ns) {
		drain->sums.span_max_ns = ns - begin_ns;
		drain->sums.span_max_word = rec->a;
	}
	if (drain->retain.is_on &&
	    !ky_retain_writes_span(drain, rec->a, rec[1].ticks, ns - begin_ns, ns, &parent))
		return;
	ky_drain_ready(drain, ns);
	pool = ky_drain_name_pool(drain, (uint32_t)rec->a & NAME_MASK);
	ky_trc_enc_event(&drain->enc, KY_EV_SPAN_EXIT, ns);
	put_task(drain, thread);
	ky_trc_enc_varint(&drain->enc, rec->a >> KYMO_NAME_BITS);
	ky_trc_enc_u32(&drain->enc, pool);
	ky_trc_enc_varint(&drain->enc, begin_ns);
	ky_trc_enc_opt_varint(&drain->enc, parent != 0, parent);
}

void ky_drain_write_open_spans(struct ky_drain *drain, uint64_t ns, bool is_at_exit)
{
	const struct ky_ring_side *area = drain->ring.side;

	for (uint32_t slot = 1; area && slot < KY_SPANS; slot++) {
		struct ky_open_span span;
		uint32_t pool;

		if (!ky_ring_span(area, slot, &span))
			continue;
		ky_drain_ready(drain, ns);
		pool = ky_drain_name_pool(drain, span.name);
		ky_trc_enc_event(&drain->enc, KY_EV_OPEN_SPAN, ns);
		ky_trc_enc_varint(&drain->enc, span.id);
		ky_trc_enc_u32(&drain->enc, pool);
		ky_trc_enc_varint(&drain->enc, began_ns(drain, span.begin_ticks, ns));
		ky_trc_enc_u8(&drain->enc, is_at_exit);
	}
}
