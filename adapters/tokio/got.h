/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* got.h - the places through which one object calls libc's waits. Slots and not interposed
 * symbols: a library that was opened later interposes nothing, and an interposed syscall() also
 * runs inside other preloads' start-up.
 */
#ifndef KY_TOKIO_GOT_H
#define KY_TOKIO_GOT_H

#include "tables.h"

/* A word that a relocation fills with a function's address. */
struct ky_tokio_got_place {
	uintptr_t *slot;
	const char *name; /* of the function; up to 24 bytes of it may be read */
	bool is_lazy;     /* it may be filled at the first call only, and not by the object's own */
};

/* False ends the walk. */
typedef bool (*ky_tokio_got_fn)(void *ctx, const struct ky_tokio_got_place *place);

/* Visits the slots of an object; elf: bias and program headers suffice. Returns false when a visit
 * did. */
bool ky_tokio_got_each(const struct ky_tokio_elf *elf, ky_tokio_got_fn visit, void *ctx);

/* Adds the object's slots to found->got. Returns false when there are more than fit. */
bool ky_tokio_got_find(struct ky_tokio_found *found, const struct ky_tokio_elf *elf);

/* The object's slots of dlsym(), at most capacity, if it imports dlopen() as well. elf: bias and
 * program headers suffice. Returns how many. */
uint32_t ky_tokio_got_dlsym(const struct ky_tokio_elf *elf, uintptr_t **out, uint32_t capacity);

#endif
