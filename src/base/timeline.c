/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/timeline.h>

#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

#define SLOPE_SHIFT 48 /* 2 h between anchors are good to a tenth of a ns */
#define NS_PER_S UINT64_C(1000000000)
#define BASELINE_MIN_NS 1000000u /* below, the nominal rate is the better guess */
#define JUMP_FLOOR_NS 2000u      /* what two unlucky brackets may differ by */

static uint64_t saturate(ky_wide value)
{
	return value > UINT64_MAX ? UINT64_MAX : (uint64_t)value;
}

void ky_timeline_init(struct ky_timeline *line, uint64_t ticks_per_second, bool is_identity)
{
	memset(line, 0, sizeof(*line));
	line->is_identity = is_identity;
	line->ahead_max_ns = KY_TIMELINE_AHEAD_MAX_NS;
	/* 1 MHz .. 1 THz: outside of that the figure is not a rate of any counter. */
	if (is_identity || ticks_per_second < 1000000u || ticks_per_second > NS_PER_S * 1000u)
		ticks_per_second = NS_PER_S;
	line->nominal_q48 = saturate(((ky_wide)NS_PER_S << SLOPE_SHIFT) / ticks_per_second);
}

void ky_timeline_release(struct ky_timeline *line)
{
	ky_free(line->points);
	memset(line, 0, sizeof(*line));
}

static int make_room(struct ky_timeline *line)
{
	size_t capacity;
	struct ky_timeline_point *points;

	if (line->points && line->count < line->capacity)
		return 0;
	if (line->points && line->capacity == KY_TIMELINE_POINTS_MAX) {
		/* Half at once, so that this costs nothing per anchor. */
		size_t keep = KY_TIMELINE_POINTS_MAX / 2;

		memmove(line->points, line->points + line->count - keep,
			keep * sizeof(*line->points));
		line->count = keep;
		line->piece_span = 0;
		return 0;
	}
	capacity = line->capacity ? line->capacity * 2 : 64;
	points = ky_realloc(line->points, capacity * sizeof(*points));
	if (!points)
		return -ENOMEM;
	line->points = points;
	line->capacity = capacity;
	return 0;
}

static bool is_jump(const struct ky_timeline_point *last, uint64_t ticks, uint64_t ns,
		    uint64_t error_ns)
{
	uint64_t expected = saturate(((ky_wide)(ticks - last->ticks) * last->ns_per_tick_q48) >>
				     SLOPE_SHIFT);
	uint64_t actual = ns - last->ns;
	uint64_t differs = expected > actual ? expected - actual : actual - expected;
	uint64_t allowed = saturate((ky_wide)actual * KY_TIMELINE_JUMP_PPM / 1000000u);

	if (error_ns > actual)
		error_ns = actual;
	return differs > allowed && differs - allowed > JUMP_FLOOR_NS + error_ns;
}

int ky_timeline_add(struct ky_timeline *line, uint64_t ticks, uint64_t monotonic_ns,
		    uint64_t realtime_ns, uint64_t error_ns)
{
	struct ky_timeline_point *last = line->count ? &line->points[line->count - 1] : NULL;
	uint64_t slope = line->nominal_q48;
	int jumped = 0, err;

	if (line->is_identity)
		ticks = monotonic_ns;
	if (last && (ticks <= last->ticks || monotonic_ns <= last->ns)) {
		line->refused_count++;
		return KYMO_E_AGAIN;
	}
	err = make_room(line);
	if (err)
		return err;
	if (last) {
		last = &line->points[line->count - 1];
		/* The first slope is only nominal: nothing to compare with yet. */
		jumped = line->count > 1 && is_jump(last, ticks, monotonic_ns, error_ns);
		slope = line->is_identity ?
				(uint64_t)1 << SLOPE_SHIFT :
				saturate(((ky_wide)(monotonic_ns - last->ns) << SLOPE_SHIFT) /
					 (ticks - last->ticks));
		last->ns_per_tick_q48 = slope;
		line->jump_count += (uint64_t)jumped;
	}
	line->points[line->count++] = (struct ky_timeline_point){
		ticks, monotonic_ns, (int64_t)(realtime_ns - monotonic_ns), slope};
	return jumped;
}

static size_t find_piece(const struct ky_timeline *line, uint64_t ticks)
{
	size_t low = 0, high = line->count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (line->points[middle].ticks <= ticks)
			low = middle;
		else
			high = middle;
	}
	return low;
}

uint64_t ky_timeline_find_ns(struct ky_timeline *line, uint64_t ticks)
{
	const struct ky_timeline_point *point;
	uint64_t length;
	size_t piece;

	if (!line->count)
		return 0;
	piece = find_piece(line, ticks);
	point = &line->points[piece];
	if (ticks < point->ticks) {
		length = saturate(((ky_wide)(point->ticks - ticks) * point->ns_per_tick_q48) >>
				  SLOPE_SHIFT);
		return length < point->ns ? point->ns - length : 0;
	}
	length = saturate(((ky_wide)(ticks - point->ticks) * point->ns_per_tick_q48) >>
			  SLOPE_SHIFT);
	if (piece + 1 == line->count) /* it gets another slope with the next anchor: not kept */
		return point->ns + (length < line->ahead_max_ns ? length : line->ahead_max_ns);
	line->piece_ticks = point->ticks;
	line->piece_span = point[1].ticks - point->ticks;
	line->piece_ns = point->ns;
	line->piece_limit_ns = point[1].ns - point->ns;
	line->piece_q48 = point->ns_per_tick_q48;
	return point->ns + (length < line->piece_limit_ns ? length : line->piece_limit_ns);
}

bool ky_timeline_piece(const struct ky_timeline *line, uint64_t ticks,
		       struct ky_timeline_piece *out)
{
	const struct ky_timeline_point *point;
	size_t piece;

	if (!line->count)
		return false;
	piece = find_piece(line, ticks);
	point = &line->points[piece];
	*out = (struct ky_timeline_piece){point->ticks, point->ns, point->ns_per_tick_q48,
					  UINT64_MAX};
	if (piece + 1 < line->count)
		out->span = point[1].ticks - point->ticks;
	return true;
}

static uint64_t newest_slope(const struct ky_timeline *line)
{
	return line->count ? line->points[line->count - 1].ns_per_tick_q48 : line->nominal_q48;
}

uint64_t ky_timeline_length_ns(const struct ky_timeline *line, uint64_t ticks)
{
	return saturate(((ky_wide)ticks * newest_slope(line)) >> SLOPE_SHIFT);
}

uint64_t ky_timeline_length_ticks(const struct ky_timeline *line, uint64_t ns)
{
	uint64_t slope = newest_slope(line);

	return slope ? saturate(((ky_wide)ns << SLOPE_SHIFT) / slope) : UINT64_MAX;
}

/* The last point at or before this time, or the first. */
static size_t find_point(const struct ky_timeline *line, uint64_t ns)
{
	size_t low = 0, high = line->count;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (line->points[middle].ns <= ns)
			low = middle;
		else
			high = middle;
	}
	return low;
}

uint64_t ky_timeline_ticks(const struct ky_timeline *line, uint64_t ns)
{
	const struct ky_timeline_point *point;
	uint64_t length, slope, ticks;

	if (!line->count)
		return 0;
	point = &line->points[find_point(line, ns)];
	slope = point->ns_per_tick_q48 ? point->ns_per_tick_q48 : 1;
	length = ns < point->ns ? point->ns - ns : ns - point->ns;
	/* Rounded so that the way back does not fall short. */
	ticks = saturate((((ky_wide)length << SLOPE_SHIFT) + (ns < point->ns ? 0 : slope - 1)) /
			 slope);
	if (ns < point->ns)
		return ticks < point->ticks ? point->ticks - ticks : 0;
	return ticks < UINT64_MAX - point->ticks ? point->ticks + ticks : UINT64_MAX;
}

void ky_timeline_settle(struct ky_timeline *line, uint64_t baseline_ns)
{
	struct ky_timeline_point *last;
	size_t first;

	if (line->count < 2 || line->is_identity)
		return;
	last = &line->points[line->count - 1];
	first = last->ns > baseline_ns ? find_point(line, last->ns - baseline_ns) : 0;
	if (first == line->count - 1)
		first--;
	if (last->ns - line->points[first].ns < BASELINE_MIN_NS) {
		last->ns_per_tick_q48 = line->nominal_q48;
		return;
	}
	last->ns_per_tick_q48 = saturate(
		((ky_wide)(last->ns - line->points[first].ns) << SLOPE_SHIFT) /
		(last->ticks - line->points[first].ticks));
}

uint64_t ky_timeline_realtime_ns(const struct ky_timeline *line, uint64_t ns)
{
	if (!line->count)
		return 0;
	return ns + (uint64_t)line->points[find_point(line, ns)].realtime_offset_ns;
}
