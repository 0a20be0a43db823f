/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Calls that fail again and again, as events. */
#include <drain/convert_stage.h>

#include <kymo/emit.h>

void ky_convert_failed_calls(struct ky_convert *convert, const struct ky_dthread *thread,
			     const struct ky_rec *rec, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint64_t fd = rec->a >> 32 & KYMO_FAILED_FD_MAX;

	ky_trc_enc_event(enc, KY_EV_FAILED_CALLS, ns);
	ky_trc_enc_u32(enc, thread->tid);
	ky_trc_enc_varint(enc, ky_worker_id(thread->worker));
	ky_trc_enc_varint(enc, thread->depth ? thread->stack[thread->depth - 1].task : 0);
	ky_trc_enc_varint(enc, rec->a >> 52);
	ky_trc_enc_varint(enc, rec->arg);
	ky_trc_enc_opt_varint(enc, fd != 0, fd - 1);
	ky_trc_enc_varint(enc, rec->a & UINT32_MAX);
}
