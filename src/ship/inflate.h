/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* inflate.h - a file on disk as the plain TRC bytes it holds, whatever it is wrapped in.
 *
 * Invariants:  the container is known by its first bytes, never by the name: raw TRC, gzip (any
 *              number of members), zstd (any number of frames, skippable ones passed over). A torn
 *              tail gives every byte before it first, then the error.
 * Damage:      a zstd frame of at most 1 MiB, as all of ours are, comes whole and with its checksum
 *              right, or not at all. Of a larger one and of a gzip member, which may be a whole
 *              segment, bytes are given before their checksum is known: when it is wrong, the
 *              error says how many were.
 * Memory:      two 64 KiB windows, 1 MiB for a frame, and the codec; zstd windows above
 *              window_bytes_max are refused.
 *              Nothing is held (no descriptor either) before the first read and after the end, so
 *              ten thousand segments can be open at once.
 * Bombs:       a file may unpack to ratio_max times what was read of it, and to 64 MiB in any case.
 * Threads:     owner.
 */
#ifndef KY_SHIP_INFLATE_H
#define KY_SHIP_INFLATE_H

#include <base/byte_source.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_INFLATE_RATIO_MAX 1000u
#define KY_INFLATE_FREE_BYTES (UINT64_C(64) << 20)
#define KY_INFLATE_WINDOW_BYTES_MAX (UINT64_C(128) << 20)

struct ky_inflate_options {
	uint64_t unpacked_bytes_max; /* of one file; 0: only the ratio bounds it */
	uint32_t ratio_max;          /* 0: KY_INFLATE_RATIO_MAX; UINT32_MAX: none */
	uint64_t window_bytes_max;   /* 0: KY_INFLATE_WINDOW_BYTES_MAX; a power of two */
	const char *shown_name;      /* in messages; NULL: the path. Outlives the source */
};

/* A source over the file at path ("-": standard input, which cannot be read twice).
 *
 * options  NULL: all defaults
 * error    NULL, or error_bytes for one sentence with file, byte and what to do; also filled by
 *          later reads of this source, so it must live as long as the source does
 * Returns  0; -errno; KYMO_E_NOT_TRACE: neither TRC nor gzip nor zstd, or something else inside
 *          one; KYMO_E_VERSION; KYMO_E_TRUNCATED: torn before the first byte of content.
 * Owner    the caller closes it with out->close(out->ctx).
 */
int ky_inflate_open(struct ky_byte_source *out, const char *path,
		    const struct ky_inflate_options *options, char *error, size_t error_bytes);

/* Bytes of the file consumed so far, for progress. */
uint64_t ky_inflate_stored_offset(const struct ky_byte_source *source);

#endif
