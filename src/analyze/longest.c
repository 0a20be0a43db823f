/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <analyze/longest.h>

#include <base/alloc.h>
#include <read/sort.h>

#define ROWS_FIRST 1024u

static bool is_longer(const void *first, const void *second, const void *ctx)
{
	const struct ky_long_row *a = first, *b = second;

	(void)ctx;
	if (a->length_ns != b->length_ns)
		return a->length_ns > b->length_ns;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns;
	return a->worker != b->worker ? a->worker < b->worker : a->row < b->row;
}

/* Of twice as many as are wanted the shorter half goes. */
void ky_longest_finish(struct ky_longest *list)
{
	ky_sort(list->rows, list->count, sizeof(*list->rows), is_longer, NULL);
	if (list->count > list->max)
		list->count = list->max;
	if (list->count && list->count == list->max)
		list->least_ns = list->rows[list->max - 1].length_ns;
}

bool ky_longest_add(struct ky_longest *list, const struct ky_poll *poll, uint64_t row,
		    uint64_t length_ns)
{
	if (length_ns < list->least_ns)
		return true;
	if (list->count == 2 * list->max)
		ky_longest_finish(list);
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : ROWS_FIRST;
		struct ky_long_row *rows = ky_realloc(list->rows, capacity * sizeof(*rows));

		if (!rows)
			return false;
		list->rows = rows;
		list->capacity = capacity;
	}
	list->rows[list->count++] = (struct ky_long_row){length_ns, poll->start_ns, row,
							 poll->worker};
	return true;
}

void ky_longest_release(struct ky_longest *list)
{
	ky_free(list->rows);
	*list = (struct ky_longest){0};
}
