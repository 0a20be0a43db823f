/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* listing.h - where the server has its traces from: directories (trace_list.h) or a bucket
 * (bucket_shelf.h). A client names a trace by an id that was given out, never by a place.
 * Threads: any; between begin and end the list stands still.
 */
#ifndef KY_SERVE_LISTING_H
#define KY_SERVE_LISTING_H

#include <serve/served_file.h>
#include <serve/trace_list.h>

struct ky_listing {
	void *ctx;
	/* As ky_trace_list_begin() and the others. */
	const struct ky_listed *(*begin)(void *ctx, size_t *count, size_t *waiting_count,
					 bool *is_cut);
	void (*end)(void *ctx);
	const struct ky_listed *(*find)(void *ctx, const char *id);
	/* A trace as one file. why: KY_SERVED_WHY_BYTES, the sentence of what is not -ENOENT.
	 * Returns 0; an error, and then there is no file. */
	int (*open_file)(void *ctx, const char *id, struct ky_served_file *out, char *why);
	/* What it is made of, as its segments are stored, for a map of them. Returns the same;
	 * KYMO_E_UNSUPPORTED: by their names they have no index. */
	int (*open_segments)(void *ctx, const char *id, struct ky_served_file *out, char *why);
	uint64_t from_unix_ns, to_unix_ns; /* the time that is shown of segments; 0: all of it */
	bool is_slow; /* opening and fetching may take long: others are answered meanwhile */
};

struct ky_listing ky_trace_list_listing(struct ky_trace_list *list);

#endif
