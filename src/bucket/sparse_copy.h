/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sparse_copy.h - objects of a bucket, one after the other, as a file here that holds the bytes
 * that were asked for, each fetched once.
 *
 * An object that is replaced while its bytes are fetched is refused (If-Match).
 * Disk:    a file without a name below TMPDIR, with holes.
 * Memory:  a row for each object and each span of bytes; KY_FETCH_WINDOW_BYTES while it fetches, or
 *          the whole object where the server gives no ranges.
 * Threads: owner, with its client. What is there may be read from the descriptor by any.
 */
#ifndef KY_BUCKET_SPARSE_COPY_H
#define KY_BUCKET_SPARSE_COPY_H

#include <bucket/byte_spans.h>
#include <bucket/object_list.h>

struct ky_sparse_copy {
	struct ky_bucket_object *objects; /* with keys of its own */
	uint64_t *starts;                 /* of each in the file; one more: where it ends */
	uint32_t count;
	int fd;
	struct ky_byte_spans spans;
};

/* Copies the objects. Release it in any case. Returns 0; -ENOMEM, -errno. */
int ky_sparse_copy_open(struct ky_sparse_copy *copy, const struct ky_bucket_object *objects,
			uint32_t count);
void ky_sparse_copy_release(struct ky_sparse_copy *copy);

/* Fetches what is not there of these bytes of the file, which lie in it. *index: of the object that
 * why (KY_BUCKET_WHY_BYTES) is about. Returns 0; as ky_bucket_range(); -errno of the file; with
 * why. */
int ky_sparse_copy_need(struct ky_sparse_copy *copy, struct ky_s3_client *client, uint64_t from,
			uint64_t to, uint32_t *index, char *why);

/* Fetches these spans of the file, each at most KY_FETCH_WINDOW_BYTES long and of one object,
 * several at a time over connections of their own. What cannot be had now is not there afterwards:
 * who needs it asks for it and is told why. is_over: of bucket_lanes.h. */
void ky_sparse_copy_gather(struct ky_sparse_copy *copy, const char *bucket,
			   const struct ky_byte_span *spans, uint32_t count,
			   bool (*is_over)(void *ctx), void *ctx);

#endif
