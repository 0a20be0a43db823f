/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* spawned_at.h - where a task was spawned, as Tokio built with tokio_unstable keeps it in its
 * header: the address of a `core::panic::Location`.
 *
 * Layout:   address and length of the file, line, column: not promised, so each is checked.
 * Memory:   32 KiB of addresses that were read before, touched while a tracer is attached.
 * Threads:  any.      Cost: a hash; the first time of each place some system calls.
 */
#ifndef KY_TOKIO_SPAWNED_AT_H
#define KY_TOKIO_SPAWNED_AT_H

#include <kymo/usdt.h>
#include <stdint.h>

/* Of the task whose poll begins on this thread, or that is shut down by it. NULL: not known. */
const struct kymo_usdt_place *ky_tokio_spawned_at(uint64_t task);

#endif
