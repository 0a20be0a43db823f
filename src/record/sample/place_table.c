/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <kymo/place.h>

#include <base/testpoint.h>
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
_Static_assert(sizeof(struct kymo_place_set) == 2 * KYMO_PLACE_WAYS * sizeof(uint64_t) &&
		       offsetof(struct kymo_place_set, polled) ==
			       KYMO_PLACE_WAYS * sizeof(uint64_t),
	       "kymo_place_choose() counts in words");

/* Of the clock of the one ring that is live. */
static uint64_t threshold_steps, refill_ticks; /* the first in steps of what polled[] keeps */

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

/* As polled[] keeps them. */
static uint64_t polled_word(uint64_t ticks, uint32_t hash)
{
	return ticks >> KYMO_PLACE_TICKS_SHIFT << KYMO_PLACE_TAG_BITS | KYMO_PLACE_TAG_OF(hash);
}

/* Two of one task apart: how many steps, modulo what the word does not keep. Of two tasks: more
 * than any number of steps. */
static uint64_t steps_between(uint64_t before, uint64_t after)
{
	uint64_t apart = after - before;

	return apart >> KYMO_PLACE_TAG_BITS | apart << (64 - KYMO_PLACE_TAG_BITS);
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
	__atomic_store_n(&threshold_steps,
			 hz / (UINT64_C(1000000000) / THRESHOLD_NS) >> KYMO_PLACE_TICKS_SHIFT,
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
	return (__atomic_load_n(word, __ATOMIC_RELAXED) ^ task) << (64 - KYMO_TASK_BITS) == 0;
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

static uint64_t *home_of(struct kymo_place_set *sets, uint64_t task)
{
	uint32_t hash = kymo_place_hash(task);

	return &sets[KYMO_PLACE_SET_OF(hash)].tasks[KYMO_PLACE_WAY_OF(hash)];
}

static uint64_t *find(struct kymo_place_set *sets, uint64_t task)
{
	struct kymo_place_set *set = &sets[KYMO_PLACE_SET_OF(kymo_place_hash(task))];
	uint64_t *word = home_of(sets, task);

	if (is_of(word, task)) /* most lie where their hash says */
		return word;
	if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & KY_PLACE_AWAY_MASK))
		return NULL;
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
	/* The mark of a set that has spilled stays, and who is away from here. */
	__atomic_fetch_and(word, ~KY_PLACE_TASK_MASK, __ATOMIC_RELEASE);
}

/* A way for a task that has none. Who searches for it with find() need not find it: a detach
 * empties the table at any moment. */
static uint64_t *claim(struct kymo_place_set *sets, uint64_t task)
{
	uint32_t home = KYMO_PLACE_SET_OF(kymo_place_hash(task));
	uint64_t *word = claim_in(&sets[home], task);

	if (!word) {
		__atomic_fetch_or(&sets[home].tasks[0], KY_PLACE_SPILLED, __ATOMIC_RELAXED);
		word = claim_in(&sets[home ^ 1u], task);
	}
	if (word && ky_ring_touch(&slot_of(sets, word)->scratch)) {
		if (word != home_of(sets, task))
			__atomic_fetch_add(home_of(sets, task), KY_PLACE_AWAY_ONE,
					   __ATOMIC_RELAXED);
		KY_TESTPOINT("place.claimed");
		return word;
	}
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
	bool is_given;

	if (chooser->spent && gone >= step) {
		back = gone / step;
		chooser->spent = back < chooser->spent ? chooser->spent - (uint32_t)back : 0;
		chooser->refilled_ticks = now;
	} else if (!chooser->spent) {
		chooser->refilled_ticks = now;
	}
	is_given = chooser->spent < budget_of(is_first);
	chooser->spent += is_given;
	chooser->empty_ticks = chooser->spent < budget_of(false) ? 0 : chooser->refilled_ticks;
	return is_given;
}

/* Not taken: it may wait elsewhere by now. */
static __attribute__((noinline)) uint32_t move(struct kymo_place_set *sets, uint64_t task,
					       uint64_t now)
{
	uint64_t *word = find(sets, task);

	if (word)
		atomic_store_explicit(&slot_of(sets, word)->moved_ticks, now, memory_order_relaxed);
	return 0;
}

static uint32_t ask_budget(struct kymo_place_chooser *chooser, uint64_t task, uint64_t now,
			   bool is_first)
{
	if (!chooser->random)
		chooser->random = (uint32_t)task * 2654435761u | 1u;
	if (has_budget(chooser, now, is_first))
		return 1;
	if (draw(chooser))
		return KYMO_PLACE_ONE_IN;
	return move(kymo_thread_self->places, task, now);
}

/* What is rare stands apart, so that the usual answer needs no register saved. */
static __attribute__((noinline)) uint32_t choose_apart(struct kymo_place_chooser *chooser,
						       uint64_t task, uint64_t steps)
{
	uint64_t now = __atomic_load_n(&kymo_thread_self->sub->open[0].begin_ticks,
				       __ATOMIC_RELAXED);
	bool is_first = steps >> (64 - KYMO_PLACE_TAG_BITS) != 0;

	if (!is_first && steps >= __atomic_load_n(&threshold_steps, __ATOMIC_RELAXED))
		return 1;
	return ask_budget(chooser, task, now, is_first);
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
	const struct kymo_sub_buffer_hot *sub = thread->sub;
	uint32_t hash = kymo_place_hash(task), first, index;
	uint64_t now, steps, *home;

	if (KYMO_UNLIKELY(!sets))
		return choose_first(chooser, task);
	if (KYMO_UNLIKELY(!sub))
		return 0;
	now = __atomic_load_n(&sub->open[0].begin_ticks, __ATOMIC_RELAXED);
	/* Of the home's set, and of the home itself. */
	first = KYMO_PLACE_SET_OF(hash) * KYMO_PLACE_WAYS;
	index = first | KYMO_PLACE_WAY_OF(hash);
	steps = polled_word(now, hash);
	/* A set is its ways twice. */
	home = (uint64_t *)(void *)sets + (first + index);
	steps = steps_between(__atomic_load_n(home + KYMO_PLACE_WAYS, __ATOMIC_RELAXED), steps);
	if (KYMO_UNLIKELY(steps >= __atomic_load_n(&threshold_steps, __ATOMIC_RELAXED)))
		return choose_apart(chooser, task, steps);
	if (KYMO_UNLIKELY(now - chooser->empty_ticks >=
			  __atomic_load_n(&refill_ticks, __ATOMIC_RELAXED)))
		return choose_apart(chooser, task, steps);
	if (KYMO_UNLIKELY(draw(chooser)))
		return KYMO_PLACE_ONE_IN;
	if (KYMO_UNLIKELY(!is_of(home, task)))
		return KYMO_LIKELY(
			       !(__atomic_load_n(home, __ATOMIC_RELAXED) & KY_PLACE_AWAY_MASK)) ?
			       0 :
			       move(sets, task, now);
	atomic_store_explicit(&slots_of(sets)[index].moved_ticks, now, memory_order_relaxed);
	return 0;
}

/* ---- stacks, each once ---- */

static struct ky_stack_store store_of(struct kymo_place_set *sets)
{
	struct ky_place_head *head = head_of(sets);
	uint8_t *area = (uint8_t *)head;

	return (struct ky_stack_store){
		.index = (struct ky_place_stack *)(void *)(area + KY_PLACE_STACKS_OFFSET),
		.index_count = KY_PLACE_STACKS,
		.units = area + KY_PLACE_UNITS_OFFSET,
		.unit_count = KY_PLACE_UNITS,
		.units_used = &head->units_used,
		.refused_count = &head->stacks_refused,
	};
}

/* ---- what is reported ---- */

static uint64_t stacks_of(const struct kymo_place_taken *taken, uint32_t count)
{
	uint64_t stacks = STACKS_NONE;

	for (uint32_t i = 0; i < count; i++) {
		const struct kymo_place_held *held = &taken->held[i];

		stacks &= ~(UINT64_C(0xffff) << 16 * i);
		stacks |= (uint64_t)(held->stack & 0xffffu) << 16 * i;
		if (held->is_truncated)
			stacks |= (uint64_t)KY_PLACE_TRUNCATED << 48;
	}
	return stacks;
}

static bool has_stack(uint64_t stacks, uint32_t stack)
{
	for (uint32_t i = 0; i < KYMO_PLACE_STACKS_MAX; i++)
		if ((stacks >> 16 * i & 0xffffu) == stack)
			return true;
	return false;
}

/* Nowhere else since, as far as anybody knows. */
static bool waits_on(const struct ky_place_slot *slot, const struct kymo_place_taken *taken,
		     uint32_t count)
{
	uint64_t before = atomic_load_explicit(&slot->stacks, memory_order_relaxed);

	for (uint32_t i = 0; i < count; i++)
		if (!has_stack(before, taken->held[i].stack))
			return false;
	return atomic_load_explicit(&slot->moved_ticks, memory_order_relaxed) <
	       atomic_load_explicit(&slot->taken_ticks, memory_order_relaxed);
}

/* The thread that polls the task next may be here, too, with something newer. */
static bool begin_write(struct ky_place_slot *slot, uint32_t *sequence)
{
	*sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed);
	return !(*sequence & 1u) &&
	       atomic_compare_exchange_strong_explicit(&slot->sequence, sequence, *sequence | 1u,
						       memory_order_acquire, memory_order_relaxed);
}

/* word: the task's, in the table. */
static void write_slot(struct ky_place_slot *slot, const uint64_t *word,
		       const struct kymo_place_taken *taken, uint32_t count)
{
	uint64_t task_word = kymo_task_word(taken->task, taken->name);
	uint64_t ticks = taken->held[count - 1].ticks, since = ticks;
	uint32_t sequence;
	bool is_ours;

	if (!begin_write(slot, &sequence))
		return;
	is_ours = atomic_load_explicit(&slot->task_word, memory_order_relaxed) == task_word;
	if (!is_of(word, taken->task) ||
	    (is_ours && atomic_load_explicit(&slot->taken_ticks, memory_order_relaxed) > ticks)) {
		atomic_store_explicit(&slot->sequence, sequence, memory_order_release);
		return;
	}
	if (is_ours && waits_on(slot, taken, count))
		since = atomic_load_explicit(&slot->since_ticks, memory_order_relaxed);
	/* What follows must not be seen before the odd sequence. */
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&slot->one_in, taken->one_in, memory_order_relaxed);
	atomic_store_explicit(&slot->task_word, task_word, memory_order_relaxed);
	atomic_store_explicit(&slot->since_ticks, since, memory_order_relaxed);
	atomic_store_explicit(&slot->taken_ticks, ticks, memory_order_relaxed);
	atomic_store_explicit(&slot->stacks, stacks_of(taken, count), memory_order_relaxed);
	if (taken->may_have_moved || !is_ours)
		atomic_store_explicit(&slot->moved_ticks, taken->may_have_moved ? ticks + 1 : 0,
				      memory_order_relaxed);
	atomic_store_explicit(&slot->sequence, sequence + 2, memory_order_release);
}

static void report_one(struct ky_thread *thread, const struct kymo_place_taken *taken,
		       const struct kymo_place_held *held, const uint64_t *frames, uint32_t count)
{
	struct ky_sample sample = {.stamp = held->ticks,
				   .kind = KY_SAMPLE_PLACE,
				   .flags = held->is_truncated ? KY_SAMPLE_TRUNCATED : 0,
				   .syscall = -1,
				   .tid = thread->tid,
				   .value = taken->task,
				   .more = (UINT64_C(1) << 32) / taken->one_in,
				   .task = taken->task,
				   .frames = frames,
				   .frame_count = count};

	(void)ky_sample_put(&thread->ring->place_samples, &sample);
	atomic_fetch_add_explicit(&head_of(thread->hot.places)->put_count, 1, memory_order_relaxed);
}

/* ---- taking ---- */

/* A leaf that asks whether its time has come keeps the waker first: a task that waits for the next
 * tick of an interval comes by the same code twice in a poll. */
static void let_go_of(struct kymo_place_taken *taken, uint32_t stack)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < taken->count; i++)
		if (taken->held[i].stack != stack || stack == KY_PLACE_NO_STACK)
			taken->held[count++] = taken->held[i];
	taken->count = count;
}

void kymo_place_take(struct kymo_place_taken *taken, const struct kymo_place *place)
{
	struct ky_thread *thread = self();
	struct kymo_place_set *sets = thread->hot.places;
	struct kymo_place_held *held;
	struct ky_stack_store store;
	uint64_t *word;
	uint32_t count = place->frame_count < KYMO_PLACE_FRAMES_MAX ? place->frame_count :
								      KYMO_PLACE_FRAMES_MAX;
	uint32_t stack;

	if (!sets || !count || !taken->task || !taken->one_in)
		return;
	if (taken->sets != sets)
		taken->count = 0;
	taken->sets = sets;
	store = store_of(sets);
	stack = ky_stack_store_number(&store, place->frames, count, KY_PLACE_NO_STACK);
	let_go_of(taken, stack);
	if (taken->count >= KYMO_PLACE_STACKS_MAX)
		return;
	held = &taken->held[taken->count++];
	*held = (struct kymo_place_held){.ticks = ky_clock_ticks(&thread->ring->clock),
					 .stack = stack,
					 .is_truncated = place->is_truncated};
	/* Frames that no thread will find later. */
	if (ky_stack_store_frames(&store, stack, NULL, KYMO_PLACE_FRAMES_MAX) != count) {
		held->is_reported = true;
		report_one(thread, taken, held, place->frames, count);
	}
	/* After its poll the task may be over, and no thread would free its way again. */
	if (!find(sets, taken->task)) {
		word = claim(sets, taken->task);
		if (word)
			write_slot(slot_of(sets, word), word, taken, taken->count);
	}
}

void kymo_place_emit(const struct kymo_place_taken *taken)
{
	struct ky_thread *thread = self();
	struct kymo_place_set *sets = thread->hot.places;
	uint32_t count = taken->count < KYMO_PLACE_STACKS_MAX ? taken->count :
								KYMO_PLACE_STACKS_MAX;
	uint64_t frames[KYMO_PLACE_FRAMES_MAX], *word;
	struct ky_stack_store store;

	if (!sets || taken->sets != sets || !count || !taken->task || !taken->one_in)
		return;
	store = store_of(sets);
	for (uint32_t i = 0; i < count; i++) {
		const struct kymo_place_held *held = &taken->held[i];
		uint32_t frame_count;

		if (held->is_reported)
			continue;
		frame_count = ky_stack_store_frames(&store, held->stack, frames,
						    KYMO_PLACE_FRAMES_MAX);
		report_one(thread, taken, held, frames, frame_count);
	}
	word = find(sets, taken->task);
	if (word)
		write_slot(slot_of(sets, word), word, taken, count);
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
	if (!word)
		return;
	free_word(word);
	if (word != home_of(sets, task))
		__atomic_fetch_sub(home_of(sets, task), KY_PLACE_AWAY_ONE, __ATOMIC_RELAXED);
}
