/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/sample/chain_memory.h>

#include <base/testpoint.h>
#include <record/emit/emit_engine.h>
#include <record/sample/stack_walk.h>
#include <string.h>

#define SETS 256u
#define WAYS 4u
#define WORDS (1u << 15)
#define INPUTS_MAX 112u /* one a frame, and some frame pointers */

/* A word to compare: value | where << 48 | WORD_IS_STACK. */
#define WORD_VALUE_MASK ((UINT64_C(1) << 48) - 1)
#define WORD_AT_FP 0x7fffu
#define WORD_AT_SECOND 0x7ffeu
#define WORD_AT_END 0x7ff0u /* words from sp */
#define WORD_IS_STACK (UINT64_C(1) << 63)

/* `state`: tag of the tables and the ring | one of these; 0: free. */
enum {
	STATE_WRITING = 1,
	STATE_READY = 2
};
#define TAG_SHIFT 24 /* in words_state, above the number of words */
#define TAG_STEP UINT64_C(4)

struct known_chain {
	_Atomic uint64_t state;
	uint64_t pc, depth;
	uint32_t first, count; /* of its words */
	uint32_t plain;        /* the first of them: values that stand on the stack */
	struct ky_chain is;
};

static struct known_chain chains[SETS][WAYS];
static uint64_t words[WORDS]; /* relaxed atomics */
/* tag << TAG_SHIFT | words that are given out */
static _Atomic uint64_t words_state;

static const _Atomic uint64_t *tables_of(const struct ky_ring *ring)
{
	const struct ky_unwind_head *tables = (const void *)ring->unwind;

	return &tables->index_word;
}

static uint64_t changes_of(const struct ky_ring *ring)
{
	return atomic_load_explicit(tables_of(ring), memory_order_acquire) >> 32;
}

/* What chains are remembered for, in 40 bits. */
static uint64_t tag_of(const struct ky_place_head *head, uint64_t changes)
{
	uint64_t hash = ((uintptr_t)head ^ changes) * UINT64_C(0x9e3779b97f4a7c15);

	return (hash >> 24 | TAG_STEP) & ~(TAG_STEP - 1);
}

static struct known_chain *set_of(uint64_t pc, uint64_t depth)
{
	uint64_t hash = (pc ^ depth << 32) * UINT64_C(0x9e3779b97f4a7c15);

	return chains[hash >> 40 & (SETS - 1)];
}

/* Another thread may make another chain of this one meanwhile, with the words of another stack: no
 * word is read that does not lie in ours. */
KY_MEMO_RAW static bool is_same(const struct known_chain *chain,
				const struct kymo_stack_start *start, uint64_t depth)
{
	const uint64_t *stack = (const uint64_t *)(uintptr_t)start->sp;
	uint32_t first = __atomic_load_n(&chain->first, __ATOMIC_RELAXED);
	uint32_t count = __atomic_load_n(&chain->count, __ATOMIC_RELAXED);
	uint32_t plain = __atomic_load_n(&chain->plain, __ATOMIC_RELAXED);
	uint64_t depth_words = depth / sizeof(*stack);
	const uint64_t *word = words + first, *end = word + count, *plain_end = word + plain;

	if (first > WORDS || count > WORDS - first || plain > count)
		return false;
	KY_TESTPOINT("chain.compare");
	for (; word < plain_end; word++) {
		uint64_t wanted = __atomic_load_n(word, __ATOMIC_RELAXED);

		if (wanted >> 48 >= depth_words || (stack[wanted >> 48] ^ wanted) & WORD_VALUE_MASK)
			return false;
	}
	for (; word < end; word++) {
		uint64_t wanted = __atomic_load_n(word, __ATOMIC_RELAXED), value;
		uint32_t at = (uint32_t)(wanted >> 48) & 0x7fffu;

		if (at < WORD_AT_END && at >= depth_words)
			return false;
		if (at < WORD_AT_END)
			value = stack[at];
		else
			value = at == WORD_AT_FP ? start->fp : start->second;
		if (wanted & WORD_IS_STACK)
			value -= start->sp;
		if ((value ^ wanted) & WORD_VALUE_MASK)
			return false;
	}
	return true;
}

/* Where its words lie, for the thread's own memory of it: each was bounded, or none counts. */
static void list_places(const struct known_chain *chain, uint64_t depth, struct ky_memo_item *out)
{
	uint32_t first = __atomic_load_n(&chain->first, __ATOMIC_RELAXED);
	uint32_t count = __atomic_load_n(&chain->count, __ATOMIC_RELAXED);

	out->has_fp = out->has_second = false;
	out->count = count > KY_MEMO_WORDS_MAX + 2 ? count : 0;
	if (out->count)
		return;
	for (uint32_t i = 0; i < count && first < WORDS - i; i++) {
		uint64_t word = __atomic_load_n(&words[first + i], __ATOMIC_RELAXED);
		uint32_t at = (uint32_t)(word >> 48) & 0x7fffu;

		if (at == WORD_AT_FP)
			out->has_fp = true;
		else if (at == WORD_AT_SECOND)
			out->has_second = true;
		else if (at < depth / sizeof(word) && out->count < KY_MEMO_WORDS_MAX)
			out->at[out->count++] = (uint16_t)at;
		else
			out->count = KY_MEMO_WORDS_MAX + 1;
		if (out->count > KY_MEMO_WORDS_MAX)
			return;
	}
}

/* out: its `start` is set; the chain, and where its words lie. */
static bool find(uint64_t depth, uint64_t tag, struct ky_memo_item *out)
{
	const struct kymo_stack_start *start = out->start;
	struct known_chain *set = set_of(start->pc, depth);

	for (uint32_t i = 0; i < WAYS; i++) {
		struct known_chain *chain = &set[i];

		if (atomic_load_explicit(&chain->state, memory_order_acquire) !=
			    (tag | STATE_READY) ||
		    chain->pc != start->pc || chain->depth != depth ||
		    !is_same(chain, start, depth))
			continue;
		out->is = chain->is;
		list_places(chain, depth, out);
		/* Its words may be those of another recording by now. */
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&words_state, memory_order_relaxed) >> TAG_SHIFT == tag)
			return true;
	}
	return false;
}

/* ---- remembering ---- */

static struct known_chain *take_way(uint64_t pc, uint64_t depth, uint64_t tag)
{
	struct known_chain *set = set_of(pc, depth);

	for (uint32_t i = 0; i < WAYS; i++) {
		uint64_t was = atomic_load_explicit(&set[i].state, memory_order_relaxed);

		if (was == (tag | STATE_READY) || was & STATE_WRITING)
			continue;
		if (atomic_compare_exchange_strong_explicit(
			    &set[i].state, &was, tag | STATE_WRITING, memory_order_acquire,
			    memory_order_relaxed))
			return &set[i];
	}
	return NULL;
}

/* The first of so many words; WORDS: there are none left. */
static uint32_t take_words(uint32_t count, uint64_t tag)
{
	uint64_t was = atomic_load_explicit(&words_state, memory_order_relaxed), used;

	do {
		used = was >> TAG_SHIFT == tag ? was & ((1u << TAG_SHIFT) - 1) : 0;
		if (used + count > WORDS)
			return WORDS;
	} while (!atomic_compare_exchange_weak_explicit(
		&words_state, &was, tag << TAG_SHIFT | (used + count), memory_order_acq_rel,
		memory_order_relaxed));
	return (uint32_t)used;
}

/* False: it lies elsewhere than between sp and the poll. */
static bool pack(const struct ky_walk_input *input, uint64_t sp, uint64_t depth, uint64_t *word)
{
	uint64_t at = (input->at - sp) / 8, value = input->value;

	if (input->at == KY_WALK_AT_FP)
		at = WORD_AT_FP;
	else if (input->at == KY_WALK_AT_SECOND)
		at = WORD_AT_SECOND;
	else if (input->at % 8 || input->at - sp >= depth || at >= WORD_AT_END)
		return false;
	if (input->is_stack)
		value -= sp;
	*word = (value & WORD_VALUE_MASK) | at << 48 | (input->is_stack ? WORD_IS_STACK : 0);
	return true;
}

static __attribute__((noinline)) bool remember(const struct ky_walk *walk,
					       const struct kymo_stack_start *start, uint64_t depth,
					       uint64_t tag, struct ky_chain is)
{
	uint64_t packed[INPUTS_MAX], others[INPUTS_MAX], word;
	struct known_chain *chain;
	uint32_t first, plain = 0, count = walk->input_count;

	if (!walk->is_by_inputs || start->sp % 8)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (!pack(&walk->inputs[i], start->sp, depth, &word))
			return false;
		if (word >> 48 < WORD_AT_END)
			packed[plain++] = word;
		else
			others[i - plain] = word;
	}
	memcpy(packed + plain, others, (count - plain) * sizeof(others[0]));
	chain = take_way(start->pc, depth, tag);
	if (!chain)
		return false;
	first = take_words(count, tag);
	if (first == WORDS) {
		atomic_store_explicit(&chain->state, 0, memory_order_release);
		return false;
	}
	for (uint32_t i = 0; i < count; i++)
		__atomic_store_n(&words[first + i], packed[i], __ATOMIC_RELAXED);
	chain->pc = start->pc;
	chain->depth = depth;
	__atomic_store_n(&chain->first, first, __ATOMIC_RELAXED);
	__atomic_store_n(&chain->count, count, __ATOMIC_RELAXED);
	__atomic_store_n(&chain->plain, plain, __ATOMIC_RELAXED);
	chain->is = is;
	atomic_store_explicit(&chain->state, tag | STATE_READY, memory_order_release);
	return true;
}

/* ---- walking ---- */

static __attribute__((noinline)) struct ky_chain walk_it(const struct ky_ring *ring,
							 struct ky_place_head *head,
							 const struct kymo_stack_start *start,
							 uint64_t until_sp, uint32_t frames_max)
{
	const struct ky_stack_store store = ky_chain_store(head);
	struct ky_unwind_view view;
	struct ky_chain is = {.stack = KY_PLACE_NO_STACK};
	struct ky_walk_input inputs[INPUTS_MAX];
	uint64_t frames[KYMO_PLACE_FRAMES_MAX], tag = tag_of(head, changes_of(ring));
	struct ky_walk walk = {.frames = frames,
			       .frames_max = frames_max,
			       .until_sp = until_sp,
			       .inputs = inputs,
			       .inputs_max = INPUTS_MAX};

	if (!ky_stack_tables(&view))
		return is;
	ky_stack_capture_by(&walk, &view, start, !ky_engine_is_under_filter());
	atomic_fetch_add_explicit(&head->walked_count, 1, memory_order_relaxed);
	if (walk.count)
		is.stack = ky_stack_store_number(&store, frames, walk.count, KY_PLACE_NO_STACK);
	if (is.stack == KY_PLACE_NO_STACK)
		return is;
	is.is_truncated = walk.end != KY_WALK_REACHED;
	/* A thread that was first with it may still be writing it, or found no room. */
	if (ky_stack_store_frames(&store, is.stack, NULL, KYMO_PLACE_FRAMES_MAX) != walk.count ||
	    !remember(&walk, start, until_sp - start->sp, tag, is))
		atomic_fetch_add_explicit(&head->unremembered, 1, memory_order_relaxed);
	return is;
}

struct ky_stack_store ky_chain_store(struct ky_place_head *head)
{
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

struct ky_chain ky_chain_search(const struct ky_ring *ring, struct ky_place_head *head,
				const struct kymo_stack_start *start, uint64_t until_sp,
				uint32_t frames_max)
{
	struct ky_memo_item item = {.head = head, .start = start, .until_sp = until_sp};
	struct ky_chain unknown = {.stack = KY_PLACE_NO_STACK};

	if (!ring->unwind)
		return unknown;
	/* Their pages do not exist yet, and there may be no memory for them. */
	if (atomic_load_explicit(&ring->header->unwind_ready, memory_order_acquire) != 1) {
		if (!ky_stack_is_wanted())
			ky_stack_want();
		return unknown;
	}
	/* What is remembered is of tables that were there. */
	item.tables = tables_of(ring);
	item.changes = changes_of(ring);
	if (!ky_stack_is_own(start->sp, until_sp) ||
	    !find(until_sp - start->sp, tag_of(head, item.changes), &item))
		return walk_it(ring, head, start, until_sp, frames_max);
	ky_chain_memo_keep(&item);
	return item.is;
}
