/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bucket_lanes.h - the same work for many objects of a bucket, several at a time: an answer of S3
 * takes tens of milliseconds, and nearly all of them are waiting.
 *
 * Threads: the caller's and KY_BUCKET_LANES of their own, each with its own connection.
 */
#ifndef KY_BUCKET_BUCKET_LANES_H
#define KY_BUCKET_BUCKET_LANES_H

#include <bucket/bucket_ask.h>
#include <stdbool.h>

#define KY_BUCKET_LANES 8u

struct ky_bucket_work {
	const char *bucket;
	uint32_t count; /* of the objects */
	/* In a lane. Returns 0; an error with why (KY_BUCKET_WHY_BYTES), which ends it all. */
	int (*one)(void *ctx, struct ky_s3_client *client, uint32_t index, char *why);
	/* In the caller's thread, some times a second; NULL: it has nothing to do. */
	void (*progress)(void *ctx);
	/* The same; true: requests that run are ended, and no other begins. NULL: never. */
	bool (*is_over)(void *ctx);
	void *ctx;
};

/* why: KY_BUCKET_WHY_BYTES. Returns 0, or the first error with its sentence. */
int ky_bucket_lanes_run(const struct ky_bucket_work *work, char *why);

#endif
