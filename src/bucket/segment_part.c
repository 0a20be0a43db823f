/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/segment_part.h>

#include <base/buf.h>
#include <errno.h>
#include <wire/trc_enc.h>
#include <zstd.h>

#define START_CHUNKS_MAX 64u

void ky_part_choose(struct ky_part_choice *out, const struct ky_segment_map *map,
		    const struct ky_part_range *range)
{
	uint32_t content = map->count - 1;

	while (content && !map->chunks[content - 1].last_ns)
		content--;
	*out = (struct ky_part_choice){.first = UINT32_MAX, .timed = content};
	while (out->start_count < content && out->start_count < START_CHUNKS_MAX &&
	       (!out->start_count || !map->chunks[out->start_count].worker_count))
		out->start_count++;
	for (uint32_t i = 0; i < content; i++) {
		if (!ky_segment_map_touches(map, &map->chunks[i], range->from_unix_ns,
					    range->to_unix_ns))
			continue;
		out->first = out->first < i ? out->first : i;
		out->end = i + 1;
	}
}

/* A frame with a LossEvent: what lies between is not in the part. */
static int put_gap(const struct ky_part_out *out, uint64_t from_ns, uint64_t to_ns)
{
	static const char cause[] = "not recorded";
	struct ky_trc_enc enc;
	struct ky_buf raw;
	uint8_t frame[1024];
	uint32_t name;
	size_t count;
	int err;

	ky_buf_init(&raw, 0);
	err = ky_trc_enc_init(&enc, &raw);
	if (err)
		return -ENOMEM;
	ky_trc_enc_begin(&enc);
	name = ky_trc_enc_string(&enc, 0, cause, sizeof(cause) - 1);
	ky_trc_enc_event(&enc, KY_EV_LOSS, to_ns);
	ky_trc_enc_u32(&enc, 0);    /* tid: all threads */
	ky_trc_enc_varint(&enc, 0); /* records */
	ky_trc_enc_u8(&enc, 1);     /* exactly */
	ky_trc_enc_varint(&enc, from_ns);
	ky_trc_enc_varint(&enc, to_ns);
	ky_trc_enc_u32(&enc, name);
	ky_trc_enc_release(&enc);
	err = raw.failed;
	count = err ? 0 : ZSTD_compress(frame, sizeof(frame), raw.bytes, raw.used, 1);
	ky_buf_release(&raw);
	if (err || ZSTD_isError(count))
		return -ENOMEM;
	return out->put(out->ctx, frame, count);
}

int ky_part_write(const struct ky_part_out *out, const struct ky_segment_map *map,
		  const struct ky_part_choice *choice, uint32_t *chunk_count)
{
	const struct ky_map_chunk *chunks = map->chunks;
	uint32_t content = map->count - 1, timed = choice->timed, start = choice->start_count;
	uint32_t first = choice->first, end = choice->end;
	int err;

	if (!end || first <= start) { /* nothing lies between */
		start = end > start ? end : start;
		first = end = start;
	}
	*chunk_count = start + (end - first) + (content - timed);
	err = out->copy(out->ctx, 0, chunks[start].stored_at);
	if (!err && first < end) {
		err = put_gap(out, chunks[start - 1].last_ns, chunks[first].first_ns);
		if (!err)
			err = out->copy(out->ctx, chunks[first].stored_at, chunks[end].stored_at);
	}
	if (!err && end && end < timed)
		err = put_gap(out, chunks[end - 1].last_ns, chunks[timed - 1].last_ns);
	if (!err)
		err = out->copy(out->ctx, chunks[timed].stored_at, chunks[content].stored_at);
	if (!err)
		err = out->copy(out->ctx, chunks[content].stored_at,
				chunks[content].stored_at + chunks[content].stored_bytes);
	return err;
}
