/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* notify_peers.h - which kinds of tasks give one another back what they share.
 *
 * A task that was notified by another one got work from it, or what that gave back, as of a pool
 * of the program. Of one kind they are peers. Of two kinds they may be a client and a server that
 * answers it, which may be another one's client; three or more in a ring, of which each wakes its
 * neighbours and is woken by them, share something: who comes at a steady pace wakes the next one.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_NOTIFY_PEERS_H
#define KY_ANALYZE_FINDINGS_NOTIFY_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#define KY_NOTIFY_KINDS_MAX 32u /* kinds beyond are peers of their own kind alone */

struct ky_notify_peers {
	uint32_t names[KY_NOTIFY_KINDS_MAX]; /* string indexes */
	uint32_t woken[KY_NOTIFY_KINDS_MAX]; /* a bit for each kind that this one woke */
	uint32_t count;
};

/* A task of kind waker woke one of kind woken. */
void ky_notify_peers_add(struct ky_notify_peers *peers, uint32_t waker, uint32_t woken);
/* After all were added. */
bool ky_notify_peers_are(const struct ky_notify_peers *peers, uint32_t one, uint32_t other);

#endif
