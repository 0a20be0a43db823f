/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Spans as a program calls them. */
#include <kymo/emit.h>
#include <kymo/span.h>
#include <record/emit/emit_engine.h>
#include <record/emit/span_table.h>

#define SPAN_IDS ((UINT64_C(1) << KYMO_TASK_BITS) - 1)

static uint64_t span_count; /* atomic: ids given out */

void ky_span_number(struct kymo_span *span, uint32_t name)
{
	span->id = __atomic_fetch_add(&span_count, 1, __ATOMIC_RELAXED) % SPAN_IDS + 1;
	span->name = name & 0xffffffu;
}

void ky_span_open(struct kymo_span *span)
{
	const struct ky_ring *ring = ky_engine_live_ring();

	if (!ring) {
		span->id = 0;
		return;
	}
	span->begin_ticks = ky_clock_ticks(&ring->clock);
	span->slot = ky_span_take(span->id);
	if (span->slot)
		ky_span_show(ring->side, span->slot, kymo_task_word(span->id, span->name),
			     span->begin_ticks);
}

bool ky_span_close(struct kymo_span *span)
{
	uint64_t word = kymo_task_word(span->id, span->name);
	const struct ky_ring *ring;
	bool is_hidden;

	if (!span->id)
		return false;
	span->id = 0;
	is_hidden = ky_span_hide(span->slot, word);
	/* Loaded after the word is gone, see ky_engine_live_ring(). */
	ring = ky_engine_live_ring();
	if (ring && is_hidden)
		ky_span_copy(ring->side, span->slot);
	return ring != NULL;
}

void kymo_span_begin(struct kymo_span *span, uint32_t name, uint64_t parent)
{
	*span = (struct kymo_span){0};
	if (!kymo_gate_is_open(KYMO_GATE_SPAN))
		return;
	ky_span_number(span, name);
	/* The first event of a process makes the ring, so it comes first. */
	kymo_emit_ungated(KYMO_RECORD_SPAN_BEGIN, 0, 2, kymo_task_word(span->id, name), parent, 0);
	ky_span_open(span);
}

/* Open by default, and of an id that is not 0 it was: the straight way is that of a record. */
static inline bool is_recorded(uint64_t id)
{
	uint32_t gates = __atomic_load_n(&kymo_control.gates, __ATOMIC_RELAXED);

	return KYMO_LIKELY(id && (gates & KYMO_GATE_SPAN));
}

void kymo_span_enter(uint64_t id)
{
	if (is_recorded(id))
		kymo_emit_ungated(KYMO_RECORD_SPAN_IN, 0, 1, kymo_task_word(id, 0), 0, 0);
}

void kymo_span_leave(uint64_t id)
{
	if (is_recorded(id))
		kymo_emit_ungated(KYMO_RECORD_SPAN_OUT, 0, 1, kymo_task_word(id, 0), 0, 0);
}

void kymo_span_follows(uint64_t id, uint64_t other)
{
	if (id && other)
		kymo_emit(KYMO_GATE_SPAN, KYMO_RECORD_SPAN_FOLLOWS, 0, 2, kymo_task_word(id, 0),
			  other, 0);
}

void kymo_span_end(struct kymo_span *span)
{
	uint64_t word = kymo_task_word(span->id, span->name);

	if (ky_span_close(span))
		kymo_emit_ungated(KYMO_RECORD_SPAN_END, 0, 2, word, span->begin_ticks, 0);
}
