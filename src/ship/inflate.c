/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/inflate.h>

#include <base/alloc.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <ship/container.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wire/trc.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define INPUT_BYTES 65536u

/* A zstd frame that unpacks to no more is handed on once its checksum is known to be right. Chunks
 * of ours have at most a quarter of it, unless one event alone is larger. */
#define HELD_BYTES_MAX (1u << 20)
#define FRAME_HEADER_BYTES_MAX 18u
#define DOUBT_BYTES 96u
#define TORN_BYTES 112u

/* Members that unpack to nothing, one after the other: more is an attack, not a trace. */
#define EMPTY_MEMBERS_MAX 1000000u

struct packed {
	char *path;
	char *error;
	size_t error_bytes;
	struct ky_inflate_options options;
	int fd;
	bool is_stdin;
	bool has_codec;  /* zlib or zstd state is live */
	bool at_end;     /* of the file */
	bool is_inside;  /* a member or frame is open */
	bool is_restart; /* after a seek: forget everything at the next read */
	bool is_seekable;
	bool is_damaged; /* the zstd frame that was being read: look for the next one */
	bool is_raw;     /* the whole file: offsets are the file's own */
	enum ky_container codec;
	int failed;        /* sticky */
	uint64_t stored;   /* bytes read from the file */
	uint64_t good;     /* bytes of the file up to the last that gave something */
	uint64_t unpacked; /* bytes that came out of it, of damaged frames too */
	uint64_t doubtful; /* bytes delivered of the member or frame that is open */
	uint64_t skip;     /* bytes to throw away after a seek */
	uint32_t empty_members;
	z_stream gzip;
	ZSTD_DCtx *zstd;
	size_t zstd_step; /* input that zstd wants next */
	uint8_t *input;
	size_t at, used; /* of input */
	/* A zstd frame that waits for its checksum. is_holding: it may still grow; else what is
	 * there is good, or all there is. */
	uint8_t *held;
	size_t held_capacity, held_at, held_used;
	bool is_holding;
	uint8_t first[KY_TRC_HEADER_BYTES];
	size_t first_count, first_at; /* content peeked at open, handed out first */
};

static const char *shown_path(const struct packed *packed)
{
	if (packed->options.shown_name)
		return packed->options.shown_name;
	return packed->is_stdin ? "standard input" : packed->path;
}

__attribute__((format(printf, 3, 4))) static int fail(struct packed *packed, int code,
						      const char *format, ...)
{
	va_list args;

	packed->failed = code;
	if (packed->error && packed->error_bytes) {
		va_start(args, format);
		(void)vsnprintf(packed->error, packed->error_bytes, format, args);
		va_end(args);
	}
	return code;
}

static uint64_t stored_offset(const struct packed *packed)
{
	return packed->stored - (packed->used - packed->at);
}

static void end_codec(struct packed *packed)
{
	if (packed->has_codec && packed->codec == KY_CONTAINER_GZIP)
		(void)inflateEnd(&packed->gzip);
	if (packed->zstd)
		(void)ZSTD_freeDCtx(packed->zstd);
	packed->zstd = NULL;
	packed->has_codec = false;
}

static void drop_held(struct packed *packed)
{
	ky_free(packed->held);
	packed->held = NULL;
	packed->held_capacity = packed->held_at = packed->held_used = 0;
	packed->is_holding = false;
}

/* Everything a source that is not being read can do without. */
static void rest(struct packed *packed)
{
	end_codec(packed);
	drop_held(packed);
	if (packed->fd >= 0 && !packed->is_stdin) {
		(void)close(packed->fd);
		packed->fd = -1;
	}
	if (!packed->is_stdin) {
		ky_free(packed->input);
		packed->input = NULL;
		packed->at = packed->used = 0;
	}
}

static void rewind_state(struct packed *packed)
{
	rest(packed);
	packed->codec = KY_CONTAINER_NONE;
	packed->at_end = packed->is_inside = packed->is_restart = packed->is_damaged = false;
	packed->failed = 0;
	packed->stored = packed->good = packed->unpacked = packed->doubtful = 0;
	packed->empty_members = 0;
	packed->first_count = packed->first_at = 0;
}

static int open_file(struct packed *packed)
{
	struct stat info;

	if (packed->is_stdin)
		packed->fd = STDIN_FILENO;
	else
		packed->fd = open(packed->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (packed->fd < 0)
		return fail(packed, -errno, "%s: cannot be opened: %s", shown_path(packed),
			    kymo_error_text(-errno));
	if (fstat(packed->fd, &info) == 0 && S_ISDIR(info.st_mode))
		return fail(packed, -EISDIR, "%s: is a directory", shown_path(packed));
	packed->input = ky_alloc(INPUT_BYTES);
	if (!packed->input)
		return fail(packed, -ENOMEM, "%s: out of memory", shown_path(packed));
	return 0;
}

/* Makes input non-empty, or sets at_end. */
static int refill(struct packed *packed)
{
	int result;

	if (packed->at < packed->used || packed->at_end)
		return 0;
	if (!packed->input) {
		result = open_file(packed);
		if (result)
			return result;
	}
	for (;;) {
		ssize_t count = read(packed->fd, packed->input, INPUT_BYTES);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return fail(packed, -errno, "%s: reading fails at byte %" PRIu64 ": %s",
				    shown_path(packed), packed->stored, kymo_error_text(-errno));
		packed->at = 0;
		packed->used = (size_t)count;
		packed->stored += (uint64_t)count;
		packed->at_end = count == 0;
		return 0;
	}
}

/* At least `count` bytes of lookahead unless the file ends; a magic may straddle two reads. */
static int look_ahead(struct packed *packed, size_t count)
{
	int result = refill(packed);

	while (!result && !packed->at_end && packed->used - packed->at < count) {
		size_t kept = packed->used - packed->at;
		ssize_t got;

		memmove(packed->input, packed->input + packed->at, kept);
		packed->at = 0;
		packed->used = kept;
		got = read(packed->fd, packed->input + kept, INPUT_BYTES - kept);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return fail(packed, -errno, "%s: reading fails at byte %" PRIu64 ": %s",
				    shown_path(packed), packed->stored, kymo_error_text(-errno));
		if (got == 0)
			break;
		packed->used += (size_t)got;
		packed->stored += (uint64_t)got;
	}
	return result;
}

static int open_gzip(struct packed *packed)
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
static int begin_holding(struct packed *packed)
{
	unsigned long long bytes = ZSTD_CONTENTSIZE_UNKNOWN; /* above all others, as is ERROR */
	size_t capacity = HELD_BYTES_MAX;

	if (look_ahead(packed, FRAME_HEADER_BYTES_MAX) == 0)
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

static int open_zstd(struct packed *packed)
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

/* Padding of zeros after the last member is what tape-minded tools leave; gzip ignores it too. */
static int pass_padding(struct packed *packed)
{
	int result;

	for (;;) {
		result = refill(packed);
		if (result || packed->at_end)
			return result;
		while (packed->at < packed->used && packed->input[packed->at] == 0)
			packed->at++;
		if (packed->at < packed->used)
			return 0;
	}
}

/* Between members: looks at what comes next. Returns 0 (at_end or a member open) or an error. */
static int begin_member(struct packed *packed)
{
	enum ky_container codec;
	size_t ahead;
	int result;

	if (packed->codec == KY_CONTAINER_GZIP) {
		result = pass_padding(packed);
		if (result)
			return result;
	}
	result = look_ahead(packed, 4);
	if (result)
		return result;
	ahead = packed->used - packed->at;
	if (!ahead) {
		if (packed->codec == KY_CONTAINER_NONE)
			return fail(packed, KYMO_E_NOT_TRACE, "%s: is empty, so it holds no trace",
				    shown_path(packed));
		return 0;
	}
	codec = ky_container_of(packed->input + packed->at, ahead);
	if (codec == KY_CONTAINER_NONE && ky_container_is_cut(packed->input + packed->at, ahead))
		return fail(packed, KYMO_E_TRUNCATED,
			    "%s: ends at byte %" PRIu64 ", inside a header", shown_path(packed),
			    packed->stored);
	if (codec == KY_CONTAINER_NONE && packed->codec != KY_CONTAINER_NONE)
		return fail(packed, KYMO_E_CORRUPT,
			    "%s: byte %" PRIu64 " starts neither a gzip member nor a zstd frame; "
			    "what follows is left out",
			    shown_path(packed), stored_offset(packed));
	if (codec == KY_CONTAINER_NONE)
		return fail(
			packed, KYMO_E_NOT_TRACE,
			"%s: not a trace: byte 0 starts neither TRC nor gzip nor zstd; give the "
			"file or directory that a recorder wrote",
			shown_path(packed));
	if (codec != packed->codec)
		end_codec(packed);
	packed->codec = codec;
	result = codec == KY_CONTAINER_GZIP ? open_gzip(packed) :
		 codec == KY_CONTAINER_ZSTD ? open_zstd(packed) :
					      0;
	if (result)
		return fail(packed, result, "%s: out of memory", shown_path(packed));
	packed->is_inside = true;
	packed->doubtful = 0;
	packed->good = stored_offset(packed);
	if (++packed->empty_members > EMPTY_MEMBERS_MAX)
		return fail(packed, KYMO_E_LIMIT, "%s: a million empty members up to byte %" PRIu64,
			    shown_path(packed), stored_offset(packed));
	return 0;
}

static int torn(struct packed *packed)
{
	uint64_t lost = packed->stored - packed->good;
	char text[TORN_BYTES] = "";

	if (lost)
		(void)snprintf(text, sizeof(text),
			       "; its last %" PRIu64 " bytes, from byte %" PRIu64
			       " on, cannot be unpacked",
			       lost, packed->good);
	return fail(packed, KYMO_E_TRUNCATED,
		    "%s: the %s data ends early, at byte %" PRIu64
		    "%s; everything before %s was read",
		    shown_path(packed), packed->codec == KY_CONTAINER_GZIP ? "gzip" : "zstd",
		    packed->stored, text, lost ? "them" : "it");
}

/* What has been given of the member or frame already was under the same checksum. */
static const char *doubt(const struct packed *packed, char *text)
{
	text[0] = '\0';
	if (packed->doubtful)
		(void)snprintf(text, DOUBT_BYTES,
			       "; the %" PRIu64 " bytes unpacked before it may be wrong too",
			       packed->doubtful);
	return text;
}

/* A member may be a whole segment, so it is not held back until its checksum is known. */
static int gzip_damaged(struct packed *packed)
{
	char text[DOUBT_BYTES];

	return fail(packed, KYMO_E_CORRUPT,
		    "%s: the gzip data is damaged at byte %" PRIu64
		    " (%s); what follows is left out%s",
		    shown_path(packed), stored_offset(packed),
		    packed->gzip.msg ? packed->gzip.msg : "no gzip", doubt(packed, text));
}

static int64_t unpack_gzip(struct packed *packed, uint8_t *out, size_t capacity)
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
		return fail(packed, -ENOMEM, "%s: out of memory", shown_path(packed));
	else if (result != Z_OK && result != Z_BUF_ERROR)
		return gzip_damaged(packed);
	return (int64_t)(capacity - gzip->avail_out);
}

/* Frames stand on their own: one that is damaged costs itself alone. Not sticky. */
static int leave_frame(struct packed *packed, const char *what)
{
	char text[DOUBT_BYTES];
	int code = fail(packed, KYMO_E_CORRUPT,
			"%s: the zstd data is damaged at byte %" PRIu64
			" (%s); %sleft out up to the next zstd frame%s",
			shown_path(packed), stored_offset(packed), what,
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
static int find_frame(struct packed *packed)
{
	static const uint8_t magic[4] = {0x28, 0xb5, 0x2f, 0xfd};

	packed->is_damaged = false;
	for (;;) {
		int result = look_ahead(packed, sizeof(magic));
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
static int64_t unpack_zstd(struct packed *packed, uint8_t *out, size_t capacity)
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
		return fail(packed, KYMO_E_LIMIT,
			    "%s: zstd refuses the data at byte %" PRIu64 ": %s", shown_path(packed),
			    stored_offset(packed), ZSTD_getErrorName(result));
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
static size_t give_held(struct packed *packed, uint8_t *out, size_t capacity)
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

static int64_t copy_raw(struct packed *packed, uint8_t *out, size_t capacity)
{
	size_t ahead = packed->used - packed->at;
	size_t count = ahead < capacity ? ahead : capacity;

	memcpy(out, packed->input + packed->at, count);
	packed->at += count;
	return (int64_t)count;
}

static int check_bomb(struct packed *packed)
{
	const struct ky_inflate_options *options = &packed->options;

	if (options->unpacked_bytes_max && packed->unpacked > options->unpacked_bytes_max)
		return fail(packed, KYMO_E_LIMIT,
			    "%s: unpacks to more than %" PRIu64
			    " bytes; raise the limit with --max-bytes",
			    shown_path(packed), options->unpacked_bytes_max);
	if (packed->unpacked > KY_INFLATE_FREE_BYTES && options->ratio_max != UINT32_MAX &&
	    packed->unpacked / options->ratio_max > stored_offset(packed))
		return fail(packed, KYMO_E_LIMIT,
			    "%s: byte %" PRIu64
			    " has unpacked to more than %u times its size; if that is "
			    "no attack, raise the limit with --max-ratio",
			    shown_path(packed), stored_offset(packed), options->ratio_max);
	return 0;
}

/* One step of the member or frame that is open. Returns what came out; is_given: it is at out. */
static int64_t unpack_step(struct packed *packed, uint8_t *out, size_t capacity, bool *is_given)
{
	*is_given = packed->codec != KY_CONTAINER_ZSTD || !packed->is_holding;
	if (packed->codec == KY_CONTAINER_RAW)
		return copy_raw(packed, out, capacity);
	return packed->codec == KY_CONTAINER_GZIP ? unpack_gzip(packed, out, capacity) :
						    unpack_zstd(packed, out, capacity);
}

/* Opens what comes next, if nothing is open. Returns 0, at the end with nothing open; an error. */
static int go_inside(struct packed *packed)
{
	int result = 0;

	if (packed->is_damaged)
		result = find_frame(packed);
	if (!result && !packed->is_inside)
		result = begin_member(packed);
	if (!result && packed->is_inside)
		result = refill(packed);
	return result;
}

/* Some bytes, 0 at the end of the file, or an error. capacity fits zlib's unsigned int. */
static int64_t unpack(struct packed *packed, uint8_t *out, size_t capacity)
{
	bool is_given;

	while (!packed->failed) {
		int64_t count = (int64_t)give_held(packed, out, capacity);
		int result;

		if (count)
			return count;
		result = go_inside(packed);
		if (result)
			return result;
		if (!packed->is_inside || (packed->codec == KY_CONTAINER_RAW && packed->at_end))
			return 0;
		/* At the end of input the codec may still hold output back. */
		count = unpack_step(packed, out, capacity, &is_given);
		if (count < 0)
			return count;
		if (count == 0 && packed->is_inside && packed->at_end) {
			if (!packed->is_holding)
				return torn(packed);
			packed->is_holding = false; /* no checksum comes: this is all there is */
		}
		if (count > 0) {
			packed->empty_members = 0;
			packed->unpacked += (uint64_t)count;
			packed->good = stored_offset(packed);
			packed->doubtful += is_given ? (uint64_t)count : 0;
			result = check_bomb(packed);
			if (result || is_given)
				return result ? result : count;
		}
	}
	return packed->failed;
}

/* First read after a seek. Raw files jump. */
static int restart(struct packed *packed)
{
	bool is_raw = packed->is_raw;
	int result;

	rewind_state(packed);
	if (!is_raw)
		return 0;
	result = open_file(packed);
	if (result)
		return result;
	if (lseek(packed->fd, (off_t)packed->skip, SEEK_SET) < 0)
		return fail(packed, -errno, "%s: cannot go to byte %" PRIu64 ": %s",
			    shown_path(packed), packed->skip, kymo_error_text(-errno));
	packed->codec = KY_CONTAINER_RAW;
	packed->is_inside = true;
	packed->stored = packed->unpacked = packed->skip;
	packed->skip = 0;
	return 0;
}

static int64_t read_first(struct packed *packed, uint8_t *out, size_t capacity)
{
	size_t left = packed->first_count - packed->first_at;
	size_t count = left < capacity ? left : capacity;

	memcpy(out, packed->first + packed->first_at, count);
	packed->first_at += count;
	return (int64_t)count;
}

static int64_t inflate_read(void *ctx, uint8_t *out, size_t capacity)
{
	struct packed *packed = ctx;
	int64_t count;

	if (packed->is_restart)
		(void)restart(packed); /* a failure is kept and returned below */
	if (capacity > 1u << 30)
		capacity = 1u << 30;
	if (!capacity)
		return 0;
	do {
		if (packed->first_at < packed->first_count)
			count = read_first(packed, out, capacity);
		else if (packed->failed)
			count = packed->failed;
		else
			count = unpack(packed, out, capacity);
		if (count > 0 && packed->skip) {
			uint64_t skipped = packed->skip < (uint64_t)count ? packed->skip :
									    (uint64_t)count;

			packed->skip -= skipped;
			count -= (int64_t)skipped;
			memmove(out, out + skipped, (size_t)count);
			if (!count)
				continue;
		}
		break;
	} while (true);
	if (count <= 0 && !packed->is_damaged)
		rest(packed);
	return count;
}

static const char *inflate_reason(void *ctx)
{
	const struct packed *packed = ctx;

	return packed->error;
}

/* Compressed files are unpacked from the start again and what lies before is dropped. */
static int inflate_seek(void *ctx, uint64_t offset)
{
	struct packed *packed = ctx;

	if (!packed->is_seekable)
		return -ESPIPE;
	packed->is_restart = true;
	packed->skip = offset;
	return 0;
}

static void inflate_close(void *ctx)
{
	struct packed *packed = ctx;

	if (!packed)
		return;
	rest(packed);
	ky_free(packed->input);
	ky_free(packed->path);
	ky_free(packed);
}

/* The first bytes of content decide whether this is a trace at all. */
static int peek(struct packed *packed)
{
	bool is_damaged = false;

	while (packed->first_count < sizeof(packed->first)) {
		int64_t count = unpack(packed, packed->first + packed->first_count,
				       sizeof(packed->first) - packed->first_count);

		if (count > 0)
			packed->first_count += (size_t)count;
		else if (count == KYMO_E_CORRUPT && packed->is_damaged && !packed->first_count)
			is_damaged = true; /* perhaps a later frame is whole */
		else
			break;
	}
	if (is_damaged && !packed->first_count)
		return KYMO_E_CORRUPT;
	if (packed->failed && packed->first_count == 0)
		return packed->failed;
	if (memcmp(packed->first, "TRC\0", packed->first_count < 4 ? packed->first_count : 4) != 0)
		return fail(packed, KYMO_E_NOT_TRACE,
			    "%s: holds no trace: what it unpacks to does not start with TRC",
			    shown_path(packed));
	if (packed->first_count < sizeof(packed->first))
		return fail(packed, KYMO_E_TRUNCATED, "%s: ends inside the header of the trace",
			    shown_path(packed));
	if (packed->first[4] != KY_TRC_VERSION)
		return fail(packed, KYMO_E_VERSION,
			    "%s: written in format version %u, this kymo reads version %u; use a "
			    "newer kymo",
			    shown_path(packed), packed->first[4], KY_TRC_VERSION);
	return 0;
}

static struct packed *new_inflate(const char *path)
{
	struct packed *packed = ky_alloc(sizeof(*packed));
	size_t path_bytes = strlen(path) + 1;

	if (!packed)
		return NULL;
	packed->fd = -1;
	packed->path = ky_alloc(path_bytes);
	if (!packed->path) {
		ky_free(packed);
		return NULL;
	}
	memcpy(packed->path, path, path_bytes);
	packed->is_stdin = strcmp(path, "-") == 0;
	return packed;
}

static const char *container_name(const struct packed *packed)
{
	return packed->codec == KY_CONTAINER_GZIP ? "gzip" :
	       packed->codec == KY_CONTAINER_ZSTD ? "zstd" :
						    "raw";
}

int ky_inflate_open(struct ky_byte_source *out, const char *path,
		    const struct ky_inflate_options *options, char *error, size_t error_bytes)
{
	struct packed *packed = new_inflate(path);
	struct stat info;
	int result;

	memset(out, 0, sizeof(*out));
	if (!packed) {
		if (error && error_bytes)
			(void)snprintf(error, error_bytes, "%s: out of memory", path);
		return -ENOMEM;
	}
	packed->error = error;
	packed->error_bytes = error_bytes;
	if (options)
		packed->options = *options;
	if (!packed->options.ratio_max)
		packed->options.ratio_max = KY_INFLATE_RATIO_MAX;
	if (!packed->options.window_bytes_max)
		packed->options.window_bytes_max = KY_INFLATE_WINDOW_BYTES_MAX;
	result = peek(packed);
	if (result) {
		inflate_close(packed);
		return result;
	}
	out->container = container_name(packed);
	packed->is_raw = packed->codec == KY_CONTAINER_RAW;
	if (!packed->is_stdin) {
		if (packed->fd < 0 || fstat(packed->fd, &info) != 0)
			memset(&info, 0, sizeof(info));
		if (S_ISREG(info.st_mode))
			out->stored_bytes = (uint64_t)info.st_size;
		/* Peeked bytes are read again: nothing stays open until somebody reads. */
		packed->is_seekable = packed->fd >= 0 && S_ISREG(info.st_mode);
		if (packed->is_seekable) {
			(void)inflate_seek(packed, 0);
			rest(packed);
		}
	}
	out->read = inflate_read;
	out->seek = packed->is_seekable ? inflate_seek : NULL;
	out->close = inflate_close;
	out->reason = packed->error_bytes ? inflate_reason : NULL;
	out->ctx = packed;
	out->name = shown_path(packed);
	return 0;
}

uint64_t ky_inflate_stored_offset(const struct ky_byte_source *source)
{
	return stored_offset(source->ctx);
}
