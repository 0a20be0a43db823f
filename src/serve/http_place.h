/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* http_place.h - what the path of a request, after the token, asks for; and its numbers.
 *
 * Nothing here opens anything: ids are texts that a listing may know.
 * Input:   untrusted.
 * Threads: any.
 */
#ifndef KY_SERVE_HTTP_PLACE_H
#define KY_SERVE_HTTP_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_HTTP_ID_BYTES 17u
#define KY_HTTP_IDS_MAX 1024u
#define KY_HTTP_PIECES_MAX 4096u

enum ky_http_what {
	KY_HTTP_NOTHING,
	KY_HTTP_LIST,
	KY_HTTP_VIEWER,
	KY_HTTP_STYLE,
	KY_HTTP_LIST_JSON,
	KY_HTTP_FACTS,   /* rest: an id */
	KY_HTTP_TRACE,   /* rest: an id, or what begins with "live" */
	KY_HTTP_MAP,     /* rest: ids with commas between */
	KY_HTTP_MAP_PART /* rest: as of a map */
};

/* path: after the token and its "/". *rest: in it. */
enum ky_http_what ky_http_what(const char *path, const char **rest);

/* The next of a list of ids, which have 16 hexadecimal digits in lower case. *list: moved behind
 * it. Returns 1; 0: that was all; -1: what follows is no id. */
int ky_http_next_id(const char **list, char id[KY_HTTP_ID_BYTES]);

/* Digits alone. text NULL: *out stays. Returns false: it is no number up to `most`. */
bool ky_http_number(const char *text, uint64_t most, uint64_t *out);

/* Does an Accept-Encoding header (NULL: none) name this coding, and not with q=0? */
bool ky_http_accepts(const char *header, const char *coding);

#endif
