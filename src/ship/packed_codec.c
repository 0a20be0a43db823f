/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/packed.h>

#include <base/alloc.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <stdio.h>
#include <string.h>
#include <zstd_errors.h>

/* A zstd frame that unpacks to no more is passed on once its checksum is known to be right. Chunks
 * of ours have at most a quarter of it, unless one event alone is larger. */
#define HELD_BYTES_MAX (1u << 20)
#define FRAME_HEADER_BYTES_MAX 18u
#define DOUBT_BYTES 96u
#define TORN_BYTES 112u

void ky_packed_end_codec(struct ky_packed *packed)
{
	if (packed->has_codec && packed->codec == KY_CONTAINER_GZIP)
		(void)inflateEnd(&packed->gzip);
	if (packed->zstd)
		(void)ZSTD_freeDCtx(packed->zstd);
	packed->zstd = NULL;
	packed->has_codec = false;
}

void ky_packed_drop_held(struct ky_packed *packed)
{
	ky_free(packed->held);
	packed->held = NULL;
	packed->held_capacity = packed->held_at = packed->held_used = 0;
	packed->is_holding = false;
}

static int open_gzip(struct ky_packed *packed)
{
	if (packed->has_codec)
		return inflateReset(&packed->gzip) == Z_OK ? 0 : -ENOMEM;
	memset(&packed->gzip, 0, sizeof(packed->gzip));
	if (inflateInit2(&packed->gzip, 16 + MAX_WBITS) != Z_OK)
		return -ENOMEM;
	packed->has_codec = true;
	return 0;
}

/* A frame that is known to be larger than what is held is not held at all. */
static int begin_holding(struct ky_packed *packed)
{
	unsigned long long bytes = ZSTD_CONTENTSIZE_UNKNOWN; /* above all others, as is ERROR */
	size_t capacity = HELD_BYTES_MAX;

	if (ky_packed_look_ahead(packed, FRAME_HEADER_BYTES_MAX) == 0)
		bytes = ZSTD_getFrameContentSize(packed->input + packed->at,
						 packed->used - packed->at);
	packed->held_at = packed->held_used = 0;
	packed->is_holding = bytes <= HELD_BYTES_MAX || bytes >= ZSTD_CONTENTSIZE_ERROR;
	if (bytes < HELD_BYTES_MAX)
		capacity = (size_t)bytes + 1; /* never full, so never given too early */
	if (!packed->is_holding || capacity <= packed->held_capacity)
		return 0;
	ky_free(packed->held);
	packed->held = ky_alloc(capacity);
	packed->held_capacity = packed->held ? capacity : 0;
	return packed->held ? 0 : -ENOMEM;
}

static int open_zstd(struct ky_packed *packed)
{
	uint64_t window = packed->options.window_bytes_max;
	int log = 10;

	packed->zstd_step = 5; /* the start of a frame header */
	if (packed->has_codec)
		return begin_holding(packed);
	while (log < 31 && (UINT64_C(1) << log) < window)
		log++;
	packed->zstd = ZSTD_createDCtx();
	if (!packed->zstd ||
	    ZSTD_isError(ZSTD_DCtx_setParameter(packed->zstd, ZSTD_d_windowLogMax, log)))
		return -ENOMEM;
	packed->has_codec = true;
	return begin_holding(packed);
}

int ky_packed_begin_codec(struct ky_packed *packed, enum ky_container codec)
{
	if (codec != packed->codec)
		ky_packed_end_codec(packed);
	packed->codec = codec;
	return codec == KY_CONTAINER_GZIP ? open_gzip(packed) :
	       codec == KY_CONTAINER_ZSTD ? open_zstd(packed) :
					    0;
}

int ky_packed_torn(struct ky_packed *packed)
{
	uint64_t lost = packed->stored - packed->good;
	char text[TORN_BYTES] = "";

	if (lost)
		(void)snprintf(text, sizeof(text),
			       "; its last %" PRIu64 " bytes, from byte %" PRIu64
			       " on, cannot be unpacked",
			       lost, packed->good);
	return ky_packed_fail(packed, KYMO_E_TRUNCATED,
			      "%s: the %s data ends early, at byte %" PRIu64
			      "%s; everything before %s was read",
			      ky_packed_name(packed),
			      packed->codec == KY_CONTAINER_GZIP ? "gzip" : "zstd", packed->stored,
			      text, lost ? "them" : "it");
}

/* What has been given of the member or frame already was under the same checksum. */
static const char *doubt(const struct ky_packed *packed, char *text)
{
	text[0] = '\0';
	if (packed->doubtful)
		(void)snprintf(text, DOUBT_BYTES,
			       "; the %" PRIu64 " bytes unpacked before it may be wrong too",
			       packed->doubtful);
	return text;
}

/* A member may be a whole segment, so it is not held back until its checksum is known. */
static int gzip_damaged(struct ky_packed *packed)
{
	char text[DOUBT_BYTES];

	return ky_packed_fail(packed, KYMO_E_CORRUPT,
			      "%s: the gzip data is damaged at byte %" PRIu64
			      " (%s); what follows is left out%s",
			      ky_packed_name(packed), ky_packed_offset(packed),
			      packed->gzip.msg ? packed->gzip.msg : "no gzip", doubt(packed, text));
}

static int64_t unpack_gzip(struct ky_packed *packed, uint8_t *out, size_t capacity)
{
	z_stream *gzip = &packed->gzip;
	int result;

	gzip->next_in = packed->input + packed->at;
	gzip->avail_in = (uInt)(packed->used - packed->at);
	gzip->next_out = out;
	gzip->avail_out = (uInt)capacity;
	result = inflate(gzip, Z_NO_FLUSH);
	packed->at = packed->used - gzip->avail_in;
	if (result == Z_STREAM_END)
		packed->is_inside = false;
	else if (gzip->avail_out < capacity)
		return (int64_t)(capacity -
				 gzip->avail_out); /* an error comes back at the next call */
	else if (result == Z_MEM_ERROR)
		return ky_packed_fail(packed, -ENOMEM, "%s: out of memory", ky_packed_name(packed));
	else if (result != Z_OK && result != Z_BUF_ERROR)
		return gzip_damaged(packed);
	return (int64_t)(capacity - gzip->avail_out);
}

/* Frames stand on their own: one that is damaged costs itself alone. Not sticky. */
static int leave_frame(struct ky_packed *packed, const char *what)
{
	char text[DOUBT_BYTES];
	int code = ky_packed_fail(packed, KYMO_E_CORRUPT,
				  "%s: the zstd data is damaged at byte %" PRIu64
				  " (%s); %sleft out up to the next zstd frame%s",
				  ky_packed_name(packed), ky_packed_offset(packed), what,
				  packed->is_holding ? "this frame is " : "", doubt(packed, text));

	packed->failed = 0;
	packed->is_holding = false;
	packed->held_at = packed->held_used = 0;
	packed->is_inside = false;
	packed->is_damaged = true;
	(void)ZSTD_DCtx_reset(packed->zstd, ZSTD_reset_session_only);
	return code;
}

/* Goes to the start of the next frame, or to the end of the file. */
int ky_packed_find_frame(struct ky_packed *packed)
{
	static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};

	packed->is_damaged = false;
	for (;;) {
		int result = ky_packed_look_ahead(packed, sizeof(magic));
		size_t ahead = packed->used - packed->at;

		if (result)
			return result;
		if (ahead < sizeof(magic)) {
			packed->at = packed->used;
			return 0;
		}
		if (memcmp(packed->input + packed->at, magic, sizeof(magic)) == 0)
			return 0;
		packed->at++;
	}
}

/* Returns what came out: held back, or at out. */
static int64_t unpack_zstd(struct ky_packed *packed, uint8_t *out, size_t capacity)
{
	/* One block at a time: when a call fails, zstd forgets what it had unpacked in that call.
	 */
	size_t ahead = packed->used - packed->at;
	size_t step = packed->zstd_step && packed->zstd_step < ahead ? packed->zstd_step : ahead;
	ZSTD_inBuffer in = {packed->input + packed->at, step, 0};
	ZSTD_outBuffer to = {out, capacity, 0};
	size_t result;

	if (packed->is_holding)
		to = (ZSTD_outBuffer){packed->held, packed->held_capacity, packed->held_used};
	result = ZSTD_decompressStream(packed->zstd, &to, &in);
	packed->at += in.pos;
	if (ZSTD_isError(result)) {
		if (ZSTD_getErrorCode(result) != ZSTD_error_frameParameter_windowTooLarge)
			return leave_frame(packed, ZSTD_getErrorName(result));
		return ky_packed_fail(packed, KYMO_E_LIMIT,
				      "%s: zstd refuses the data at byte %" PRIu64 ": %s",
				      ky_packed_name(packed), ky_packed_offset(packed),
				      ZSTD_getErrorName(result));
	}
	packed->zstd_step = result;
	if (result == 0)
		packed->is_inside = false;
	if (!packed->is_holding)
		return (int64_t)to.pos;
	result = to.pos - packed->held_used;
	packed->held_used = to.pos;
	if (!packed->is_inside || packed->held_used == packed->held_capacity)
		packed->is_holding = false;
	return (int64_t)result;
}

/* Some bytes; 0: there is nothing more, or it still has to be held back. */
size_t ky_packed_give_held(struct ky_packed *packed, uint8_t *out, size_t capacity)
{
	size_t left = packed->held_used - packed->held_at;
	size_t count = left < capacity ? left : capacity;

	if (!count || packed->is_holding)
		return 0;
	memcpy(out, packed->held + packed->held_at, count);
	packed->held_at += count;
	packed->doubtful += count;
	return count;
}

static int64_t copy_raw(struct ky_packed *packed, uint8_t *out, size_t capacity)
{
	size_t ahead = packed->used - packed->at;
	size_t count = ahead < capacity ? ahead : capacity;

	memcpy(out, packed->input + packed->at, count);
	packed->at += count;
	return (int64_t)count;
}

/* One step of the member or frame that is open. Returns what came out; is_given: it is at out. */
int64_t ky_packed_step(struct ky_packed *packed, uint8_t *out, size_t capacity, bool *is_given)
{
	*is_given = packed->codec != KY_CONTAINER_ZSTD || !packed->is_holding;
	if (packed->codec == KY_CONTAINER_RAW)
		return copy_raw(packed, out, capacity);
	return packed->codec == KY_CONTAINER_GZIP ? unpack_gzip(packed, out, capacity) :
						    unpack_zstd(packed, out, capacity);
}
