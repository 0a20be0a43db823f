/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stuck_log.h - what stuck threads did, few notes over any length of time: the first, the latest,
 * and between them ever fewer at even distances, so that they cover the whole time.
 * Threads: owner. Memory: fixed.
 */
#ifndef KY_WATCH_STUCK_LOG_H
#define KY_WATCH_STUCK_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <wire/watch_note.h>

#define KY_STUCK_NOTES 64u
#define KY_STUCK_LOGS 16u /* polls at a time; the oldest is given up for one more */

struct ky_stuck_log {
	uint32_t thread; /* index; 0: free */
	uint64_t begin_ticks;
	uint64_t seen;        /* notes ever */
	uint64_t stride;      /* every so many is kept */
	uint32_t kept, count; /* count - kept: 1 where the latest is not one of those */
	struct ky_stuck_note notes[KY_STUCK_NOTES];
};

struct ky_stuck_logs {
	struct ky_stuck_log logs[KY_STUCK_LOGS];
};

void ky_stuck_logs_add(struct ky_stuck_logs *logs, uint32_t thread, uint64_t begin_ticks,
		       const struct ky_stuck_note *note);

/* Notes at or after from_ns of this poll (thread 0: of all), in order of time, at most `max`
 * (<= KY_STUCK_NOTES) and each poll's share of them spread over its time. Returns how many. */
size_t ky_stuck_logs_get(const struct ky_stuck_logs *logs, uint32_t thread, uint64_t begin_ticks,
			 uint64_t from_ns, struct ky_stuck_note *out, size_t max);

#endif
