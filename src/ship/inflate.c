/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/inflate.h>

#include <base/alloc.h>
#include <errno.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <ship/packed.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Members that unpack to nothing, one after the other: more is an attack, not a trace. */
#define EMPTY_MEMBERS_MAX 1000000u

/* Everything a source that is not being read can do without. */
static void rest(struct ky_packed *packed)
{
	ky_packed_end_codec(packed);
	ky_packed_drop_held(packed);
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

static void rewind_state(struct ky_packed *packed)
{
	rest(packed);
	packed->codec = KY_CONTAINER_NONE;
	packed->at_end = packed->is_inside = packed->is_restart = packed->is_damaged = false;
	packed->failed = 0;
	packed->stored = packed->good = packed->unpacked = packed->doubtful = 0;
	packed->empty_members = 0;
	packed->first_count = packed->first_at = 0;
}

/* Between members: reads what comes next. Returns 0 (at_end or a member open) or an error. */
static int begin_member(struct ky_packed *packed)
{
	enum ky_container codec;
	size_t ahead;
	int result;

	if (packed->codec == KY_CONTAINER_GZIP) {
		result = ky_packed_pass_zeros(packed);
		if (result)
			return result;
	}
	result = ky_packed_look_ahead(packed, 4);
	if (result)
		return result;
	ahead = packed->used - packed->at;
	if (!ahead) {
		if (packed->codec == KY_CONTAINER_NONE)
			return ky_packed_fail(packed, KYMO_E_NOT_TRACE,
					      "%s: is empty, so it holds no trace",
					      ky_packed_name(packed));
		return 0;
	}
	codec = ky_container_of(packed->input + packed->at, ahead);
	if (codec == KY_CONTAINER_NONE &&
	    ky_container_is_truncated(packed->input + packed->at, ahead))
		return ky_packed_fail(packed, KYMO_E_TRUNCATED,
				      "%s: ends at byte %" PRIu64 ", inside a header",
				      ky_packed_name(packed), packed->stored);
	if (codec == KY_CONTAINER_NONE && packed->codec != KY_CONTAINER_NONE)
		return ky_packed_fail(packed, KYMO_E_CORRUPT,
				      "%s: byte %" PRIu64
				      " starts neither a gzip member nor a zstd frame; "
				      "what follows is left out",
				      ky_packed_name(packed), ky_packed_offset(packed));
	if (codec == KY_CONTAINER_NONE)
		return ky_packed_fail(
			packed, KYMO_E_NOT_TRACE,
			"%s: not a trace: byte 0 starts neither TRC nor gzip nor zstd; give the "
			"file or directory that a recorder wrote",
			ky_packed_name(packed));
	result = ky_packed_begin_codec(packed, codec);
	if (result)
		return ky_packed_fail(packed, result, "%s: out of memory", ky_packed_name(packed));
	packed->is_inside = true;
	packed->doubtful = 0;
	packed->good = ky_packed_offset(packed);
	if (++packed->empty_members > EMPTY_MEMBERS_MAX)
		return ky_packed_fail(packed, KYMO_E_LIMIT,
				      "%s: a million empty members up to byte %" PRIu64,
				      ky_packed_name(packed), ky_packed_offset(packed));
	return 0;
}

static int check_bomb(struct ky_packed *packed)
{
	const struct ky_inflate_options *options = &packed->options;

	if (options->unpacked_bytes_max && packed->unpacked > options->unpacked_bytes_max)
		return ky_packed_fail(packed, KYMO_E_LIMIT,
				      "%s: unpacks to more than %" PRIu64
				      " bytes; raise the limit with --max-bytes",
				      ky_packed_name(packed), options->unpacked_bytes_max);
	if (packed->unpacked > KY_INFLATE_FREE_BYTES && options->ratio_max != UINT32_MAX &&
	    packed->unpacked / options->ratio_max > ky_packed_offset(packed))
		return ky_packed_fail(packed, KYMO_E_LIMIT,
				      "%s: byte %" PRIu64
				      " has unpacked to more than %u times its size; if that is "
				      "no attack, raise the limit with --max-ratio",
				      ky_packed_name(packed), ky_packed_offset(packed),
				      options->ratio_max);
	return 0;
}

/* Opens what comes next, if nothing is open. Returns 0, at the end with nothing open; an error. */
static int go_inside(struct ky_packed *packed)
{
	int result = 0;

	if (packed->is_damaged)
		result = ky_packed_find_frame(packed);
	if (!result && !packed->is_inside)
		result = begin_member(packed);
	if (!result && packed->is_inside)
		result = ky_packed_refill(packed);
	return result;
}

/* Some bytes, 0 at the end of the file, or an error. capacity fits zlib's unsigned int. */
static int64_t unpack(struct ky_packed *packed, uint8_t *out, size_t capacity)
{
	bool is_given;

	while (!packed->failed) {
		int64_t count = (int64_t)ky_packed_give_held(packed, out, capacity);
		int result;

		if (count)
			return count;
		result = go_inside(packed);
		if (result)
			return result;
		if (!packed->is_inside || (packed->codec == KY_CONTAINER_RAW && packed->at_end))
			return 0;
		/* At the end of input the codec may still hold output back. */
		count = ky_packed_step(packed, out, capacity, &is_given);
		if (count < 0)
			return count;
		if (count == 0 && packed->is_inside && packed->at_end) {
			if (!packed->is_holding)
				return ky_packed_torn(packed);
			packed->is_holding = false; /* no checksum comes: this is all there is */
		}
		if (count > 0) {
			packed->empty_members = 0;
			packed->unpacked += (uint64_t)count;
			packed->good = ky_packed_offset(packed);
			packed->doubtful += is_given ? (uint64_t)count : 0;
			result = check_bomb(packed);
			if (result || is_given)
				return result ? result : count;
		}
	}
	return packed->failed;
}

/* First read after a seek. Raw files jump. */
static int restart(struct ky_packed *packed)
{
	bool is_raw = packed->is_raw;
	int result;

	rewind_state(packed);
	if (!is_raw)
		return 0;
	result = ky_packed_open(packed);
	if (result)
		return result;
	if (lseek(packed->fd, (off_t)packed->skip, SEEK_SET) < 0)
		return ky_packed_fail(packed, -errno, "%s: cannot go to byte %" PRIu64 ": %s",
				      ky_packed_name(packed), packed->skip,
				      kymo_error_text(-errno));
	packed->codec = KY_CONTAINER_RAW;
	packed->is_inside = true;
	packed->stored = packed->unpacked = packed->skip;
	packed->skip = 0;
	return 0;
}

static int64_t read_first(struct ky_packed *packed, uint8_t *out, size_t capacity)
{
	size_t left = packed->first_count - packed->first_at;
	size_t count = left < capacity ? left : capacity;

	memcpy(out, packed->first + packed->first_at, count);
	packed->first_at += count;
	return (int64_t)count;
}

static int64_t inflate_read(void *ctx, uint8_t *out, size_t capacity)
{
	struct ky_packed *packed = ctx;
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
	const struct ky_packed *packed = ctx;

	return packed->error;
}

/* Compressed files are unpacked from the start again and what lies before is dropped. */
static int inflate_seek(void *ctx, uint64_t offset)
{
	struct ky_packed *packed = ctx;

	if (!packed->is_seekable)
		return -ESPIPE;
	packed->is_restart = true;
	packed->skip = offset;
	return 0;
}

static void inflate_close(void *ctx)
{
	struct ky_packed *packed = ctx;

	if (!packed)
		return;
	rest(packed);
	ky_free(packed->input);
	ky_free(packed->path);
	ky_free(packed);
}

/* The first bytes of content decide whether this is a trace at all. */
static int peek(struct ky_packed *packed)
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
		return ky_packed_fail(
			packed, KYMO_E_NOT_TRACE,
			"%s: holds no trace: what it unpacks to does not start with TRC",
			ky_packed_name(packed));
	if (packed->first_count < sizeof(packed->first))
		return ky_packed_fail(packed, KYMO_E_TRUNCATED,
				      "%s: ends inside the header of the trace",
				      ky_packed_name(packed));
	if (packed->first[4] != KY_TRC_VERSION)
		return ky_packed_fail(
			packed, KYMO_E_VERSION,
			"%s: written in format version %u, this kymo reads version %u; use a "
			"newer kymo",
			ky_packed_name(packed), packed->first[4], KY_TRC_VERSION);
	return 0;
}

static struct ky_packed *new_inflate(const char *path)
{
	struct ky_packed *packed = ky_alloc(sizeof(*packed));
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

static const char *container_name(const struct ky_packed *packed)
{
	return packed->codec == KY_CONTAINER_GZIP ? "gzip" :
	       packed->codec == KY_CONTAINER_ZSTD ? "zstd" :
						    "raw";
}

int ky_inflate_open(struct ky_byte_source *out, const char *path,
		    const struct ky_inflate_options *options, char *error, size_t error_bytes)
{
	struct ky_packed *packed = new_inflate(path);
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
		/* Peeked bytes are read again: nothing stays open until the caller reads. */
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
	out->name = ky_packed_name(packed);
	return 0;
}

uint64_t ky_inflate_stored_offset(const struct ky_byte_source *source)
{
	return ky_packed_offset(source->ctx);
}
