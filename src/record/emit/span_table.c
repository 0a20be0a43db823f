/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/emit/span_table.h>

#include <kymo/emit.h>
#include <kymo/span.h>
#include <record/emit/emit_engine.h>
#include <string.h>

#define PROBES 8u
#define SPAN_IDS ((UINT64_C(1) << KYMO_TASK_BITS) - 1)

struct open_span {
	uint64_t word; /* atomic: id << 24 | name; 0: free */
	uint64_t begin_ticks;
};

static struct open_span spans[KY_SPANS];
static uint64_t span_count; /* atomic: ids handed out */

/* Of this process, and recording. As in counter_table.c: sequentially consistent with `phase`. */
static struct ky_ring *live_ring(void)
{
	if (__atomic_load_n(&ky_engine.phase, __ATOMIC_SEQ_CST) != KY_LIVE || ky_engine_is_orphan())
		return NULL;
	return __atomic_load_n(&ky_engine.ring, __ATOMIC_ACQUIRE);
}

/* Whoever changes a slot copies it and repeats that until it stands still meanwhile. */
static void copy_slot(struct ky_ring_side *side, uint32_t slot)
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
			copy_slot(side, slot);
}

void ky_spans_forget(void)
{
	memset(spans, 0, sizeof(spans));
}

/* Slot 0 is nobody's. A free one near the number of the span; 0: none. */
static uint32_t find_slot(uint64_t id)
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

static void show(const struct kymo_span *span, const struct ky_ring *ring, uint64_t word)
{
	if (!span->slot)
		return;
	__atomic_store_n(&spans[span->slot].begin_ticks, span->begin_ticks, __ATOMIC_RELAXED);
	__atomic_store_n(&spans[span->slot].word, word, __ATOMIC_SEQ_CST);
	if (ring)
		copy_slot(ring->side, span->slot);
}

static void hide(const struct kymo_span *span, uint64_t word)
{
	const struct ky_ring *ring;

	/* Not so when a forked child has emptied the table meanwhile. */
	if (!span->slot || span->slot >= KY_SPANS ||
	    !__atomic_compare_exchange_n(&spans[span->slot].word, &word, 0, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return;
	ring = live_ring();
	if (ring)
		copy_slot(ring->side, span->slot);
}

void kymo_span_begin(struct kymo_span *span, uint32_t name, uint64_t parent)
{
	const struct ky_ring *ring;
	uint64_t word;

	*span = (struct kymo_span){0};
	if (!kymo_gate_is_open(KYMO_GATE_SPAN))
		return;
	span->id = __atomic_fetch_add(&span_count, 1, __ATOMIC_RELAXED) % SPAN_IDS + 1;
	span->name = name & 0xffffffu;
	word = kymo_task_word(span->id, name);
	/* The first event of a process makes the ring, so it comes first. */
	kymo_emit_ungated(KYMO_RECORD_SPAN_BEGIN, 0, 2, word, parent, 0);
	ring = live_ring();
	if (!ring) {
		span->id = 0;
		return;
	}
	span->begin_ticks = ky_clock_ticks(&ring->clock);
	span->slot = find_slot(span->id);
	show(span, ring, word);
}

void kymo_span_end(struct kymo_span *span)
{
	uint64_t word = kymo_task_word(span->id, span->name);

	if (!span->id)
		return;
	span->id = 0;
	hide(span, word);
	if (live_ring())
		kymo_emit_ungated(KYMO_RECORD_SPAN_END, 0, 2, word, span->begin_ticks, 0);
}
