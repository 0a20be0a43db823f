/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* got.h - the places through which one object calls libc's waits. Slots and not interposed
 * symbols: a library that was opened later interposes nothing, and an interposed syscall() also
 * runs inside other preloads' start-up.
 */
#ifndef KY_TOKIO_GOT_H
#define KY_TOKIO_GOT_H

#include "tables.h"

/* Adds the object's slots to found->got. Returns false when there are more than fit. */
bool ky_tokio_got_find(struct ky_tokio_found *found, const struct ky_tokio_elf *elf);

/* The object's slots of dlsym(), at most capacity, if it imports dlopen() as well. elf: bias and
 * program headers suffice. Returns how many. */
uint32_t ky_tokio_got_dlsym(const struct ky_tokio_elf *elf, uintptr_t **out, uint32_t capacity);

#endif
