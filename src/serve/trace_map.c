/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/trace_map.h>

#include <base/alloc.h>
#include <base/json_write.h>
#include <bucket/segment_part.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAIL_BYTES (32u << 10)

static int read_file(int fd, uint64_t offset, uint8_t *out, size_t count)
{
	while (count) {
		ssize_t got = pread(fd, out, count, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EIO; /* shorter than it was: replaced */
		out += got;
		offset += (uint64_t)got;
		count -= (size_t)got;
	}
	return 0;
}

/* Bytes of a segment. */
static int read_at(struct ky_trace_map *map, const struct ky_mapped_segment *segment,
		   uint64_t offset, uint8_t *out, size_t count)
{
	const struct ky_served_file *file = &map->files[segment->file];
	uint64_t at = segment->from + offset;
	int err = file->fetch ? file->fetch(file->ctx, at, count, map->why) : 0;

	return err ? err : read_file(file->fd, at, out, count);
}

/* ---- the maps ---- */

static int read_map(struct ky_trace_map *map, struct ky_mapped_segment *segment)
{
	uint64_t wanted = TAIL_BYTES < segment->bytes ? TAIL_BYTES : segment->bytes;
	int64_t result = KYMO_E_UNSUPPORTED;

	for (uint32_t tries = 0; tries < 3; tries++) {
		uint8_t *tail = ky_alloc(wanted + 1);
		int err = tail ? read_at(map, segment, segment->bytes - wanted, tail, wanted) :
				 -ENOMEM;

		if (err) {
			ky_free(tail);
			return err;
		}
		result = ky_segment_map_read(&segment->map, tail, wanted, segment->bytes);
		ky_free(tail);
		if (result <= 0)
			break;
		ky_segment_map_release(&segment->map);
		if ((uint64_t)result > segment->bytes || result > KY_MAP_CHUNK_BYTES_MAX)
			break;
		wanted = (uint64_t)result;
	}
	return result > 0 ? KYMO_E_UNSUPPORTED : (int)result;
}

/* The times of its chunks; false: none has any. */
static bool find_times(struct ky_mapped_segment *segment)
{
	const struct ky_segment_map *map = &segment->map;

	for (uint32_t i = 0; i + 1 < map->count; i++) {
		const struct ky_map_chunk *chunk = &map->chunks[i];

		if (!chunk->last_ns)
			continue;
		if (chunk->last_ns > INT64_MAX / 2) /* no clock has run for so long */
			return false;
		if (!segment->last_ns || chunk->first_ns < segment->first_ns)
			segment->first_ns = chunk->first_ns;
		if (chunk->last_ns > segment->last_ns)
			segment->last_ns = chunk->last_ns;
	}
	return segment->last_ns != 0;
}

static int add_segment(struct ky_trace_map *map, const struct ky_served_part *part, const char *id)
{
	struct ky_mapped_segment segment = {
		.file = map->file_count - 1, .from = part->from, .bytes = part->bytes};
	int err = ky_grow(&map->segments, &map->capacity, map->count + 1, sizeof(segment));

	if (err)
		return err;
	(void)snprintf(segment.id, sizeof(segment.id), "%s", id);
	err = read_map(map, &segment);
	if (!err && !find_times(&segment))
		err = KYMO_E_UNSUPPORTED;
	if (!err && !segment.map.unix_ns && part->start_unix_ns) { /* as ky_object_map() */
		segment.map.clock_ns = segment.first_ns;
		segment.map.unix_ns = part->start_unix_ns;
	}
	if (err == KYMO_E_UNSUPPORTED)
		(void)snprintf(map->why, sizeof(map->why),
			       "A file of this recording has no index, so it can only be opened "
			       "whole.");
	map->segments[map->count++] = segment;
	return err;
}

/* The ends of all segments in some requests' time, where one after the other would take that of
 * each. The first one is read before: of a server without ranges that says so. */
static void gather_ends(const struct ky_served_file *file)
{
	uint32_t count = file->part_count - 1;
	struct ky_byte_span *spans = ky_alloc(count * sizeof(*spans) + 1);

	for (uint32_t i = 0; spans && i < count; i++) {
		const struct ky_served_part *part = &file->parts[i + 1];

		spans[i].to = part->from + part->bytes;
		spans[i].from = spans[i].to - (TAIL_BYTES < part->bytes ? TAIL_BYTES : part->bytes);
	}
	if (spans && file->gather)
		file->gather(file->ctx, spans, count);
	ky_free(spans);
}

int ky_trace_map_add(struct ky_trace_map *map, const struct ky_served_file *file, const char *id)
{
	const struct ky_served_part all = {0, file->bytes, 0};
	struct ky_served_file taken = *file;
	int err = ky_grow(&map->files, &map->file_capacity, map->file_count + 1, sizeof(taken));

	if (err) {
		ky_served_file_release(&taken);
		return err;
	}
	map->files[map->file_count++] = taken;
	if (!file->parts)
		return add_segment(map, &all, id);
	for (uint32_t i = 0; !err && i < file->part_count; i++) {
		if (i == 1)
			gather_ends(file);
		err = add_segment(map, &file->parts[i], id);
	}
	return err;
}

static int compare(const void *left, const void *right)
{
	const struct ky_mapped_segment *a = left, *b = right;

	return (a->first_ns > b->first_ns) - (a->first_ns < b->first_ns);
}

/* What is shown: all of them, or the time that is asked for, which the first one's clock knows. */
static void find_bounds(struct ky_trace_map *map)
{
	const struct ky_segment_map *clock = &map->segments[0].map;
	uint64_t begin = map->segments[0].first_ns, end = 0, over;

	for (uint32_t i = 0; i < map->count; i++)
		if (map->segments[i].last_ns > end)
			end = map->segments[i].last_ns;
	map->begin_ns = begin;
	map->end_ns = end;
	if (!clock->unix_ns)
		return;
	begin = ky_segment_map_unix_ns(clock, begin);
	end = ky_segment_map_unix_ns(clock, end);
	if (map->from_unix_ns > begin)
		map->begin_ns += map->from_unix_ns - begin;
	if (map->to_unix_ns && map->to_unix_ns <= end) {
		over = end - map->to_unix_ns + 1;
		map->end_ns -= over < map->end_ns ? over : map->end_ns;
	}
}

int ky_trace_map_finish(struct ky_trace_map *map)
{
	qsort(map->segments, map->count, sizeof(*map->segments), compare);
	for (uint32_t i = 1; i < map->count; i++) {
		const struct ky_segment_map *one = &map->segments[i].map, *first;

		first = &map->segments[0].map;
		if (first->pid[0] && strcmp(one->pid, first->pid) == 0 &&
		    strcmp(one->host, first->host) == 0 &&
		    strcmp(one->service, first->service) == 0)
			continue;
		(void)snprintf(map->why, sizeof(map->why),
			       "These files do not say that they are of one process; open one at a "
			       "time.");
		return KYMO_E_UNSUPPORTED;
	}
	find_bounds(map);
	if (map->begin_ns <= map->end_ns)
		return 0;
	(void)snprintf(map->why, sizeof(map->why), "Nothing of this trace is in that time.");
	return KYMO_E_UNSUPPORTED;
}

void ky_trace_map_release(struct ky_trace_map *map)
{
	for (uint32_t i = 0; i < map->count; i++)
		ky_segment_map_release(&map->segments[i].map);
	for (uint32_t i = 0; i < map->file_count; i++)
		ky_served_file_release(&map->files[i]);
	ky_free(map->segments);
	ky_free(map->files);
	map->segments = NULL;
	map->files = NULL;
	map->count = map->capacity = map->file_count = map->file_capacity = 0;
}

/* ---- pieces of time ---- */

struct map_cell {
	uint64_t busy_ns, longest_ns, longest_start_ns, task;
};

struct map_lane {
	struct map_cell *cells;
	uint64_t polls;
	uint32_t id;
};

struct sums {
	const struct ky_map_view *view;
	uint64_t from_ns, to_ns; /* of the trace's clock */
	struct map_lane *lanes;
	uint32_t lane_count, lanes_left_out;
	uint64_t *events, *lost, *chunks; /* by piece */
	uint64_t event_count, lost_count, chunk_count;
};

/* Where piece i begins; i up to the number of pieces. */
static uint64_t edge(const struct sums *sums, uint32_t i)
{
	uint64_t span = sums->to_ns - sums->from_ns;
	uint64_t pieces = sums->view->pieces;

	return sums->from_ns + span / pieces * i + span % pieces * i / pieces;
}

/* By the share of the time, which rounding may put a piece beside. ns: not before the view. */
static uint32_t piece_of(const struct sums *sums, uint64_t ns)
{
	uint32_t pieces = sums->view->pieces;
	double share = (double)(ns - sums->from_ns) / (double)(sums->to_ns - sums->from_ns);
	uint32_t piece = share < 1 ? (uint32_t)(share * pieces) : pieces - 1;

	while (piece > 0 && edge(sums, piece) > ns)
		piece--;
	while (piece + 1 < pieces && edge(sums, piece + 1) <= ns)
		piece++;
	return piece;
}

static struct map_lane *find_lane(struct sums *sums, uint32_t id)
{
	struct map_lane *lane;

	for (uint32_t i = 0; i < sums->lane_count; i++)
		if (sums->lanes[i].id == id)
			return &sums->lanes[i];
	if (sums->lane_count == KY_MAP_LANES_MAX) {
		sums->lanes_left_out++;
		return NULL;
	}
	lane = &sums->lanes[sums->lane_count];
	lane->cells = ky_alloc(sums->view->pieces * sizeof(*lane->cells));
	if (!lane->cells)
		return NULL;
	lane->id = id;
	sums->lane_count++;
	return lane;
}

/* Shares time inside polls among the pieces, and shows the longest in each that it lies in. */
static void add_worker(struct sums *sums, const struct ky_map_chunk *chunk,
		       const struct ky_map_worker *worker)
{
	struct map_lane *lane = find_lane(sums, worker->id);
	uint64_t span = chunk->last_ns - chunk->first_ns + 1;
	uint64_t busy_ns = worker->busy_ns < span ? worker->busy_ns : span;
	uint64_t longest_end = worker->longest_start_ns + worker->longest_ns;
	uint32_t first, last;

	if (!lane)
		return;
	lane->polls += worker->poll_count;
	first = piece_of(sums, chunk->first_ns > sums->from_ns ? chunk->first_ns : sums->from_ns);
	last = piece_of(sums, chunk->last_ns);
	for (uint32_t i = first; i <= last; i++) {
		uint64_t from = edge(sums, i), to = edge(sums, i + 1);

		from = from > chunk->first_ns ? from : chunk->first_ns;
		to = to < chunk->last_ns + 1 ? to : chunk->last_ns + 1;
		if (to > from)
			lane->cells[i].busy_ns += (uint64_t)((double)busy_ns *
							     ((double)(to - from) / (double)span));
	}
	if (!worker->longest_ns || longest_end < worker->longest_start_ns ||
	    longest_end <= sums->from_ns || worker->longest_start_ns >= sums->to_ns)
		return;
	first = piece_of(sums, worker->longest_start_ns > sums->from_ns ? worker->longest_start_ns :
									  sums->from_ns);
	last = piece_of(sums, longest_end - 1);
	for (uint32_t i = first; i <= last; i++) {
		struct map_cell *cell = &lane->cells[i];

		if (worker->longest_ns <= cell->longest_ns)
			continue;
		cell->longest_ns = worker->longest_ns;
		cell->longest_start_ns = worker->longest_start_ns;
		cell->task = worker->longest_task;
	}
}

static void add_chunk(struct sums *sums, const struct ky_segment_map *map,
		      const struct ky_map_chunk *chunk)
{
	uint32_t piece, last;

	if (!chunk->last_ns || chunk->last_ns < sums->from_ns || chunk->first_ns >= sums->to_ns)
		return;
	piece = piece_of(sums, chunk->first_ns > sums->from_ns ? chunk->first_ns : sums->from_ns);
	last = piece_of(sums, chunk->last_ns);
	for (uint32_t i = piece; i <= last; i++) /* the rest of the division to the first */
		sums->events[i] += chunk->event_count / (last - piece + 1) +
				   (i == piece ? chunk->event_count % (last - piece + 1) : 0);
	sums->lost[piece] += chunk->lost_count;
	sums->chunks[piece]++;
	sums->event_count += chunk->event_count;
	sums->lost_count += chunk->lost_count;
	sums->chunk_count++;
	for (uint32_t i = 0; i < chunk->worker_count; i++)
		add_worker(sums, chunk, &map->workers[chunk->first_worker + i]);
}

/* ---- as JSON ---- */

static void put_numbers(struct ky_buf *out, const char *key, const uint64_t *numbers,
			uint32_t count)
{
	ky_json_open(out, key, "[");
	for (uint32_t i = 0; i < count; i++)
		ky_json_number(out, NULL, numbers[i]);
	ky_json_close(out, "]");
}

/* busy: in thousandths by piece; longest: piece, start, length and task, one after the other. */
static void put_lane(struct ky_buf *out, const struct sums *sums, const struct map_lane *lane,
		     uint64_t begin)
{
	ky_json_open(out, NULL, "{");
	ky_json_number(out, "id", lane->id);
	ky_json_number(out, "polls", lane->polls);
	ky_json_open(out, "busy", "[");
	for (uint32_t i = 0; i < sums->view->pieces; i++) {
		uint64_t span = edge(sums, i + 1) - edge(sums, i);
		uint64_t busy = lane->cells[i].busy_ns;

		ky_json_number(out, NULL, span ? (busy < span ? busy : span) * 1000 / span : 0);
	}
	ky_json_close(out, "]");
	ky_json_open(out, "longest", "[");
	for (uint32_t i = 0; i < sums->view->pieces; i++) {
		const struct map_cell *cell = &lane->cells[i];

		if (!cell->longest_ns)
			continue;
		ky_json_number(out, NULL, i);
		ky_json_signed(out, NULL, (int64_t)(cell->longest_start_ns - begin));
		ky_json_number(out, NULL, cell->longest_ns);
		ky_json_number(out, NULL, cell->task);
	}
	ky_json_close(out, "]");
	ky_json_close(out, "}");
}

/* In the map's time, within what is shown. */
static uint64_t time_of(const struct ky_trace_map *map, uint64_t ns)
{
	ns = ns < map->end_ns ? ns : map->end_ns;
	return ns > map->begin_ns ? ns - map->begin_ns : 0;
}

static void put_segments(struct ky_buf *out, const struct ky_trace_map *map)
{
	ky_json_open(out, "segments", "[");
	for (uint32_t i = 0; i < map->count; i++) {
		const struct ky_mapped_segment *one = &map->segments[i];

		ky_json_open(out, NULL, "{");
		ky_json_text(out, "id", one->id);
		ky_json_number(out, "bytes", one->bytes);
		ky_json_number(out, "chunks", one->map.count - 1);
		ky_json_number(out, "from_ns", time_of(map, one->first_ns));
		ky_json_number(out, "to_ns", time_of(map, one->last_ns));
		ky_json_close(out, "}");
	}
	ky_json_close(out, "]");
}

static void put_head(struct ky_buf *out, const struct ky_trace_map *map)
{
	const struct ky_segment_map *first = &map->segments[0].map;

	ky_json_text_or_null(out, "service", first->service[0] ? first->service : NULL);
	ky_json_text_or_null(out, "host", first->host[0] ? first->host : NULL);
	ky_json_text_or_null(out, "pid", first->pid[0] ? first->pid : NULL);
	ky_json_number_text(out, "start_mono_ns", map->begin_ns);
	ky_json_number_text(out, "start_unix_ns", ky_segment_map_unix_ns(first, map->begin_ns));
	ky_json_number(out, "duration_ns", map->end_ns - map->begin_ns);
	put_segments(out, map);
}

static void put_sums(struct ky_buf *out, const struct sums *sums, uint64_t begin)
{
	uint32_t pieces = sums->view->pieces;

	ky_json_number(out, "from_ns", sums->from_ns - begin);
	ky_json_number(out, "to_ns", sums->to_ns - begin);
	ky_json_number(out, "pieces", pieces);
	ky_json_number(out, "event_count", sums->event_count);
	ky_json_number(out, "lost_count", sums->lost_count);
	ky_json_number(out, "chunk_count", sums->chunk_count);
	ky_json_number(out, "workers_left_out", sums->lanes_left_out);
	put_numbers(out, "events", sums->events, pieces);
	put_numbers(out, "lost", sums->lost, pieces);
	put_numbers(out, "chunks", sums->chunks, pieces);
	ky_json_open(out, "workers", "[");
	for (uint32_t i = 0; i < sums->lane_count; i++)
		put_lane(out, sums, &sums->lanes[i], begin);
	ky_json_close(out, "]");
}

void ky_trace_map_json(struct ky_buf *out, const struct ky_trace_map *map,
		       const struct ky_map_view *view)
{
	uint64_t begin = map->begin_ns, all = map->end_ns - begin + 1;
	struct sums sums = {.view = view};

	sums.from_ns = begin + (view->from_ns < all ? view->from_ns : all - 1);
	sums.to_ns = begin + (view->to_ns && view->to_ns < all ? view->to_ns : all);
	if (sums.to_ns <= sums.from_ns)
		sums.to_ns = sums.from_ns + 1;
	sums.lanes = ky_alloc(KY_MAP_LANES_MAX * sizeof(*sums.lanes));
	sums.events = ky_alloc(3 * view->pieces * sizeof(*sums.events));
	if (!sums.lanes || !sums.events) {
		out->failed = -ENOMEM;
	} else {
		sums.lost = sums.events + view->pieces;
		sums.chunks = sums.lost + view->pieces;
		for (uint32_t i = 0; i < map->count; i++) {
			const struct ky_segment_map *one = &map->segments[i].map;

			for (uint32_t k = 0; k + 1 < one->count; k++)
				add_chunk(&sums, one, &one->chunks[k]);
		}
		ky_json_open(out, NULL, "{");
		put_head(out, map);
		put_sums(out, &sums, begin);
		ky_json_close(out, "}");
		(void)ky_buf_append(out, "\n", 1);
	}
	for (uint32_t i = 0; i < sums.lane_count; i++)
		ky_free(sums.lanes[i].cells);
	ky_free(sums.lanes);
	ky_free(sums.events);
}

/* ---- a part ---- */

struct part_out {
	struct ky_buf *out;
	struct ky_trace_map *map;
	const struct ky_mapped_segment *segment;
};

static int copy_stored(void *ctx, uint64_t from, uint64_t to)
{
	struct part_out *part = ctx;
	uint8_t *bytes;
	int err;

	if (to <= from)
		return 0;
	bytes = ky_alloc(to - from);
	if (!bytes)
		return -ENOMEM;
	err = read_at(part->map, part->segment, from, bytes, to - from);
	if (!err)
		err = ky_buf_append(part->out, bytes, to - from);
	ky_free(bytes);
	return err;
}

static int put_made(void *ctx, const uint8_t *bytes, size_t count)
{
	struct part_out *part = ctx;

	return ky_buf_append(part->out, bytes, count);
}

int ky_trace_map_part(struct ky_buf *out, struct ky_trace_map *map, uint64_t from_ns,
		      uint64_t to_ns)
{
	const struct ky_part_range range = {map->begin_ns + from_ns, map->begin_ns + to_ns};
	uint32_t left = KY_PART_CHUNKS_MAX;
	int err = 0;

	for (uint32_t i = 0; i < map->count && !err; i++) {
		struct ky_mapped_segment *segment = &map->segments[i];
		struct part_out part = {out, map, segment};
		const struct ky_part_out to = {copy_stored, put_made, &part};
		struct ky_segment_map clock = segment->map;
		struct ky_part_choice choice;
		uint32_t count;

		clock.clock_ns = clock.unix_ns = 1; /* by the trace's own clock */
		clock.slack_ns = 0;
		ky_part_choose(&choice, &clock, &range);
		if (!choice.end && i)
			continue;
		count = choice.end ? choice.end - choice.first : 0;
		if (count > left) {
			(void)snprintf(map->why, sizeof(map->why),
				       "This time has more than %u chunks; zoom in.",
				       KY_PART_CHUNKS_MAX);
			return KYMO_E_LIMIT;
		}
		left -= count;
		err = ky_part_write(&to, &segment->map, &choice, &count);
	}
	return err ? err : out->failed;
}
