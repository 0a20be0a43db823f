/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* schedulers.h - which scheduler a task belongs to, and whether a blocking run is a worker's
 * launch, by what the host's memory holds: where symbols do not say it.
 *
 * A multi-thread handle has one pair of Arcs for each worker; a worker has the handle, its index
 * and a core, and the core has one of the Arcs of that index. A local set has two queues that were
 * made with room for 64. What is neither is a current-thread handle. No offset of any version of
 * Tokio is part of it.
 *
 * Threads: any.      Cost: some ten system calls; once a table.
 */
#ifndef KY_TOKIO_SCHEDULERS_H
#define KY_TOKIO_SCHEDULERS_H

#include "tables.h"

/* scheduler: what a task's header refers to at the table's scheduler offset. */
enum ky_tokio_kind ky_tokio_scheduler_kind(uintptr_t scheduler);

/* KY_TOKIO_KIND_LAUNCH or _BLOCKING of a run that has not begun; UNKNOWN: a worker whose core
 * another thread has taken, so this run ends at once. */
enum ky_tokio_kind ky_tokio_run_kind(const struct ky_tokio_table *table, const void *header);

#endif
