/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* served_file.h - a trace that is given out: a descriptor, and how bytes come to it.
 *
 * Threads: owner.
 */
#ifndef KY_SERVE_SERVED_FILE_H
#define KY_SERVE_SERVED_FILE_H

#include <bucket/byte_spans.h>
#include <limits.h>
#include <serve/trace_list.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#define KY_SERVED_WHY_BYTES 768u

/* A segment in it. start_unix_ns: by its name; 0: not known. */
struct ky_served_part {
	uint64_t from, bytes, start_unix_ns;
};

struct ky_served_file {
	int fd; /* of the caller's until it is released */
	uint64_t bytes;
	char etag[KY_LISTED_ETAG_BYTES]; /* with its quotes */
	char name[NAME_MAX + 1];
	const struct ky_served_part *parts; /* NULL: it is one segment */
	uint32_t part_count;
	/* Brings these bytes to the file. NULL: all are there. why: KY_SERVED_WHY_BYTES. Returns 0,
	 * or an error with why. Threads: any. */
	int (*fetch)(void *ctx, uint64_t from, uint64_t count, char *why);
	/* NULL, or brings these at once, as far as that is possible now: fetch() is asked for each
	 * of them afterwards. Of one segment each, and at most some kilobytes. */
	void (*gather)(void *ctx, const struct ky_byte_span *spans, uint32_t count);
	void (*release)(void *ctx); /* NULL: there is nothing but the descriptor */
	void *ctx;
};

static inline void ky_served_file_release(struct ky_served_file *file)
{
	if (file->release)
		file->release(file->ctx);
	if (file->fd >= 0)
		(void)close(file->fd);
	*file = (struct ky_served_file){.fd = -1};
}

#endif
