/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* driven_kinds.h - kinds of tasks that somebody waits for: what comes from outside (I/O, a timer,
 * another thread) wakes them, or a task that is woken so sends them something.
 *
 * The others make their work themselves, as a source that fills a channel as fast as it can: what
 * they wait keeps nobody waiting. A release (room, a permit, a lock) passes nothing on.
 * Memory:      a bit for each pair of kinds, 2 bytes a stack.
 * Threads:     owner.
 */
#ifndef KY_ANALYZE_FINDINGS_DRIVEN_KINDS_H
#define KY_ANALYZE_FINDINGS_DRIVEN_KINDS_H

#include <analyze/findings/facts.h>

/* Does somebody wait for who is woken so? kind: enum ky_wake_kind. */
bool ky_wake_is_from_outside(const struct ky_wake *wake, uint32_t kind);

/* *out: by the facts' kinds, to be freed by ky_free(). Returns 0, -ENOMEM. */
int ky_driven_kinds_make(bool **out, const struct ky_facts *facts);

#endif
