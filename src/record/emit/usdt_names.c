/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <record/emit/usdt_names.h>

#include <base/hash.h>
#include <string.h>

#define ARENA_BYTES (1u << 20)
#define PLACES 8192u /* a power of two */
#define PROBES_MAX 64u
#define LINE_MAX 0x7fffffffu

struct interned {
	struct kymo_usdt_place place;
	uint64_t hash;
	size_t bytes;
	char text[];
};

struct name {
	const struct kymo_usdt_place *place;
	const char *text;
	uint64_t code;
};

const struct kymo_usdt_place ky_usdt_nowhere = {"", 0, 0};
static uint64_t arena[ARENA_BYTES / sizeof(uint64_t)];
static uint32_t arena_words; /* atomic */
static struct interned *places[PLACES];
static struct name names[KY_USDT_NAMES_MAX]; /* each word atomic */

_Static_assert((PLACES & (PLACES - 1)) == 0, "masked, not divided");

static void *take(size_t bytes)
{
	uint32_t words = (uint32_t)((bytes + 7) / 8);
	uint32_t at = __atomic_load_n(&arena_words, __ATOMIC_RELAXED);

	do {
		if (words > sizeof(arena) / sizeof(arena[0]) - at)
			return NULL;
	} while (!__atomic_compare_exchange_n(&arena_words, &at, at + words, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return &arena[at];
}

static struct interned *make(const struct interned *like, const char *text)
{
	struct interned *place = take(sizeof(*place) + like->bytes + 1);

	if (!place)
		return NULL;
	*place = *like;
	memcpy(place->text, text, like->bytes);
	place->text[like->bytes] = '\0';
	place->place.file = place->text;
	return place;
}

static bool is_equal(const struct interned *place, const struct interned *like, const char *text)
{
	return place->hash == like->hash && place->bytes == like->bytes &&
	       place->place.line == like->place.line && place->place.column == like->place.column &&
	       memcmp(place->text, text, like->bytes) == 0;
}

const struct kymo_usdt_place *kymo_usdt_place(const char *file, size_t file_bytes, uint32_t line,
					      uint32_t column)
{
	struct interned like = {.place = {NULL, line, column}}, *made = NULL;

	if (!file || !file_bytes)
		return &ky_usdt_nowhere;
	like.bytes = file_bytes < KY_USDT_TEXT_BYTES_MAX ? file_bytes : KY_USDT_TEXT_BYTES_MAX;
	like.hash = ky_hash_bytes(KY_HASH_START ^ ky_hash_number((uint64_t)line << 32 | column),
				  file, like.bytes);
	for (uint32_t i = 0; i < PROBES_MAX; i++) {
		struct interned **cell = &places[(like.hash + i) & (PLACES - 1)];
		struct interned *there = __atomic_load_n(cell, __ATOMIC_ACQUIRE);

		if (!there && !made)
			made = make(&like, file);
		if (!there && !made)
			break;
		/* Whoever is first; what was made in vain is used further on, or lost. */
		if (!there && __atomic_compare_exchange_n(cell, &there, made, false,
							  __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			return &made->place;
		if (is_equal(there, &like, file))
			return &there->place;
	}
	return &ky_usdt_nowhere;
}

/* The number after the last colon; false: there is none. */
static bool take_number(const char *text, size_t *text_bytes, uint32_t *out)
{
	size_t at = *text_bytes;
	uint64_t number = 0, scale = 1;

	while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9' && scale <= LINE_MAX) {
		number += scale * (uint64_t)(text[--at] - '0');
		scale *= 10;
	}
	if (at < 2 || at == *text_bytes || text[at - 1] != ':' || number > LINE_MAX)
		return false;
	*text_bytes = at - 1;
	*out = (uint32_t)number;
	return true;
}

static const struct kymo_usdt_place *place_in(const char *text, size_t text_bytes)
{
	uint32_t last, before;

	if (!take_number(text, &text_bytes, &last))
		return &ky_usdt_nowhere;
	if (!take_number(text, &text_bytes, &before))
		return kymo_usdt_place(text, text_bytes, last, 0);
	return kymo_usdt_place(text, text_bytes, before, last);
}

void ky_usdt_name_add(uint32_t id, const char *text, size_t text_bytes, uint64_t code)
{
	struct name *name = &names[id % KY_USDT_NAMES_MAX];
	bool has_text = text && text_bytes;

	if (!id || id >= KY_USDT_NAMES_MAX)
		return;
	/* A recorder that is opened anew gives ids out anew. */
	__atomic_store_n(&name->place, has_text ? place_in(text, text_bytes) : NULL,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&name->text,
			 has_text ? kymo_usdt_place(text, text_bytes, 0, 0)->file : NULL,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&name->code, code, __ATOMIC_RELAXED);
}

struct ky_usdt_name ky_usdt_name_find(uint32_t id)
{
	const struct name *name = &names[id % KY_USDT_NAMES_MAX];
	struct ky_usdt_name found = {&ky_usdt_nowhere, "", 0};
	const struct kymo_usdt_place *place;
	const char *text;

	if (!id || id >= KY_USDT_NAMES_MAX)
		return found;
	place = __atomic_load_n(&name->place, __ATOMIC_ACQUIRE);
	text = __atomic_load_n(&name->text, __ATOMIC_ACQUIRE);
	found.code = __atomic_load_n(&name->code, __ATOMIC_RELAXED);
	if (place)
		found.place = place;
	if (text)
		found.text = text;
	return found;
}
