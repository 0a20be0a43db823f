/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* segment_stage.h - the segment that is written; for the files of the segment stage alone:
 * segment.c (chunks and the start of a segment), segment_end.c (lists, report, index), metadata.c.
 * Threads: owner.
 */
#ifndef KY_DRAIN_SEGMENT_STAGE_H
#define KY_DRAIN_SEGMENT_STAGE_H

#include <drain/segment.h>

struct ky_segment {
	struct ky_drain_common *common;
	struct ky_convert *convert;
	struct ky_open_chunk *chunk;
	struct ky_worker_table *workers;
	ky_chunk_fn sink;
	void *sink_ctx;
	char hostname[256];
	bool is_open;
	uint64_t offset; /* bytes of it that the sink has */
	struct ky_buf index;
	uint32_t index_chunks;
	uint64_t first_now_ns; /* of the first step: distinguishes streams of one process */
	struct ky_segment_cut cut;
	uint64_t refused_records; /* waiting to be reported as LossEvent write-error */
	uint64_t refused_first_ns, refused_last_ns;
};

/* ---- metadata.c ---- */
void ky_segment_metadata(struct ky_segment *segment, uint64_t ns, bool is_complete);

/* ---- segment.c ---- */
/* An empty chunk, with what was refused. */
void ky_segment_begin_chunk(struct ky_segment *segment, uint64_t ns);
void ky_segment_report_refused(struct ky_segment *segment, uint64_t ns);
void ky_segment_open_polls(struct ky_segment *segment, uint64_t ns, bool is_at_exit);
/* The open chunk, as it is, to the sink. */
void ky_segment_flush(struct ky_segment *segment);
void ky_segment_write_out(struct ky_segment *segment, bool is_end);

#endif
