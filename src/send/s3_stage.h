/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* s3_stage.h - a bucket as a destination: one object a segment, never one over another.
 *
 * An object that has the name already is ours when its digest is that of what we send, or its
 * origin (origin.h) that of the segment; else the segment is refused. Whatever else S3 answers,
 * the segment stays and is offered again (retry.h).
 * Threads: owner; finish: any.
 */
#ifndef KY_SEND_S3_STAGE_H
#define KY_SEND_S3_STAGE_H

#include <kymo/stage.h>
#include <send/layout.h>

/* url: s3://BUCKET[/PREFIX]. The caller calls out->close(out->ctx). Returns 0; -EINVAL, and why
 * (KYMO_STAGE_REASON_BYTES) says what is wrong; -ENOMEM. */
int ky_s3_stage_make(struct kymo_segment_stage *out, const char *url, enum ky_layout layout,
		     char *why);

#endif
