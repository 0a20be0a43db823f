/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* object_fetch.h - a trace of a bucket as a file of this machine: all of it, or the chunks that a
 * time touches.
 *
 * A part is a trace of its own (segment_part.h).
 * Memory:  KY_FETCH_WINDOW_BYTES, and a map.
 * Threads: owner of the client.
 */
#ifndef KY_BUCKET_OBJECT_FETCH_H
#define KY_BUCKET_OBJECT_FETCH_H

#include <bucket/object_list.h>
#include <bucket/segment_map.h>

#define KY_FETCH_WINDOW_BYTES (4u << 20)

struct ky_fetch_range {
	uint64_t from_unix_ns, to_unix_ns; /* 0, 0: all */
};

struct ky_fetched {
	uint64_t fetched_bytes;
	uint32_t chunk_count, chunk_total; /* 0, 0: no map was asked for */
	bool is_outside;                   /* nothing of it is in the time: nothing was written */
	bool is_left_out;                  /* the caller's: it could not be had */
};

/* False: by its name it has no index. */
bool ky_object_may_have_map(const struct ky_bucket_object *object);

/* Reads the map alone. out: all zeros. Returns 0; KYMO_E_UNSUPPORTED: it has none; -EIO .. with
 * why. Release it in any case. *fetched_bytes: added to. */
int ky_object_map(struct ky_segment_map *out, struct ky_s3_client *client,
		  const struct ky_bucket_object *object, uint64_t *fetched_bytes, char *why);

/* fd: an empty file. why: KY_BUCKET_WHY_BYTES. Returns 0; -ESTALE, -EIO, -EACCES, -ENOMEM, -errno
 * of the file; with why. */
int ky_object_fetch(struct ky_fetched *out, struct ky_s3_client *client,
		    const struct ky_bucket_object *object, const struct ky_fetch_range *range,
		    int fd, char *why);

#endif
