/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* frame_reader.h - one source as TRC frames through a bounded window, past damage.
 *
 * Invariants:  the window holds at most one frame more than it was asked for; a torn tail ends the
 *              source with one notice; a damaged stretch is skipped up to the next stream header,
 *              with one notice.
 * Threads:     owner.
 */
#ifndef KY_READ_FRAME_READER_H
#define KY_READ_FRAME_READER_H

#include <base/buf.h>
#include <base/byte_source.h>
#include <stdbool.h>
#include <read/copies.h>
#include <wire/trc_dec.h>

/* Takes one sentence about damage. Returns 0 or -ENOMEM. */
typedef int (*ky_notice_fn)(void *ctx, uint64_t offset, int code, const char *text);

struct ky_frame_reader {
	struct ky_byte_source *source;
	struct ky_trc_dec *dec;
	uint8_t *window;
	size_t capacity, begin, end;
	size_t frame_bytes_max;
	uint64_t window_offset; /* of window[begin] in the source */
	uint64_t raw_bytes, raw_bytes_max;
	uint64_t frame_offset; /* of the last frame given */
	int source_error;
	bool is_at_end, is_torn, is_started;
	bool is_lost; /* after damaged compressed data: only a stream header helps */
	ky_notice_fn notice;
	void *notice_ctx;
	struct ky_copies_source *copies; /* NULL: all events are given */
};

/* Events that are copies are left out from here on. */
static inline void ky_frame_reader_leave_out(struct ky_frame_reader *reader,
					     struct ky_copies_source *copies)
{
	ky_copies_begin(copies);
	reader->copies = copies;
}

/* raw_bytes_max: read at most this much of the source. Returns 0, -ENOMEM, -errno of a rewind. */
int ky_frame_reader_init(struct ky_frame_reader *reader, struct ky_byte_source *source,
			 const struct ky_trc_limits *limits, uint64_t raw_bytes_max,
			 ky_notice_fn notice, void *notice_ctx);
void ky_frame_reader_release(struct ky_frame_reader *reader);

/* Returns 1 with *frame (valid until the next call), 0 at the end, KYMO_E_NOT_TRACE when the first
 * bytes are no TRC header, KYMO_E_VERSION when they name another version, -ENOMEM, or the source's
 * error when it fails before its first byte. */
int ky_frame_reader_next(struct ky_frame_reader *reader, struct ky_frame *frame);

/* The same, for as many of the next frames as are hot events (see trc_dec.h). Returns how many of
 * events[0 .. capacity) are filled; 0: ky_frame_reader_next() takes what follows. */
uint32_t ky_frame_reader_hot(struct ky_frame_reader *reader, struct ky_hot_event *events,
			     uint32_t capacity);

#endif
