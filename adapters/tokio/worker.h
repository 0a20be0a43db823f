/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* worker.h - which worker, of which runtime, a launch is about to become.
 *
 * The launch's closure captures one pointer, an Arc of the worker; threads that take over the
 * same worker (block_in_place) capture the same one. The Arc's target names the runtime's
 * handle.
 */
#ifndef KY_TOKIO_WORKER_H
#define KY_TOKIO_WORKER_H

#include <stdbool.h>

#include "tables.h"

/* Of the Arc's target: strong, weak; handle, index and core in the compiler's order. */
#define KY_TOKIO_WORKER_WORDS 5u

/* The captured pointer; 0 when the cell holds nothing that resembles one. */
uintptr_t ky_tokio_worker_of(const struct ky_tokio_table *table, const void *header);

/* Address of the runtime's handle; 0 when it is not known. */
uintptr_t ky_tokio_worker_runtime(uintptr_t worker);

/* A launch becomes this worker; and whether one has. Of many workers some may be forgotten. */
void ky_tokio_worker_note(uintptr_t worker);
bool ky_tokio_worker_is_known(uintptr_t worker);

#endif
