/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bench_sequences TRACE [CHUNK-BYTES] - what ready-made sequences could save of the compressor.
 *
 * TRACE is a raw one (`kymo run --compression none`), cut into chunks as the drain hands them over.
 * Each is compressed as shipped, and by ZSTD_compressSequences() from sequences that zstd itself
 * found before, for nothing: an encoder that knows its matches cannot be faster than that, for it
 * has to find and to store them. Alternating rounds, CPU time of this thread; the least counts,
 * for other work can only add to it.
 * Prints one JSON object: nanoseconds a KiB of each, the same twice, bytes of each, sequences. */
#define ZSTD_STATIC_LINKING_ONLY
#include <base/now.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define ROUNDS 41u
#define CHUNK_BYTES (256u << 10)
#define HASH_LOG 12 /* as compress_zstd.c */

struct chunk {
	const uint8_t *bytes;
	size_t count;
	ZSTD_Sequence *sequences;
	size_t sequence_count;
};

static uint8_t *read_file(const char *path, size_t *count)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = NULL;
	long size;

	if (file && fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) > 0) {
		*count = (size_t)size;
		bytes = malloc(*count);
		rewind(file);
		if (bytes && fread(bytes, 1, *count, file) != *count) {
			free(bytes);
			bytes = NULL;
		}
	}
	if (file)
		fclose(file);
	return bytes;
}

static ZSTD_CCtx *make_context(void)
{
	ZSTD_CCtx *context = ZSTD_createCCtx();

	if (context) {
		ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
		ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
		ZSTD_CCtx_setParameter(context, ZSTD_c_hashLog, HASH_LOG);
	}
	return context;
}

static int find_sequences(struct chunk *chunk)
{
	size_t room = chunk->count / 3 + 1024;
	ZSTD_CCtx *context = make_context();

	chunk->sequences = malloc(room * sizeof(*chunk->sequences));
	if (!context || !chunk->sequences)
		return -ENOMEM;
	chunk->sequence_count = ZSTD_generateSequences(context, chunk->sequences, room,
						       chunk->bytes, chunk->count);
	ZSTD_freeCCtx(context);
	if (ZSTD_isError(chunk->sequence_count))
		return -EIO;
	/* With explicit blocks 1.5.4 loses track of the offsets that repeat: half as many bytes
	 * more. */
	chunk->sequence_count = ZSTD_mergeBlockDelimiters(chunk->sequences, chunk->sequence_count);
	return 0;
}

static size_t compress(ZSTD_CCtx *context, const struct chunk *chunk, bool by_sequences, void *out,
		       size_t room)
{
	if (by_sequences)
		return ZSTD_compressSequences(context, out, room, chunk->sequences,
					      chunk->sequence_count, chunk->bytes, chunk->count);
	return ZSTD_compress2(context, out, room, chunk->bytes, chunk->count);
}

/* Returns nanoseconds, 0: it failed. */
static uint64_t compress_all(ZSTD_CCtx *context, const struct chunk *chunks, size_t count,
			     bool by_sequences, void *out, size_t room, uint64_t *bytes)
{
	uint64_t began_ns = ky_now_ns(CLOCK_THREAD_CPUTIME_ID);

	*bytes = 0;
	for (size_t i = 0; i < count; i++) {
		size_t got = compress(context, &chunks[i], by_sequences, out, room);

		if (ZSTD_isError(got)) {
			fprintf(stderr, "bench_sequences: %s\n", ZSTD_getErrorName(got));
			return 0;
		}
		*bytes += got;
	}
	return ky_now_ns(CLOCK_THREAD_CPUTIME_ID) - began_ns;
}

int main(int argc, char **argv)
{
	size_t chunk_bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : CHUNK_BYTES, bytes_count = 0;
	uint8_t *bytes = argc > 1 && chunk_bytes ? read_file(argv[1], &bytes_count) : NULL;
	size_t count = bytes_count / (chunk_bytes ? chunk_bytes : 1), sequences = 0;
	size_t room = ZSTD_compressBound(chunk_bytes);
	struct chunk *chunks = calloc(count ? count : 1, sizeof(*chunks));
	ZSTD_CCtx *whole = make_context(), *ready = make_context();
	uint64_t least[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX}, stored[3] = {0};
	void *out = malloc(room);
	double kib = (double)(count * chunk_bytes) / 1024;

	if (!bytes || !count || !chunks || !whole || !ready || !out) {
		fputs("usage: bench_sequences RAW-TRACE [CHUNK-BYTES]\n", stderr);
		return 2;
	}
	for (size_t i = 0; i < count; i++) {
		chunks[i].bytes = bytes + i * chunk_bytes;
		chunks[i].count = chunk_bytes;
		if (find_sequences(&chunks[i]) != 0)
			return 1;
		sequences += chunks[i].sequence_count;
	}
	for (uint32_t i = 0; i < ROUNDS; i++)
		for (uint32_t k = 0; k < 3; k++) {
			uint32_t which = (i + k) % 3; /* 0 and 1 are the same */
			uint64_t ns = compress_all(which == 2 ? ready : whole, chunks, count,
						   which == 2, out, room, &stored[which]);

			if (!ns)
				return 1;
			least[which] = ns < least[which] ? ns : least[which];
		}
	printf("{\"whole_ns_kib\": %.1f, \"again_ns_kib\": %.1f, \"sequences_ns_kib\": %.1f, "
	       "\"whole_bytes\": %llu, \"sequences_bytes\": %llu, \"sequences_a_kib\": %.1f}\n",
	       (double)least[0] / kib, (double)least[1] / kib, (double)least[2] / kib,
	       (unsigned long long)stored[0], (unsigned long long)stored[2],
	       (double)sequences / kib);
	return 0;
}
