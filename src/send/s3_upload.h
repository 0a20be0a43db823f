/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* s3_upload.h - one object of a bucket, written piece by piece: its length is not known before.
 *
 * What fits into one part is one PUT at the commit; more is a multipart upload, of which nothing is
 * visible before the commit, and which is aborted whenever it does not come to that. A process that
 * is killed leaves its parts: a lifecycle rule AbortIncompleteMultipartUpload takes them away.
 * An answer that got lost does no harm: the object says which upload it is of.
 * Memory:  one part, KY_S3_PART_BYTES.
 * Threads: owner, but for ky_s3_upload_stop().
 */
#ifndef KY_SEND_S3_UPLOAD_H
#define KY_SEND_S3_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_S3_PART_BYTES (8u << 20) /* S3's least is 5 MiB, and it takes 10,000 of them */
#define KY_S3_UPLOAD_WHY_BYTES 512u

struct ky_s3_upload;

/* url: s3://BUCKET/KEY. type: of the content. why: KY_S3_UPLOAD_WHY_BYTES. Returns 0; -EEXIST:
 * there is such an object and may_replace is false; -EINVAL, -EACCES, -EIO, -ENOMEM, KYMO_E_*;
 * with why. */
int ky_s3_upload_open(struct ky_s3_upload **out, const char *url, const char *type,
		      bool may_replace, char *why);
/* A ky_write_fn: ctx is the upload. Returns 0 or an error as above, which is also that of all calls
 * that follow. */
int ky_s3_upload_write(void *ctx, const uint8_t *bytes, size_t count);
/* Makes it visible. Returns the same. */
int ky_s3_upload_commit(struct ky_s3_upload *upload);
/* Aborts what was not committed. why: of open; gets a sentence where that failed, or stays. */
void ky_s3_upload_close(struct ky_s3_upload *upload, char *why); /* NULL: no-op */

/* What went wrong, in words; "" before. */
const char *ky_s3_upload_why(const struct ky_s3_upload *upload);

/* What runs ends soon, with -ECANCELED. Threads: any, and signal handlers. */
void ky_s3_upload_stop(struct ky_s3_upload *upload);

#endif
