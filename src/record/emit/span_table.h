/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* span_table.h - the open spans: the truth in private memory, a copy in the ring for whoever
 * watches or finds the ring of a dead process. Nothing is read back from the ring.
 * Threads: any.
 */
#ifndef KY_RECORD_EMIT_SPAN_TABLE_H
#define KY_RECORD_EMIT_SPAN_TABLE_H

#include <wire/ring_image.h>

/* All of them. Called under the engine's lock, before the ring is published and once more when the
 * phase says LIVE, as ky_counters_copy(). */
void ky_spans_copy(struct ky_ring_side *side);

/* In a forked child, where nobody ends its parent's spans, before its first ring. */
void ky_spans_forget(void);

#endif
