/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* object_list.h - the traces below a prefix of a bucket, of a service, a host and a time.
 *
 * What is known goes into the prefixes that are listed, so that an hour of one host costs a request
 * for each of two hours, however much the bucket holds.
 * Order:   by service, host, run and number.
 * Memory:  KY_OBJECTS_MAX entries; with more the list is cut, and says so.
 * Threads: owner.
 */
#ifndef KY_BUCKET_OBJECT_LIST_H
#define KY_BUCKET_OBJECT_LIST_H

#include <bucket/bucket_ask.h>
#include <bucket/listing_page.h>
#include <bucket/object_key.h>

#define KY_OBJECTS_MAX 65536u
#define KY_LISTED_KEYS_MAX 2000000u /* looked at, in one listing */

struct ky_bucket_query {
	struct ky_s3_place place;
	const char *service, *host;        /* NULL: all */
	uint64_t from_unix_ns, to_unix_ns; /* without the second; 0: all */
};

struct ky_bucket_object {
	char *key;
	char etag[KY_LIST_ETAG_BYTES];
	uint64_t bytes;
	struct ky_object_key facts;
};

struct ky_object_list {
	struct ky_bucket_object *objects;
	uint32_t count, capacity;
	uint64_t bytes;
	uint64_t page_count; /* requests that it took */
	uint64_t odd_count;  /* names that no one can use */
	bool is_cut;
};

/* Both say of which run they are, and it is the same. */
bool ky_object_is_of_run(const struct ky_bucket_object *one, const struct ky_bucket_object *other);

/* list: all zeros. why: KY_BUCKET_WHY_BYTES. Returns 0, also where there are none; -EIO, -EACCES,
 * -ENOMEM with why. Release it in either case. */
int ky_object_list_read(struct ky_object_list *list, struct ky_s3_client *client,
			const struct ky_bucket_query *query, char *why);
void ky_object_list_release(struct ky_object_list *list);

#endif
