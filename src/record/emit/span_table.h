/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* span_table.h - the open spans: the truth in private memory, a copy in the ring for the thread
 * that watches or finds the ring of a dead process. Nothing is read back from the ring.
 * Threads: any.
 */
#ifndef KY_RECORD_EMIT_SPAN_TABLE_H
#define KY_RECORD_EMIT_SPAN_TABLE_H

#include <kymo/span.h>
#include <stdbool.h>
#include <wire/ring_image.h>

/* All of them. Called under the engine's lock, before the ring is published and once more when the
 * phase says LIVE, as ky_counters_copy(). */
void ky_spans_copy(struct ky_ring_side *side);

/* In a forked child, where no thread ends its parent's spans, before its first ring. */
void ky_spans_forget(void);

/* A free entry near the number of the span, taken for it; 0, which no span has: none. */
uint32_t ky_span_take(uint64_t id);

/* The span of this entry is open, and in the ring of this side area. */
void ky_span_show(struct ky_ring_side *side, uint32_t entry, uint64_t word, uint64_t begin_ticks);

/* It is over. False: its entry is not its own any more. Then the copy. */
bool ky_span_hide(uint32_t entry, uint64_t word);
void ky_span_copy(struct ky_ring_side *side, uint32_t entry);

/* ---- span_api.c: the steps of a span that is recorded ---- */

/* A number of its own, before the record of its begin; then it is open. An id of 0 afterwards: no
 * ring is there. */
void ky_span_number(struct kymo_span *span, uint32_t name);
void ky_span_open(struct kymo_span *span);

/* It is over; its id is 0 afterwards. False: there is nothing to record. */
bool ky_span_close(struct kymo_span *span);

#endif
