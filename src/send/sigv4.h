/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sigv4.h - requests signed as S3 takes it: AWS Signature Version 4, one encoding of the path.
 *
 * Pure: no clock, no network. SHA-256 and HMAC are nettle's.
 * Invariants:  names and values are given raw and encoded here, once; the query is sorted by the
 *              encoded name, then value, and a name without a value is written with its "=".
 * Errors:      -ENOMEM; KYMO_E_LIMIT: more than KY_SIGV4_PAIRS_MAX headers or parameters.
 * Threads:     any.
 */
#ifndef KY_SEND_SIGV4_H
#define KY_SEND_SIGV4_H

#include <base/buf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_SIGV4_PAIRS_MAX 64u
#define KY_SIGV4_DATE_BYTES 17u /* 20260518T123000Z */
#define KY_SHA256_HEX_BYTES 65u
#define KY_SIGV4_UNSIGNED "UNSIGNED-PAYLOAD"

struct ky_sigv4_pair {
	const char *name, *value;
};

struct ky_sigv4_key {
	const char *access_key, *secret_key, *region, *service;
};

struct ky_sigv4_request {
	const char *method;
	const char *path;                  /* raw, begins with "/" */
	const struct ky_sigv4_pair *query; /* raw, in any order */
	size_t query_count;
	const struct ky_sigv4_pair *headers; /* all that are to be signed; names in lower case */
	size_t header_count;
	const char *payload; /* SHA-256 in hex, or KY_SIGV4_UNSIGNED */
	const char *date;    /* of ky_sigv4_date(); also a header, x-amz-date */
};

/* Appends the value of the header Authorization. */
int ky_sigv4_sign(struct ky_buf *out, const struct ky_sigv4_request *request,
		  const struct ky_sigv4_key *key);

/* Appends text with all but unreserved characters (RFC 3986) percent-encoded, in capitals. */
void ky_sigv4_encode(struct ky_buf *out, const char *text, bool keeps_slash);
/* Appends path?query as it is signed. */
int ky_sigv4_target(struct ky_buf *out, const char *path, const struct ky_sigv4_pair *query,
		    size_t query_count);

void ky_sigv4_date(char out[KY_SIGV4_DATE_BYTES], uint64_t unix_ns);
void ky_sigv4_hex(char *out, const uint8_t *bytes, size_t count); /* 2 * count + 1 bytes */
void ky_sigv4_sha256(char out[KY_SHA256_HEX_BYTES], const void *bytes, size_t count);

#endif
