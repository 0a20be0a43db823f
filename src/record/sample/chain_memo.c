/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/sample/chain_memo.h>

#define MEMOS 64u
/* Where a way must be taken from another chain, one in so many is: threads that come by more chains
 * than there is room for would do nothing but keep them. */
#define TAKE_PACE 8u

/* The first one belongs to nobody. */
static struct ky_chain_memo memos[MEMOS];

__thread struct ky_chain_memo *ky_chain_memo_self KYMO_TLS_MODEL = &memos[0];

static struct ky_chain_memo *take_memo(void)
{
	for (uint32_t i = 1; i < MEMOS; i++) {
		uint32_t free = 0;

		if (atomic_load_explicit(&memos[i].is_taken, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong_explicit(&memos[i].is_taken, &free, 1,
							    memory_order_acquire,
							    memory_order_relaxed))
			return &memos[i];
	}
	return NULL;
}

static void empty(struct ky_chain_memo *memo)
{
	for (uint32_t i = 0; i < KY_MEMO_SETS; i++)
		for (uint32_t k = 0; k < KY_MEMO_WAYS; k++)
			memo->chains[i][k].pc = 0;
}

/* NULL: not this time. */
static struct ky_memo_chain *way_for(struct ky_chain_memo *memo,
				     const struct kymo_stack_start *start)
{
	struct ky_memo_chain *set = memo->chains[ky_memo_set(start->pc, start->sp)];

	for (uint32_t i = 0; i < KY_MEMO_WAYS; i++)
		if (!set[i].pc)
			return &set[i];
	memo->refused_count++;
	if (memo->refused_count % TAKE_PACE)
		return NULL;
	return &set[memo->refused_count / TAKE_PACE % KY_MEMO_WAYS];
}

KY_MEMO_RAW static void keep(struct ky_memo_chain *chain, const struct ky_memo_item *item)
{
	const uint64_t *stack = (const uint64_t *)(uintptr_t)item->start->sp;
	uint32_t groups = (item->count + KY_MEMO_AT_ONCE - 1) / KY_MEMO_AT_ONCE;

	/* The last word fills up what is left of its group. */
	for (uint32_t i = 0; i < groups * KY_MEMO_AT_ONCE; i++) {
		struct ky_memo_words *words = &chain->words[i / KY_MEMO_AT_ONCE];
		uint16_t at = item->at[i < item->count ? i : item->count - 1];

		words->at[i % KY_MEMO_AT_ONCE] = at;
		words->value[i % KY_MEMO_AT_ONCE] = stack[at];
	}
	chain->end = chain->words + groups;
	chain->fp = item->start->fp;
	chain->fp_mask = item->has_fp ? UINT64_MAX : 0;
	chain->second = item->start->second;
	chain->second_mask = item->has_second ? UINT64_MAX : 0;
	chain->registers = chain->fp_mask | chain->second_mask;
	chain->is = item->is;
	chain->sp = item->start->sp;
	chain->until_sp = item->until_sp;
	chain->pc = item->start->pc;
}

void ky_chain_memo_keep(const struct ky_memo_item *item)
{
	struct ky_chain_memo *memo = ky_chain_memo_self;
	struct ky_memo_chain *chain;
	bool is_other;

	if (item->count > KY_MEMO_WORDS_MAX || !item->changes)
		return; /* without changes there are no tables: a ring that is closed reads so */
	if (memo == &memos[0]) {
		memo = take_memo();
		if (!memo)
			return;
		ky_chain_memo_self = memo;
	}
	if (memo->head == KY_MEMO_IN_USE)
		return;
	is_other = memo->head != (uintptr_t)item->head || memo->changes != item->changes;
	memo->head = KY_MEMO_IN_USE;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (is_other) {
		empty(memo);
		memo->tables = item->tables;
		memo->changes = item->changes;
	}
	chain = way_for(memo, item->start);
	if (chain)
		keep(chain, item);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memo->head = (uintptr_t)item->head;
}

void ky_chain_memo_thread_end(void)
{
	struct ky_chain_memo *memo = ky_chain_memo_self;

	if (memo == &memos[0])
		return;
	ky_chain_memo_self = &memos[0];
	memo->head = 0;
	atomic_store_explicit(&memo->is_taken, 0, memory_order_release);
}
