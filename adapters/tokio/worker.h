/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* worker.h - which worker, of which runtime, a launch is about to become.
 *
 * The launch's closure captures one pointer, an Arc of the worker; threads that take over the
 * same worker (block_in_place) capture the same one. The Arc's target names the runtime's
 * handle. No word found there is followed before the kernel has read what it points to; it says
 * no where we would fault.
 */
#ifndef KY_TOKIO_WORKER_H
#define KY_TOKIO_WORKER_H

#include "tables.h"

/* The captured pointer; 0 when the cell holds nothing that resembles one. */
uintptr_t ky_tokio_worker_of(const struct ky_tokio_table *table, const void *header);

/* Address of the runtime's handle; 0 when it is not known. */
uintptr_t ky_tokio_worker_runtime(uintptr_t worker);

#endif
