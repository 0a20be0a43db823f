/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the side area says: marks, counters, the crash record. Each waits as a note in a queue of
 * its own, which the merge treats like a thread's. */
#include <drain/copy_stage.h>

#include <errno.h>
#include <string.h>

#define COUNTERS_PACE_NS UINT64_C(1000000000)
#define MARK_PATIENCE_NS UINT64_C(1000000000) /* a mark half written for so long has no writer */

/* ---- marks ---- */

enum mark_reading {
	MARK_WHOLE,
	MARK_UNFINISHED,
	MARK_GONE
};

static enum mark_reading copy_mark(const struct ky_ring_mark *mark, uint64_t number,
				   struct ky_ring_mark *out)
{
	uint64_t serial = atomic_load_explicit(&mark->serial, memory_order_acquire);

	if (serial > number + 1)
		return MARK_GONE;
	if (serial != number + 1)
		return MARK_UNFINISHED;
	memcpy(out, mark, sizeof(*out));
	/* What was read before must not move after the second reading. */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&mark->serial, memory_order_relaxed) != serial)
		return MARK_GONE;
	return MARK_WHOLE;
}

static int report_lost_marks(struct ky_copy *copy, uint64_t count)
{
	struct ky_note note = {.kind = KY_NOTE_MARKS_LOST, .value = count};

	copy->common->stats.records_lost += count;
	return ky_common_note(copy->common, &note, copy->common->now_ns);
}

static int take_mark(struct ky_copy *copy, const struct ky_ring_mark *mark)
{
	size_t bytes = mark->text_bytes < KY_MARK_TEXT_BYTES ? mark->text_bytes :
							       KY_MARK_TEXT_BYTES;
	struct ky_note note = {.kind = KY_NOTE_MARK,
			       .body = ky_note_body(mark->text, bytes),
			       .body_bytes = (uint32_t)bytes};

	return note.body ? ky_common_note(copy->common, &note, mark->monotonic_ns) : -ENOMEM;
}

/* True: wait for it, its writer may be in the middle of it. */
static bool is_worth_waiting(struct ky_copy *copy)
{
	if (copy->common->is_final)
		return false;
	if (!copy->mark_since_ns)
		copy->mark_since_ns = copy->common->now_ns ? copy->common->now_ns : 1;
	return copy->common->now_ns - copy->mark_since_ns < MARK_PATIENCE_NS;
}

static int read_marks(struct ky_copy *copy, const struct ky_ring_side *area)
{
	uint64_t claim_index = atomic_load_explicit(&area->mark_claim_index, memory_order_acquire),
		 lost = 0;
	int err = 0;

	if (claim_index < copy->mark_next) /* a counter that went back is not to be trusted */
		return 0;
	if (claim_index - copy->mark_next > KY_MARKS) {
		/* A cut reports what is there: the older ones were never promised. */
		lost = copy->common->is_cut || copy->common->from_ticks ?
			       0 :
			       claim_index - KY_MARKS - copy->mark_next;
		copy->mark_next = claim_index - KY_MARKS;
	}
	for (; copy->mark_next < claim_index && !err; copy->mark_next++) {
		struct ky_ring_mark mark;
		enum mark_reading saw = copy_mark(&area->marks[copy->mark_next % KY_MARKS],
						  copy->mark_next, &mark);

		if (saw == MARK_UNFINISHED && is_worth_waiting(copy))
			break;
		copy->mark_since_ns = 0;
		if (saw == MARK_WHOLE)
			err = take_mark(copy, &mark);
		else
			lost++;
	}
	if (!err && lost)
		err = report_lost_marks(copy, lost);
	return err == -ENOMEM ? err : 0;
}

/* ---- counters ---- */

static int read_counters(struct ky_copy *copy, const struct ky_ring_side *area,
			 struct ky_counter_news *news)
{
	uint32_t count = ky_counter_count(area);
	int err = 0;

	/* The last values are written whenever the reading before was. */
	if (!copy->common->is_final && copy->counters_ns &&
	    copy->common->now_ns - copy->counters_ns < COUNTERS_PACE_NS)
		return 0;
	copy->counters_ns = copy->common->now_ns;
	for (uint32_t i = 0; i < count && !err; i++) {
		struct ky_note note = {KY_NOTE_COUNTER, i, ky_counter_value(area, i), NULL, 0};

		if (ky_counter_is_news(news, i, note.value))
			err = ky_common_note(copy->common, &note, copy->common->now_ns);
	}
	return err == -ENOMEM ? err : 0;
}

/* What the counters were before now: a cut has not read meanwhile. */
static int read_samples(struct ky_copy *copy, const struct ky_ring_side *area)
{
	int err = 0;

	for (uint32_t i = 0; i < KY_COUNTER_SAMPLES && err != -ENOMEM; i++) {
		const struct ky_ring_counter_sample *sample = &area->counter_samples[i];
		uint64_t serial = atomic_load_explicit(&sample->serial, memory_order_acquire);
		uint32_t index = (uint32_t)serial & (KY_COUNTERS - 1);
		struct ky_note note = {.kind = KY_NOTE_COUNTER, .index = index};
		uint64_t ticks = atomic_load_explicit(&sample->ticks, memory_order_relaxed);

		note.value = atomic_load_explicit(&sample->value, memory_order_relaxed);
		if (serial && index < ky_counter_count(area))
			err = ky_common_note(copy->common, &note,
					     ky_timeline_ns(&copy->common->timeline, ticks));
	}
	return err == -ENOMEM ? err : 0;
}

/* ---- crash ---- */

static int read_crash(struct ky_copy *copy, const struct ky_ring_side *area)
{
	struct ky_note note = {.kind = KY_NOTE_CRASH};
	struct ky_ring_crash *crash;

	/* Pairs with the release store after a whole record. */
	if (copy->has_crash || atomic_load_explicit(&area->crash.state, memory_order_acquire) != 2)
		return 0;
	note.body = crash = ky_note_body(&area->crash, sizeof(area->crash));
	if (!crash)
		return -ENOMEM;
	copy->has_crash = true;
	return ky_common_note(copy->common, &note, crash->monotonic_ns) == -ENOMEM ? -ENOMEM : 0;
}

int ky_copy_side(struct ky_copy *copy, struct ky_counter_news *news)
{
	const struct ky_ring_side *area = copy->common->ring.side;
	int err;

	if (!area)
		return 0;
	err = read_marks(copy, area);
	if (!err)
		err = read_crash(copy, area);
	/* The last values of a cut are written at its end. */
	if (!err)
		err = copy->common->is_cut ? read_samples(copy, area) :
					     read_counters(copy, area, news);
	return err;
}
