/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Sub-buffers: claimed in the order of one atomic claim index, closed, parked, continued.
 * ring_image.h is the contract; readers of other processes read along at every step. */
#include <record/emit/bell.h>
#include <record/emit/emit_engine.h>

#include <base/testpoint.h>
#include <string.h>

#define SCAN_MAX 64u

_Static_assert(sizeof(struct kymo_sub_buffer_hot) == offsetof(struct ky_sub_buffer, claim),
	       "emit.h and ring_image.h describe the same bytes");
_Static_assert(offsetof(struct kymo_sub_buffer_hot, state) == offsetof(struct ky_sub_buffer, state),
	       "emit.h and ring_image.h describe the same bytes");
_Static_assert(offsetof(struct kymo_sub_buffer_hot, open) == offsetof(struct ky_sub_buffer, open),
	       "emit.h and ring_image.h describe the same bytes");
_Static_assert(sizeof(struct ky_thread) == 192, "three lines a thread");
_Static_assert(sizeof(struct kymo_thread) == 64, "one line for the inline path");

/* Next slot that is not open, its claim word already FILLING in our name; UINT32_MAX: none. */
static uint32_t claim(struct ky_ring *ring, uint64_t *word)
{
	for (uint32_t i = 0; i < SCAN_MAX; i++) {
		uint64_t number = atomic_fetch_add_explicit(&ring->header->claim_index, 1,
							    memory_order_relaxed);
		uint32_t usable = ky_extent_usable(
			__atomic_load_n(&ring->extent, __ATOMIC_ACQUIRE));
		struct ky_sub_buffer *sub;
		uint64_t old;
		uint32_t slot;

		if (!usable)
			return UINT32_MAX;
		slot = (uint32_t)(number % usable);
		if (!ky_ring_populate(ring, slot))
			continue;
		KY_TESTPOINT("slot.before_claim");
		sub = ky_ring_slot(ring, slot);
		old = atomic_load_explicit(&sub->claim, memory_order_relaxed);
		if (KY_CLAIM_STATE(old) == KY_SLOT_OPEN || KY_CLAIM_STATE(old) == KY_SLOT_FILLING)
			continue;
		*word = (number + 1) << KY_CLAIM_STATE_BITS | KY_SLOT_FILLING;
		/* Acquire pairs with the release that closed it: the last owner's stores come
		 * first. */
		if (atomic_compare_exchange_strong_explicit(
			    &sub->claim, &old, *word, memory_order_acquire, memory_order_relaxed))
			return slot;
	}
	return UINT32_MAX;
}

static void store_anchor(struct ky_clock_anchor *to, const struct ky_clock_anchor *from)
{
	__atomic_store_n(&to->ticks_before, from->ticks_before, __ATOMIC_RELAXED);
	__atomic_store_n(&to->monotonic_ns, from->monotonic_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&to->ticks_after, from->ticks_after, __ATOMIC_RELAXED);
	__atomic_store_n(&to->realtime_ns, from->realtime_ns, __ATOMIC_RELAXED);
}

/* The open polls go along: a cut that begins here still knows what is running. The words are moved,
 * not interpreted, so it does not matter that they come back from shared memory. */
static void carry(struct ky_sub_buffer *to, struct ky_sub_buffer *from, uint32_t depth)
{
	for (uint32_t i = 0; from && i < depth && i < KY_OPEN_DEPTH; i++) {
		uint64_t task = atomic_load_explicit(&from->open[i].task_word,
						     memory_order_relaxed);
		uint64_t ticks = atomic_load_explicit(&from->open[i].begin_ticks,
						      memory_order_relaxed);

		atomic_store_explicit(&to->open[i].task_word, task, memory_order_relaxed);
		atomic_store_explicit(&to->open[i].begin_ticks, ticks, memory_order_relaxed);
		atomic_store_explicit(&to->carried[i].task_word, task, memory_order_relaxed);
		atomic_store_explicit(&to->carried[i].begin_ticks, ticks, memory_order_relaxed);
	}
	__atomic_store_n(&to->carried_depth, depth, __ATOMIC_RELAXED);
}

/* Fills in everything a reader needs and returns the full stamp the records will stand on. */
static uint64_t describe(struct ky_sub_buffer *sub, struct ky_thread *thread,
			 struct ky_sub_buffer *old)
{
	uint32_t open = thread->hot.flags & ~1u;
	struct ky_clock_anchor anchor;
	uint64_t ticks;

	atomic_store_explicit(&sub->state, open | 1u, memory_order_relaxed);
	atomic_store_explicit(&sub->published, KY_SLOT_HEADER_BYTES, memory_order_relaxed);
	carry(sub, old, open >> 8);
	__atomic_store_n(&sub->tid, thread->tid, __ATOMIC_RELAXED);
	__atomic_store_n(&sub->thread, thread->hot.index, __ATOMIC_RELAXED);
	__atomic_store_n(&sub->ordinal, thread->ordinal++, __ATOMIC_RELAXED);
	__atomic_store_n(&sub->record_count, thread->hot.record_count, __ATOMIC_RELAXED);
	thread->gates_seen = __atomic_load_n(&kymo_control.gates, __ATOMIC_RELAXED);
	__atomic_store_n(&sub->gates, thread->gates_seen, __ATOMIC_RELAXED);
	__atomic_store_n(&sub->worker_task, thread->worker[0], __ATOMIC_RELAXED);
	__atomic_store_n(&sub->worker_runtime, thread->worker[1], __ATOMIC_RELAXED);
	__atomic_store_n(&sub->worker_identity, thread->worker[2], __ATOMIC_RELAXED);
	__atomic_store_n(&sub->parked_on, thread->parked_on, __ATOMIC_RELAXED);
	ky_clock_anchor(&thread->ring->clock, &anchor);
	store_anchor(&sub->anchor, &anchor);
	ticks = ky_clock_ticks(&thread->ring->clock);
	__atomic_store_n(&sub->start_ticks, ticks, __ATOMIC_RELAXED);
	return ticks;
}

static void point_at(struct ky_thread *thread, uint32_t slot, uint32_t offset)
{
	uint8_t *start = thread->ring->slots + (size_t)slot * KY_SLOT_BYTES;

	thread->hot.slot = slot;
	thread->hot.sub = (struct kymo_sub_buffer_hot *)(void *)start;
	thread->hot.cursor = (uint64_t *)(void *)(start + offset);
	/* One word short: an offset of 8192 would read as 0 in `published`. */
	thread->hot.end = (uint64_t *)(void *)(start + KY_SLOT_BYTES) - 1;
}

static uint64_t set_claim_state(struct ky_sub_buffer *sub, uint64_t word, enum ky_slot_state state)
{
	word = KY_CLAIM_NUMBER(word) << KY_CLAIM_STATE_BITS | (uint32_t)state;
	atomic_store_explicit(&sub->claim, word, memory_order_release);
	return word;
}

bool ky_slot_next(struct ky_thread *thread)
{
	struct ky_sub_buffer *old = (struct ky_sub_buffer *)(void *)thread->hot.sub, *sub;
	uint64_t word, old_claim = thread->claim, ticks;
	uint32_t slot = claim(thread->ring, &word);

	if (slot == UINT32_MAX)
		return false;
	sub = ky_ring_slot(thread->ring, slot);
	/* FILLING before any change below: a reader that copies the new header sees it when it
	 * reads the claim word again (pairs with the acquire fence of its second reading). */
	atomic_thread_fence(memory_order_release);
	KY_TESTPOINT("slot.filling");
	ticks = describe(sub, thread, old);
	thread->hot.epoch = (uint32_t)(ticks >> 32);
	thread->claim = set_claim_state(sub, word, KY_SLOT_OPEN);
	point_at(thread, slot, KY_SLOT_HEADER_BYTES);
	KY_TESTPOINT("slot.two_open");
	if (old) {
		atomic_store_explicit(&old->state, thread->hot.flags & ~1u, memory_order_relaxed);
		set_claim_state(old, old_claim, KY_SLOT_CLOSED);
	}
	ky_bell_ring_for_events(thread->ring);
	return true;
}

bool ky_slot_continue(struct ky_thread *thread, const struct ky_parked *parked)
{
	struct ky_sub_buffer *sub = ky_ring_slot(thread->ring, parked->slot);
	uint64_t old = parked->claim;
	uint64_t word = KY_CLAIM_NUMBER(old) << KY_CLAIM_STATE_BITS | KY_SLOT_OPEN;

	/* The claim index may have come round and taken it: then it is another's. */
	if (!atomic_compare_exchange_strong_explicit(&sub->claim, &old, word, memory_order_acquire,
						     memory_order_relaxed))
		return false;
	atomic_store_explicit(&sub->state, 1u, memory_order_relaxed);
	thread->claim = word;
	thread->ordinal++;
	thread->gates_seen = parked->gates_seen;
	point_at(thread, parked->slot, parked->offset);
	return true;
}

bool ky_slot_leave(struct ky_thread *thread, struct ky_parked *parked)
{
	uint32_t offset = (uint32_t)((uintptr_t)thread->hot.cursor & (KY_SLOT_BYTES - 1));
	struct ky_sub_buffer *sub = (struct ky_sub_buffer *)(void *)thread->hot.sub;
	bool is_parking = parked && offset + KY_PARK_BYTES_MIN <= KY_SLOT_BYTES;

	if (!sub)
		return false;
	atomic_store_explicit(&sub->state, thread->hot.flags & ~1u, memory_order_relaxed);
	thread->claim = set_claim_state(sub, thread->claim,
					is_parking ? KY_SLOT_PARKED : KY_SLOT_CLOSED);
	if (is_parking)
		*parked = (struct ky_parked){thread->claim, thread->hot.slot, offset,
					     thread->gates_seen};
	thread->hot.sub = NULL;
	return is_parking;
}
