/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/emit/span_table.h>

#include <string.h>

#define PROBES 8u

struct open_span {
	uint64_t word; /* atomic: id << 24 | name; 0: free */
	uint64_t begin_ticks;
};

static struct open_span spans[KY_SPANS];

/* The thread that changes a slot copies it and repeats that until it stands still meanwhile. */
void ky_span_copy(struct ky_ring_side *side, uint32_t slot)
{
	uint64_t word;

	do {
		word = __atomic_load_n(&spans[slot].word, __ATOMIC_SEQ_CST);
		atomic_store_explicit(&side->spans[slot].begin_ticks,
				      __atomic_load_n(&spans[slot].begin_ticks, __ATOMIC_RELAXED),
				      memory_order_relaxed);
		atomic_store_explicit(&side->spans[slot].word, word, memory_order_seq_cst);
	} while (__atomic_load_n(&spans[slot].word, __ATOMIC_SEQ_CST) != word);
}

void ky_spans_copy(struct ky_ring_side *side)
{
	for (uint32_t slot = 1; slot < KY_SPANS; slot++)
		if (__atomic_load_n(&spans[slot].word, __ATOMIC_SEQ_CST))
			ky_span_copy(side, slot);
}

void ky_spans_forget(void)
{
	memset(spans, 0, sizeof(spans));
}

uint32_t ky_span_take(uint64_t id)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t slot = (uint32_t)(id + i) % KY_SPANS;
		uint64_t nothing = 0;

		/* Taken, but not yet open: a word without an id. */
		if (slot && !__atomic_load_n(&spans[slot].word, __ATOMIC_RELAXED) &&
		    __atomic_compare_exchange_n(&spans[slot].word, &nothing, 1, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return slot;
	}
	return 0;
}

void ky_span_show(struct ky_ring_side *side, uint32_t slot, uint64_t word, uint64_t begin_ticks)
{
	__atomic_store_n(&spans[slot].begin_ticks, begin_ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&spans[slot].word, word, __ATOMIC_SEQ_CST);
	ky_span_copy(side, slot);
}

bool ky_span_hide(uint32_t slot, uint64_t word)
{
	/* Not so when a forked child has emptied the table meanwhile. */
	return slot && slot < KY_SPANS &&
	       __atomic_compare_exchange_n(&spans[slot].word, &word, 0, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}
