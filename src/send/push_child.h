/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* push_child.h - a segment analysed in a process of its own, `kymo export` at nice 10, so that the
 * recorder beside it keeps its memory and its life whatever is in the file.
 *
 * The child writes frames to its standard output: signal and byte count, four bytes each, little
 * end first, and the bytes.
 * Threads: owner.
 */
#ifndef KY_SEND_PUSH_CHILD_H
#define KY_SEND_PUSH_CHILD_H

#include <send/push_stage.h>

/* What --format is for such a child: not for users, whose words are otlp-traces, otlp-metrics and
 * pprof. */
#define KY_PUSH_FORMAT_OTLP "otlp-bodies"
#define KY_PUSH_FORMAT_PPROF "pprof-bodies"

/* For a stage. */
int ky_push_child_make(void *ctx, const struct kymo_segment *segment, bool is_pprof,
		       struct ky_push_body bodies[KY_PUSH_SIGNALS], const uint64_t *end_ns,
		       char *why);

/* In the child. Errors: out->failed. */
void ky_push_frame(struct ky_buf *out, uint32_t signal, const struct ky_buf *body);

#endif
