/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* bucket_ask.h - questions to a bucket that is read: a page of its listing, a range of an object.
 *
 * Retries: as send/s3_ask.h.
 * Threads: owner of the client.
 */
#ifndef KY_BUCKET_BUCKET_ASK_H
#define KY_BUCKET_BUCKET_ASK_H

#include <base/buf.h>
#include <send/s3_client.h>

#define KY_BUCKET_PAGE_BYTES_MAX (8u << 20)
#define KY_BUCKET_WHY_BYTES 512u
#define KY_BUCKET_WHOLE_BYTES_MAX (UINT64_C(64) << 20)

/* why: KY_BUCKET_WHY_BYTES. Returns 0; KYMO_E_UNSUPPORTED, -ENOENT, -EINVAL, -ENOMEM with why. */
int ky_bucket_connect(struct ky_s3_client *client, const char *bucket, char *why);

/* A page of up to 1,000 keys that begin with prefix. is_cut_at_slash: those with a slash behind it
 * are given as common prefixes. token: of the page before; "" for the first.
 * Returns 0 and the body in out; -EIO, -EACCES, -ENOMEM with why. */
int ky_bucket_page(struct ky_s3_client *client, const char *prefix, bool is_cut_at_slash,
		   const char *token, struct ky_buf *out, char *why);

/* What is asked of an object. etag: "" for none; else one that was replaced meanwhile is
 * refused. */
struct ky_bucket_part {
	const char *key, *etag;
	uint64_t object_bytes;
	uint64_t from, count;
};

/* Appends it to out. A server that gives no ranges may give the whole, up to
 * KY_BUCKET_WHOLE_BYTES_MAX.
 * Returns 0; -ESTALE: it was replaced, is gone or archived; -EIO, -EACCES, -ENOMEM; with why. */
int ky_bucket_range(struct ky_s3_client *client, const struct ky_bucket_part *part,
		    struct ky_buf *out, char *why);

#endif
