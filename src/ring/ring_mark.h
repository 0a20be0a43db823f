/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_mark.h - labels put into a ring from outside, by the protocol of struct ky_ring_mark. */
#ifndef KY_RING_RING_MARK_H
#define KY_RING_RING_MARK_H

#include <ring/ring_finder.h>

struct ky_mark {
	uint64_t number; /* from 0 */
	uint64_t monotonic_ns;
	uint32_t pid; /* who put it */
	char text[KY_MARK_TEXT_BYTES + 1];
};

/* Returns 0; -EINVAL with a sentence: empty, longer than KY_MARK_TEXT_BYTES, not UTF-8, or with a
 * control character. */
int ky_mark_check(const char *text, char *why);

/* Puts a checked text. The ring is open for writing and has a side area; inside ky_ring_guarded().
 */
void ky_mark_put(struct ky_ring_side *side, const char *text, uint64_t monotonic_ns);

/* Copies the marks that are whole, the oldest first. Returns how many (<= KY_MARKS). */
uint32_t ky_mark_read(const struct ky_ring_side *side, struct ky_mark *out);

#endif
