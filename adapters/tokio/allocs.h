/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* allocs.h - what runs in place of malloc() and its kin, and puts itself there: into the slots of
 * all objects, wherever a slot leads to the function that this library itself would call.
 *
 * Slots and not interposed symbols: an allocator that is preloaded in front of us, or that the
 * program brings along, is what every slot leads to, so whatever it is, we stand before it, while
 * a symbol of ours would never be reached. What comes from malloc() is passed on to the very same
 * function as before, so nothing is ever freed by another allocator than its own. And where no
 * thread asked for allocations, nothing is changed at all.
 *
 * Not seen:  calls that go through no slot: of an allocator that is linked into the program under
 *            other names (jemalloc's and mimalloc's crates), of the loader, addresses from dlsym().
 * Cost:      kymo/alloc.h, and a jump.
 */
#ifndef KY_TOKIO_ALLOCS_H
#define KY_TOKIO_ALLOCS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* Takes over the slots of all objects that are loaded. Returns how many there are; 0: none, or none
 * could be written. Threads: the constructor, or the one that `kymo attach` made. */
uint32_t ky_tokio_allocs_start(void);

/* The same for an object that came later, under the loader's lock. Nothing where the others were
 * left alone. */
void ky_tokio_allocs_late(const struct dl_phdr_info *info);

/* Later objects are left alone. */
void ky_tokio_allocs_stop(void);

/* The functions, as slots have them; for benchmarks and tests. NULL: there is none of this name. */
void *ky_tokio_alloc_address(const char *name);

#endif
