/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* http_check.h - is this request one of ours? What its headers say, without a server.
 *
 * Threads: any.
 */
#ifndef KY_SERVE_HTTP_CHECK_H
#define KY_SERVE_HTTP_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_HTTP_TOKEN_BYTES 33u /* 128 bits in hexadecimal digits */

/* Takes as long for any two texts of that many bytes. */
bool ky_http_token_is(const char *given, const char *token, size_t token_bytes);

/* Is "NAME:PORT" the address on which we listen? A name other than localhost is refused, since its
 * owner can point it at any machine (DNS rebinding); of all addresses (0.0.0.0, ::) each one
 * written in numbers is ours. bound: an address in numbers, without brackets. */
bool ky_http_host_is_ours(const char *host, const char *bound, uint16_t port);

/* The same of "http://NAME:PORT". */
bool ky_http_origin_is_ours(const char *origin, const char *bound, uint16_t port);

/* Is it reached from this machine alone? */
bool ky_http_is_loopback(const char *bound);

enum ky_http_range {
	KY_HTTP_WHOLE, /* no range, several, or not one that we understand */
	KY_HTTP_PART,
	KY_HTTP_NO_PART /* it lies outside */
};

/* What a Range header (NULL: none) asks of so many bytes. */
enum ky_http_range ky_http_range(const char *text, uint64_t size, uint64_t *from, uint64_t *count);

/* Is `etag`, with its quotes, in the list of an If-None-Match header? */
bool ky_http_etag_is_in(const char *list, const char *etag);

#endif
