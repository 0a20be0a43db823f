/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Samples of the ring's sample area: read in the order of their claims, put into a queue of their
 * own in the order of their stamps. sample_event.c writes them. */
#include <drain/copy_stage.h>

#include <base/alloc.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wire/switch_sample.h>

/* A writer is a few hundred instructions long, unless it lost its CPU; then its sample is lost. */
#define PATIENCE_NS UINT64_C(20000000)
#define ONE_WEIGHT UINT64_C(0x100000000) /* 1 in parts of 2^32 */

struct sample_cell {
	union {
		struct ky_sample_cell first;
		struct ky_sample_more more;
		uint64_t words[KY_SAMPLE_CELL_BYTES / 8];
		uint8_t bytes[KY_SAMPLE_CELL_BYTES];
	};
};

/* A time another process wrote: never in the future, and not before there was a ring. */
static uint64_t sane_ticks(const struct ky_copy *copy, uint64_t stamp, bool is_ns)
{
	uint64_t ticks = stamp, first = 0;

	if (is_ns)
		ticks = ky_timeline_ticks(&copy->common->timeline, stamp);
	if (copy->common->timeline.count)
		first = copy->common->timeline.points[0].ticks;
	if (!copy->common->is_dead && copy->common->now_ticks && ticks > copy->common->now_ticks)
		ticks = copy->common->now_ticks;
	if (ticks > INT64_MAX)
		ticks = first;
	return ticks > first ? ticks : first;
}

/* ---- one sample ---- */

static void unpack(uint64_t *frames, const uint8_t *from, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++, from += KY_SAMPLE_FRAME_BYTES) {
		uint64_t frame = 0;

		memcpy(&frame, from, KY_SAMPLE_FRAME_BYTES);
		if (frame >> 47)
			frame |= UINT64_C(0xffff) << 48;
		frames[i] = frame;
	}
}

static bool is_sound(const struct ky_sample_cell *cell)
{
	return cell->part == 0 && cell->parts >= 1 && cell->parts <= KY_SAMPLE_PARTS_MAX &&
	       cell->kind >= KY_SAMPLE_CPU && cell->kind <= KY_SAMPLE_WAKER &&
	       ky_sample_parts(cell->frame_count) == cell->parts;
}

/* The frames of all parts. False: a part is not there. */
static bool read_frames(const struct ky_sample_ring *ring, uint64_t claim,
			const struct sample_cell *first, uint64_t *frames)
{
	uint32_t count = first->first.frame_count;
	uint32_t at = count < KY_SAMPLE_FRAMES_FIRST ? count : KY_SAMPLE_FRAMES_FIRST;
	struct sample_cell cell = {0};

	unpack(frames, first->first.frames, at);
	for (uint32_t part = 1; part < first->first.parts; part++) {
		uint32_t here = count - at < KY_SAMPLE_FRAMES_MORE ? count - at :
								     KY_SAMPLE_FRAMES_MORE;

		if (ky_ring_view_sample(ring, claim + part, cell.words) != KY_SAMPLE_WHOLE ||
		    cell.more.part != part || cell.more.parts != first->first.parts ||
		    cell.more.kind != first->first.kind)
			return false;
		unpack(frames + at, cell.more.frames, here);
		at += here;
	}
	return true;
}

static int add_sample(struct ky_copy *copy, struct ky_waiting_sample *sample, uint64_t ticks)
{
	return ky_samples_add(&copy->common->samples, &copy->common->threads.queues, sample, ticks);
}

static uint64_t weigh_switch(const struct ky_sample_cell *cell, uint64_t length_ns)
{
	double weight = cell->weight > ONE_WEIGHT ? (double)cell->weight : (double)ONE_WEIGHT;

	if (length_ns && length_ns < cell->value)
		weight *= (double)cell->value / (double)length_ns;
	return weight < (double)INT64_MAX ? (uint64_t)weight : INT64_MAX;
}

/* Many of one thread lie in one sample; each waits for its own end. */
static int queue_switches(struct ky_copy *copy, const struct ky_sample_cell *cell,
			  const uint64_t *frames)
{
	bool has_waker = cell->flags & KY_SAMPLE_HAS_WAKER;
	uint32_t step = KY_SWITCH_FRAMES + has_waker, end = cell->frame_count;
	uint32_t own_count = 0; /* frames of the program */
	int err = 0;

	if (cell->flags & KY_SAMPLE_HAS_STACK && end > step) {
		own_count = end - step;
		end = step;
	}
	for (uint32_t i = 0; i + step <= end && !err; i += step) {
		struct ky_waiting_sample *sample = ky_alloc(sizeof(*sample) +
							    own_count * sizeof(*frames));
		struct ky_switch_interval interval;

		if (!sample)
			return -ENOMEM;
		sample->frame_count = own_count;
		memcpy(sample->frames, frames + end, own_count * sizeof(*frames));
		sample->is_truncated = own_count && cell->flags & KY_SAMPLE_TRUNCATED;
		ky_switch_dec(&interval, cell->stamp, frames + i);
		if (has_waker)
			ky_switch_dec_waker(&interval, frames[i + KY_SWITCH_FRAMES]);
		sample->kind = KY_SAMPLE_SWITCHES;
		sample->flags = interval.flags;
		sample->syscall = -1;
		sample->tid = cell->tid;
		sample->value = interval.end_ns - interval.begin_ns;
		sample->more = interval.reason;
		sample->runnable_min_ns = interval.runnable_min_ns;
		sample->runnable_max_ns = interval.runnable_max_ns;
		sample->by = interval.by;
		sample->by_pid = interval.by_pid;
		sample->by_tid = interval.by_tid;
		sample->weight = weigh_switch(cell, sample->value);
		err = add_sample(copy, sample, sane_ticks(copy, interval.end_ns, true));
	}
	return err;
}

static int note_waker(struct ky_copy *copy, const struct ky_sample_cell *cell,
		      const uint64_t *frames)
{
	struct ky_waker_name *waker;

	if (cell->frame_count != KY_WAKER_FRAMES || !cell->tid)
		return 0;
	if (!copy->common->samples.wakers)
		copy->common->samples.wakers = ky_alloc(KY_WAKER_NAMES *
							sizeof(*copy->common->samples.wakers));
	if (!copy->common->samples.wakers)
		return -ENOMEM;
	waker = ky_samples_waker(&copy->common->samples, cell->tid);
	waker->tid = cell->tid;
	waker->pid = (uint32_t)cell->more;
	ky_waker_dec(waker->name, frames);
	return 0;
}

static int queue_sample(struct ky_copy *copy, const struct ky_sample_cell *cell,
			const uint64_t *frames)
{
	size_t frame_bytes = cell->frame_count * sizeof(*frames);
	struct ky_waiting_sample *sample;

	if (cell->kind == KY_SAMPLE_SWITCHES && cell->tid)
		return queue_switches(copy, cell, frames);
	if (cell->kind == KY_SAMPLE_WAKER)
		return note_waker(copy, cell, frames);
	sample = ky_alloc(sizeof(*sample) + frame_bytes);
	if (!sample)
		return -ENOMEM;
	sample->kind = cell->kind;
	sample->flags = cell->flags;
	sample->cpu = cell->cpu;
	sample->syscall = cell->syscall;
	sample->tid = cell->tid;
	sample->frame_count = cell->frame_count;
	sample->value = cell->value;
	sample->more = cell->more;
	sample->other = cell->other;
	if (cell->kind == KY_SAMPLE_FREE && !(cell->flags & KY_SAMPLE_STAMP_IS_NS))
		sample->other = ky_timeline_ns(&copy->common->timeline, cell->other);
	sample->task = cell->task;
	sample->weight = cell->weight;
	memcpy(sample->frames, frames, frame_bytes);
	return add_sample(copy, sample,
			  sane_ticks(copy, cell->stamp, cell->flags & KY_SAMPLE_STAMP_IS_NS));
}

/* ---- one class ---- */

/* Returns samples missing before this one. */
static uint32_t missing_before(struct ky_sample_cursor *cursor, uint32_t number)
{
	uint32_t gap = (number - cursor->number) & KY_SAMPLE_NUMBER_MASK;
	bool is_known = cursor->has_number;

	/* Backwards: not from our writers, and no reason to count millions. */
	if (gap > KY_SAMPLE_NUMBER_MASK / 2)
		return 0;
	cursor->has_number = true;
	cursor->number = (number + 1) & KY_SAMPLE_NUMBER_MASK;
	return is_known ? gap : 0;
}

static bool is_worth_waiting(const struct ky_copy *copy, struct ky_sample_cursor *cursor)
{
	if (copy->common->is_final)
		return false;
	if (!cursor->since_ns)
		cursor->since_ns = copy->common->now_ns ? copy->common->now_ns : 1;
	return copy->common->now_ns - cursor->since_ns < PATIENCE_NS;
}

/* Another stream has what came before; has the ring overwritten what lay between? */
static bool has_gap_since(const struct ky_copy *copy, const struct ky_sample_ring *ring,
			  const struct ky_sample_cursor *cursor, uint64_t ticks)
{
	uint64_t from = copy->common->from_ticks;

	return from && !copy->common->is_cut && !cursor->has_number &&
	       cursor->next >= ring->cell_count && ticks > from;
}

/* Takes what begins at the cursor's claim and moves it on. Returns 1 when there is more to read,
 * 0 when it is to be waited for, -ENOMEM. */
static int take_next(struct ky_copy *copy, const struct ky_sample_ring *ring,
		     struct ky_sample_cursor *cursor, uint64_t *lost)
{
	uint64_t frames[KY_SAMPLE_FRAMES_MAX] = {0};
	struct sample_cell cell = {0};
	enum ky_sample_read saw = ky_ring_view_sample(ring, cursor->next, cell.words);
	int err = 0;

	if (saw == KY_SAMPLE_UNFINISHED && is_worth_waiting(copy, cursor))
		return 0;
	cursor->since_ns = 0;
	if (saw == KY_SAMPLE_WHOLE && is_sound(&cell.first) &&
	    read_frames(ring, cursor->next, &cell, frames)) {
		if (has_gap_since(copy, ring, cursor,
				  sane_ticks(copy, cell.first.stamp,
					     cell.first.flags & KY_SAMPLE_STAMP_IS_NS))) {
			cursor->is_inexact = true;
			*lost += 1;
		}
		*lost += missing_before(cursor, cell.first.number);
		err = queue_sample(copy, &cell.first, frames);
		cursor->next += cell.first.parts;
	} else {
		cursor->next++;
	}
	return err == -ENOMEM ? err : 1;
}

static int read_class(struct ky_copy *copy, uint32_t which, bool is_reported,
		      struct ky_sample_gap *gap)
{
	struct ky_sample_cursor *cursor = &copy->sample_cursors[which];
	uint64_t claim_index, claims, lost = 0, source_lost;
	struct ky_sample_ring ring;
	int more = 1;

	if (!ky_ring_view_samples(&copy->common->ring, which, &ring))
		return 0;
	claim_index = atomic_load_explicit(&ring.head->claim_index, memory_order_acquire);
	source_lost = atomic_load_explicit(&ring.head->lost_count, memory_order_relaxed);
	claims = KY_SAMPLE_CLAIM(claim_index);
	if (!cursor->next && !cursor->has_number)
		cursor->has_number = !copy->common->is_cut && !copy->common->from_ticks;
	if (claims > cursor->next && claims - cursor->next > ring.cell_count)
		cursor->next = claims - ring.cell_count;
	while (more > 0 && cursor->next < claims &&
	       copy->common->samples.free_count >= KY_SWITCHES_MAX)
		more = take_next(copy, &ring, cursor, &lost);
	/* What was overwritten before the drain read it, at the end of what was claimed. */
	if (more > 0 && cursor->next >= claims && claims)
		lost += missing_before(cursor,
				       (uint32_t)(claim_index >> KY_SAMPLE_CLAIM_BITS) - 1u);
	if (source_lost > cursor->source_lost)
		lost += source_lost - cursor->source_lost;
	if (is_reported || copy->common->is_cut)
		cursor->source_lost = source_lost;
	gap->count = lost + cursor->held_lost;
	gap->is_inexact = cursor->is_inexact;
	gap->from_ns = cursor->reported_ns ? cursor->reported_ns :
		       cursor->is_inexact  ? copy->common->from_ns :
					     copy->common->now_ns;
	cursor->held_lost = !is_reported && cursor->is_inexact ? gap->count : 0;
	if (is_reported || !cursor->is_inexact) {
		cursor->is_inexact = false;
		cursor->reported_ns = copy->common->now_ns;
	}
	return more < 0 ? more : 0;
}

static int by_ticks(const void *a, const void *b)
{
	const struct ky_rec *one = a, *other = b;

	return (one->ticks > other->ticks) - (one->ticks < other->ticks);
}

/* Several writers, and rings of several CPUs read one after the other. */
static void sort_queue(struct ky_queue *queue)
{
	for (uint32_t i = queue->head + 1; i < queue->tail; i++) {
		if (queue->recs[i].ticks < queue->recs[i - 1].ticks) {
			qsort(queue->recs + queue->head, queue->tail - queue->head,
			      sizeof(*queue->recs), by_ticks);
			return;
		}
	}
}

int ky_copy_samples(struct ky_copy *copy, bool is_reported, struct ky_sample_gap *gaps)
{
	struct ky_drain_common *common = copy->common;
	int err = 0;

	memset(gaps, 0, KY_SAMPLE_CLASSES * sizeof(*gaps));
	/* Who only watches has no use for them. */
	if (!common->ring.sample_bytes || common->is_watching)
		return 0;
	if (copy->fetch_samples)
		copy->fetch_samples(copy->fetch_ctx);
	if (atomic_load_explicit(&common->ring.header->sample_classes, memory_order_relaxed))
		err = ky_samples_make_places(&common->samples);
	for (uint32_t which = 0; which < KY_SAMPLE_CLASSES && !err && common->samples.waiting;
	     which++)
		err = read_class(copy, which, is_reported, &gaps[which]);
	sort_queue(&common->samples.source->queue);
	return err;
}
