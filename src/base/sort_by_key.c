/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/sort_by_key.h>

#include <base/alloc.h>
#include <stdint.h>
#include <string.h>

#define DIGIT_BITS 11u
#define DIGITS (1u << DIGIT_BITS)

struct digit_sort {
	size_t count, words; /* of a record */
	uint64_t least;
	uint32_t *starts; /* of each digit's records */
};

static uint32_t digit_of(const struct digit_sort *sorting, uint64_t key, uint32_t shift)
{
	return (uint32_t)((key - sorting->least) >> shift) & (DIGITS - 1);
}

static void count_digits(struct digit_sort *sorting, const uint64_t *from, uint32_t shift)
{
	uint32_t begin = 0;

	memset(sorting->starts, 0, DIGITS * sizeof(*sorting->starts));
	for (size_t i = 0; i < sorting->count; i++)
		sorting->starts[digit_of(sorting, from[i * sorting->words], shift)]++;
	for (uint32_t i = 0; i < DIGITS; i++) {
		uint32_t here = sorting->starts[i];

		sorting->starts[i] = begin;
		begin += here;
	}
}

static void spread(struct digit_sort *sorting, const uint64_t *from, uint64_t *to, uint32_t shift)
{
	size_t words = sorting->words;

	for (size_t i = 0; i < sorting->count; i++, from += words) {
		uint64_t *at = to + sorting->starts[digit_of(sorting, *from, shift)]++ * words;

		for (size_t word = 0; word < words; word++)
			at[word] = from[word];
	}
}

bool ky_sort_by_key(void *records, size_t count, size_t record_bytes)
{
	uint64_t *from = records, *other, *to, most = 0;
	struct digit_sort sorting = {
		.count = count, .words = record_bytes / sizeof(*from), .least = UINT64_MAX};

	if (count < 2)
		return true;
	other = count <= UINT32_MAX ? ky_alloc(count * record_bytes + DIGITS * sizeof(uint32_t)) :
				      NULL;
	if (!other)
		return false;
	sorting.starts = (uint32_t *)(void *)(other + count * sorting.words);
	for (size_t i = 0; i < count; i++) {
		uint64_t key = from[i * sorting.words];

		sorting.least = key < sorting.least ? key : sorting.least;
		most = key > most ? key : most;
	}
	to = other;
	for (uint32_t shift = 0; shift < 64 && (most - sorting.least) >> shift;
	     shift += DIGIT_BITS) {
		uint64_t *before = from;

		count_digits(&sorting, from, shift);
		spread(&sorting, from, to, shift);
		from = to;
		to = before;
	}
	if (from == other)
		memcpy(records, other, count * record_bytes);
	ky_free(other);
	return true;
}
