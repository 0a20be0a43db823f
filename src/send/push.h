/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* push.h - what was made of a trace, sent to a receiver (push_target.h): each body once, in their
 * order; what a receiver has is not sent again when the next body meets trouble.
 *
 * Invariants:  a redirect is not followed: headers stay with the host that they were given for.
 * Memory:      a packed copy of a body.
 * Threads:     owner, but for ky_push_stop_at().
 */
#ifndef KY_SEND_PUSH_H
#define KY_SEND_PUSH_H

#include <base/buf.h>
#include <send/push_target.h>
#include <send/retry.h>

struct ky_push_body {
	uint32_t signal; /* enum ky_push_signal */
	struct ky_buf bytes;
	bool is_packed, is_sent;
};

struct ky_push;

/* Called when a body arrived. NULL: nobody asks. */
struct ky_push_arrival {
	void (*arrived)(void *ctx, uint32_t signal);
	void *ctx;
};

/* target: the caller's, and outlives it. Returns 0; KYMO_E_UNSUPPORTED: there is no libcurl, and
 * why (KY_PUSH_WHY_BYTES) says what to install; -ENOMEM. */
int ky_push_open(struct ky_push **out, const struct ky_push_target *target, char *why);
void ky_push_close(struct ky_push *push); /* NULL: no-op */

/* One try of what is not sent yet; a body without bytes is. Returns TAKEN: all is there; REFUSED:
 * the receiver does not want this one, and why says so; AGAIN: not before *due_ns of
 * CLOCK_MONOTONIC, and why says what the trouble is. *rejected: what a receiver took it without. */
enum ky_verdict ky_push_send(struct ky_push *push, struct ky_push_body *bodies, uint32_t count,
			     const struct ky_push_arrival *arrival, uint64_t *due_ns,
			     uint64_t *rejected, char *why);

/* No request runs beyond this time of CLOCK_MONOTONIC. */
void ky_push_stop_at(struct ky_push *push, uint64_t deadline_ns);

#endif
