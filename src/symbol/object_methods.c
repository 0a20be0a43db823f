/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <symbol/object_methods.h>

#include <base/alloc.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <symbol/blaze.h>

#define HEAD_WORDS 3u /* drop glue, size, alignment */
#define METHODS 3u    /* looked at of one table: what closures have */
#define SIZE_MAX_OF_TYPE (UINT64_C(1) << 32)
#define ALIGNMENT_MAX 4096u
#define NAME_BYTES 1900u
#define FOLDED_MAX 32u /* symbols read for one address */
#define TYPES_MAX 3u   /* beyond: nothing is said */

struct ky_object_method {
	uint64_t function, drop;
};

static bool is_drop_glue(const struct ky_elf *elf, uint64_t address)
{
	char name[NAME_BYTES];
	size_t count;
	const struct ky_elf_symbol *symbols = ky_elf_symbols_at(elf, address, &count);

	return symbols && ky_elf_symbol_name(elf, symbols, name, sizeof(name)) &&
	       strstr(name, "drop_in_place");
}

static bool is_head(const struct ky_elf *elf, uint64_t address, const uint64_t *words)
{
	uint64_t size = words[1], alignment = words[2];

	return alignment && alignment <= ALIGNMENT_MAX && !(alignment & (alignment - 1)) &&
	       size < SIZE_MAX_OF_TYPE && size % alignment == 0 &&
	       !ky_elf_is_relocated(elf, address + 8) && !ky_elf_is_relocated(elf, address + 16) &&
	       ky_elf_is_code(elf, words[HEAD_WORDS]) && is_drop_glue(elf, words[0]);
}

static int by_function(const void *left, const void *right)
{
	const struct ky_object_method *a = left, *b = right;

	if (a->function != b->function)
		return a->function < b->function ? -1 : 1;
	return a->drop < b->drop ? -1 : a->drop > b->drop;
}

int ky_object_methods_read(struct ky_object_methods *out, struct ky_elf *elf)
{
	size_t count;
	const struct ky_elf_pointer *pointers = ky_elf_function_pointers(elf, &count);

	*out = (struct ky_object_methods){0};
	for (size_t i = 0; i < count; i++) {
		uint64_t words[HEAD_WORDS + METHODS];
		size_t got = ky_elf_words(elf, pointers[i].address, words, HEAD_WORDS + METHODS);

		if (got <= HEAD_WORDS || !is_head(elf, pointers[i].address, words))
			continue;
		/* Up to the next table, whose first word is drop glue or none. */
		for (size_t at = HEAD_WORDS; at < got; at++) {
			if (!ky_elf_is_code(elf, words[at]) || is_drop_glue(elf, words[at]))
				break;
			if (ky_grow(&out->list, &out->capacity, out->count + 1,
				    sizeof(*out->list))) {
				ky_object_methods_release(out);
				return -ENOMEM;
			}
			out->list[out->count++] = (struct ky_object_method){words[at], words[0]};
		}
	}
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), by_function);
	return 0;
}

void ky_object_methods_release(struct ky_object_methods *methods)
{
	ky_free(methods->list);
	*methods = (struct ky_object_methods){0};
}

/* T of "core::ptr::drop_in_place<T>", in place. NULL: no drop glue. */
static char *type_in(char *name)
{
	char *from = strstr(name, "drop_in_place"), *end = name + strlen(name);

	if (!from || end[-1] != '>')
		return NULL;
	from += strlen("drop_in_place");
	if (strncmp(from, "::", 2) == 0)
		from += 2;
	if (*from != '<')
		return NULL;
	end[-1] = '\0';
	return from + 1;
}

static const char *after_brackets(const char *name)
{
	const char *last = strrchr(name, '>');

	return last ? last + 1 : NULL;
}

/* A closure in the same function of another type: "<F as A<T>>::call::{{closure}}" for "<app::job
 * as A<()>>::call::{{closure}}". */
static bool has_shape(const char *type, const char *name)
{
	const char *tail = after_brackets(type), *other = after_brackets(name);

	return tail && other && *tail && strcmp(tail, other) == 0 && strstr(tail, "closure");
}

struct type_names {
	char *out;
	size_t used, capacity, count;
};

/* Returns false where there are too many to say. */
static bool add(struct type_names *names, const char *type)
{
	size_t bytes = strlen(type), joint = names->count ? strlen(" or ") : 0;

	for (size_t from = 0, to; from < names->used; from = to + strlen(" or ")) {
		const char *next = strstr(names->out + from, " or ");

		to = next ? (size_t)(next - names->out) : names->used;
		if (to - from == bytes && memcmp(names->out + from, type, bytes) == 0)
			return true;
	}
	if (names->count == TYPES_MAX || bytes + joint >= names->capacity - names->used)
		return false;
	memcpy(names->out + names->used, " or ", joint);
	memcpy(names->out + names->used + joint, type, bytes + 1);
	names->used += joint + bytes;
	names->count++;
	return true;
}

/* Returns false where the name says as much as the types, or they are too many. */
static bool add_types(struct type_names *names, const struct ky_elf *elf, uint64_t drop,
		      const char *name)
{
	char symbol[NAME_BYTES], text[NAME_BYTES];
	size_t count;
	const struct ky_elf_symbol *symbols = ky_elf_symbols_at(elf, drop, &count);

	for (size_t i = 0; i < count && i < FOLDED_MAX; i++) {
		size_t bytes = ky_elf_symbol_name(elf, &symbols[i], symbol, sizeof(symbol));
		char *type;

		bytes = bytes ? ky_blaze_demangle(symbol, bytes, text, sizeof(text) - 1) : 0;
		text[bytes] = '\0';
		type = bytes ? type_in(text) : NULL;
		if (!type || !has_shape(type, name))
			continue;
		if (strcmp(type, name) == 0 || !add(names, type))
			return false;
	}
	return true;
}

size_t ky_object_method_name(const struct ky_object_methods *methods, const struct ky_elf *elf,
			     uint64_t function, const char *name, char *out, size_t capacity)
{
	struct type_names names = {.out = out, .capacity = capacity};
	uint32_t low = 0, high = methods->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (methods->list[middle].function < function)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < methods->count && methods->list[low].function == function; low++)
		if (!add_types(&names, elf, methods->list[low].drop, name))
			return 0;
	return names.used;
}
