/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <bucket/segment_map.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>
#include <wire/segment_index.h>
#include <wire/trc_dec.h>
#include <zstd.h>

/* Seekable format of zstd: rows of two u32, then the number of rows, a flag and a magic. */
#define SKIPPABLE_MAGIC 0x184d2a5eu
#define SEEK_TABLE_MAGIC 0x8f92eab1u
#define SKIPPABLE_HEAD_BYTES 8u
#define SEEK_FOOT_BYTES 9u
#define SEEK_ROW_BYTES 8u
#define FRAMES_MAX (1u << 18)

static uint32_t u32_at(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* ---- where the frames are ---- */

/* Returns as ky_segment_map_read(). */
static int64_t read_seek_table(struct ky_segment_map *map, const uint8_t *tail, size_t tail_bytes,
			       uint64_t file_bytes)
{
	uint64_t table_bytes, at = 0;
	const uint8_t *foot, *table;
	uint32_t count;

	if (file_bytes < SKIPPABLE_HEAD_BYTES + SEEK_FOOT_BYTES)
		return KYMO_E_UNSUPPORTED;
	if (tail_bytes < SEEK_FOOT_BYTES)
		return SEEK_FOOT_BYTES;
	foot = tail + tail_bytes - SEEK_FOOT_BYTES;
	count = u32_at(foot);
	if (u32_at(foot + 5) != SEEK_TABLE_MAGIC || foot[4] != 0 || count < 2 || count > FRAMES_MAX)
		return KYMO_E_UNSUPPORTED;
	table_bytes = SKIPPABLE_HEAD_BYTES + (uint64_t)count * SEEK_ROW_BYTES + SEEK_FOOT_BYTES;
	if (table_bytes >= file_bytes)
		return KYMO_E_UNSUPPORTED;
	if (table_bytes > tail_bytes)
		return (int64_t)table_bytes;
	table = tail + tail_bytes - table_bytes;
	if (u32_at(table) != SKIPPABLE_MAGIC || u32_at(table + 4) != table_bytes - 8)
		return KYMO_E_UNSUPPORTED;
	map->chunks = ky_alloc(count * sizeof(*map->chunks));
	if (!map->chunks)
		return -ENOMEM;
	map->count = count;
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *row = table + SKIPPABLE_HEAD_BYTES + (size_t)i * SEEK_ROW_BYTES;

		map->chunks[i].stored_at = at;
		map->chunks[i].stored_bytes = u32_at(row);
		map->chunks[i].raw_bytes = u32_at(row + 4);
		at += map->chunks[i].stored_bytes;
	}
	if (at + table_bytes != file_bytes)
		return KYMO_E_UNSUPPORTED; /* something was put before it, or behind */
	at = file_bytes - map->chunks[count - 1].stored_at;
	return at > tail_bytes ? (int64_t)at : 0;
}

/* ---- what the last chunk says ---- */

static void take_text(char *out, const struct ky_value *value)
{
	(void)snprintf(out, KY_MAP_TEXT_BYTES, "%.*s",
		       (int)(value->text.count < KY_MAP_TEXT_BYTES ? value->text.count :
								     KY_MAP_TEXT_BYTES - 1),
		       (const char *)value->text.bytes);
}

static void take_metadata(struct ky_segment_map *map, struct ky_trc_dec *dec,
			  const struct ky_value *entries)
{
	const struct {
		const char *key;
		char *out;
	} wanted[] = {{"service", map->service},
		      {"host", map->host},
		      {"pid", map->pid},
		      {"process.end", map->end}};
	struct ky_value key, value;
	struct ky_trc_walk walk;

	if (!entries)
		return;
	ky_trc_walk_begin(&walk, entries);
	while (ky_trc_walk_next(dec, &walk, &key, &value) > 0)
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
			if (key.text.count == strlen(wanted[i].key) &&
			    memcmp(key.text.bytes, wanted[i].key, key.text.count) == 0)
				take_text(wanted[i].out, &value);
}

/* The rows of the index, which has to name every chunk but the last at its place. */
static int take_index(struct ky_segment_map *map, const uint8_t *bytes, size_t count)
{
	struct ky_index_head head;
	uint64_t raw_offset = 0;
	uint32_t worker_count = 0;
	size_t at = sizeof(head);

	if (map->workers) /* an index is written once */
		return KYMO_E_UNSUPPORTED;
	if (count < sizeof(head) + sizeof(struct ky_index_tail))
		return KYMO_E_UNSUPPORTED;
	count -= sizeof(struct ky_index_tail);
	memcpy(&head, bytes, sizeof(head));
	if (head.version != KY_INDEX_VERSION || head.chunk_count != map->count - 1)
		return KYMO_E_UNSUPPORTED;
	map->workers = ky_alloc(count / sizeof(struct ky_index_worker) * sizeof(*map->workers) + 1);
	if (!map->workers)
		return -ENOMEM;
	for (uint32_t i = 0; i < head.chunk_count; i++) {
		struct ky_map_chunk *chunk = &map->chunks[i];
		struct ky_index_chunk row;

		if (count - at < sizeof(row))
			return KYMO_E_UNSUPPORTED;
		memcpy(&row, bytes + at, sizeof(row));
		at += sizeof(row);
		if (row.raw_offset != raw_offset || row.raw_bytes != chunk->raw_bytes ||
		    row.last_ns < row.first_ns ||
		    row.worker_count > (count - at) / sizeof(struct ky_index_worker))
			return KYMO_E_UNSUPPORTED;
		raw_offset += row.raw_bytes;
		chunk->first_ns = row.first_ns;
		chunk->last_ns = row.last_ns;
		chunk->event_count = row.event_count;
		chunk->lost_count = row.lost_count;
		chunk->loss_count = row.loss_count;
		chunk->worker_count = row.worker_count;
		chunk->first_worker = worker_count;
		for (uint32_t w = 0; w < row.worker_count; w++) {
			struct ky_index_worker worker;

			memcpy(&worker, bytes + at, sizeof(worker));
			at += sizeof(worker);
			map->workers[worker_count++] = (struct ky_map_worker){
				worker.busy_ns,      worker.longest_ns, worker.longest_start_ns,
				worker.longest_task, worker.worker_id,  worker.poll_count};
			chunk->poll_count += worker.poll_count;
			chunk->busy_ns += worker.busy_ns;
			if (worker.longest_ns <= chunk->longest_ns)
				continue;
			chunk->longest_ns = worker.longest_ns;
			chunk->longest_start_ns = worker.longest_start_ns;
			chunk->longest_task = worker.longest_task;
			chunk->longest_worker = worker.worker_id;
		}
	}
	return at == count ? 0 : KYMO_E_UNSUPPORTED;
}

static int read_last_chunk(struct ky_segment_map *map, const uint8_t *bytes, size_t count)
{
	int result = KYMO_E_UNSUPPORTED;
	struct ky_trc_dec *dec = NULL;
	struct ky_frame frame;
	size_t at = 0;

	if (ky_trc_dec_open(&dec, NULL))
		return -ENOMEM;
	for (;;) {
		const struct ky_value *index;
		int64_t used = ky_trc_dec_next(dec, bytes + at, count - at, &frame);

		if (used <= 0)
			break;
		at += (size_t)used;
		if (frame.kind != KY_FRAME_EVENT)
			continue;
		map->chunks[map->count - 1].event_count++;
		if (frame.schema->event == KY_EV_CLOCK_SYNC && !map->unix_ns) {
			map->clock_ns = frame.timestamp_ns;
			map->unix_ns = ky_frame_number(&frame, KY_F_CLOCK_SYNC_realtime_ns, 0);
		} else if (frame.schema->event == KY_EV_SEGMENT_METADATA) {
			take_metadata(map, dec,
				      ky_frame_field(&frame, KY_F_SEGMENT_METADATA_entries));
		} else if (frame.schema->event == KY_EV_SEGMENT_INDEX) {
			index = ky_frame_field(&frame, KY_F_SEGMENT_INDEX_index);
			result = index ? take_index(map, index->text.bytes, index->text.count) :
					 KYMO_E_UNSUPPORTED;
		}
	}
	ky_trc_dec_close(dec);
	return result;
}

int64_t ky_segment_map_read(struct ky_segment_map *map, const uint8_t *tail, size_t tail_bytes,
			    uint64_t file_bytes)
{
	const struct ky_map_chunk *last;
	int64_t result;
	uint8_t *raw;
	size_t got;

	*map = (struct ky_segment_map){.chunks = NULL};
	result = read_seek_table(map, tail, tail_bytes, file_bytes);
	if (result)
		return result;
	last = &map->chunks[map->count - 1];
	if (last->raw_bytes > KY_MAP_CHUNK_BYTES_MAX)
		return KYMO_E_UNSUPPORTED;
	raw = ky_alloc((size_t)last->raw_bytes + 1);
	if (!raw)
		return -ENOMEM;
	got = ZSTD_decompress(raw, last->raw_bytes,
			      tail + tail_bytes - (file_bytes - last->stored_at),
			      last->stored_bytes);
	result = !ZSTD_isError(got) && got == last->raw_bytes ? read_last_chunk(map, raw, got) :
								KYMO_E_UNSUPPORTED;
	ky_free(raw);
	return result;
}

void ky_segment_map_release(struct ky_segment_map *map)
{
	ky_free(map->chunks);
	ky_free(map->workers);
	*map = (struct ky_segment_map){.chunks = NULL};
}

uint64_t ky_segment_map_unix_ns(const struct ky_segment_map *map, uint64_t ns)
{
	return map->unix_ns ? map->unix_ns + (ns - map->clock_ns) : 0;
}

bool ky_segment_map_touches(const struct ky_segment_map *map, const struct ky_map_chunk *chunk,
			    uint64_t from_unix_ns, uint64_t to_unix_ns)
{
	uint64_t first = ky_segment_map_unix_ns(map, chunk->first_ns);
	uint64_t last = ky_segment_map_unix_ns(map, chunk->last_ns);

	return last + map->slack_ns >= from_unix_ns &&
	       (!to_unix_ns || first < to_unix_ns + map->slack_ns);
}
