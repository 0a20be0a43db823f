/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/frame_reader.h>
#include <base/text.h>
#include <string.h>

#define WINDOW_BYTES ((size_t)256 << 10)
#define FRAME_BYTES_MAX_DEFAULT (UINT64_C(64) << 20)

static const uint8_t stream_header[KY_TRC_HEADER_BYTES] = {'T', 'R', 'C', 0, KY_TRC_VERSION};

int ky_frame_reader_init(struct ky_frame_reader *reader, struct ky_byte_source *source,
			 const struct ky_trc_limits *limits, uint64_t raw_bytes_max,
			 ky_notice_fn notice, void *notice_ctx)
{
	uint64_t frame_bytes_max = limits ? limits->frame_bytes_max : 0;
	int result;

	memset(reader, 0, sizeof(*reader));
	reader->source = source;
	reader->raw_bytes_max = raw_bytes_max;
	reader->notice = notice;
	reader->notice_ctx = notice_ctx;
	if (frame_bytes_max == 0 || frame_bytes_max > FRAME_BYTES_MAX_DEFAULT)
		frame_bytes_max = FRAME_BYTES_MAX_DEFAULT;
	reader->frame_bytes_max = (size_t)frame_bytes_max;
	if (source->seek) {
		result = source->seek(source->ctx, 0);
		if (result < 0)
			return result;
	}
	result = ky_trc_dec_open(&reader->dec, limits);
	if (result < 0)
		return result;
	reader->window = ky_alloc(WINDOW_BYTES);
	if (!reader->window) {
		ky_frame_reader_release(reader);
		return -ENOMEM;
	}
	reader->capacity = WINDOW_BYTES;
	return 0;
}

void ky_frame_reader_release(struct ky_frame_reader *reader)
{
	ky_trc_dec_close(reader->dec);
	ky_free(reader->window);
	memset(reader, 0, sizeof(*reader));
}

/* "NAME: byte N: " then what, then a number and what follows it. */
static int report(struct ky_frame_reader *reader, uint64_t offset, int code, const char *what,
		  uint64_t number, const char *rest)
{
	struct ky_buf text;
	int result;

	ky_buf_init(&text, 64u << 10);
	ky_text(&text, reader->source->name ? reader->source->name : "(memory)");
	ky_text(&text, ": byte ");
	ky_text_u64(&text, offset);
	ky_text(&text, ": ");
	ky_text(&text, what);
	if (rest) {
		ky_text_u64(&text, number);
		ky_text(&text, rest);
	}
	ky_buf_append(&text, "", 1);
	result = text.failed ?
			 -ENOMEM :
			 reader->notice(reader->notice_ctx, offset, code, (const char *)text.bytes);
	ky_buf_release(&text);
	return result;
}

static void skip(struct ky_frame_reader *reader, size_t count)
{
	reader->begin += count;
	reader->window_offset += count;
}

static const uint8_t *find_header(const uint8_t *at, size_t count)
{
	const uint8_t *end = at + count;

	while ((size_t)(end - at) >= sizeof(stream_header)) {
		at = memchr(at, 'T', (size_t)(end - at) - (sizeof(stream_header) - 1));
		if (!at)
			return NULL;
		if (memcmp(at, stream_header, sizeof(stream_header)) == 0)
			return at;
		at++;
	}
	return NULL;
}

/* Compressed data is damaged: what was begun is dropped, and reading continues after it if the
 * source can. Returns 0, negative. */
static int pass_damage(struct ky_frame_reader *reader)
{
	const struct ky_byte_source *source = reader->source;
	const char *reason = source->reason ? source->reason(source->ctx) : NULL;

	reader->is_torn = true;
	reader->is_lost = true;
	skip(reader, reader->end - reader->begin);
	if (reason && *reason)
		return reader->notice(reader->notice_ctx, reader->window_offset, KYMO_E_CORRUPT,
				      reason);
	return report(reader, reader->window_offset, KYMO_E_CORRUPT,
		      "the compressed data is damaged; what lies before was read", 0, NULL);
}

/* True when a header stands at the start of the window; what cannot be read without one is
 * dropped. */
static bool find_way(struct ky_frame_reader *reader)
{
	const uint8_t *from = reader->window + reader->begin;
	size_t count = reader->end - reader->begin;
	const uint8_t *found = find_header(from, count);
	size_t kept = sizeof(stream_header) - 1;

	if (found) {
		skip(reader, (size_t)(found - from));
		ky_trc_dec_resync(reader->dec, reader->window_offset);
		reader->is_lost = false;
	} else if (count > kept) {
		skip(reader, count - kept);
	}
	return found;
}

/* Makes room and reads once. Returns the source's answer, -ENOMEM. */
static int64_t read_once(struct ky_frame_reader *reader)
{
	size_t kept = reader->end - reader->begin, room;
	uint8_t *larger;
	int64_t count;

	if (kept * 2 > reader->capacity) {
		larger = ky_realloc(reader->window, reader->capacity * 2);
		if (!larger)
			return -ENOMEM;
		reader->window = larger;
		reader->capacity *= 2;
	}
	if (reader->begin > 0 && kept > 0)
		memmove(reader->window, reader->window + reader->begin, kept);
	reader->begin = 0;
	reader->end = kept;
	room = reader->capacity - kept;
	if (room > reader->raw_bytes_max - reader->raw_bytes)
		room = (size_t)(reader->raw_bytes_max - reader->raw_bytes);
	count = room ? reader->source->read(reader->source->ctx, reader->window + kept, room) :
		       KYMO_E_LIMIT;
	if (count > 0 && (uint64_t)count <= room) {
		reader->end += (size_t)count;
		reader->raw_bytes += (uint64_t)count;
	}
	return count;
}

/* Returns 1 when bytes came, 0 at the end, negative. */
static int refill(struct ky_frame_reader *reader)
{
	bool is_damaged = false; /* the last answer */
	int64_t count;
	int result;

	while (!reader->is_at_end) {
		count = read_once(reader);
		if (count == -ENOMEM)
			return -ENOMEM;
		if (count > 0) {
			is_damaged = false;
			if (!reader->is_lost || find_way(reader))
				return 1;
		} else if (count == KYMO_E_CORRUPT && !is_damaged) {
			is_damaged = true;
			result = pass_damage(reader);
			if (result < 0)
				return result;
		} else {
			reader->is_at_end = true;
			if (count < 0 && (!is_damaged || reader->raw_bytes == 0))
				reader->source_error = (int)count;
			if (reader->is_lost)
				skip(reader, reader->end - reader->begin);
		}
	}
	return 0;
}

/* The source knows best what it could not read. */
static int notice_torn_source(struct ky_frame_reader *reader, const char *reason, uint64_t left)
{
	struct ky_buf text;
	int result;

	ky_buf_init(&text, 16u << 10);
	ky_text(&text, reason);
	if (left) {
		ky_text(&text, "; ");
		ky_text_u64(&text, left);
		ky_text(&text, " unpacked bytes of an unfinished record are left out");
	}
	ky_buf_append(&text, "", 1);
	result = text.failed ? -ENOMEM :
			       reader->notice(reader->notice_ctx, reader->raw_bytes - left,
					      KYMO_E_TRUNCATED, (const char *)text.bytes);
	ky_buf_release(&text);
	return result;
}

/* The source ended: say so when it ended badly. */
static int finish(struct ky_frame_reader *reader)
{
	uint64_t left = reader->end - reader->begin;
	int error = reader->source_error;
	const char *reason = error == KYMO_E_TRUNCATED && reader->source->reason ?
				     reader->source->reason(reader->source->ctx) :
				     NULL;

	reader->begin = reader->end;
	reader->window_offset += left;
	if (error == 0 && left == 0)
		return 0;
	reader->is_torn = true;
	if (error == KYMO_E_LIMIT && reader->raw_bytes >= reader->raw_bytes_max)
		return report(
			reader, reader->raw_bytes, error,
			"stopped at the limit of decompressed bytes; raise it to read the rest", 0,
			NULL);
	if (error != 0 && error != KYMO_E_TRUNCATED) {
		struct ky_buf what;
		int result;

		ky_buf_init(&what, 4096);
		ky_text(&what, kymo_error_text(error));
		ky_text(&what, "; what lies before was read; ");
		ky_buf_append(&what, "", 1);
		result = what.failed ? -ENOMEM :
				       report(reader, reader->raw_bytes - left, error,
					      (const char *)what.bytes, left,
					      " bytes of an unfinished record are left out");
		ky_buf_release(&what);
		return result;
	}
	if (reason && *reason)
		return notice_torn_source(reader, reason, left);
	return report(reader, reader->raw_bytes - left, KYMO_E_TRUNCATED,
		      "the trace ends in the middle of a record; everything before it was read; ",
		      left, " bytes are left out");
}

/* Continues at the next stream header after the damage. Returns 1, 0 (there is none), -ENOMEM. */
static int resync(struct ky_frame_reader *reader, int code)
{
	uint64_t offset = 0, from = reader->window_offset;
	const char *reason = ky_trc_dec_error(reader->dec, &offset);
	const uint8_t *found;
	struct ky_buf what;
	int result;

	ky_buf_init(&what, 16u << 10);
	ky_text(&what, reason ? reason : kymo_error_text(code));
	if (reader->begin < reader->end)
		skip(reader, 1);
	for (;;) {
		found = find_header(reader->window + reader->begin, reader->end - reader->begin);
		if (found) {
			skip(reader, (size_t)(found - (reader->window + reader->begin)));
			break;
		}
		if (reader->end - reader->begin >= sizeof(stream_header))
			skip(reader, reader->end - reader->begin - (sizeof(stream_header) - 1));
		result = refill(reader);
		if (result < 0) {
			ky_buf_release(&what);
			return result;
		}
		if (result == 0) {
			skip(reader, reader->end - reader->begin);
			break;
		}
	}
	ky_text(&what, found ? "; skipped to the next stream header, " :
			       "; no stream header follows, so the rest is left out, ");
	ky_buf_append(&what, "", 1);
	result = what.failed ? -ENOMEM :
			       report(reader, offset, code, (const char *)what.bytes,
				      reader->window_offset - from, " bytes");
	ky_buf_release(&what);
	if (result < 0)
		return result;
	reader->is_torn |= !found;
	ky_trc_dec_resync(reader->dec, reader->window_offset);
	return found ? 1 : 0;
}

/* The decoder wants more than the window holds. Returns 1 to try again, 0 at the end, negative. */
static int feed(struct ky_frame_reader *reader)
{
	int result;

	if (reader->end - reader->begin > reader->frame_bytes_max)
		return resync(reader, KYMO_E_LIMIT);
	result = refill(reader);
	if (result != 0)
		return result;
	if (!reader->is_started) {
		if (reader->source_error && reader->raw_bytes == 0)
			return reader->source_error;
		if (reader->end - reader->begin < KY_TRC_HEADER_BYTES)
			return KYMO_E_NOT_TRACE;
	}
	/* A length that lies makes the rest resemble one unfinished record. */
	if (reader->end - reader->begin > KY_TRC_HEADER_BYTES &&
	    find_header(reader->window + reader->begin + 1, reader->end - reader->begin - 1))
		return resync(reader, KYMO_E_CORRUPT);
	return finish(reader);
}

int ky_frame_reader_next(struct ky_frame_reader *reader, struct ky_frame *frame)
{
	int64_t used;
	int result;

	for (;;) {
		used = ky_trc_dec_next(reader->dec, reader->window + reader->begin,
				       reader->end - reader->begin, frame);
		if (used > 0) {
			reader->frame_offset = reader->window_offset;
			skip(reader, (size_t)used);
			reader->is_started = true;
			if (reader->copies && frame->kind == KY_FRAME_EVENT &&
			    !ky_copies_takes(reader->copies, frame))
				continue;
			return 1;
		}
		if (used == -ENOMEM)
			return -ENOMEM;
		if (used == 0 || used == KYMO_E_TRUNCATED) {
			result = feed(reader);
		} else if (!reader->is_started &&
			   (used == KYMO_E_NOT_TRACE || used == KYMO_E_VERSION)) {
			return (int)used;
		} else {
			result = resync(reader, (int)used);
		}
		if (result <= 0)
			return result;
	}
}

uint32_t ky_frame_reader_hot(struct ky_frame_reader *reader, struct ky_hot_event *events,
			     uint32_t capacity)
{
	uint32_t count, kept;
	size_t used;

	do {
		count = ky_trc_dec_hot(reader->dec, reader->window + reader->begin,
				       reader->end - reader->begin, events, capacity, &used);
		skip(reader, used);
		kept = reader->copies ? ky_copies_hot(reader->copies, events, count) : count;
	} while (count && !kept);
	return kept;
}
