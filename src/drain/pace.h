/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* pace.h - when a ring is to be drained: seldom, and in time.
 *
 * Each step takes a core from the host and leaves its caches cold, so steps are few and large. In
 * between a reading of a few words of the ring reports whether the next one has to come earlier: a
 * program that was idle may write faster from one moment to the next than anything before showed.
 *
 * Invariants: reads only.
 * Threads:    owner, under the caller's guard of the image.
 */
#ifndef KY_DRAIN_PACE_H
#define KY_DRAIN_PACE_H

#include <ring/ring_view.h>
#include <stdbool.h>
#include <stdint.h>
#include <wire/sample_area.h>

struct ky_drain_pace {
	uint64_t found_ns, stepped_ns; /* CLOCK_MONOTONIC */
	uint64_t due_ns;               /* 0: at once */
	uint64_t claim_index;          /* at the last step */
	uint64_t sample_claim_indexes[KY_SAMPLE_CLASSES];
};

/* found_ns: now, when the ring was found. */
void ky_drain_pace_begin(struct ky_drain_pace *pace, uint64_t now_ns);

/* True: the time has come, or so much has been written since the last step that a program as fast
 * as any could come round before the next reading. */
bool ky_drain_pace_is_due(const struct ky_drain_pace *pace, const struct ky_ring_view *view,
			  uint64_t now_ns);

/* No sub-buffer of events was begun since the last step, which read the others. */
bool ky_drain_pace_is_empty(const struct ky_drain_pace *pace, const struct ky_ring_view *view);

/* How much earlier the next step may be, where the caller is awake anyway: an eighth of the
 * rest. */
uint64_t ky_drain_pace_slack(const struct ky_drain_pace *pace);

/* A step begins. longest_ns: until the next one, whatever is written. */
void ky_drain_pace_step(struct ky_drain_pace *pace, const struct ky_ring_view *view,
			uint64_t now_ns, uint64_t longest_ns);

/* ns until the next reading, at most check_ns. */
uint64_t ky_drain_pace_rest(const struct ky_drain_pace *pace, uint64_t now_ns, uint64_t check_ns);

#endif
