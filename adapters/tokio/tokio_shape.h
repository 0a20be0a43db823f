/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* tokio_shape.h - Tokio's tables in an object that has lost its symbols.
 *
 * A waker table: four functions of which the first, clone, adds one reference (0x40) to the word
 * its argument points to, by one locked instruction, and returns this very table. Where clone was
 * not optimised, what it calls adds and returns. A task table: seven functions, then the offsets of
 * trailer, scheduler and id (tables.c). Words are read as the loader left them, so the kind of
 * relocation they came from does not matter; where functions begin, the table of .eh_frame_hdr
 * says, which strip leaves in place.
 *
 * Threads: setup-only.
 */
#ifndef KY_TOKIO_SHAPE_H
#define KY_TOKIO_SHAPE_H

#include "tokio_elf.h"

/* An object whose symbols are of no use. out->symbols become its functions, all without a name.
 *
 * is_tokio it has Tokio's texts, so code that was not optimised is searched, too
 * Returns  enum ky_tokio_elf_result: FOUND, or NONE where no function resembles a waker's clone.
 *          -ENOMEM.
 * Owner    the caller closes it. */
int ky_tokio_shape_open(struct ky_tokio_elf *out, const struct dl_phdr_info *info, bool is_tokio);

/* Calls `visit` for each waker table of the object, until it returns false. */
typedef bool (*ky_tokio_shape_fn)(void *ctx, uintptr_t address);
void ky_tokio_shape_wakers(const struct ky_tokio_elf *elf, ky_tokio_shape_fn visit, void *ctx);

/* True when each of `count` words is where a function begins. */
bool ky_tokio_shape_are_functions(const struct ky_tokio_elf *elf, const uintptr_t *words,
				  size_t count);

/* Segments that may hold addresses of code beside those that the loader seals after relocation: in
 * a program that was linked to a fixed address, what was never writable. */
bool ky_tokio_shape_may_hold(const struct ky_tokio_elf *elf, const ElfW(Phdr) * phdr);

#endif
