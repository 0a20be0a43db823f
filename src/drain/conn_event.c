/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Requests on connections, which are spans with facts of their own. */
#include <drain/convert_stage.h>

#include <kymo/conn.h>
#include <kymo/emit.h>

#define BYTES_MASK ((1u << KYMO_CONN_BYTES_BITS) - 1)

static uint64_t bytes_of(uint64_t word)
{
	uint64_t bytes = word & BYTES_MASK;

	return bytes & KYMO_CONN_BYTES_COARSE ?
		       (bytes & ~(uint64_t)KYMO_CONN_BYTES_COARSE) << KYMO_CONN_BYTES_SHIFT :
		       bytes;
}

static void begin_request(struct ky_convert *convert, const struct ky_dthread *thread,
			  const struct ky_rec *rec, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint64_t since_ticks = rec[1].a;
	uint32_t pool;

	if (convert->retain.is_on &&
	    !ky_retain_writes_span_begin(convert, rec->a >> KYMO_NAME_BITS, 0))
		return;
	pool = ky_convert_span_event(convert, thread, KY_EV_CONN_ENTER, rec->a, ns);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, ky_worker_id(thread->worker));
	ky_trc_enc_varint(enc, rec[1].ticks >> 32);
	ky_trc_enc_varint(enc, rec[1].ticks & UINT32_MAX);
	ky_trc_enc_opt_varint(enc, rec->arg != 0, rec->arg);
	ky_trc_enc_opt_varint(enc, since_ticks != 0, ky_convert_began_ns(convert, since_ticks, ns));
}

static void end_request(struct ky_convert *convert, const struct ky_dthread *thread,
			const struct ky_rec *rec, uint64_t ns)
{
	uint64_t begin_ns = ky_convert_began_ns(convert, rec[1].ticks, ns), parent;
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint32_t pool;

	ky_convert_span_longest(convert, rec->a, ns - begin_ns);
	if (convert->retain.is_on &&
	    !ky_retain_writes_span(convert, rec->a, rec[1].ticks, ns - begin_ns, ns, &parent))
		return;
	pool = ky_convert_span_event(convert, thread, KY_EV_CONN_EXIT, rec->a, ns);
	ky_trc_enc_u32(enc, pool);
	ky_trc_enc_varint(enc, begin_ns);
	ky_trc_enc_varint(enc, rec[1].a & 0xffffu);
	ky_trc_enc_opt_varint(enc, rec->arg != 0, rec->arg);
	ky_trc_enc_varint(enc, bytes_of(rec[1].a >> (16 + KYMO_CONN_BYTES_BITS)));
	ky_trc_enc_varint(enc, bytes_of(rec[1].a >> 16));
}

static void wait_for_more(struct ky_convert *convert, const struct ky_rec *rec, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;

	ky_trc_enc_event(enc, KY_EV_CONN_WAIT, ns);
	ky_trc_enc_varint(enc, rec->a >> KYMO_NAME_BITS);
	ky_trc_enc_varint(enc, ky_convert_began_ns(convert, rec[1].ticks, ns));
}

void ky_convert_conn(struct ky_convert *convert, const struct ky_dthread *thread,
		     const struct ky_rec *rec, uint64_t ns)
{
	switch (rec->type) {
	case KYMO_RECORD_CONN_BEGIN:
		begin_request(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_CONN_END:
		end_request(convert, thread, rec, ns);
		break;
	case KYMO_RECORD_CONN_WAIT:
		wait_for_more(convert, rec, ns);
		break;
	default:
		ky_trc_enc_event(&convert->chunk.enc, KY_EV_CONN_UNSEEN, ns);
		ky_trc_enc_varint(&convert->chunk.enc, rec->a);
		break;
	}
}
