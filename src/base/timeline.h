/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* timeline.h - counter ticks to CLOCK_MONOTONIC nanoseconds by interpolation between anchors.
 *
 * Invariants:  anchors are kept in the order of their ticks and of their ns; between two of them
 *              time is a straight line, so more ticks never give fewer ns, and the same ticks give
 *              the same ns as long as the anchors around them are kept. An anchor that contradicts
 *              the order is refused. Before the first anchor the first slope holds; after the last
 *              one the last slope, for at most ahead_max_ns.
 * Memory:      at most KY_TIMELINE_POINTS_MAX anchors; the oldest is dropped (its line stays the
 *              first).
 * Threads:     owner.
 */
#ifndef KY_BASE_TIMELINE_H
#define KY_BASE_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_TIMELINE_POINTS_MAX 4096u
#define KY_TIMELINE_AHEAD_MAX_NS UINT64_C(10000000000)
#define KY_TIMELINE_JUMP_PPM 200u

struct ky_timeline_point {
	uint64_t ticks;
	uint64_t ns;
	int64_t realtime_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC at this point */
	uint64_t ns_per_tick_q48;   /* slope up to the next point; of the last one: expected */
};

struct ky_timeline {
	struct ky_timeline_point *points;
	size_t count;
	size_t capacity;
	/* the piece of the last conversion, for the inline path */
	uint64_t piece_ticks, piece_span, piece_ns, piece_limit_ns, piece_q48;
	uint64_t nominal_q48; /* ns per tick before two anchors are known */
	/* KY_TIMELINE_AHEAD_MAX_NS; more where no newer anchor can come, as in a dead ring */
	uint64_t ahead_max_ns;
	/* anchors whose slope left the last one's by more than KY_TIMELINE_JUMP_PPM */
	uint64_t jump_count;
	uint64_t refused_count; /* anchors that ran backwards */
	bool is_identity;       /* ticks are nanoseconds */
};

/* ticks_per_second 0: 1 GHz. */
void ky_timeline_init(struct ky_timeline *line, uint64_t ticks_per_second, bool is_identity);
void ky_timeline_release(struct ky_timeline *line);

/* Adds an anchor newer than all others. error_ns: half the width of its bracket.
 * Returns 0; 1 when it was taken but the slope jumped; KYMO_E_AGAIN when it is not newer (refused);
 * -ENOMEM. */
int ky_timeline_add(struct ky_timeline *line, uint64_t ticks, uint64_t monotonic_ns,
		    uint64_t realtime_ns, uint64_t error_ns);

/* What ky_timeline_ns() does when another piece is needed. */
uint64_t ky_timeline_find_ns(struct ky_timeline *line, uint64_t ticks);

__extension__ typedef unsigned __int128 ky_wide;

/* Monotonic ns at these ticks. 0 without any anchor. */
static inline uint64_t ky_timeline_ns(struct ky_timeline *line, uint64_t ticks)
{
	uint64_t ahead = ticks - line->piece_ticks, length;

	if (__builtin_expect(ahead >= line->piece_span, 0))
		return ky_timeline_find_ns(line, ticks);
	length = (uint64_t)(((ky_wide)ahead * line->piece_q48) >> 48);
	/* The rounded slope must not carry a stamp past the next anchor. */
	return line->piece_ns + (length < line->piece_limit_ns ? length : line->piece_limit_ns);
}

/* The straight line that these ticks lie on: the first ticks and their time, its slope, and how
 * many ticks long it is. Returns false without any anchor. */
struct ky_timeline_piece {
	uint64_t ticks, ns, q48, span;
};
bool ky_timeline_piece(const struct ky_timeline *line, uint64_t ticks,
		       struct ky_timeline_piece *out);

/* Length in ns of a number of ticks, by the newest slope; saturates. */
uint64_t ky_timeline_length_ns(const struct ky_timeline *line, uint64_t ticks);

/* Ticks that pass in so many ns, by the newest slope; saturates. */
uint64_t ky_timeline_length_ticks(const struct ky_timeline *line, uint64_t ns);

/* The first ticks that ky_timeline_ns() turns into this time or a later one, as far as the slopes
 * go; saturates. 0 without any anchor. */
uint64_t ky_timeline_ticks(const struct ky_timeline *line, uint64_t ns);

/* The slope after the newest anchor, by the longest stretch of anchors that is at most baseline_ns
 * long: two that lie close together say little about the hours to come. */
void ky_timeline_settle(struct ky_timeline *line, uint64_t baseline_ns);

/* CLOCK_REALTIME at a monotonic time, by the last anchor at or before it. */
uint64_t ky_timeline_realtime_ns(const struct ky_timeline *line, uint64_t ns);

#endif
