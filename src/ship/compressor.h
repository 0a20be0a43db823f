/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* compressor.h - what stands between chunks and the disk and needs a library: compression.
 *
 * One object per segment. `write` gets whole chunks and passes the compressed bytes on; `finish`
 * writes the tail (zstd: the seek table in a skippable frame; gzip: the trailer).
 * When a write fails the caller drops what came of it; the compressor then continues, or finishes,
 * after the last chunk that got through.
 * Threads: owner.
 */
#ifndef KY_SHIP_COMPRESSOR_H
#define KY_SHIP_COMPRESSOR_H

#include <kymo/recorder.h>
#include <stddef.h>
#include <stdint.h>

typedef int (*ky_write_fn)(void *ctx, const uint8_t *bytes, size_t count); /* 0 or negative error */

struct ky_compressor {
	int (*write)(void *self, const uint8_t *chunk, size_t chunk_bytes, ky_write_fn out,
		     void *ctx);
	int (*finish)(void *self, ky_write_fn out, void *ctx);
	void (*close)(void *self);
	void *self;
};

struct ky_compressor_factory {
	const char *suffix; /* "", ".zst", ".gz": appended to the segment's name */
	int (*open)(const struct ky_compressor_factory *self, struct ky_compressor *out);
	int level;
};

extern const struct ky_compressor_factory ky_compressor_none; /* store.c: bytes as they are */

/* compress_zstd.c, compress_gzip.c: only in builds that have the library. */
void ky_compressor_zstd(struct ky_compressor_factory *out, int level);
void ky_compressor_gzip(struct ky_compressor_factory *out, int level);

/* What the ending of a name says: ".zst" and ".gz" are packed. Returns enum kymo_compression. */
static inline uint32_t ky_compressor_kind(const char *suffix)
{
	return !suffix[0]       ? KYMO_COMPRESSION_NONE :
	       suffix[1] == 'z' ? KYMO_COMPRESSION_ZSTD :
				  KYMO_COMPRESSION_GZIP;
}

/* kind: enum kymo_compression; the default is zstd where the build has it, else none. Returns 0;
 * KYMO_E_UNSUPPORTED: the build lacks the library. */
static inline int ky_compressor_choose(struct ky_compressor_factory *out, uint32_t kind, int level)
{
	*out = ky_compressor_none;
	if (kind == KYMO_COMPRESSION_DEFAULT || kind == KYMO_COMPRESSION_ZSTD) {
#if !defined(KY_WITHOUT_ZSTD)
		ky_compressor_zstd(out, level);
#else
		return kind == KYMO_COMPRESSION_ZSTD ? KYMO_E_UNSUPPORTED : 0;
#endif
	} else if (kind == KYMO_COMPRESSION_GZIP) {
#if !defined(KY_WITHOUT_GZIP)
		ky_compressor_gzip(out, level);
#else
		return KYMO_E_UNSUPPORTED;
#endif
	}
	return 0;
}

#endif
