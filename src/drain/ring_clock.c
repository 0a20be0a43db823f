/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What time it was, by what lies in the ring itself: each sub-buffer carries a reading of the
 * clocks, and so does a crash. They are untrusted: those that contradict the rest are left
 * out, and the others are thinned to what a timeline keeps. */
#include <drain/drain_parts.h>

#include <base/alloc.h>
#include <drain/ring_copy.h>
#include <errno.h>
#include <stdlib.h>

#define POINTS_MAX 2000u
#define SPACING_MIN_NS UINT64_C(10000000)
#define TIME_MAX_NS (UINT64_C(1) << 62) /* no machine runs for 146 years */
#define AHEAD_MAX_NS (UINT64_C(400) * 86400 * 1000000000)
#define BASELINE_NS UINT64_C(100000000000)
#define WIDTH_SURE_NS 50000u /* a wider bracket was interrupted */

struct clock_reading {
	uint64_t ticks, ns, realtime_ns, error_ns;
	uint32_t before; /* the one before it in the longest chain, + 1 */
};

struct readings {
	struct clock_reading *list;
	uint32_t count;
	uint32_t *chain; /* ends of the chains of each length */
};

static void add(struct ky_drain_common *common, struct readings *readings,
		const struct ky_clock_anchor *anchor, uint64_t error_ns)
{
	uint64_t width = anchor->ticks_after - anchor->ticks_before;
	bool is_os = common->ring.flags & KY_RING_CLOCK_MONOTONIC;

	if (anchor->ticks_after < anchor->ticks_before || !anchor->monotonic_ns ||
	    anchor->monotonic_ns >= TIME_MAX_NS)
		return;
	readings->list[readings->count++] = (struct clock_reading){
		is_os ? anchor->monotonic_ns : anchor->ticks_before + width / 2,
		anchor->monotonic_ns, anchor->realtime_ns,
		error_ns + (is_os ? 0 : ky_timeline_length_ns(&common->timeline, width) / 2), 0};
}

static int by_ticks(const void *a, const void *b)
{
	const struct clock_reading *left = a, *right = b;

	if (left->ticks != right->ticks)
		return left->ticks < right->ticks ? -1 : 1;
	return left->ns < right->ns ? -1 : left->ns > right->ns;
}

/* Keeps the largest number of readings whose times grow with their ticks: a few that are wrong do
 * not drag the others along, wherever they lie. */
static void keep_consistent(struct readings *readings)
{
	uint32_t longest = 0, at;

	for (uint32_t i = 0; i < readings->count; i++) {
		struct clock_reading *one = &readings->list[i];
		uint32_t low = 0, high = longest;

		while (low < high) {
			uint32_t middle = low + (high - low) / 2;

			if (readings->list[readings->chain[middle]].ns < one->ns)
				low = middle + 1;
			else
				high = middle;
		}
		one->before = low ? readings->chain[low - 1] + 1 : 0;
		readings->chain[low] = i;
		if (low == longest)
			longest++;
	}
	at = longest ? readings->chain[longest - 1] + 1 : 0;
	for (uint32_t i = longest; i-- > 0;) {
		readings->chain[i] = at - 1;
		at = readings->list[at - 1].before;
	}
	for (uint32_t i = 0; i < longest; i++)
		readings->list[i] = readings->list[readings->chain[i]];
	readings->count = longest;
}

/* Of each stretch of time the narrowest bracket; first and last stay. */
static int fill_timeline(struct ky_drain_common *common, const struct readings *readings)
{
	const struct clock_reading *list = readings->list;
	uint32_t count = readings->count, at = 0;
	uint64_t spacing;

	if (!count)
		return 0;
	spacing = (list[count - 1].ns - list[0].ns) / POINTS_MAX;
	if (spacing < SPACING_MIN_NS)
		spacing = SPACING_MIN_NS;
	while (at < count) {
		uint32_t best = at, next = at + 1;

		while (next < count && list[next].ns - list[at].ns < spacing) {
			if (list[next].error_ns < list[best].error_ns)
				best = next;
			next++;
		}
		if (next == count && list[count - 1].error_ns < WIDTH_SURE_NS)
			best = count - 1;
		if (at == 0 && list[0].error_ns < WIDTH_SURE_NS)
			best = 0;
		if (ky_timeline_add(&common->timeline, list[best].ticks, list[best].ns,
				    list[best].realtime_ns, list[best].error_ns) == -ENOMEM)
			return -ENOMEM;
		at = next;
	}
	return 0;
}

static void collect(struct ky_drain_common *common, struct readings *readings,
		    const struct ky_clock_anchor *now)
{
	const struct ky_ring_crash *crash = common->ring.side ? &common->ring.side->crash : NULL;
	uint32_t slots = ky_ring_view_populated(&common->ring);

	add(common, readings, &common->ring.open_anchor, 0);
	for (uint32_t slot = 0; slot < slots; slot++) {
		uint64_t number = KY_CLAIM_NUMBER(ky_ring_view_claim(&common->ring, slot));
		struct ky_slot_head head;

		if (number && ky_ring_view_head(&common->ring, slot, number, &head) == 0)
			add(common, readings, &head.anchor, 0);
	}
	if (crash && atomic_load_explicit(&crash->state, memory_order_acquire) == 2 &&
	    crash->ticks) {
		struct ky_clock_anchor anchor = {crash->ticks, crash->monotonic_ns, crash->ticks,
						 0};

		anchor.realtime_ns = crash->monotonic_ns + common->ring.open_anchor.realtime_ns -
				     common->ring.open_anchor.monotonic_ns;
		/* Two readings one right after the other, nothing between them. */
		add(common, readings, &anchor, WIDTH_SURE_NS);
	}
	if (now)
		add(common, readings, now, 0);
}

int ky_drain_ring_clock(struct ky_drain_common *common, const struct ky_clock_anchor *now)
{
	size_t room = (size_t)ky_ring_view_populated(&common->ring) + 3;
	struct readings readings = {ky_alloc(room * sizeof(*readings.list)), 0,
				    ky_alloc(room * sizeof(*readings.chain))};
	int err = -ENOMEM;

	if (readings.list && readings.chain) {
		ky_timeline_release(&common->timeline);
		ky_timeline_init(&common->timeline, common->ring.ticks_per_second,
				 common->ring.flags & KY_RING_CLOCK_MONOTONIC);
		collect(common, &readings, now);
		qsort(readings.list, readings.count, sizeof(*readings.list), by_ticks);
		keep_consistent(&readings);
		err = fill_timeline(common, &readings);
		ky_timeline_settle(&common->timeline, BASELINE_NS);
		/* No newer one will come. */
		common->timeline.ahead_max_ns = AHEAD_MAX_NS;
	}
	ky_free(readings.list);
	ky_free(readings.chain);
	return err;
}
