/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* byte_source.h - where the read engine gets its bytes: a decompressed file, or an array in memory.
 *
 * Sequential reads with rewind; random access where the source has it (`seek` may be NULL).
 * Decompressing sources live in ship/ and are passed to read/ through this, so the engine
 * itself needs no library and builds for wasm32.
 */
#ifndef KY_BASE_BYTE_SOURCE_H
#define KY_BASE_BYTE_SOURCE_H

#include <stddef.h>
#include <stdint.h>

struct ky_byte_source {
	/* Up to `capacity` bytes in out. Returns bytes read, 0 at the end, -errno or KYMO_E_*
	 * (KYMO_E_TRUNCATED when the compressed stream ends early: everything before was
	 * delivered; KYMO_E_CORRUPT: a damaged stretch was left out, the next read continues after
	 * it or returns the same again when there is nothing more). */
	int64_t (*read)(void *ctx, uint8_t *out, size_t capacity);
	/* Next read starts at this offset of the decompressed stream. 0 must work (rewind). NULL:
	 * not. */
	int (*seek)(void *ctx, uint64_t offset);
	void (*close)(void *ctx);
	void *ctx;
	const char *name;      /* path for messages; owned by the source */
	const char *container; /* "raw", "gzip", "zstd" */
	uint64_t stored_bytes; /* on disk; 0 unknown */
	/* Whole sentence about the last error, NULL or "" when there is none. NULL: never. */
	const char *(*reason)(void *ctx);
};

/* A source over memory (and a name) that the caller keeps alive. Returns 0, -ENOMEM. */
int ky_byte_source_memory(struct ky_byte_source *out, const void *bytes, size_t count,
			  const char *name);

#endif
