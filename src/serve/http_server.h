/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* http_server.h - the list of traces, the viewer and the files over HTTP, for one user.
 *
 * Addresses:  /TOKEN/ the list, /TOKEN/view.html?trace=ID the viewer, /TOKEN/trace/ID a file as it
 *             is, /TOKEN/trace/live leads to a copy of a process as it is now,
 *             /TOKEN/api/traces[/ID] JSON,
 *             /TOKEN/api/map/ID,ID.. what their indexes say of a time,
 *             /TOKEN/part/ID,ID..?from=NS&to=NS at most 64 chunks of them as a trace.
 *             In place of the token in the path a script may send "Authorization: Bearer
 *             TOKEN".
 * Refused:    without the token; a Host or Origin that is not ours; what another site caused; what
 *             is neither GET nor HEAD.
 * Limits:     connections, memory and time of a request, below.
 * Threads:    one of libmicrohttpd's own answers, or four where traces have to be fetched first;
 *             the others belong to the owner.
 */
#ifndef KY_SERVE_HTTP_SERVER_H
#define KY_SERVE_HTTP_SERVER_H

#include <base/buf.h>
#include <serve/http_check.h>
#include <serve/listing.h>

#define KY_HTTP_CONNECTIONS_MAX 64u
#define KY_HTTP_REQUEST_BYTES_MAX (32u << 10) /* of one request's line and headers */
#define KY_HTTP_COPIES 4u                     /* of a live process that can be read */
#define KY_HTTP_COPY_NS UINT64_C(1000000000)  /* no newer one is made before */
#define KY_HTTP_IDLE_S_MAX 60u                /* without a byte in either direction */
#define KY_HTTP_REQUEST_S_MAX 30u             /* from its first byte, or since the last answer */

struct ky_http_options {
	const char *address; /* in numbers, without brackets */
	uint16_t port;       /* 0: any free one */
	struct ky_listing listing;
	/* Appends a trace of a process as it is now; NULL: there is none to show. Called by the
	 * server's thread. Returns 0 or a negative error. */
	int (*cut)(void *ctx, struct ky_buf *out);
	void *cut_ctx;
	const char *live_name;       /* what the list calls it; NULL without */
	const struct ky_buf *viewer; /* viewer.html; lives as long as the server */
};

struct ky_http_server;

/* error: one sentence. Returns 0; -errno; -ENOSYS: this kymo was built without it. */
int ky_http_open(struct ky_http_server **out, const struct ky_http_options *options, char *error,
		 size_t error_bytes);
/* Where it listens, with the token, a "/" at the end. */
void ky_http_url(const struct ky_http_server *server, char *out, size_t out_bytes);
/* Ends connections that are too slow; called about every second. */
void ky_http_tend(struct ky_http_server *server);
void ky_http_close(struct ky_http_server *server);

#endif
