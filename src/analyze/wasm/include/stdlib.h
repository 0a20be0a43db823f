/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* stdlib.h - of the WebAssembly build, which has no C library: libc.c. */
#ifndef KY_WASM_STDLIB_H
#define KY_WASM_STDLIB_H

#include <stddef.h>

void *malloc(size_t count);
void *calloc(size_t elements, size_t count);
void *realloc(void *old, size_t count);
void free(void *memory);

#endif
