/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_map.h - a recording of many segments as its indexes say it is, and a part of it as a trace.
 *
 * Of a segment only its last bytes are read: the seek table and the last chunk with the index
 * (bucket/segment_map.h). Of a part the chunks that it has. What indexes say are hints of the
 * recorder: the viewer draws them until it has decoded the chunks.
 * Input:   untrusted.
 * Memory:  the maps of KY_HTTP_IDS_MAX segments; KY_MAP_LANES_MAX times pieces cells; a part.
 * Threads: owner.
 */
#ifndef KY_SERVE_TRACE_MAP_H
#define KY_SERVE_TRACE_MAP_H

#include <base/buf.h>
#include <bucket/segment_map.h>
#include <serve/served_file.h>

#define KY_PART_CHUNKS_MAX 64u /* in the time; the starts of segments come on top */
#define KY_MAP_LANES_MAX 256u  /* workers that are shown; of the others only sums */

struct ky_mapped_segment {
	struct ky_segment_map map;
	uint32_t file; /* of the map's */
	uint64_t from, bytes;
	uint64_t first_ns, last_ns; /* of its chunks that have times */
	char id[KY_LISTED_ID_BYTES];
};

struct ky_trace_map {
	struct ky_mapped_segment *segments; /* in the order of time */
	uint32_t count, capacity;
	struct ky_served_file *files;
	uint32_t file_count, file_capacity;
	uint64_t from_unix_ns, to_unix_ns; /* the caller's: nothing else is shown; 0: no bound */
	uint64_t begin_ns, end_ns;         /* of what is shown, in the trace's clock */
	char why[KY_SERVED_WHY_BYTES];     /* one sentence, once something failed */
};

/* map: zeros but for the caller's. Takes the file, whatever it returns. Returns 0;
 * KYMO_E_UNSUPPORTED: a segment of it has no index; -ENOMEM; -EIO or as the file's fetch(): with a
 * sentence if that has one. */
int ky_trace_map_add(struct ky_trace_map *map, const struct ky_served_file *file, const char *id);
/* After the last one. Returns 0; KYMO_E_UNSUPPORTED: they do not say that they are of one process,
 * or nothing of them is in the time. */
int ky_trace_map_finish(struct ky_trace_map *map);
void ky_trace_map_release(struct ky_trace_map *map);

/* Times are ns from the map's beginning; to_ns 0: all. pieces: 1 .. KY_HTTP_PIECES_MAX. */
struct ky_map_view {
	uint64_t from_ns, to_ns;
	uint32_t pieces;
};

/* Errors: out->failed. */
void ky_trace_map_json(struct ky_buf *out, const struct ky_trace_map *map,
		       const struct ky_map_view *view);

/* The chunks of that time, and always the start of the first segment. Returns 0; KYMO_E_LIMIT:
 * they are more than KY_PART_CHUNKS_MAX; -EIO, -ENOMEM, as ky_trace_map_add(). */
int ky_trace_map_part(struct ky_buf *out, struct ky_trace_map *map, uint64_t from_ns,
		      uint64_t to_ns);

#endif
