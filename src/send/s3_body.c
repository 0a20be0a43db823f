/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/s3_body.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <nettle/base64.h>
#include <nettle/sha2.h>
#include <send/sigv4.h>
#include <ship/compressor.h>
#include <ship/disk.h>
#include <ship/inflate.h>
#include <ship/unnamed_file.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#define WINDOW_BYTES (256u << 10)
#define CRC32C_POLYNOMIAL 0x82f63b78u

/* ---- CRC32C: zlib has only the other one ---- */

static uint32_t crc_bitwise(uint32_t crc, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (CRC32C_POLYNOMIAL & (0u - (crc & 1)));
	}
	return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_machine(uint32_t crc, const uint8_t *bytes,
							      size_t count)
{
	uint64_t wide = crc, word;

	for (; count >= sizeof(word); bytes += sizeof(word), count -= sizeof(word)) {
		memcpy(&word, bytes, sizeof(word));
		wide = _mm_crc32_u64(wide, word);
	}
	return crc_bitwise((uint32_t)wide, bytes, count);
}
#endif

uint32_t ky_crc32c(uint32_t crc, const void *bytes, size_t count)
{
#if defined(__x86_64__)
	if (__builtin_cpu_supports("sse4.2"))
		return ~crc_machine(~crc, bytes, count);
#endif
	return ~crc_bitwise(~crc, bytes, count);
}

void ky_crc32c_text(char out[KY_CRC32C_TEXT_BYTES], uint32_t crc)
{
	const uint8_t big[4] = {(uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8),
				(uint8_t)crc};

	_Static_assert(BASE64_ENCODE_RAW_LENGTH(sizeof(big)) + 1 == KY_CRC32C_TEXT_BYTES, "");
	base64_encode_raw(out, sizeof(big), big);
	out[KY_CRC32C_TEXT_BYTES - 1] = '\0';
}

/* ---- what is sent ---- */

struct digests {
	struct sha256_ctx sha;
	uint32_t crc;
	int fd; /* what is written goes there, too; -1: nowhere */
	uint64_t bytes;
};

static int digest(void *ctx, const uint8_t *bytes, size_t count)
{
	struct digests *digests = ctx;

	sha256_update(&digests->sha, count, bytes);
	digests->crc = ky_crc32c(digests->crc, bytes, count);
	digests->bytes += count;
	return digests->fd >= 0 ? ky_disk_write_all(digests->fd, bytes, count) : 0;
}

static void finish(struct ky_s3_body *body, struct digests *digests)
{
	uint8_t sha[SHA256_DIGEST_SIZE];

	sha256_digest(&digests->sha, sizeof(sha), sha);
	ky_sigv4_hex(body->sha256, sha, sizeof(sha));
	ky_crc32c_text(body->crc32c, digests->crc);
	body->bytes = digests->bytes;
}

static int read_file(struct digests *digests, const struct kymo_segment *segment, uint8_t *window)
{
	ssize_t got;

	while ((got = pread(segment->fd, window, WINDOW_BYTES, (off_t)digests->bytes)) > 0)
		(void)digest(digests, window, (size_t)got);
	return got < 0 ? -errno : 0;
}

static int pack(struct digests *digests, const struct kymo_segment *segment, uint8_t *window)
{
	struct ky_compressor_factory factory;
	struct ky_compressor gzip;
	struct ky_byte_source source;
	int64_t got = 0;
	int err = ky_inflate_open(&source, segment->path, NULL, NULL, 0);

	if (err)
		return err;
	err = ky_compressor_choose(&factory, KYMO_COMPRESSION_GZIP, 1);
	if (!err)
		err = factory.open(&factory, &gzip);
	if (err) {
		source.close(source.ctx);
		return err;
	}
	while (!err && (got = source.read(source.ctx, window, WINDOW_BYTES)) > 0)
		err = gzip.write(gzip.self, window, (size_t)got, digest, digests);
	if (!err)
		err = gzip.finish(gzip.self, digest, digests);
	gzip.close(gzip.self);
	source.close(source.ctx);
	return err ? err : got < 0 && !digests->bytes ? (int)got : 0;
}

int ky_s3_body_make(struct ky_s3_body *body, const struct kymo_segment *segment, bool as_gzip)
{
	uint8_t *window = ky_alloc(WINDOW_BYTES);
	struct digests digests = {.fd = -1};
	int err = window ? 0 : -ENOMEM;

	*body = (struct ky_s3_body){.fd = segment->fd};
	sha256_init(&digests.sha);
	if (!err && as_gzip) {
		body->fd = digests.fd = ky_unnamed_file_open(segment->directory);
		err = digests.fd < 0 ? digests.fd : 0;
		body->is_own = !err;
		if (!err)
			err = pack(&digests, segment, window);
	} else if (!err) {
		err = read_file(&digests, segment, window);
	}
	ky_free(window);
	if (err)
		ky_s3_body_release(body);
	else
		finish(body, &digests);
	return err;
}

void ky_s3_body_release(struct ky_s3_body *body)
{
	if (body->is_own)
		close(body->fd);
	*body = (struct ky_s3_body){.fd = -1};
}
