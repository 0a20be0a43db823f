/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* listing_page.h - one page of a bucket's listing (ListObjectsV2), as the server's XML has it.
 *
 * Source:  Amazon S3 API reference, ListObjectsV2; with encoding-type=url keys are percent-encoded.
 * Input:   untrusted: scanned forward, nothing is built, nothing recurses; a value that is too long
 *          or has a zero byte is passed over and counted.
 * Threads: any.
 */
#ifndef KY_BUCKET_LISTING_PAGE_H
#define KY_BUCKET_LISTING_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_LIST_KEY_BYTES 1025u /* S3's longest, and a zero */
#define KY_LIST_TOKEN_BYTES 2048u
#define KY_LIST_ETAG_BYTES 72u

struct ky_list_entry {
	char key[KY_LIST_KEY_BYTES];
	char etag[KY_LIST_ETAG_BYTES]; /* with its quotes; "": none that fits */
	uint64_t bytes;
};

struct ky_listing_page {
	/* Each returns 0 to continue, or what the whole returns. NULL: not asked for. */
	int (*object)(void *ctx, const struct ky_list_entry *entry);
	int (*prefix)(void *ctx, const char *prefix);
	void *ctx;

	bool is_list;                    /* it is a listing at all */
	bool is_more;                    /* continues with token */
	char token[KY_LIST_TOKEN_BYTES]; /* "": none */
	uint64_t odd_count;              /* entries passed over */

	struct ky_list_entry entry; /* its own; a name may be three times as long while encoded */
	char encoded[3 * KY_LIST_KEY_BYTES];
};

int ky_listing_page_read(struct ky_listing_page *page, const uint8_t *bytes, size_t count);

#endif
