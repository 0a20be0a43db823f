/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* runtimes.h - one key per runtime, the same for its workers and its tasks.
 *
 * The key is the address of the runtime's handle with a generation in the upper 16 bits: a
 * runtime that was dropped leaves its address to the next one, and the two must not become one
 * in the trace.
 *
 * Threads: any. Takes a lock that gives up after a bounded number of tries (a forked child may
 *          find it taken for ever); the key is then the bare address.
 */
#ifndef KY_TOKIO_RUNTIMES_H
#define KY_TOKIO_RUNTIMES_H

#include <stdint.h>

/* A worker of the runtime of this handle starts / ended. */
uint64_t ky_tokio_runtime_enter(uintptr_t handle, uint32_t copy);
void ky_tokio_runtime_leave(uint64_t key);

/* The key of the runtime whose task with this owner id was polled; says once what kind it is.
 * kind: enum ky_tokio_kind. */
uint64_t ky_tokio_runtime_of(uintptr_t handle, uint64_t owner, uint32_t kind, uint32_t copy);

/* The runtime whose tasks have this owner has this name, also in later recordings. Returns 0;
 * -ENOENT: no task of it was seen. */
int ky_tokio_runtime_name(uint64_t owner, const char *name);

/* Another recording begins, which knows none of them yet. */
void ky_tokio_runtimes_start_over(void);

#endif
