/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* shelf_copies.h - traces of a bucket of which the page reads ranges: each a file with holes
 * (bucket/sparse_copy.h), kept while it is used and for a while after.
 *
 * Disk:    bytes_max of all that are kept, below TMPDIR; who was not used for longest gives way.
 * Time:    ranges are fetched one after the other, over a connection of their own; the ends of many
 *          segments several at a time.
 * Threads: any.
 */
#ifndef KY_SERVE_SHELF_COPIES_H
#define KY_SERVE_SHELF_COPIES_H

#include <bucket/object_list.h>
#include <serve/served_file.h>

#define KY_SHELF_COPIES 128u

struct ky_shelf_copies;

/* why: KY_BUCKET_WHY_BYTES. Returns 0; an error with why, or -ENOMEM. */
int ky_shelf_copies_open(struct ky_shelf_copies **out, const char *bucket, uint64_t bytes_max,
			 char *why);
/* What is being fetched ends with an error, within a second or so. Threads: any. */
void ky_shelf_copies_stop(struct ky_shelf_copies *copies);
/* All files were released. */
void ky_shelf_copies_close(struct ky_shelf_copies *copies);

/* The copy of this id, of these objects where it is new: nothing is fetched. out: gets all but its
 * name; it outlives the copy's place. why: KY_SERVED_WHY_BYTES. Returns 0; -ENOMEM, -errno, with
 * why. */
int ky_shelf_copies_take(struct ky_shelf_copies *copies, uint64_t id,
			 const struct ky_bucket_object *objects, uint32_t count,
			 struct ky_served_file *out, char *why);

#endif
