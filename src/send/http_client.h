/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* http_client.h - one request after the other to one server, by libcurl.
 *
 * libcurl is loaded when the first destination is opened: no other command pays for its thirty
 * libraries.
 * Invariants:  only http and https; a redirect is an answer like any other and is never followed;
 *              of an answer at most answer_bytes_max are kept, and more ends the request.
 * Trust:       of TLS the certificate and its host are checked, against AWS_CA_BUNDLE,
 *              CURL_CA_BUNDLE or SSL_CERT_FILE where one is set, else the system's authorities.
 * Time:        a connection has 10 s; 30 s without a byte end a request, and so do 60 s and
 *              another second for each 64 KiB of it. ky_http_client_stop_at() ends what runs then.
 * Memory:      of libcurl, and the answer.
 * Threads:     owner, but for ky_http_client_stop_at().
 */
#ifndef KY_SEND_HTTP_CLIENT_H
#define KY_SEND_HTTP_CLIENT_H

#include <base/buf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_HTTP_ERROR_BYTES 256u

struct ky_http_client;

struct ky_http_request {
	const char *method, *url;
	const char *const *headers; /* "name: value" */
	size_t header_count;
	int body_fd;         /* -1: none; else body_bytes of it, from its start */
	const uint8_t *body; /* instead of body_fd */
	uint64_t body_bytes;
	size_t answer_bytes_max; /* 0: 64 KiB */
	uint32_t connect_ms_max; /* 0: 10 s */
	uint32_t total_ms_max;   /* 0: as said above */
};

struct ky_http_answer {
	long status; /* 0: none came; error says why */
	struct ky_buf body;
	bool is_cut;         /* the body is longer than answer_bytes_max */
	uint64_t date_ns;    /* of the server's clock, 0: it did not say */
	uint64_t after_ns;   /* Retry-After; 0: none */
	char region[64];     /* x-amz-bucket-region */
	char digest[72];     /* x-amz-meta-kymo-sha256 */
	char origin[72];     /* x-amz-meta-kymo-origin */
	char etag[80];       /* with its quotes */
	char location[256];  /* of a redirect, for a sentence */
	uint64_t length;     /* Content-Length */
	uint64_t range_from; /* first byte by Content-Range; UINT64_MAX: there is none */
	char error[KY_HTTP_ERROR_BYTES];
};

/* Returns 0; KYMO_E_UNSUPPORTED: there is no libcurl, and why (KY_HTTP_ERROR_BYTES) says what to
 * install; -ENOMEM. */
int ky_http_client_open(struct ky_http_client **out, char *why);
void ky_http_client_close(struct ky_http_client *http); /* NULL: no-op */

/* answer: its body was initialised; cleared first. Returns 0, also where no answer came; -ENOMEM.
 */
int ky_http_client_do(struct ky_http_client *http, const struct ky_http_request *request,
		      struct ky_http_answer *answer);

/* The time below is over. Threads: any. */
bool ky_http_client_is_stopped(const struct ky_http_client *http);

/* No request runs beyond this time of CLOCK_MONOTONIC. UINT64_MAX: no end. */
void ky_http_client_stop_at(struct ky_http_client *http, uint64_t deadline_ns);

#endif
