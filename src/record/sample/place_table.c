/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <kymo/place.h>

#include <base/testpoint.h>
#include <record/emit/emit_engine.h>
#include <record/sample/chain_memory.h>
#include <record/sample/stack_walk.h>
#include <stddef.h>
#include <string.h>
#include <wire/place_table.h>

#define PROBES_MAX 16u
#define POINTS_NONE (KY_PLACE_IS_WORD | UINT64_C(0x0000ffffffffffff))
#define POINTS_MASK (KY_PLACE_POINTS - 1)

static struct ky_thread *self(void)
{
	return (struct ky_thread *)(void *)kymo_thread_self;
}

static struct ky_place_head *head_of(const struct kymo_place_set *sets)
{
	return (struct ky_place_head *)((uintptr_t)sets - KY_PLACE_SETS_OFFSET);
}

/* The calling thread's tables from now on. NULL: there are none, or not yet. */
static __attribute__((noinline)) struct kymo_place_set *begin(struct ky_thread *thread)
{
	struct ky_ring *ring = thread->ring;
	uint8_t *area = ky_ring_places(ring);

	if (!area)
		return NULL;
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
	/* The pages of the table, too, while there is time: one call for some hundred faults. */
	if (ring && !ky_engine_is_under_filter())
		ky_ring_populate_places(ring);
	return !ring || ky_ring_places(ring) != NULL;
}

/* ---- which row ---- */

static bool is_of(const struct kymo_place_row *row, uint64_t task)
{
	return (__atomic_load_n(&row->task, __ATOMIC_RELAXED) ^ task) << (64 - KYMO_TASK_BITS) == 0;
}

static struct kymo_place_row *find_in(struct kymo_place_set *set, uint64_t task)
{
	for (uint32_t i = 0; i < KYMO_PLACE_WAYS; i++)
		if (is_of(&set->ways[i], task))
			return &set->ways[i];
	return NULL;
}

static struct kymo_place_row *home_of(struct kymo_place_set *sets, uint64_t task)
{
	uint32_t hash = kymo_place_hash(task);

	return &sets[KYMO_PLACE_SET_OF(hash)].ways[KYMO_PLACE_WAY_OF(hash)];
}

static struct kymo_place_row *find(struct kymo_place_set *sets, uint64_t task)
{
	struct kymo_place_set *set = &sets[KYMO_PLACE_SET_OF(kymo_place_hash(task))];
	struct kymo_place_row *row = home_of(sets, task);

	if (is_of(row, task)) /* most lie where their hash says */
		return row;
	if (!(__atomic_load_n(&row->task, __ATOMIC_RELAXED) & KY_PLACE_AWAY_MASK))
		return NULL;
	row = find_in(set, task);
	if (row || !(__atomic_load_n(&set->ways[0].task, __ATOMIC_RELAXED) & KY_PLACE_SPILLED))
		return row;
	return find_in(&sets[KYMO_PLACE_SET_OF(kymo_place_hash(task)) ^ 1u], task);
}

static struct kymo_place_row *claim_in(struct kymo_place_set *set, uint64_t task)
{
	for (uint32_t i = 0; i < KYMO_PLACE_WAYS; i++) {
		uint32_t way = (KYMO_PLACE_WAY_OF(kymo_place_hash(task)) + i) % KYMO_PLACE_WAYS;
		struct kymo_place_row *row = &set->ways[way];
		uint64_t was = __atomic_load_n(&row->task, __ATOMIC_RELAXED);

		while (!(was & KY_PLACE_TASK_MASK))
			if (__atomic_compare_exchange_n(&row->task, &was, was | task, true,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return row;
	}
	return NULL;
}

/* A row for a task that has none. Who searches for it with find() need not find it: a detach
 * empties the table at any moment. */
static struct kymo_place_row *claim(struct kymo_place_set *sets, uint64_t task, uint32_t name)
{
	uint32_t home = KYMO_PLACE_SET_OF(kymo_place_hash(task));
	struct kymo_place_row *row = claim_in(&sets[home], task);

	if (!row) {
		__atomic_fetch_or(&sets[home].ways[0].task, KY_PLACE_SPILLED, __ATOMIC_RELAXED);
		row = claim_in(&sets[home ^ 1u], task);
	}
	if (!row) {
		atomic_fetch_add_explicit(&head_of(sets)->refused_count, 1, memory_order_relaxed);
		return NULL;
	}
	__atomic_store_n(&row->since, name, __ATOMIC_RELAXED);
	if (row != home_of(sets, task))
		__atomic_fetch_add(&home_of(sets, task)->task, KY_PLACE_AWAY_ONE, __ATOMIC_RELAXED);
	KY_TESTPOINT("place.claimed");
	return row;
}

/* ---- points, each set of them once ---- */

/* 0: there is no room. */
static uint32_t number_of(struct kymo_place_set *sets, uint64_t word)
{
	uint64_t *table = (uint64_t *)((uintptr_t)head_of(sets) + KY_PLACE_POINTS_OFFSET);
	uint32_t at = (uint32_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 40);

	for (uint32_t i = 0; i < PROBES_MAX; i++) {
		uint32_t number = (at + i) & POINTS_MASK;
		uint64_t was = __atomic_load_n(&table[number], __ATOMIC_RELAXED);

		if (was == word && number)
			return number;
		if (was == 0 && number &&
		    (__atomic_compare_exchange_n(&table[number], &was, word, false,
						 __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
		     was == word))
			return number;
	}
	atomic_fetch_add_explicit(&head_of(sets)->stacks_refused, 1, memory_order_relaxed);
	return 0;
}

static uint64_t word_of(const struct kymo_place_set *sets, uint32_t number)
{
	const uint64_t *table = (const uint64_t *)((uintptr_t)head_of(sets) +
						   KY_PLACE_POINTS_OFFSET);

	return __atomic_load_n(&table[number & POINTS_MASK], __ATOMIC_RELAXED);
}

struct point {
	uint32_t stack;
	bool is_older, is_truncated;
};

struct points {
	struct point list[2 * KYMO_PLACE_STACKS_MAX];
	uint32_t count;
	bool is_unsure;
};

static bool has_stack(const struct points *points, uint32_t stack)
{
	for (uint32_t i = 0; i < points->count; i++)
		if (points->list[i].stack == stack)
			return true;
	return false;
}

static void unpack(uint64_t word, struct points *out)
{
	out->count = 0;
	out->is_unsure = word & KY_PLACE_UNSURE;
	for (uint32_t i = 0; word && i < KYMO_PLACE_STACKS_MAX; i++)
		if (ky_points_stack(word, i) != KY_PLACE_NO_STACK)
			out->list[out->count++] = (struct point){
				ky_points_stack(word, i), (word & KY_PLACE_OLDER(i)) != 0,
				(word & KY_PLACE_TRUNCATED(i)) != 0};
}

/* What this poll cloned first, each kind by number: so that the same ones are the same word. */
static bool is_before(const struct point *a, const struct point *b)
{
	return a->is_older != b->is_older ? b->is_older : a->stack < b->stack;
}

static uint64_t pack(struct points *points)
{
	uint64_t word = POINTS_NONE | (points->is_unsure ? KY_PLACE_UNSURE : 0);

	for (uint32_t i = 1; i < points->count; i++)
		for (uint32_t k = i; k && is_before(&points->list[k], &points->list[k - 1]); k--) {
			struct point moved = points->list[k];

			points->list[k] = points->list[k - 1];
			points->list[k - 1] = moved;
		}
	for (uint32_t i = 0; i < points->count && i < KYMO_PLACE_STACKS_MAX; i++) {
		word &= ~(UINT64_C(0xffff) << 16 * i);
		word |= (uint64_t)points->list[i].stack << 16 * i;
		word |= points->list[i].is_older ? KY_PLACE_OLDER(i) : 0;
		word |= points->list[i].is_truncated ? KY_PLACE_TRUNCATED(i) : 0;
		word += KY_PLACE_ONE + (points->list[i].is_older ? 0 : KY_PLACE_ONE_NEW);
	}
	return word;
}

/* Of the points after the last poll so many still hold. One that stayed when another leaf went on
 * stays again; where that does not decide, all of a kind are kept and it is unsure at which. As
 * many wakers at the begin as there were points: none was gone yet, so one of those that live may
 * be in the hands of the thread that woke the task. */
static void add_older(struct points *points, const struct points *before, uint32_t living,
		      uint32_t wakers)
{
	struct points old[2] = {{.count = 0}, {.count = 0}}; /* cloned in the last poll; before */
	uint32_t kept = points->count;

	for (uint32_t i = 0; i < before->count; i++) {
		struct points *to = &old[before->list[i].is_older];

		if (!has_stack(points, before->list[i].stack))
			to->list[to->count++] = before->list[i];
	}
	for (uint32_t kind = 2; kind-- > 0 && living > 0;) {
		uint32_t count = old[kind].count;

		points->is_unsure |= count > living || (before->is_unsure && count);
		for (uint32_t i = 0; i < count; i++) {
			old[kind].list[i].is_older = true;
			points->list[points->count++] = old[kind].list[i];
		}
		living -= count < living ? count : living;
	}
	points->is_unsure |= points->count > kept && kept && wakers >= before->count;
}

/* Of what this poll cloned, and its wakers that live still. */
static uint32_t held_of(const struct kymo_place_poll *poll, uint32_t living, struct points *out)
{
	uint32_t gone = 0, wanted = living ? living : 1;

	out->count = 0;
	/* Who cloned last is what it waits for; of those before it, it is not known which has given
	 * back since. */
	if (poll->count > wanted)
		gone = poll->count - wanted;
	out->is_unsure = gone && living != 1;
	for (uint32_t i = gone; i < poll->count; i++)
		out->list[out->count++] = (struct point){poll->stacks[i], false,
							 (poll->truncated >> i & 1) != 0};
	if (poll->clones > KYMO_PLACE_STACKS_MAX && out->count == KYMO_PLACE_STACKS_MAX)
		return poll->clones;
	return out->count;
}

/* ---- a poll ---- */

/* A leaf that asks whether its time has come keeps the waker first: a task that waits for the next
 * tick of an interval comes by the same code twice in a poll. */
static void hold(struct kymo_place_poll *poll, struct ky_chain chain)
{
	uint32_t count = 0, truncated = 0;

	for (uint32_t i = 0; i < poll->count; i++) {
		if (poll->stacks[i] == chain.stack)
			continue;
		truncated |= (poll->truncated >> i & 1u) << count;
		poll->stacks[count++] = poll->stacks[i];
	}
	if (count < KYMO_PLACE_STACKS_MAX) {
		truncated |= (uint32_t)chain.is_truncated << count;
		poll->stacks[count++] = (uint16_t)chain.stack;
	}
	poll->count = (uint16_t)count;
	poll->truncated = (uint16_t)truncated;
}

/* The ring may be another one than at the poll's begin. */
static struct kymo_place_set *tables_of(struct kymo_place_poll *poll, struct ky_thread *thread)
{
	struct kymo_place_set *sets = thread->hot.places;

	if (poll->sets != sets) {
		poll->sets = sets;
		poll->row = NULL;
		poll->clones = poll->count = 0;
	}
	return sets;
}

void kymo_place_clone(struct kymo_place_poll *poll, const struct kymo_stack_start *start,
		      uint32_t living)
{
	struct ky_thread *thread = self();
	struct kymo_place_set *sets;
	struct ky_chain chain;
	uint64_t task = poll->task_word >> KYMO_NAME_BITS;

	if (KYMO_UNLIKELY(!thread->hot.places) && (!thread->hot.sub || !begin(thread)))
		return;
	sets = tables_of(poll, thread);
	poll->clones++;
	if (poll->count > living)
		poll->count = (uint16_t)living;
	if (poll->count >= KYMO_PLACE_STACKS_MAX)
		return;
	chain = ky_chain_find(thread->ring, head_of(sets), start, poll->until_sp,
			      KYMO_PLACE_FRAMES_MAX);
	if (chain.stack == KY_PLACE_NO_STACK)
		return;
	hold(poll, chain);
	/* After its poll the task may be over, and no thread would free its row again. */
	if (!poll->row)
		poll->row = find(sets, task);
	if (!poll->row)
		poll->row = claim(sets, task, (uint32_t)(poll->task_word & KYMO_PLACE_LOW_MASK));
}

/* Outside of polls frames this far from the wake count, at most: more than a driver's have. */
#define WAKE_STACK_BYTES 4096u

static __attribute__((noinline)) uint64_t wake_end(uint64_t sp)
{
	uint64_t end = ky_stack_own_end();

	return end && end - sp < WAKE_STACK_BYTES ? end : sp + WAKE_STACK_BYTES;
}

static inline uint32_t wake_flags(struct ky_chain chain)
{
	return chain.stack == KY_PLACE_NO_STACK ? 0 : (chain.stack + 1) << KYMO_WAKE_STACK_SHIFT;
}

static __attribute__((noinline)) uint32_t wake_slowly(struct ky_thread *thread,
						      const struct kymo_stack_start *start,
						      uint64_t until_sp, uint32_t frames_max)
{
	if (!thread->hot.places && (!thread->hot.sub || !begin(thread)))
		return 0;
	if (!ky_stack_may_be_own(start->sp))
		return 0;
	return wake_flags(ky_chain_search(thread->ring, head_of(thread->hot.places), start,
					  until_sp, frames_max));
}

uint32_t kymo_place_wake(const struct kymo_stack_start *start, uint64_t until_sp,
			 uint32_t frames_max)
{
	struct ky_thread *thread = self();
	const struct ky_memo_chain *known;

	if (!until_sp)
		until_sp = wake_end(start->sp);
	/* Of a thread without tables none is kept; and what is kept lies on the thread's own stack.
	 */
	known = ky_chain_memo_find(head_of(thread->hot.places), start, until_sp);
	if (KYMO_LIKELY(known != NULL))
		return wake_flags(known->is);
	return wake_slowly(thread, start, until_sp, frames_max);
}

/* Some of the points that are older now were not before: those were cloned in the last poll. */
static void note_since(struct kymo_place_row *row, uint64_t before, uint64_t after, uint64_t polled)
{
	struct points old, now;

	unpack(before, &old);
	unpack(after, &now);
	for (uint32_t i = 0; i < now.count; i++)
		for (uint32_t k = 0; now.list[i].is_older && k < old.count; k++)
			if (old.list[k].stack == now.list[i].stack && !old.list[k].is_older) {
				uint64_t name = __atomic_load_n(&row->since, __ATOMIC_RELAXED) &
						KYMO_PLACE_LOW_MASK;

				__atomic_store_n(&row->since,
						 (polled & ~KYMO_PLACE_LOW_MASK) | name,
						 __ATOMIC_RELAXED);
				return;
			}
}

/* The usual poll: it cloned nothing, or the same leaf again, and as many wakers live. */
static bool is_unchanged(const struct kymo_place_poll *poll, uint64_t word, uint32_t living)
{
	uint32_t count = word / KY_PLACE_ONE & 3u, new = word / KY_PLACE_ONE_NEW & 3u;

	if (!poll->clones)
		return word && !new &&living >= count;
	return poll->clones == 1 && poll->count == 1 && new == 1 &&
	       living == count &&ky_points_stack(word, 0) == poll->stacks[0] && !poll->truncated &&
	       !(word & (KY_PLACE_UNSURE | KY_PLACE_TRUNCATED(0)));
}

static __attribute__((noinline)) uint32_t join_points(struct kymo_place_poll *poll,
						      struct kymo_place_set *sets, uint32_t living)
{
	uint64_t polled = poll->row ? __atomic_load_n(&poll->row->polled, __ATOMIC_RELAXED) : 0;
	uint64_t before = word_of(sets, (uint32_t)(polled & KYMO_PLACE_LOW_MASK)), after;
	struct points points, old;
	uint32_t cloned = held_of(poll, living, &points);

	unpack(before, &old);
	if (living > cloned && (points.count || !poll->clones))
		add_older(&points, &old, living - cloned, poll->wakers);
	if (!points.count)
		return 0;
	after = pack(&points);
	if (after == before)
		return (uint32_t)(polled & KYMO_PLACE_LOW_MASK);
	if (poll->row)
		note_since(poll->row, before, after, polled);
	return number_of(sets, after);
}

uint32_t kymo_place_close(struct kymo_place_poll *poll, uint32_t living)
{
	struct ky_thread *thread = self();
	struct kymo_place_set *sets;

	poll->points = 0;
	if (!thread->hot.places)
		return 0;
	sets = tables_of(poll, thread);
	if (!poll->row)
		poll->row = find(sets, poll->task_word >> KYMO_NAME_BITS);
	if (!poll->row && !poll->count)
		return 0;
	if (poll->row)
		poll->points = (uint32_t)(__atomic_load_n(&poll->row->polled, __ATOMIC_RELAXED) &
					  KYMO_PLACE_LOW_MASK);
	if (!is_unchanged(poll, word_of(sets, poll->points), living))
		poll->points = join_points(poll, sets, living);
	return poll->points << KYMO_POLL_POINTS_SHIFT;
}

void kymo_place_end(uint64_t task)
{
	struct kymo_place_set *sets = kymo_thread_self->places;
	struct kymo_place_row *row;

	if (!sets && self()->hot.sub &&
	    __atomic_load_n(&self()->ring->place_state, __ATOMIC_ACQUIRE) == KY_PLACE_MADE)
		sets = begin(self());
	if (!sets)
		return;
	row = find(sets, task);
	if (!row)
		return;
	__atomic_store_n(&row->polled, 0, __ATOMIC_RELAXED);
	/* The mark of a set that has spilled stays, and who is away from here. */
	__atomic_fetch_and(&row->task, ~KY_PLACE_TASK_MASK, __ATOMIC_RELEASE);
	if (row != home_of(sets, task))
		__atomic_fetch_sub(&home_of(sets, task)->task, KY_PLACE_AWAY_ONE, __ATOMIC_RELAXED);
}
