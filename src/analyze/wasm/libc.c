/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The part of a C library that the engine needs, for a target that has none: memory from
 * memory.grow, the mem* and str* it calls. Not part of any native build.
 *
 * Blocks are powers of two up to 64 KiB, multiples of 64 KiB above; a freed block waits in its
 * class (small) or in one list (large, best fit) for the next request of its kind.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define WASM_PAGE_BYTES 65536u
#define SMALL_SHIFT_MIN 5 /* 32 bytes with the header */
#define SMALL_SHIFT_MAX 16

struct block {
	size_t bytes; /* with this header */
	struct block *next;
	uint64_t align; /* keeps what follows on 16 bytes */
};

_Static_assert(sizeof(struct block) == 16, "malloc's alignment");

#define COPY_BYTES_SHORT 128u

struct loose { /* a word at any address */
	uint64_t word;
} __attribute__((packed, may_alias));

extern unsigned char __heap_base;

static struct block *small[SMALL_SHIFT_MAX + 1];
static struct block *large;
static uintptr_t heap_at, heap_end;

/* The instruction of bulk memory is a call into the engine: for what is short a loop is faster. */
__attribute__((no_builtin("memcpy"))) void *memcpy(void *restrict to, const void *restrict from,
						   size_t count)
{
	unsigned char *out = to;
	const unsigned char *in = from;

	if (count > COPY_BYTES_SHORT)
		return __builtin_memcpy(to, from, count);
	for (; count >= sizeof(uint64_t); count -= sizeof(uint64_t)) {
		*(struct loose *)(void *)out = *(const struct loose *)(const void *)in;
		out += sizeof(uint64_t);
		in += sizeof(uint64_t);
	}
	while (count--)
		*out++ = *in++;
	return to;
}

void *memmove(void *to, const void *from, size_t count)
{
	return __builtin_memmove(to, from, count);
}

void *memset(void *to, int byte, size_t count)
{
	return __builtin_memset(to, byte, count);
}

int memcmp(const void *a, const void *b, size_t count)
{
	const unsigned char *x = a, *y = b;

	for (; count > 0; count--, x++, y++)
		if (*x != *y)
			return *x < *y ? -1 : 1;
	return 0;
}

void *memchr(const void *bytes, int byte, size_t count)
{
	const unsigned char *at = bytes;

	for (; count > 0; count--, at++)
		if (*at == (unsigned char)byte)
			return (void *)(uintptr_t)at;
	return NULL;
}

/* Whole words where the text is aligned: they end where memory does. */
size_t strlen(const char *text)
{
	const char *at = text;
	uint64_t word;

	for (; (uintptr_t)at % sizeof(word); at++)
		if (!*at)
			return (size_t)(at - text);
	for (;; at += sizeof(word)) {
		word = ((const struct loose *)(const void *)at)->word;
		if ((word - 0x0101010101010101u) & ~word & 0x8080808080808080u)
			break;
	}
	while (*at)
		at++;
	return (size_t)(at - text);
}

int strncmp(const char *a, const char *b, size_t count)
{
	for (; count > 0 && *a && *a == *b; count--, a++, b++)
		;
	return count == 0 ? 0 : (unsigned char)*a - (unsigned char)*b;
}

int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, SIZE_MAX);
}

/* The engine's own errors have sentences of their own; of the system's it only meets this one. */
const char *strerrordesc_np(int code)
{
	return code == 12 ? "Cannot allocate memory" : NULL;
}

/* By a quarter of what there is, where that can be had: each growth costs the engine a collection
 * of its garbage, and pages that are not written take no room. */
static int grow(size_t pages)
{
	size_t more = pages + __builtin_wasm_memory_size(0) / 4;

	if (__builtin_wasm_memory_grow(0, more) == SIZE_MAX) {
		more = pages;
		if (__builtin_wasm_memory_grow(0, more) == SIZE_MAX)
			return 0;
	}
	heap_end += more * WASM_PAGE_BYTES;
	return 1;
}

static struct block *fresh(size_t bytes)
{
	struct block *block;
	size_t pages;

	if (heap_at == 0) {
		heap_at = ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
		heap_end = __builtin_wasm_memory_size(0) * (uintptr_t)WASM_PAGE_BYTES;
	}
	if (bytes > heap_end - heap_at) {
		pages = (bytes - (heap_end - heap_at) + WASM_PAGE_BYTES - 1) / WASM_PAGE_BYTES;
		if (!grow(pages))
			return NULL;
	}
	block = (struct block *)heap_at;
	heap_at += bytes;
	block->bytes = bytes;
	return block;
}

static struct block *take_large(size_t bytes)
{
	struct block **at, **best = NULL, *block;

	for (at = &large; *at; at = &(*at)->next)
		if ((*at)->bytes >= bytes && (!best || (*at)->bytes < (*best)->bytes))
			best = at;
	if (!best || (*best)->bytes > bytes * 2)
		return NULL;
	block = *best;
	*best = block->next;
	return block;
}

static unsigned shift_of(size_t bytes)
{
	unsigned shift = SMALL_SHIFT_MIN;

	while (((size_t)1 << shift) < bytes)
		shift++;
	return shift;
}

/* is_zero: the block comes from memory.grow, which zeroes. */
static struct block *take(size_t count, _Bool *is_zero)
{
	struct block *block;
	unsigned shift;
	size_t bytes;

	*is_zero = 0;
	if (count > SIZE_MAX / 2)
		return NULL;
	bytes = count + sizeof(struct block);
	if (bytes > (size_t)1 << SMALL_SHIFT_MAX) {
		bytes = (bytes + WASM_PAGE_BYTES - 1) / WASM_PAGE_BYTES * WASM_PAGE_BYTES;
		block = take_large(bytes);
	} else {
		shift = shift_of(bytes);
		bytes = (size_t)1 << shift;
		block = small[shift];
		if (block)
			small[shift] = block->next;
	}
	if (block)
		return block;
	*is_zero = 1;
	return fresh(bytes);
}

void *malloc(size_t count)
{
	_Bool is_zero;
	struct block *block = take(count, &is_zero);

	return block ? block + 1 : NULL;
}

void *calloc(size_t elements, size_t count)
{
	_Bool is_zero;
	struct block *block;

	if (count > 0 && elements > SIZE_MAX / count)
		return NULL;
	block = take(elements * count, &is_zero);
	if (!block)
		return NULL;
	if (!is_zero)
		memset(block + 1, 0, elements * count);
	return block + 1;
}

void free(void *memory)
{
	struct block *block = memory;
	struct block **list;

	if (!memory)
		return;
	block--;
	list = block->bytes > (size_t)1 << SMALL_SHIFT_MAX ? &large :
							     &small[shift_of(block->bytes)];
	block->next = *list;
	*list = block;
}

void *realloc(void *old, size_t count)
{
	struct block *block = old;
	void *memory;

	if (!old)
		return malloc(count);
	block--;
	if (count <= block->bytes - sizeof(*block))
		return old;
	memory = malloc(count);
	if (!memory)
		return NULL;
	memcpy(memory, old, block->bytes - sizeof(*block));
	free(old);
	return memory;
}
