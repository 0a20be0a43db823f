/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* counter_table.h - the application's counters: the truth in private memory, a copy in the ring.
 *
 * Nothing is read back from the ring. The thread that changes a counter copies it and repeats that
 * until the counter stands still meanwhile, so the last copy is the last value.
 * Threads: any.   Signals: safe.
 */
#ifndef KY_RECORD_EMIT_COUNTER_TABLE_H
#define KY_RECORD_EMIT_COUNTER_TABLE_H

#include <stddef.h>
#include <stdint.h>
#include <wire/ring_image.h>

/* All of them, names first. Called under the engine's lock, before the ring is published and once
 * more when the phase says LIVE: an add that saw it earlier has not copied. */
void ky_counters_copy(struct ky_ring_side *side);

/* Before the first of these copies: the samples of an earlier ring are not this one's. */
void ky_counters_new_ring(void);

/* Registrations that found no room, since the process began. */
uint64_t ky_counters_refused(void);

/* The counter of this name, made when it is new; 0: no room. Under the engine's lock. */
uint32_t ky_counter_find_or_add(const char *name, size_t name_bytes, uint32_t flags);

/* Atomic. NULL: there is no such counter. */
uint64_t *ky_counter_value(uint32_t counter);

/* The value changed: into this ring, which is live. */
struct ky_ring;
void ky_counter_report(const struct ky_ring *ring, uint32_t counter);

#endif
