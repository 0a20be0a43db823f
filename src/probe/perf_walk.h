/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* perf_walk.h - a sample that perf_event took, walked and put into the sample area of its process:
 * by `kymo run` and `kymo attach` from outside, by the library's thread from within.
 * Threads: owner.
 */
#ifndef KY_PROBE_PERF_WALK_H
#define KY_PROBE_PERF_WALK_H

#include <probe/perf_source.h>
#include <stdbool.h>
#include <stdint.h>
#include <unwind/unwind_table.h>
#include <wire/sample_area.h>

/* The kernel's frames, then those of user space, after the *count that are there, to
 * KY_SAMPLE_FRAMES_MAX at most. Returns whether the thread's first was reached. */
bool ky_perf_walk(const struct ky_unwind_view *view, const struct ky_perf_sample *sample,
		  uint64_t *frames, uint32_t *count);

/* view: of the process's unwind area; its area NULL: there is none, and stacks are short. */
void ky_perf_put(const struct ky_sample_ring *ring, const struct ky_unwind_view *view,
		 const struct ky_perf_sample *sample);

#endif
