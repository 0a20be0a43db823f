/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bucket_shelf.h - the traces of a bucket for the server's list, fetched as the page reads them.
 *
 * A row is a segment; with a time it is a process, whose segments in that time are one trace. It
 * says what names and indexes say, which a thread reads, newest first. While requests come, the
 * bucket is listed anew each KY_SHELF_LIST_NS. Ranges of an object, its index and chunks of it are
 * fetched as they are asked for (shelf_copies.h); of a time as one file, all of that is, first.
 * Place:   bucket, prefix and choice are fixed when it is opened: no client names any.
 * Memory:  KY_OBJECTS_MAX rows. On disk, below TMPDIR and without names, bytes_max of ranges, and
 *          KY_SHELF_FILES traces of a time of at most bytes_max; the one that was not opened for
 *          longest gives way.
 * Time:    traces of a time are fetched one after the other, the segments of each several at a
 *          time; what was fetched already is not held up.
 * Threads: any; one of its own reads.
 */
#ifndef KY_SERVE_BUCKET_SHELF_H
#define KY_SERVE_BUCKET_SHELF_H

#include <bucket/object_list.h>
#include <serve/listing.h>

#define KY_SHELF_FILES 8u
#define KY_SHELF_LIST_NS UINT64_C(30000000000)

struct ky_bucket_shelf;

/* query: copied; its texts outlive the shelf. bytes_max: of one trace. why: KY_BUCKET_WHY_BYTES.
 * Returns 0; an error with why. */
int ky_bucket_shelf_open(struct ky_bucket_shelf **out, const struct ky_bucket_query *query,
			 uint64_t bytes_max, char *why);
/* What is being read or fetched ends with an error, within a second or so. Threads: any. */
void ky_bucket_shelf_stop(struct ky_bucket_shelf *shelf); /* NULL: no-op */
void ky_bucket_shelf_close(struct ky_bucket_shelf *shelf);

struct ky_listing ky_bucket_shelf_listing(struct ky_bucket_shelf *shelf);

#endif
