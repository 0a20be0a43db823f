/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which allocations that were told live at the end of a trace: read from the ring's table. So a
 * trace that begins late, or lost samples, knows what is live all the same. */
#include <drain/drain_state.h>

static void write_one(struct ky_drain *drain, const uint8_t *area, const struct ky_alloc_seen *seen,
		      uint64_t since_ns, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	uint64_t frames[KY_ALLOC_FRAMES_MAX];
	uint32_t count = ky_ring_view_alloc_stack(area, (uint32_t)(seen->about & 0xffffu), frames);
	uint32_t stack;

	ky_drain_ready(drain, ns);
	stack = ky_trc_enc_stack(enc, frames, count);
	ky_trc_enc_event(enc, KY_EV_ALLOC, ns);
	ky_trc_enc_u32(enc, (uint32_t)(seen->about >> 32));
	ky_trc_enc_varint(enc, seen->bytes);
	ky_trc_enc_varint(enc, seen->address);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_f64(enc, seen->weight ? (double)seen->weight / 4294967296.0 : 1.0);
	ky_trc_enc_varint(enc, 0);
	ky_trc_enc_u8(enc, (seen->about & KY_ALLOC_TRUNCATED) != 0);
	ky_trc_enc_varint(enc, since_ns ? since_ns : 1);
}

void ky_drain_write_allocs(struct ky_drain *drain, uint64_t ns)
{
	const uint8_t *area = ky_ring_view_allocs(&drain->ring);
	struct ky_alloc_seen seen;

	for (uint32_t slot = 0; area && slot < KY_ALLOC_SLOTS; slot++) {
		uint64_t since_ns = 0;

		if (!ky_ring_view_alloc(area, slot, &seen))
			continue;
		if (seen.stamp <= INT64_MAX)
			since_ns = ky_timeline_ns(&drain->timeline, seen.stamp);
		/* What came behind the end of a cut is not in it; a stream ends with the process,
		 * and its last samples may be lost. */
		if (since_ns <= ns || !drain->is_cut)
			write_one(drain, area, &seen, since_ns < ns ? since_ns : ns, ns);
	}
}
