/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* packed.h - a file that is being unpacked: its bytes through a window, and the codec that is open;
 * for inflate.c (the source), packed_file.c (bytes) and packed_codec.c (gzip members, zstd frames).
 * Threads: owner.
 */
#ifndef KY_SHIP_PACKED_H
#define KY_SHIP_PACKED_H

#include <ship/container.h>
#include <ship/inflate.h>
#include <wire/trc.h>
#include <zlib.h>
#include <zstd.h>

struct ky_packed {
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
	bool is_damaged; /* the zstd frame that was being read: search for the next one */
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
	size_t first_count, first_at; /* content peeked at open, given out first */
};

/* ---- packed_file.c ---- */

const char *ky_packed_name(const struct ky_packed *packed);
/* Keeps the sentence. Returns `code`, which is sticky. */
__attribute__((format(printf, 3, 4))) int ky_packed_fail(struct ky_packed *packed, int code,
							 const char *format, ...);
/* Bytes of the file that were taken. */
uint64_t ky_packed_offset(const struct ky_packed *packed);
int ky_packed_open(struct ky_packed *packed);
/* Makes input non-empty, or sets at_end. */
int ky_packed_refill(struct ky_packed *packed);
/* At least `count` bytes of lookahead unless the file ends; a magic may straddle two reads. */
int ky_packed_look_ahead(struct ky_packed *packed, size_t count);
/* Zeros after the last member are what tape-minded tools leave; gzip ignores them too. */
int ky_packed_pass_zeros(struct ky_packed *packed);

/* ---- packed_codec.c ---- */

/* Opens a member or frame. */
int ky_packed_begin_codec(struct ky_packed *packed, enum ky_container codec);
void ky_packed_end_codec(struct ky_packed *packed);
void ky_packed_drop_held(struct ky_packed *packed);
/* One step of what is open. Returns what came out; is_given: it is at out. */
int64_t ky_packed_step(struct ky_packed *packed, uint8_t *out, size_t capacity, bool *is_given);
/* Some bytes; 0: there is nothing more, or it still has to be held back. */
size_t ky_packed_give_held(struct ky_packed *packed, uint8_t *out, size_t capacity);
/* Goes to the start of the next zstd frame, or to the end of the file. */
int ky_packed_find_frame(struct ky_packed *packed);
/* The file ends inside what is open. */
int ky_packed_torn(struct ky_packed *packed);

#endif
