/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <lanes/forest.h>

#include <base/alloc.h>
#include <errno.h>
#include <string.h>

static const struct ky_forest_node empty = {.longest = UINT32_MAX, .last = UINT32_MAX};

void ky_forest_init(struct ky_forest *forest, ky_forest_row_fn row, const void *ctx)
{
	memset(forest, 0, sizeof(*forest));
	forest->row = row;
	forest->ctx = ctx;
}

void ky_forest_release(struct ky_forest *forest)
{
	for (uint32_t level = 0; level < KY_FOREST_LEVELS; level++)
		ky_free(forest->levels[level]);
	memset(forest, 0, sizeof(*forest));
}

static inline void add_row(struct ky_forest_node *node, uint32_t row, uint64_t start_ns,
			   uint64_t length_ns)
{
	uint64_t end_ns = start_ns + length_ns;

	if (end_ns < start_ns)
		end_ns = UINT64_MAX;
	if (node->longest == UINT32_MAX || length_ns > node->longest_ns) {
		node->longest = row;
		node->longest_ns = length_ns;
	}
	if (node->last == UINT32_MAX || end_ns > node->end_ns) {
		node->last = row;
		node->end_ns = end_ns;
	}
	if (__builtin_add_overflow(node->sum_ns, length_ns, &node->sum_ns))
		node->sum_ns = UINT64_MAX;
}

/* `node` comes after all that is in `into`. */
static void add_node(struct ky_forest_node *into, const struct ky_forest_node *node)
{
	if (node->longest == UINT32_MAX)
		return;
	if (into->longest == UINT32_MAX || node->longest_ns > into->longest_ns) {
		into->longest = node->longest;
		into->longest_ns = node->longest_ns;
	}
	if (into->last == UINT32_MAX || node->end_ns > into->end_ns) {
		into->last = node->last;
		into->end_ns = node->end_ns;
	}
	if (__builtin_add_overflow(into->sum_ns, node->sum_ns, &into->sum_ns))
		into->sum_ns = UINT64_MAX;
}

/* The nodes of the lowest level, of so many rows more. */
static int make_room(struct ky_forest *forest, uint32_t rows)
{
	uint32_t count = (uint32_t)(((uint64_t)forest->row_count + rows + KY_FOREST_FAN - 1) >>
				    KY_FOREST_SHIFT);
	int result = ky_grow(&forest->levels[0], &forest->capacities[0], count,
			     sizeof(*forest->levels[0]));

	while (!result && forest->counts[0] < count)
		forest->levels[0][forest->counts[0]++] = empty;
	return result;
}

int ky_forest_reserve(struct ky_forest *forest, uint32_t rows)
{
	uint32_t count = (uint32_t)(((uint64_t)rows + KY_FOREST_FAN - 1) >> KY_FOREST_SHIFT);

	if (!count || forest->levels[0])
		return 0;
	forest->levels[0] = ky_alloc(count * sizeof(*forest->levels[0]));
	forest->capacities[0] = forest->levels[0] ? count : 0;
	return forest->levels[0] ? 0 : -ENOMEM;
}

int ky_forest_add(struct ky_forest *forest, const uint64_t *starts_ns, const uint64_t *lengths_ns,
		  uint32_t count)
{
	uint32_t row = forest->row_count, at = 0;
	int result = make_room(forest, count);

	if (result)
		return result;
	while (at < count) {
		struct ky_forest_node *node = &forest->levels[0][row >> KY_FOREST_SHIFT];
		struct ky_forest_node sum = *node; /* of 16 rows, in registers */
		uint32_t end = at + KY_FOREST_FAN - (row & (KY_FOREST_FAN - 1));

		if (end > count)
			end = count;
		for (; at < end; at++, row++)
			add_row(&sum, row, starts_ns[at], lengths_ns[at]);
		*node = sum;
	}
	forest->row_count = row;
	return 0;
}

int ky_forest_finish(struct ky_forest *forest)
{
	for (uint32_t level = 1; level < KY_FOREST_LEVELS; level++) {
		const struct ky_forest_node *below = forest->levels[level - 1];
		uint32_t below_count = forest->counts[level - 1];
		uint32_t count = (below_count + KY_FOREST_FAN - 1) >> KY_FOREST_SHIFT;
		int result;

		if (below_count <= KY_FOREST_FAN)
			break;
		result = ky_grow(&forest->levels[level], &forest->capacities[level], count,
				 sizeof(*below));
		if (result)
			return result;
		forest->counts[level] = count;
		for (uint32_t i = 0; i < count; i++)
			forest->levels[level][i] = empty;
		for (uint32_t i = 0; i < below_count; i++)
			add_node(&forest->levels[level][i >> KY_FOREST_SHIFT], &below[i]);
	}
	return 0;
}

static void add_rows(struct ky_forest_node *sum, const struct ky_forest *forest, uint32_t first,
		     uint32_t end)
{
	for (uint32_t row = first; row < end; row++) {
		uint64_t start_ns, length_ns;

		forest->row(forest->ctx, row, &start_ns, &length_ns);
		add_row(sum, row, start_ns, length_ns);
	}
}

/* From the left the largest whole nodes that fit, each starting where the last one ended; so rows
 * come in their order, and of equal ones the first stays. */
struct ky_forest_node ky_forest_range(const struct ky_forest *forest, uint32_t first, uint32_t end)
{
	struct ky_forest_node sum = empty;

	if (end > forest->row_count)
		end = forest->row_count;
	while (first < end) {
		uint64_t span = KY_FOREST_FAN;
		uint32_t level = 0;

		if (first & (KY_FOREST_FAN - 1) || end - first < KY_FOREST_FAN) {
			uint32_t stop = (first | (KY_FOREST_FAN - 1)) + 1;

			if (stop > end || stop == 0)
				stop = end;
			add_rows(&sum, forest, first, stop);
			first = stop;
			continue;
		}
		while (level + 1 < KY_FOREST_LEVELS && forest->counts[level + 1] &&
		       !(first & (span * KY_FOREST_FAN - 1)) &&
		       end - first >= span * KY_FOREST_FAN) {
			span *= KY_FOREST_FAN;
			level++;
		}
		add_node(&sum, &forest->levels[level][first / span]);
		first += (uint32_t)span;
	}
	return sum;
}

static bool begins_before(const struct ky_forest *forest, uint32_t row, uint64_t time_ns)
{
	uint64_t start_ns, length_ns;

	forest->row(forest->ctx, row, &start_ns, &length_ns);
	return start_ns < time_ns;
}

static uint32_t find_between(const struct ky_forest *forest, uint64_t time_ns, uint32_t low,
			     uint32_t high)
{
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (begins_before(forest, middle, time_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t ky_forest_find(const struct ky_forest *forest, uint64_t time_ns)
{
	return find_between(forest, time_ns, 0, forest->row_count);
}

uint32_t ky_forest_find_from(const struct ky_forest *forest, uint64_t time_ns, uint32_t first)
{
	uint32_t step = 1, left = forest->row_count - first;

	if (first >= forest->row_count)
		return forest->row_count;
	while (step < left && begins_before(forest, first + step - 1, time_ns))
		step = step > left / 2 ? left : step * 2;
	return find_between(forest, time_ns, first, first + step);
}
