/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* listing.h - where the server has its traces from: directories (trace_list.h) or a bucket
 * (bucket_shelf.h). A client names a trace by an id that was given out, never by a place.
 * Threads: any; between begin and end the list stands still.
 */
#ifndef KY_SERVE_LISTING_H
#define KY_SERVE_LISTING_H

#include <serve/trace_list.h>

#define KY_LISTING_WHY_BYTES 768u

struct ky_listing {
	void *ctx;
	/* As ky_trace_list_begin() and the others. */
	const struct ky_listed *(*begin)(void *ctx, size_t *count, size_t *waiting_count,
					 bool *is_cut);
	void (*end)(void *ctx);
	const struct ky_listed *(*find)(void *ctx, const char *id);
	/* why: KY_LISTING_WHY_BYTES, the sentence of what is not -ENOENT. */
	int (*open_file)(void *ctx, const char *id, uint64_t *bytes,
			 char etag[KY_LISTED_ETAG_BYTES], char *name, size_t name_bytes, char *why);
	bool is_slow; /* open_file() may take long: other requests are answered meanwhile */
};

struct ky_listing ky_trace_list_listing(struct ky_trace_list *list);

#endif
