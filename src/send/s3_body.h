/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* s3_body.h - the bytes that one segment is sent as, with the digests that S3 checks.
 *
 * The file itself, or what it unpacks to packed as one gzip member, in a file without a name. Made
 * once for a segment, however often it is sent.
 * Threads: owner.
 */
#ifndef KY_SEND_S3_BODY_H
#define KY_SEND_S3_BODY_H

#include <kymo/stage.h>
#include <stdint.h>

#define KY_CRC32C_TEXT_BYTES 9u /* base64 of four bytes, and a zero */

struct ky_s3_body {
	int fd;
	bool is_own; /* fd is ours to close */
	uint64_t bytes;
	char sha256[65]; /* hex */
	char crc32c[KY_CRC32C_TEXT_BYTES];
};

/* Returns 0; -errno of reading or of the temporary file; KYMO_E_*: the segment does not unpack at
 * all. One that is torn or damaged is sent as far as it unpacks. */
int ky_s3_body_make(struct ky_s3_body *body, const struct kymo_segment *segment, bool as_gzip);
void ky_s3_body_release(struct ky_s3_body *body);

uint32_t ky_crc32c(uint32_t crc, const void *bytes,
		   size_t count); /* crc: 0, or of what was before */
/* As S3 wants it in a header. */
void ky_crc32c_text(char out[KY_CRC32C_TEXT_BYTES], uint32_t crc);

#endif
