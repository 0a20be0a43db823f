/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/emit/span_table.h>

#include <string.h>

#define PROBES 8u

struct open_span {
	uint64_t word; /* atomic: id << 24 | name; 0: free */
	uint64_t begin_ticks;
};

static struct open_span spans[KY_SPANS];

/* The thread that changes an entry copies it and repeats that until it stands still meanwhile. */
void ky_span_copy(struct ky_ring_side *side, uint32_t entry)
{
	uint64_t word;

	do {
		word = __atomic_load_n(&spans[entry].word, __ATOMIC_SEQ_CST);
		atomic_store_explicit(&side->spans[entry].begin_ticks,
				      __atomic_load_n(&spans[entry].begin_ticks, __ATOMIC_RELAXED),
				      memory_order_relaxed);
		atomic_store_explicit(&side->spans[entry].word, word, memory_order_seq_cst);
	} while (__atomic_load_n(&spans[entry].word, __ATOMIC_SEQ_CST) != word);
}

void ky_spans_copy(struct ky_ring_side *side)
{
	for (uint32_t entry = 1; entry < KY_SPANS; entry++)
		if (__atomic_load_n(&spans[entry].word, __ATOMIC_SEQ_CST))
			ky_span_copy(side, entry);
}

void ky_spans_forget(void)
{
	memset(spans, 0, sizeof(spans));
}

uint32_t ky_span_take(uint64_t id)
{
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t entry = (uint32_t)(id + i) % KY_SPANS;
		uint64_t nothing = 0;

		/* Taken, but not yet open: a word without an id. */
		if (entry && !__atomic_load_n(&spans[entry].word, __ATOMIC_RELAXED) &&
		    __atomic_compare_exchange_n(&spans[entry].word, &nothing, 1, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return entry;
	}
	return 0;
}

void ky_span_show(struct ky_ring_side *side, uint32_t entry, uint64_t word, uint64_t begin_ticks)
{
	__atomic_store_n(&spans[entry].begin_ticks, begin_ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&spans[entry].word, word, __ATOMIC_SEQ_CST);
	ky_span_copy(side, entry);
}

bool ky_span_hide(uint32_t entry, uint64_t word)
{
	/* Not so when a forked child has emptied the table meanwhile. */
	return entry && entry < KY_SPANS &&
	       __atomic_compare_exchange_n(&spans[entry].word, &word, 0, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}
