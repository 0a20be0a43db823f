/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <kymo/place.h>

#include <record/emit/emit_engine.h>
#include <record/sample/stack_store.h>
#include <record/sample/stack_walk.h>
#include <stddef.h>
#include <string.h>
#include <wire/place_table.h>

#define THRESHOLD_NS UINT64_C(10000000)
#define BUDGET_HZ 500u
#define BUDGET_MAX 4096u
#define BUDGET_FIRST (BUDGET_MAX / 4) /* of it, for first polls alone */
#define STACKS_NONE UINT64_C(0x0000ffffffffffff)

_Static_assert((KYMO_PLACE_ONE_IN & (KYMO_PLACE_ONE_IN - 1)) == 0, "draw() divides 2^32 by it");
_Static_assert(KYMO_PLACE_STACKS_MAX * 16 <= 48, "the upper bits are flags");

/* Of the clock of the one ring that is live. */
static uint64_t threshold_word, refill_ticks; /* the first as polled[] keeps ticks */

static struct ky_thread *self(void)
{
	return (struct ky_thread *)(void *)kymo_thread_self;
}

static struct ky_place_head *head_of(const struct kymo_place_set *sets)
{
	return (struct ky_place_head *)((uintptr_t)sets - KY_PLACE_SETS_OFFSET);
}

static struct ky_place_slot *slots_of(const struct kymo_place_set *sets)
{
	return (struct ky_place_slot *)((uintptr_t)sets - KY_PLACE_SETS_OFFSET +
					KY_PLACE_SLOTS_OFFSET);
}

/* As polled[] keeps them, beside a tag of 0. */
static uint64_t ticks_word(uint64_t ticks)
{
	return ticks >> KYMO_PLACE_TICKS_SHIFT << KYMO_PLACE_TAG_BITS;
}

/* The calling thread's tables from now on. NULL: there are none, or not yet. */
static __attribute__((noinline)) struct kymo_place_set *begin(struct ky_thread *thread)
{
	struct ky_ring *ring = thread->ring;
	struct ky_place_head *head;
	uint64_t hz = ring->clock.is_os ? UINT64_C(1000000000) : ky_engine.clock.ticks_per_second;
	uint8_t *area = ky_ring_places(ring);

	if (!area)
		return NULL;
	__atomic_store_n(&threshold_word, ticks_word(hz / (UINT64_C(1000000000) / THRESHOLD_NS)),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&refill_ticks, hz / BUDGET_HZ + 1, __ATOMIC_RELAXED);
	head = (struct ky_place_head *)(void *)area;
	/* Each thread writes the same. */
	__atomic_store_n(&head->threshold_ns, THRESHOLD_NS, __ATOMIC_RELAXED);
	__atomic_store_n(&head->one_in, KYMO_PLACE_ONE_IN, __ATOMIC_RELAXED);
	__atomic_store_n(&head->budget_hz, BUDGET_HZ, __ATOMIC_RELAXED);
	thread->hot.places = (struct kymo_place_set *)(void *)(area + KY_PLACE_SETS_OFFSET);
	return thread->hot.places;
}

bool kymo_place_is_ready(uint64_t code)
{
	struct ky_lock_mark mark = ky_engine_lock();
	struct ky_ring *ring = ky_engine.prepared;
	struct ky_unwind_view view = {.area = NULL};
	struct ky_unwind_code found;

	if (ring && ring->unwind &&
	    atomic_load_explicit(&ring->header->unwind_ready, memory_order_acquire) == 1) {
		view.area = ring->unwind;
		view.area_bytes = ring->unwind_bytes;
	}
	ky_engine_unlock(mark);
	if ((!view.area && !ky_stack_tables(&view)) || !ky_unwind_code_of(&view, code, &found))
		return false;
	/* The pages of the table, too, while there is time. */
	return !ring || ky_ring_places(ring) != NULL;
}

/* ---- which way ---- */

static bool is_of(const uint64_t *word, uint64_t task)
{
	return ((__atomic_load_n(word, __ATOMIC_RELAXED) ^ task) & KY_PLACE_TASK_MASK) == 0;
}

static uint64_t *find_in(struct kymo_place_set *set, uint64_t task)
{
#pragma GCC unroll 8
	for (uint32_t i = 0; i < KYMO_PLACE_WAYS; i++)
		if (is_of(&set->tasks[i], task))
			return &set->tasks[i];
	return NULL;
}

static struct ky_place_slot *slot_of(struct kymo_place_set *sets, const uint64_t *word)
{
	size_t at = (uintptr_t)word - (uintptr_t)sets;

	return &slots_of(
		sets)[at / sizeof(*sets) * KYMO_PLACE_WAYS + at % sizeof(*sets) / sizeof(*word)];
}

static uint64_t *find(struct kymo_place_set *sets, uint64_t task)
{
	struct kymo_place_set *set = &sets[KYMO_PLACE_SET_OF(kymo_place_hash(task))];
	uint64_t *word = &set->tasks[KYMO_PLACE_WAY_OF(kymo_place_hash(task))];

	if (is_of(word, task)) /* most lie where their hash says */
		return word;
	word = find_in(set, task);
	if (word || !(__atomic_load_n(&set->tasks[0], __ATOMIC_RELAXED) & KY_PLACE_SPILLED))
		return word;
	return find_in(&sets[KYMO_PLACE_SET_OF(kymo_place_hash(task)) ^ 1u], task);
}

static uint64_t *claim_in(struct kymo_place_set *set, uint64_t task)
{
	for (uint32_t i = 0; i < KYMO_PLACE_WAYS; i++) {
		uint32_t way = (KYMO_PLACE_WAY_OF(kymo_place_hash(task)) + i) % KYMO_PLACE_WAYS;
		uint64_t *word = &set->tasks[way], was = __atomic_load_n(word, __ATOMIC_RELAXED);

		while (!(was & KY_PLACE_TASK_MASK))
			if (__atomic_compare_exchange_n(word, &was, was | task, true,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return word;
	}
	return NULL;
}

static void free_word(uint64_t *word)
{
	/* The mark of a set that has spilled stays. */
	__atomic_fetch_and(word, KY_PLACE_SPILLED, __ATOMIC_RELEASE);
}

/* A way for a task that has none. */
static struct ky_place_slot *claim(struct kymo_place_set *sets, uint64_t task)
{
	uint32_t home = KYMO_PLACE_SET_OF(kymo_place_hash(task));
	uint64_t *word = claim_in(&sets[home], task);
	struct ky_place_slot *slot;

	if (!word) {
		__atomic_fetch_or(&sets[home].tasks[0], KY_PLACE_SPILLED, __ATOMIC_RELAXED);
		word = claim_in(&sets[home ^ 1u], task);
	}
	slot = word ? slot_of(sets, word) : NULL;
	if (slot && ky_ring_touch(&slot->scratch))
		return slot;
	if (word)
		free_word(word);
	atomic_fetch_add_explicit(&head_of(sets)->refused_count, 1, memory_order_relaxed);
	return NULL;
}

/* ---- choosing ---- */

/* True for 1 in KYMO_PLACE_ONE_IN. */
static bool draw(struct kymo_place_chooser *chooser)
{
	uint32_t random = chooser->random * 1664525u + 1013904223u;

	chooser->random = random;
	return random < UINT32_MAX / KYMO_PLACE_ONE_IN + 1;
}

static uint32_t budget_of(bool is_first)
{
	return is_first ? BUDGET_MAX : BUDGET_MAX - BUDGET_FIRST;
}

static bool has_budget(struct kymo_place_chooser *chooser, uint64_t now, bool is_first)
{
	uint64_t step = __atomic_load_n(&refill_ticks, __ATOMIC_RELAXED);
	uint64_t gone = now - chooser->refilled_ticks, back;

	if (chooser->spent && gone >= step) {
		back = gone / step;
		chooser->spent = back < chooser->spent ? chooser->spent - (uint32_t)back : 0;
		chooser->refilled_ticks = now;
	} else if (!chooser->spent) {
		chooser->refilled_ticks = now;
	}
	if (chooser->spent >= budget_of(is_first))
		return false;
	chooser->spent++;
	return true;
}

static __attribute__((noinline)) uint32_t move_away_from_home(struct kymo_place_set *sets,
							      uint64_t task, uint64_t now)
{
	uint64_t *word = find(sets, task);

	if (word)
		atomic_store_explicit(&slot_of(sets, word)->moved_ticks, now, memory_order_relaxed);
	return 0;
}

/* Not taken: it may wait elsewhere by now. */
static inline uint32_t move(struct kymo_place_set *sets, uint64_t task, uint64_t now)
{
	uint32_t hash = kymo_place_hash(task), set = KYMO_PLACE_SET_OF(hash);
	uint32_t way = KYMO_PLACE_WAY_OF(hash);

	if (KYMO_UNLIKELY(!is_of(&sets[set].tasks[way], task)))
		return move_away_from_home(sets, task, now);
	atomic_store_explicit(&slots_of(sets)[set * KYMO_PLACE_WAYS + way].moved_ticks, now,
			      memory_order_relaxed);
	return 0;
}

/* What is rare stands apart, so that the usual answer needs no register saved. */
static __attribute__((noinline)) uint32_t ask_budget(struct kymo_place_chooser *chooser,
						     uint64_t task, uint64_t now, bool is_first)
{
	if (!chooser->random)
		chooser->random = (uint32_t)task * 2654435761u | 1u;
	if (has_budget(chooser, now, is_first))
		return 1;
	if (draw(chooser))
		return KYMO_PLACE_ONE_IN;
	return move(kymo_thread_self->places, task, now);
}

static __attribute__((noinline)) uint32_t choose_first(struct kymo_place_chooser *chooser,
						       uint64_t task)
{
	struct ky_thread *thread = self();

	return thread->hot.sub && begin(thread) ? kymo_place_choose(chooser, task) : 0;
}

uint32_t kymo_place_choose(struct kymo_place_chooser *chooser, uint64_t task)
{
	const struct kymo_thread *thread = kymo_thread_self;
	struct kymo_place_set *sets = thread->places;
	uint32_t hash = kymo_place_hash(task);
	uint64_t now, polled;

	if (KYMO_UNLIKELY(!sets || !thread->sub))
		return sets ? 0 : choose_first(chooser, task);
	now = __atomic_load_n(&thread->sub->open[0].begin_ticks, __ATOMIC_RELAXED);
	/* Ticks alone where the tag is this task's. */
	polled = __atomic_load_n(&sets[KYMO_PLACE_SET_OF(hash)].polled[KYMO_PLACE_WAY_OF(hash)],
				 __ATOMIC_RELAXED) ^
		 KYMO_PLACE_TAG_OF(hash);
	if (KYMO_UNLIKELY(KYMO_PLACE_TAG_OF((uint32_t)polled) != 0))
		return ask_budget(chooser, task, now, true);
	/* Modulo what the word does not keep. */
	if (KYMO_UNLIKELY(ticks_word(now) - polled >=
			  __atomic_load_n(&threshold_word, __ATOMIC_RELAXED)))
		return 1;
	if (KYMO_UNLIKELY(now - chooser->refilled_ticks >=
				  __atomic_load_n(&refill_ticks, __ATOMIC_RELAXED) ||
			  chooser->spent < budget_of(false)))
		return ask_budget(chooser, task, now, false);
	if (KYMO_UNLIKELY(draw(chooser)))
		return KYMO_PLACE_ONE_IN;
	return move(sets, task, now);
}

/* ---- stacks, each once ---- */

static uint32_t stack_number(struct kymo_place_set *sets, const uint64_t *frames, uint32_t count)
{
	struct ky_place_head *head = head_of(sets);
	uint8_t *area = (uint8_t *)head;
	struct ky_stack_store store = {
		.index = (struct ky_place_stack *)(void *)(area + KY_PLACE_STACKS_OFFSET),
		.index_count = KY_PLACE_STACKS,
		.units = area + KY_PLACE_UNITS_OFFSET,
		.unit_count = KY_PLACE_UNITS,
		.units_used = &head->units_used,
		.refused_count = &head->stacks_refused,
	};

	return ky_stack_store_number(&store, frames, count, KY_PLACE_NO_STACK);
}

/* ---- putting ---- */

/* A further stack of the same poll goes behind those that are there. */
static uint64_t add_stack(uint64_t stacks, uint32_t number, bool is_truncated)
{
	if (is_truncated)
		stacks |= (uint64_t)KY_PLACE_TRUNCATED << 48;
	for (uint32_t shift = 0; shift < 16 * KYMO_PLACE_STACKS_MAX; shift += 16) {
		uint32_t there = (uint32_t)(stacks >> shift) & 0xffffu;

		if (there == number)
			return stacks;
		if (there == KY_PLACE_NO_STACK)
			return (stacks & ~(UINT64_C(0xffff) << shift)) | (uint64_t)number << shift;
	}
	return stacks;
}

static void write_slot(struct ky_place_slot *slot, const struct kymo_place *place, uint32_t number,
		       uint64_t ticks)
{
	uint64_t word = kymo_task_word(place->task, place->name), stacks, since = ticks;
	uint32_t sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed) & ~1u;
	bool is_ours = atomic_load_explicit(&slot->task_word, memory_order_relaxed) == word;
	uint64_t before = atomic_load_explicit(&slot->stacks, memory_order_relaxed);

	stacks = add_stack(place->is_further && is_ours ? before : STACKS_NONE, number,
			   place->is_truncated);
	/* Nowhere else since, as far as anybody knows. */
	if (is_ours && (place->is_further ||
			((uint16_t)before == (uint16_t)stacks &&
			 atomic_load_explicit(&slot->moved_ticks, memory_order_relaxed) <
				 atomic_load_explicit(&slot->taken_ticks, memory_order_relaxed))))
		since = atomic_load_explicit(&slot->since_ticks, memory_order_relaxed);
	atomic_store_explicit(&slot->sequence, sequence | 1u, memory_order_relaxed);
	/* What follows must not be seen before the odd sequence. */
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&slot->one_in, place->one_in, memory_order_relaxed);
	atomic_store_explicit(&slot->task_word, word, memory_order_relaxed);
	atomic_store_explicit(&slot->since_ticks, since, memory_order_relaxed);
	atomic_store_explicit(&slot->taken_ticks, ticks, memory_order_relaxed);
	atomic_store_explicit(&slot->stacks, stacks, memory_order_relaxed);
	if (!is_ours)
		atomic_store_explicit(&slot->moved_ticks, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->sequence, sequence + 2, memory_order_release);
}

/* A leaf that asks whether its time has come keeps the waker first: a task that waits for the next
 * tick of an interval comes by the same code twice in a poll. */
static bool is_put(const struct ky_place_slot *slot, const struct kymo_place *place,
		   uint32_t number)
{
	uint64_t stacks = atomic_load_explicit(&slot->stacks, memory_order_relaxed);

	if (!place->is_further || number == KY_PLACE_NO_STACK ||
	    atomic_load_explicit(&slot->task_word, memory_order_relaxed) !=
		    kymo_task_word(place->task, place->name))
		return false;
	for (uint32_t i = 0; i < KYMO_PLACE_STACKS_MAX; i++)
		if ((stacks >> 16 * i & 0xffffu) == number)
			return true;
	return false;
}

void kymo_place_put(const struct kymo_place *place)
{
	struct ky_thread *thread = self();
	struct kymo_place_set *sets = thread->hot.places;
	uint32_t count = place->frame_count < KYMO_PLACE_FRAMES_MAX ? place->frame_count :
								      KYMO_PLACE_FRAMES_MAX;
	uint32_t number;
	uint64_t ticks, *word;
	struct ky_place_slot *slot;
	struct ky_sample sample = {.kind = KY_SAMPLE_PLACE,
				   .flags = place->is_truncated ? KY_SAMPLE_TRUNCATED : 0,
				   .syscall = -1,
				   .tid = thread->tid,
				   .value = place->task,
				   .task = place->task,
				   .frames = place->frames,
				   .frame_count = count};

	if (!sets || !count || !place->task || !place->one_in)
		return;
	number = stack_number(sets, place->frames, count);
	word = find(sets, place->task);
	slot = word ? slot_of(sets, word) : claim(sets, place->task);
	if (slot && is_put(slot, place, number))
		return;
	ticks = ky_clock_ticks(&thread->ring->clock);
	sample.stamp = ticks;
	sample.more = (UINT64_C(1) << 32) / place->one_in;
	(void)ky_sample_put(&thread->ring->place_samples, &sample);
	atomic_fetch_add_explicit(&head_of(sets)->put_count, 1, memory_order_relaxed);
	if (slot)
		write_slot(slot, place, number, ticks);
}

void kymo_place_end(uint64_t task)
{
	struct kymo_place_set *sets = kymo_thread_self->places;
	uint64_t *word;

	if (!sets && self()->hot.sub &&
	    __atomic_load_n(&self()->ring->place_state, __ATOMIC_ACQUIRE) == KY_PLACE_MADE)
		sets = begin(self());
	if (!sets)
		return;
	word = find(sets, task);
	if (word)
		free_word(word);
}
