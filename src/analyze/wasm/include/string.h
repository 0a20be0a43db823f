/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* string.h - of the WebAssembly build, which has no C library: libc.c. */
#ifndef KY_WASM_STRING_H
#define KY_WASM_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int byte, size_t count);
int memcmp(const void *a, const void *b, size_t count);
void *memchr(const void *bytes, int byte, size_t count);
size_t strlen(const char *text);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t count);
const char *strerrordesc_np(int code);

#endif
