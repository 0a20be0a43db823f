/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Samples of the ring's sample area: read in the order of their claims, put into a queue of their
 * own in the order of their stamps, and written with what their thread was doing at that moment. */
#include <drain/drain_state.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <wire/switch_sample.h>

/* A writer is a few hundred instructions long, unless it lost its processor; then its sample is. */
#define PATIENCE_NS UINT64_C(20000000)
#define ONE_WEIGHT UINT64_C(0x100000000) /* 1 in parts of 2^32 */
#define KERNEL_STACK_LOOKS 8u

struct sample_slot {
	union {
		struct ky_sample_slot first;
		struct ky_sample_more more;
		uint64_t words[KY_SAMPLE_SLOT_BYTES / 8];
		uint8_t bytes[KY_SAMPLE_SLOT_BYTES];
	};
};

/* ---- the places of samples that wait ---- */

int ky_drain_sample_open(struct ky_drain *drain)
{
	struct ky_sample_state *samples = &drain->samples;

	samples->queue = ky_alloc(sizeof(*samples->queue));
	if (!samples->queue)
		return -ENOMEM;
	samples->queue->worker = KY_NONE32;
	samples->queue->is_announced = true;
	return 0;
}

void ky_drain_sample_release(struct ky_drain *drain)
{
	struct ky_sample_state *samples = &drain->samples;

	for (uint32_t i = 0; samples->waiting && i < KY_SAMPLES_WAITING_MAX; i++)
		ky_free(samples->waiting[i]);
	ky_free(samples->waiting);
	ky_free(samples->free_places);
	ky_free(samples->wakers);
	ky_free(samples->kernel_stacks);
	if (samples->queue)
		ky_free(samples->queue->recs);
	ky_free(samples->queue);
}

/* At the first sample: most rings have none. */
static int make_places(struct ky_sample_state *samples)
{
	if (samples->waiting)
		return 0;
	samples->waiting = ky_alloc(KY_SAMPLES_WAITING_MAX * sizeof(struct ky_waiting_sample *));
	samples->free_places = ky_alloc(KY_SAMPLES_WAITING_MAX * sizeof(uint32_t));
	if (!samples->waiting || !samples->free_places) {
		ky_free(samples->waiting);
		ky_free(samples->free_places);
		samples->waiting = NULL;
		samples->free_places = NULL;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < KY_SAMPLES_WAITING_MAX; i++)
		samples->free_places[i] = KY_SAMPLES_WAITING_MAX - 1 - i;
	samples->free_count = KY_SAMPLES_WAITING_MAX;
	return 0;
}

/* A time somebody else wrote: never in the future, and not before there was a ring. */
static uint64_t sane_ticks(const struct ky_drain *drain, uint64_t stamp, bool is_ns)
{
	uint64_t ticks = stamp, first = 0;

	if (is_ns)
		ticks = ky_timeline_ticks(&drain->timeline, stamp);
	if (drain->timeline.count)
		first = drain->timeline.points[0].ticks;
	if (!drain->is_dead && drain->now_ticks && ticks > drain->now_ticks)
		ticks = drain->now_ticks;
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

static bool is_sound(const struct ky_sample_slot *slot)
{
	return slot->part == 0 && slot->parts >= 1 && slot->parts <= KY_SAMPLE_PARTS_MAX &&
	       slot->kind >= KY_SAMPLE_CPU && slot->kind <= KY_SAMPLE_KERNEL &&
	       ky_sample_parts(slot->frame_count) == slot->parts;
}

/* The frames of all parts. False: a part is not there. */
static bool read_frames(const struct ky_sample_ring *ring, uint64_t claim,
			const struct sample_slot *first, uint64_t *frames)
{
	uint32_t count = first->first.frame_count;
	uint32_t at = count < KY_SAMPLE_FRAMES_FIRST ? count : KY_SAMPLE_FRAMES_FIRST;
	struct sample_slot slot = {0};

	unpack(frames, first->first.frames, at);
	for (uint32_t part = 1; part < first->first.parts; part++) {
		uint32_t here = count - at < KY_SAMPLE_FRAMES_MORE ? count - at :
								     KY_SAMPLE_FRAMES_MORE;

		if (ky_ring_view_sample(ring, claim + part, slot.words) != KY_SAMPLE_WHOLE ||
		    slot.more.part != part || slot.more.parts != first->first.parts ||
		    slot.more.kind != first->first.kind)
			return false;
		unpack(frames + at, slot.more.frames, here);
		at += here;
	}
	return true;
}

/* Takes the sample over. */
static int queue(struct ky_drain *drain, struct ky_waiting_sample *sample, uint64_t ticks)
{
	struct ky_sample_state *samples = &drain->samples;
	uint32_t place = samples->free_places[samples->free_count - 1];
	int err = ky_drain_queue(drain, samples->queue, ticks, KY_REC_SAMPLE, 0, place);

	if (err) {
		ky_free(sample);
		return err;
	}
	samples->free_count--;
	samples->waiting[place] = sample;
	return 0;
}

static uint64_t weigh_switch(const struct ky_sample_slot *slot, uint64_t length_ns)
{
	double weight = slot->weight > ONE_WEIGHT ? (double)slot->weight : (double)ONE_WEIGHT;

	if (length_ns && length_ns < slot->value)
		weight *= (double)slot->value / (double)length_ns;
	return weight < (double)INT64_MAX ? (uint64_t)weight : INT64_MAX;
}

/* Many of one thread lie in one sample; each waits for its own end. */
static int queue_switches(struct ky_drain *drain, const struct ky_sample_slot *slot,
			  const uint64_t *frames)
{
	bool has_waker = slot->flags & KY_SAMPLE_HAS_WAKER;
	bool has_kernel = slot->flags & KY_SAMPLE_HAS_KERNEL;
	uint32_t step = KY_SWITCH_FRAMES + has_waker + has_kernel, end = slot->frame_count;
	uint32_t own_count = 0; /* frames of the program */
	int err = 0;

	if (slot->flags & KY_SAMPLE_HAS_STACK && end > step) {
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
		sample->is_truncated = own_count && slot->flags & KY_SAMPLE_TRUNCATED;
		ky_switch_dec(&interval, slot->stamp, frames + i);
		if (has_waker)
			ky_switch_dec_waker(&interval, frames[i + KY_SWITCH_FRAMES]);
		sample->kind = KY_SAMPLE_SWITCHES;
		sample->flags = interval.flags;
		sample->syscall = -1;
		sample->tid = slot->tid;
		sample->value = interval.end_ns - interval.begin_ns;
		sample->more = interval.reason;
		sample->runnable_min_ns = interval.runnable_min_ns;
		sample->runnable_max_ns = interval.runnable_max_ns;
		sample->by = interval.by;
		sample->by_pid = interval.by_pid;
		sample->by_tid = interval.by_tid;
		sample->kernel = has_kernel ? frames[i + step - 1] : 0;
		sample->weight = weigh_switch(slot, sample->value);
		err = queue(drain, sample, sane_ticks(drain, interval.end_ns, true));
	}
	return err;
}

static struct ky_waker_name *waker_at(const struct ky_drain *drain, uint32_t tid)
{
	return &drain->samples.wakers[ky_hash_number(tid) % KY_WAKER_NAMES];
}

static int note_waker(struct ky_drain *drain, const struct ky_sample_slot *slot,
		      const uint64_t *frames)
{
	struct ky_waker_name *waker;

	if (slot->frame_count != KY_WAKER_FRAMES || !slot->tid)
		return 0;
	if (!drain->samples.wakers)
		drain->samples.wakers = ky_alloc(KY_WAKER_NAMES * sizeof(*drain->samples.wakers));
	if (!drain->samples.wakers)
		return -ENOMEM;
	waker = waker_at(drain, slot->tid);
	waker->tid = slot->tid;
	waker->pid = (uint32_t)slot->more;
	ky_waker_dec(waker->name, frames);
	return 0;
}

/* Where a stack lies, or belongs: among the few places from its own on; else its own. */
static struct ky_kernel_told_stack *kernel_stack_at(const struct ky_drain *drain, uint64_t number)
{
	struct ky_kernel_told_stack *list = drain->samples.kernel_stacks;
	uint32_t home = (uint32_t)(number % KY_KERNEL_STACKS_TOLD);

	for (uint32_t i = 0; i < KERNEL_STACK_LOOKS; i++) {
		struct ky_kernel_told_stack *stack = &list[(home + i) % KY_KERNEL_STACKS_TOLD];

		if (!stack->number || stack->number == number)
			return stack;
	}
	return &list[home];
}

/* A number that its frames do not make is not believed. */
static int note_kernel_stack(struct ky_drain *drain, const struct ky_sample_slot *slot,
			     const uint64_t *frames)
{
	struct ky_sample_state *samples = &drain->samples;
	struct ky_kernel_told_stack *stack;

	if (!slot->frame_count || slot->frame_count > KY_SWITCH_STACK_MAX ||
	    slot->value != ky_switch_stack_number(frames, slot->frame_count))
		return 0;
	if (!samples->kernel_stacks)
		samples->kernel_stacks = ky_alloc(KY_KERNEL_STACKS_TOLD *
						  sizeof(*samples->kernel_stacks));
	if (!samples->kernel_stacks)
		return -ENOMEM;
	stack = kernel_stack_at(drain, slot->value);
	stack->number = slot->value;
	stack->count = slot->frame_count;
	memcpy(stack->frames, frames, slot->frame_count * sizeof(*frames));
	return 0;
}

static int queue_sample(struct ky_drain *drain, const struct ky_sample_slot *slot,
			const uint64_t *frames)
{
	size_t frame_bytes = slot->frame_count * sizeof(*frames);
	struct ky_waiting_sample *sample;

	if (slot->kind == KY_SAMPLE_SWITCHES && slot->tid)
		return queue_switches(drain, slot, frames);
	if (slot->kind == KY_SAMPLE_WAKER)
		return note_waker(drain, slot, frames);
	if (slot->kind == KY_SAMPLE_KERNEL)
		return note_kernel_stack(drain, slot, frames);
	sample = ky_alloc(sizeof(*sample) + frame_bytes);
	if (!sample)
		return -ENOMEM;
	sample->kind = slot->kind;
	sample->flags = slot->flags;
	sample->cpu = slot->cpu;
	sample->syscall = slot->syscall;
	sample->tid = slot->tid;
	sample->frame_count = slot->frame_count;
	sample->value = slot->value;
	sample->more = slot->more;
	sample->other = slot->other;
	if (slot->kind == KY_SAMPLE_FREE && !(slot->flags & KY_SAMPLE_STAMP_IS_NS))
		sample->other = ky_timeline_ns(&drain->timeline, slot->other);
	sample->task = slot->task;
	sample->weight = slot->weight;
	memcpy(sample->frames, frames, frame_bytes);
	return queue(drain, sample,
		     sane_ticks(drain, slot->stamp, slot->flags & KY_SAMPLE_STAMP_IS_NS));
}

/* ---- one class ---- */

static void lose(struct ky_drain *drain, uint32_t which, uint64_t count)
{
	struct ky_sample_cursor *cursor = &drain->samples.cursors[which];
	uint64_t from_ns = cursor->told_ns ? cursor->told_ns : drain->now_ns;

	/* A cut tells what is there, and whoever only looks on tells nothing. */
	if (!count || drain->is_cut || !drain->is_segment_open || drain->is_muted)
		return;
	drain->stats.samples_lost += count;
	ky_drain_loss(drain, 0, count, true, from_ns, drain->now_ns, KY_LOSS_SAMPLES + which,
		      drain->merged_ns);
}

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

static bool is_worth_waiting(const struct ky_drain *drain, struct ky_sample_cursor *cursor)
{
	if (drain->is_final)
		return false;
	if (!cursor->since_ns)
		cursor->since_ns = drain->now_ns ? drain->now_ns : 1;
	return drain->now_ns - cursor->since_ns < PATIENCE_NS;
}

/* Takes what begins at the cursor's claim and moves it on. Returns 1 when there is more to look at,
 * 0 when it is to be waited for, -ENOMEM. */
static int take_next(struct ky_drain *drain, const struct ky_sample_ring *ring,
		     struct ky_sample_cursor *cursor, uint64_t *lost)
{
	uint64_t frames[KY_SAMPLE_FRAMES_MAX] = {0};
	struct sample_slot slot = {0};
	enum ky_sample_look saw = ky_ring_view_sample(ring, cursor->next, slot.words);
	int err = 0;

	if (saw == KY_SAMPLE_UNFINISHED && is_worth_waiting(drain, cursor))
		return 0;
	cursor->since_ns = 0;
	if (saw == KY_SAMPLE_WHOLE && is_sound(&slot.first) &&
	    read_frames(ring, cursor->next, &slot, frames)) {
		*lost += missing_before(cursor, slot.first.number);
		err = queue_sample(drain, &slot.first, frames);
		cursor->next += slot.first.parts;
	} else {
		cursor->next++;
	}
	return err == -ENOMEM ? err : 1;
}

static int read_class(struct ky_drain *drain, uint32_t which)
{
	struct ky_sample_cursor *cursor = &drain->samples.cursors[which];
	uint64_t hand, claims, lost = 0, source_lost;
	struct ky_sample_ring ring;
	int more = 1;

	if (!ky_ring_view_samples(&drain->ring, which, &ring))
		return 0;
	hand = atomic_load_explicit(&ring.head->hand, memory_order_acquire);
	source_lost = atomic_load_explicit(&ring.head->lost_count, memory_order_relaxed);
	claims = KY_SAMPLE_CLAIM(hand);
	if (!cursor->next && !cursor->has_number)
		cursor->has_number = !drain->is_cut;
	if (claims > cursor->next && claims - cursor->next > ring.slot_count)
		cursor->next = claims - ring.slot_count;
	while (more > 0 && cursor->next < claims && drain->samples.free_count >= KY_SWITCHES_MAX)
		more = take_next(drain, &ring, cursor, &lost);
	/* What nobody will find any more, at the end of what was claimed. */
	if (more > 0 && cursor->next >= claims && claims)
		lost += missing_before(cursor, (uint32_t)(hand >> KY_SAMPLE_CLAIM_BITS) - 1u);
	if (source_lost > cursor->source_lost)
		lost += source_lost - cursor->source_lost;
	if (drain->is_segment_open || drain->is_cut)
		cursor->source_lost = source_lost;
	lose(drain, which, lost);
	cursor->told_ns = drain->now_ns;
	return more < 0 ? more : 0;
}

static int by_ticks(const void *a, const void *b)
{
	const struct ky_rec *one = a, *other = b;

	return (one->ticks > other->ticks) - (one->ticks < other->ticks);
}

/* Several writers, and rings of several processors read one after the other. */
static void sort_queue(struct ky_dthread *queue)
{
	for (uint32_t i = queue->head + 1; i < queue->tail; i++) {
		if (queue->recs[i].ticks < queue->recs[i - 1].ticks) {
			qsort(queue->recs + queue->head, queue->tail - queue->head,
			      sizeof(*queue->recs), by_ticks);
			return;
		}
	}
}

int ky_drain_read_samples(struct ky_drain *drain)
{
	int err = 0;

	/* Whoever only observes has no use for them. */
	if (!drain->ring.sample_bytes || (drain->is_muted && !drain->is_cut))
		return 0;
	if (drain->options.fetch_samples)
		drain->options.fetch_samples(drain->options.fetch_ctx);
	if (atomic_load_explicit(&drain->ring.header->sample_classes, memory_order_relaxed))
		err = make_places(&drain->samples);
	for (uint32_t which = 0; which < KY_SAMPLE_CLASSES && !err && drain->samples.waiting;
	     which++)
		err = read_class(drain, which);
	sort_queue(drain->samples.queue);
	return err;
}

/* ---- writing ---- */

static const struct ky_dthread *thread_of(const struct ky_drain *drain, uint32_t tid)
{
	for (uint32_t i = 0; i < drain->thread_count; i++) {
		if (drain->threads[i]->tid == tid && !drain->threads[i]->is_done)
			return drain->threads[i];
	}
	return NULL;
}

/* What the thread does now, that is at the sample's moment. */
struct doing {
	uint32_t worker;
	uint64_t task, since_ns;
	const char *name;
};

static struct doing look_at_thread(const struct ky_drain *drain,
				   const struct ky_waiting_sample *sample)
{
	const struct ky_dthread *thread = thread_of(drain, sample->tid);
	struct doing out = {.worker = KY_WORKER_UNKNOWN, .task = sample->task};

	if (!thread)
		return out;
	out.name = thread->name;
	out.worker = thread->is_blocking ? KY_WORKER_BLOCKING_POOL : ky_worker_id(thread->worker);
	if (thread->depth) {
		out.since_ns = thread->stack[thread->depth - 1].start_ns;
		if (!out.task)
			out.task = thread->stack[thread->depth - 1].task;
	} else if (thread->is_blocking) {
		out.since_ns = thread->blocking_start_ns;
		if (!out.task)
			out.task = thread->blocking_task;
	}
	return out;
}

static double weight_of(const struct ky_waiting_sample *sample)
{
	return sample->weight ? (double)sample->weight / (double)ONE_WEIGHT : 1.0;
}

static void write_cpu(struct ky_drain *drain, const struct ky_waiting_sample *sample, uint64_t ns)
{
	struct doing doing = look_at_thread(drain, sample);
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t name = 0, stack = ky_trc_enc_stack(enc, sample->frames, sample->frame_count);
	bool has_name = doing.name && doing.name[0], is_switch = sample->kind == KY_SAMPLE_SWITCH;

	if (has_name)
		name = ky_trc_enc_string(enc, 0, doing.name, strnlen(doing.name, 32));
	ky_trc_enc_event(enc, KY_EV_CPU_SAMPLE, ns);
	ky_trc_enc_varint(enc, doing.worker);
	ky_trc_enc_u32(enc, sample->tid);
	ky_trc_enc_u8(enc, is_switch);
	ky_trc_enc_u8(enc, has_name);
	if (has_name)
		ky_trc_enc_u32(enc, name);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_opt_varint(enc, sample->flags & KY_SAMPLE_HAS_CPU, sample->cpu);
	ky_trc_enc_varint(enc, is_switch ? 0 : sample->value);
	ky_trc_enc_varint(enc, doing.task);
	ky_trc_enc_varint(enc, doing.since_ns);
	ky_trc_enc_u8(enc, sample->other < KY_SOURCE_COUNT ? (uint8_t)sample->other : 0);
	ky_trc_enc_u8(enc, (sample->flags & KY_SAMPLE_TRUNCATED) != 0);
}

/* "" where nobody has told; a thread of ours says it itself. */
static const char *waker_name(const struct ky_drain *drain, const struct ky_waiting_sample *sample)
{
	const struct ky_dthread *thread;
	const struct ky_waker_name *waker;

	if (!sample->by_tid)
		return "";
	if (drain->samples.wakers) {
		waker = waker_at(drain, sample->by_tid);
		if (waker->tid == sample->by_tid && waker->pid == sample->by_pid)
			return waker->name;
	}
	thread = thread_of(drain, sample->by_tid);
	return thread ? thread->name : "";
}

static void write_waker(struct ky_drain *drain, const struct ky_waiting_sample *sample,
			uint32_t name)
{
	struct ky_trc_enc *enc = &drain->enc;
	bool is_thread = sample->by == KY_WOKEN_BY_THREAD && sample->by_tid;

	ky_trc_enc_u8(enc, sample->by);
	ky_trc_enc_opt_varint(enc, is_thread, sample->by_tid);
	ky_trc_enc_opt_varint(enc, is_thread && sample->by_pid, sample->by_pid);
	ky_trc_enc_u32(enc, name);
}

/* In the pool of the chunk; that of no frames where nobody told it. */
static uint32_t kernel_stack(struct ky_drain *drain, uint64_t number)
{
	const struct ky_kernel_told_stack *stack = NULL;
	const uint64_t none = 0;

	if (number && drain->samples.kernel_stacks)
		stack = kernel_stack_at(drain, number);
	if (!stack || stack->number != number)
		return ky_trc_enc_stack(&drain->enc, &none, 0);
	return ky_trc_enc_stack(&drain->enc, stack->frames, stack->count);
}

/* Of a call that blocked, or of the kernel's switches, which have no call, and of page faults alone
 * the program's stack. */
static void write_off_cpu(struct ky_drain *drain, const struct ky_waiting_sample *sample,
			  uint64_t ns, bool is_switch)
{
	struct doing doing = look_at_thread(drain, sample);
	struct ky_trc_enc *enc = &drain->enc;
	bool has_reason = is_switch || sample->more <= KY_OFF_CPU_PREEMPTED;
	bool is_split = is_switch &&
			(sample->runnable_min_ns || sample->runnable_max_ns < sample->value);
	uint32_t waker = ky_drain_text_pool(drain, waker_name(drain, sample));
	uint32_t kernel = kernel_stack(drain, sample->kernel);

	ky_trc_enc_event(enc, KY_EV_OFF_CPU, ns);
	ky_trc_enc_u32(enc, sample->tid);
	ky_trc_enc_varint(enc, doing.worker);
	ky_trc_enc_varint(enc, doing.task);
	ky_trc_enc_varint(enc, sample->value);
	ky_trc_enc_u8(enc, has_reason ? (uint8_t)sample->more : 0);
	ky_trc_enc_opt_varint(enc, !is_switch && sample->syscall >= 0, (uint64_t)sample->syscall);
	ky_trc_enc_frames(enc, sample->frames, sample->frame_count);
	ky_trc_enc_f64(enc, weight_of(sample));
	ky_trc_enc_varint(enc, doing.since_ns);
	ky_trc_enc_u8(enc, is_switch ? sample->is_truncated :
				       (sample->flags & KY_SAMPLE_TRUNCATED) != 0);
	ky_trc_enc_u8(enc, is_switch ? KY_SOURCE_SWITCHES : KY_SOURCE_CALLS);
	ky_trc_enc_u8(enc, is_switch ? sample->flags : 0);
	ky_trc_enc_opt_varint(enc, is_split, sample->runnable_min_ns);
	ky_trc_enc_opt_varint(enc, is_split, sample->runnable_max_ns);
	write_waker(drain, sample, waker);
	ky_trc_enc_u32(enc, kernel);
}

static void write_window(struct ky_drain *drain, const struct ky_waiting_sample *sample,
			 uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;

	ky_trc_enc_event(enc, KY_EV_OFF_CPU_WINDOW, ns);
	ky_trc_enc_varint(enc, sample->value);
	ky_trc_enc_varint(enc, sample->more);
	ky_trc_enc_varint(enc, sample->other & UINT32_MAX);
	ky_trc_enc_varint(enc, sample->other >> 32);
}

static void write_memory(struct ky_drain *drain, const struct ky_waiting_sample *sample,
			 uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t stack;

	if (sample->kind == KY_SAMPLE_FREE) {
		ky_trc_enc_event(enc, KY_EV_FREE, ns);
		ky_trc_enc_u32(enc, sample->tid);
		ky_trc_enc_varint(enc, sample->more);
		ky_trc_enc_varint(enc, sample->value);
		ky_trc_enc_varint(enc, sample->other);
		return;
	}
	stack = ky_trc_enc_stack(enc, sample->frames, sample->frame_count);
	ky_trc_enc_event(enc, KY_EV_ALLOC, ns);
	ky_trc_enc_u32(enc, sample->tid);
	ky_trc_enc_varint(enc, sample->value);
	ky_trc_enc_varint(enc, sample->more);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_f64(enc, weight_of(sample));
	ky_trc_enc_varint(enc, look_at_thread(drain, sample).task);
	ky_trc_enc_u8(enc, (sample->flags & KY_SAMPLE_TRUNCATED) != 0);
	ky_trc_enc_varint(enc, 0);
}

static void write_place(struct ky_drain *drain, const struct ky_waiting_sample *sample, uint64_t ns)
{
	struct ky_trc_enc *enc = &drain->enc;
	uint32_t stack = ky_trc_enc_stack(enc, sample->frames, sample->frame_count);
	double chance = (double)sample->more / (double)ONE_WEIGHT;
	uint32_t no_name = ky_drain_text_pool(drain, "");

	ky_trc_enc_event(enc, KY_EV_AWAIT_PLACE, ns);
	ky_trc_enc_varint(enc, sample->value);
	ky_trc_enc_u32(enc, stack);
	ky_trc_enc_f64(enc, chance > 0 && chance < 1 ? chance : 1.0);
	ky_trc_enc_u8(enc, (sample->flags & KY_SAMPLE_TRUNCATED) != 0);
	ky_trc_enc_varint(enc, 0);
	ky_trc_enc_varint(enc, 0);
	ky_trc_enc_u8(enc, 0);
	ky_trc_enc_u32(enc, no_name);
}

/* A thread that is switched out mostly has nothing to do. */
static bool is_of_interest(const struct ky_drain *drain, const struct ky_waiting_sample *sample)
{
	const struct ky_dthread *thread;

	if (sample->kind != KY_SAMPLE_SWITCHES || !sample->tid)
		return true;
	thread = thread_of(drain, sample->tid);
	return thread && thread->depth;
}

void ky_drain_write_sample(struct ky_drain *drain, uint64_t index, uint64_t ns)
{
	struct ky_sample_state *samples = &drain->samples;
	struct ky_waiting_sample *sample = samples->waiting[index];

	if (!drain->is_muted && is_of_interest(drain, sample)) {
		ky_drain_ready(drain, ns);
		switch (sample->kind) {
		case KY_SAMPLE_OFF_CPU:
			write_off_cpu(drain, sample, ns, false);
			break;
		case KY_SAMPLE_SWITCHES:
			if (sample->tid)
				write_off_cpu(drain, sample, ns, true);
			else
				write_window(drain, sample, ns);
			break;
		case KY_SAMPLE_ALLOC:
		case KY_SAMPLE_FREE:
			write_memory(drain, sample, ns);
			break;
		case KY_SAMPLE_PLACE:
			write_place(drain, sample, ns);
			break;
		default:
			write_cpu(drain, sample, ns);
			break;
		}
		drain->stats.samples_written++;
	}
	ky_free(sample);
	samples->waiting[index] = NULL;
	samples->free_places[samples->free_count++] = (uint32_t)index;
}
