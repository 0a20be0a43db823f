/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* push_stage.h - a receiver (push_target.h) as a destination: of each segment is sent what the
 * caller's function makes of it.
 *
 * A body that the receiver has is noted in the run's list of what was sent before the next one
 * goes, and is not sent again, by a later process neither: what it counts would be counted twice.
 * A process that is killed between the receiver's answer and that line sends it once more.
 * Threads:     owner; finish: any.
 */
#ifndef KY_SEND_PUSH_STAGE_H
#define KY_SEND_PUSH_STAGE_H

#include <kymo/stage.h>
#include <send/push.h>

/* Bodies of a segment, by signal; those that stay without bytes are not sent. end_ns: until then
 * of CLOCK_MONOTONIC, atomic, and it may become earlier. Returns 0; -EAGAIN: another time; another
 * negative error: never; why (KY_PUSH_WHY_BYTES) says the reason of both. */
typedef int (*ky_push_make_fn)(void *ctx, const struct kymo_segment *segment, bool is_pprof,
			       struct ky_push_body bodies[KY_PUSH_SIGNALS], const uint64_t *end_ns,
			       char *why);

/* word: "otlp:URL", "otlp:" or "pprof:URL". The caller calls out->close(out->ctx). Returns 0;
 * -EINVAL, and why (KYMO_STAGE_REASON_BYTES) says what is wrong; -ENOMEM. */
int ky_push_stage_make(struct kymo_segment_stage *out, const char *word, ky_push_make_fn make,
		       void *make_ctx, char *why);
bool ky_push_stage_is(const char *word);

#endif
