/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which allocations that were reported live at the end of a trace: read from the ring's table. So a
 * trace that begins late, or lost samples, knows what is live all the same. */
#include <drain/convert_stage.h>

static uint64_t since_ns(struct ky_drain_common *common, const struct ky_alloc_seen *seen)
{
	return seen->stamp <= INT64_MAX ? ky_timeline_ns(&common->timeline, seen->stamp) : 0;
}

static void write_one(struct ky_convert *convert, const uint8_t *area,
		      const struct ky_alloc_seen *seen, uint64_t since, uint64_t ns)
{
	struct ky_trc_enc *enc = &convert->chunk.enc;
	uint64_t frames[KY_ALLOC_FRAMES_MAX];
	uint32_t count = ky_ring_view_alloc_stack(area, (uint32_t)(seen->about & 0xffffu), frames);
	uint32_t stack;

	stack = ky_trc_enc_stack(enc, frames, count);
	ky_trc_enc_event(enc, KY_EV_ALLOC, ns);
	ky_trc_enc_u32(enc, (uint32_t)(seen->about >> 32));
	ky_trc_enc_varint(enc, seen->bytes);
	ky_trc_enc_varint(enc, seen->address);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_f64(enc, seen->weight ? (double)seen->weight / 4294967296.0 : 1.0);
	ky_trc_enc_varint(enc, 0);
	ky_trc_enc_u8(enc, (seen->about & KY_ALLOC_TRUNCATED) != 0);
	ky_trc_enc_varint(enc, since ? since : 1);
}

bool ky_convert_next_alloc(struct ky_convert *convert, struct ky_list_at *at,
			   struct ky_alloc_seen *seen, uint64_t ns)
{
	struct ky_drain_common *common = convert->common;
	const uint8_t *area = ky_ring_view_allocs(&common->ring);

	for (; area && at->entry < KY_ALLOC_ENTRIES; at->entry++) {
		if (!ky_ring_view_alloc(area, at->entry, seen))
			continue;
		/* What came after the end of a cut is not in it; a stream ends with the process,
		 * and its last samples may be lost. */
		if (since_ns(common, seen) <= ns || !common->is_cut)
			return true;
	}
	return false;
}

void ky_convert_alloc(struct ky_convert *convert, struct ky_list_at *at,
		      const struct ky_alloc_seen *seen, uint64_t ns)
{
	const uint8_t *area = ky_ring_view_allocs(&convert->common->ring);
	uint64_t since = since_ns(convert->common, seen);

	write_one(convert, area, seen, since < ns ? since : ns, ns);
	at->entry++;
}
