/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* random_rows.h - rows drawn at random, and a forest over them. */
#ifndef KY_TEST_RANDOM_ROWS_H
#define KY_TEST_RANDOM_ROWS_H

#include <lanes/forest.h>
#include <stdlib.h>

#define ROWS_MAX 6000u

struct random_rows {
	uint64_t starts[ROWS_MAX], lengths[ROWS_MAX];
	uint32_t count;
	uint64_t state;
};

static inline uint64_t draw(struct random_rows *rows, uint64_t below)
{
	rows->state ^= rows->state << 13;
	rows->state ^= rows->state >> 7;
	rows->state ^= rows->state << 17;
	return below ? rows->state % below : 0;
}

static inline void random_row(const void *ctx, uint32_t row, uint64_t *start_ns,
			      uint64_t *length_ns)
{
	const struct random_rows *rows = ctx;

	*start_ns = rows->starts[row];
	*length_ns = rows->lengths[row];
}

/* Short and long ones, equal ones, equal begins; they overlap unless is_nested: then each lies
 * inside or after those before it. */
static inline void draw_rows(struct random_rows *rows, uint32_t count, bool is_nested)
{
	uint64_t time_ns = 1000, ends[8] = {0};
	uint32_t depth = 0;

	rows->count = count;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t length_ns = draw(rows, draw(rows, 20) ? 50 : 5000);

		time_ns += draw(rows, 60);
		while (depth && ends[depth - 1] <= time_ns)
			depth--;
		if (is_nested && depth && length_ns > ends[depth - 1] - time_ns)
			length_ns = ends[depth - 1] - time_ns;
		if (is_nested && depth == 8)
			length_ns = 0;
		if (depth < 8)
			ends[depth++] = time_ns + length_ns;
		rows->starts[i] = time_ns;
		rows->lengths[i] = length_ns;
	}
}

static inline int plant(struct ky_forest *forest, const struct random_rows *rows)
{
	uint32_t at = 0, count;
	int result;

	ky_forest_init(forest, random_row, rows);
	result = ky_forest_reserve(forest, rows->count / 2); /* more come than were said */
	for (; at < rows->count && !result; at += count) {
		count = 1 + at % 37;
		if (count > rows->count - at)
			count = rows->count - at;
		result = ky_forest_add(forest, &rows->starts[at], &rows->lengths[at], count);
	}
	return result ? result : ky_forest_finish(forest);
}

#endif
