/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/json_keys.h>

#include <base/alloc.h>
#include <base/utf8.h>
#include <errno.h>
#include <read/sort.h>
#include <base/text.h>
#include <stdbool.h>
#include <string.h>

struct place {
	size_t at, bytes;
	uint32_t index; /* of the name */
};

void ky_json_keys_init(struct ky_json_keys *keys)
{
	ky_buf_init(&keys->text, 0);
	ky_buf_init(&keys->places, 0);
	keys->count = 0;
}

void ky_json_keys_release(struct ky_json_keys *keys)
{
	ky_buf_release(&keys->text);
	ky_buf_release(&keys->places);
	keys->count = 0;
}

static struct place *place_of(const struct ky_json_keys *keys, uint32_t index)
{
	return (struct place *)(void *)keys->places.bytes + index;
}

void ky_json_keys_add(struct ky_json_keys *keys, const char *name, size_t name_bytes)
{
	const uint8_t *at = (const uint8_t *)name, *end = at + name_bytes;
	struct place place = {.at = keys->text.used, .index = keys->count};

	while (at < end) {
		size_t bytes = ky_utf8_sequence(at, (size_t)(end - at));

		if (bytes)
			(void)ky_buf_append(&keys->text, at, bytes);
		else
			ky_text(&keys->text, "\xef\xbf\xbd");
		at += bytes ? bytes : 1;
	}
	place.bytes = keys->text.used - place.at;
	if (ky_buf_append(&keys->places, &place, sizeof(place)) == 0)
		keys->count++;
}

const char *ky_json_keys_get(const struct ky_json_keys *keys, uint32_t index, size_t *bytes)
{
	const struct place *place = place_of(keys, index);

	*bytes = place->bytes;
	return place->bytes ? (const char *)keys->text.bytes + place->at : "";
}

/* ---- clashes ---- */

static int compare(const struct ky_json_keys *keys, const struct place *a, const struct place *b)
{
	size_t common = a->bytes < b->bytes ? a->bytes : b->bytes;
	int order = common ? memcmp(keys->text.bytes + a->at, keys->text.bytes + b->at, common) : 0;

	return order ? order : a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static bool is_before(const void *a, const void *b, const void *ctx)
{
	const struct place *left = a, *right = b;
	int order = compare(ctx, left, right);

	return order ? order < 0 : left->index < right->index;
}

static bool is_taken(const struct ky_json_keys *keys, const struct place *sorted,
		     const struct place *name)
{
	uint32_t low = 0, high = keys->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		int order = compare(keys, name, &sorted[middle]);

		if (!order)
			return true;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

/* The next free name#NUMBER after all text. Returns false without memory for it. */
static bool rename_one(struct ky_json_keys *keys, const struct place *sorted,
		       const struct place *name, uint32_t *number, struct place *out)
{
	do {
		*out = (struct place){.at = keys->text.used, .index = name->index};
		if (ky_buf_reserve(&keys->text, name->bytes + 16))
			return false;
		(void)ky_buf_append(&keys->text, keys->text.bytes + name->at, name->bytes);
		ky_text(&keys->text, "#");
		ky_text_u64(&keys->text, ++*number);
		out->bytes = keys->text.used - out->at;
		if (!is_taken(keys, sorted, out))
			return true;
		keys->text.used = out->at;
	} while (*number < UINT32_MAX);
	return false;
}

int ky_json_keys_finish(struct ky_json_keys *keys)
{
	struct place *sorted;
	uint32_t number = 1;
	int result = 0;

	if (keys->text.failed || keys->places.failed)
		return -ENOMEM;
	sorted = keys->count > 1 ? ky_alloc(keys->count * sizeof(*sorted)) : NULL;
	if (!sorted)
		return keys->count > 1 ? -ENOMEM : 0;
	memcpy(sorted, keys->places.bytes, keys->count * sizeof(*sorted));
	ky_sort(sorted, keys->count, sizeof(*sorted), is_before, keys);
	for (uint32_t i = 1; i < keys->count && result >= 0; i++) {
		if (compare(keys, &sorted[i - 1], &sorted[i]) != 0)
			number = 1;
		else if (rename_one(keys, sorted, &sorted[i], &number,
				    place_of(keys, sorted[i].index)))
			result = 1;
		else
			result = -ENOMEM;
	}
	ky_free(sorted);
	return result;
}
