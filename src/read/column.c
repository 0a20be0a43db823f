/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/alloc.h>
#include <errno.h>
#include <kymo/base.h>
#include <read/column.h>
#include <string.h>

#define BLOCK_BYTES (64u << 10) /* 4,096 rows of 16 bytes */
#define FIRST_ROWS 16u

void ky_pages_init(struct ky_pages *pages, uint64_t bytes_max)
{
	memset(pages, 0, sizeof(*pages));
	pages->bytes_max = bytes_max;
}

void ky_pages_release(struct ky_pages *pages)
{
	uint32_t i;

	for (i = 0; i < pages->page_count; i++)
		ky_free(pages->pages[i]);
	ky_free(pages->pages);
	memset(pages, 0, sizeof(*pages));
}

static bool pages_charge(struct ky_pages *pages, size_t bytes)
{
	if (bytes > pages->bytes_max || pages->bytes_used > pages->bytes_max - bytes) {
		pages->failed = KYMO_E_LIMIT;
		return false;
	}
	pages->bytes_used += bytes;
	return true;
}

void *ky_pages_alloc(struct ky_pages *pages, size_t bytes)
{
	void *memory;

	if (!pages_charge(pages, bytes))
		return NULL;
	memory = ky_alloc(bytes);
	if (!memory) {
		pages->bytes_used -= bytes;
		pages->failed = -ENOMEM;
	}
	return memory;
}

void ky_pages_free(struct ky_pages *pages, void *memory, size_t bytes)
{
	if (!memory)
		return;
	pages->bytes_used -= bytes;
	ky_free(memory);
}

static void *grow(struct ky_pages *pages, void *old, size_t old_bytes, size_t new_bytes)
{
	void *memory;

	if (!pages_charge(pages, new_bytes - old_bytes))
		return NULL;
	memory = ky_realloc(old, new_bytes);
	if (!memory) {
		pages->bytes_used -= new_bytes - old_bytes;
		pages->failed = -ENOMEM;
		return NULL;
	}
	memset((uint8_t *)memory + old_bytes, 0, new_bytes - old_bytes);
	return memory;
}

bool ky_pages_array(struct ky_pages *pages, void *array, uint32_t *capacity, uint32_t needed,
		    size_t element_bytes)
{
	uint64_t wanted = *capacity ? *capacity : 16;
	void *memory;

	if (needed <= *capacity)
		return true;
	while (wanted < needed)
		wanted *= 2;
	if (wanted > UINT32_MAX || wanted > SIZE_MAX / element_bytes) {
		pages->failed = KYMO_E_LIMIT;
		return false;
	}
	memcpy(&memory, array, sizeof(memory));
	memory = grow(pages, memory, *capacity * element_bytes, (size_t)wanted * element_bytes);
	if (!memory)
		return false;
	memcpy(array, &memory, sizeof(memory));
	*capacity = (uint32_t)wanted;
	return true;
}

static void *take_block(struct ky_pages *pages)
{
	void *block = pages->free_blocks;
	void **list;

	if (block) {
		memcpy(&pages->free_blocks, block, sizeof(void *));
		return block;
	}
	if (pages->page_left < BLOCK_BYTES) {
		list = ky_realloc(pages->pages, (pages->page_count + 1u) * sizeof(void *));
		if (!list) {
			pages->failed = -ENOMEM;
			return NULL;
		}
		pages->pages = list;
		list[pages->page_count] = ky_pages_alloc(pages, KY_PAGE_BYTES);
		if (!list[pages->page_count])
			return NULL;
		pages->page_count++;
		pages->page_left = KY_PAGE_BYTES;
	}
	block = (uint8_t *)pages->pages[pages->page_count - 1] + (KY_PAGE_BYTES - pages->page_left);
	pages->page_left -= BLOCK_BYTES;
	return block;
}

static void give_block(struct ky_pages *pages, void *block)
{
	memcpy(block, &pages->free_blocks, sizeof(void *));
	pages->free_blocks = block;
}

void ky_column_init(struct ky_column *column, struct ky_pages *pages, uint32_t row_bytes)
{
	memset(column, 0, sizeof(*column));
	column->pages = pages;
	column->row_bytes = row_bytes;
}

static void release_block(struct ky_column *column, struct ky_block *block)
{
	if (block->capacity == KY_BLOCK_ROWS)
		give_block(column->pages, block->rows);
	else
		ky_pages_free(column->pages, block->rows,
			      (size_t)block->capacity * column->row_bytes);
	ky_pages_free(column->pages, block->carries,
		      block->carry_capacity * sizeof(*block->carries));
	ky_pages_free(column->pages, block->extra, block->extra_capacity * sizeof(uint32_t));
	memset(block, 0, sizeof(*block));
}

void ky_column_drop_block(struct ky_column *column, uint32_t block)
{
	release_block(column, &column->blocks[block]);
}

void ky_column_release(struct ky_column *column)
{
	uint32_t i;

	if (!column->pages)
		return;
	for (i = 0; i < column->block_count; i++)
		release_block(column, &column->blocks[i]);
	ky_pages_free(column->pages, column->blocks,
		      column->block_capacity * sizeof(*column->blocks));
	column->blocks = NULL;
	column->block_count = 0;
	column->block_capacity = 0;
	column->row_count = 0;
	column->last_ns = 0;
	column->rows_left = 0;
	column->is_unsorted = false;
}

static bool grow_extra(struct ky_column *column, struct ky_block *block)
{
	return ky_pages_array(column->pages, &block->extra, &block->extra_capacity, block->capacity,
			      sizeof(*block->extra));
}

/* The first block grows to its full size by copying, so that ten thousand lanes with a few rows
 * each do not take 64 KiB apiece; from then on nothing moves. */
static bool grow_block(struct ky_column *column, struct ky_block *block)
{
	uint32_t wanted = block->capacity ? block->capacity * 8 : FIRST_ROWS;
	void *rows;

	if (column->block_count > 1 || wanted >= KY_BLOCK_ROWS) {
		rows = take_block(column->pages);
		if (!rows)
			return false;
		if (block->capacity) {
			memcpy(rows, block->rows, (size_t)block->capacity * column->row_bytes);
			ky_pages_free(column->pages, block->rows,
				      (size_t)block->capacity * column->row_bytes);
		}
		block->rows = rows;
		block->capacity = KY_BLOCK_ROWS;
		return true;
	}
	rows = grow(column->pages, block->rows, (size_t)block->capacity * column->row_bytes,
		    (size_t)wanted * column->row_bytes);
	if (!rows)
		return false;
	block->rows = rows;
	block->capacity = wanted;
	return true;
}

static struct ky_block *open_block(struct ky_column *column, uint64_t time_ns)
{
	struct ky_block *block;

	if (!ky_pages_array(column->pages, &column->blocks, &column->block_capacity,
			    column->block_count + 1, sizeof(*column->blocks)))
		return NULL;
	block = &column->blocks[column->block_count++];
	memset(block, 0, sizeof(*block));
	block->base_ns = time_ns;
	return block;
}

static bool add_carry(struct ky_column *column, struct ky_block *block, uint32_t place,
		      uint32_t high)
{
	if (!ky_pages_array(column->pages, &block->carries, &block->carry_capacity,
			    block->carry_count + 1, sizeof(*block->carries)))
		return false;
	block->carries[block->carry_count].row = place;
	block->carries[block->carry_count++].high = high;
	return true;
}

void *ky_column_append_slow(struct ky_column *column, uint64_t time_ns)
{
	uint32_t place = (uint32_t)(column->row_count & (KY_BLOCK_ROWS - 1)), high;
	struct ky_block *block;

	if (place == 0) {
		block = open_block(column, time_ns);
		if (!block)
			return NULL;
	} else {
		block = &column->blocks[column->block_count - 1];
	}
	if (place == block->capacity && !grow_block(column, block))
		return NULL;
	if (column->has_extra && block->extra_capacity < block->capacity &&
	    !grow_extra(column, block))
		return NULL;
	high = (uint32_t)((time_ns - block->base_ns) >> 32);
	if (high != (block->carry_count ? block->carries[block->carry_count - 1].high : 0) &&
	    !add_carry(column, block, place, high))
		return NULL;
	column->near_ns = block->base_ns + ((uint64_t)high << 32);
	column->next_row = block->rows + (size_t)place * column->row_bytes;
	column->rows_left = block->capacity - place;
	return ky_column_append(column, time_ns);
}

void *ky_column_row(const struct ky_column *column, uint64_t row)
{
	const struct ky_block *block = &column->blocks[row >> KY_BLOCK_ROWS_SHIFT];

	return block->rows + (size_t)(row & (KY_BLOCK_ROWS - 1)) * column->row_bytes;
}

/* Number of carries at or before a place. */
static uint32_t carries_until(const struct ky_block *block, uint32_t place)
{
	uint32_t low = 0, high = block->carry_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (block->carries[middle].row <= place)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t ky_column_time(const struct ky_column *column, uint64_t row)
{
	const struct ky_block *block = &column->blocks[row >> KY_BLOCK_ROWS_SHIFT];
	const uint32_t *words = ky_column_row(column, row);
	uint32_t carries = carries_until(block, (uint32_t)(row & (KY_BLOCK_ROWS - 1)));
	uint64_t base_ns = block->base_ns;

	if (carries > 0)
		base_ns += (uint64_t)block->carries[carries - 1].high << 32;
	return base_ns + words[0];
}

/* The last block whose first row is earlier; UINT32_MAX: there is none. */
static uint32_t last_before(const struct ky_column *column, uint64_t time_ns)
{
	uint32_t low = 0, high = column->block_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (column->blocks[middle].base_ns < time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

/* The first row of a block whose upper half is so much or more, of `count` rows. */
static uint32_t first_of_high(const struct ky_block *block, uint64_t wanted, uint32_t count)
{
	uint32_t low = 0, high = block->carry_count;

	if (!wanted)
		return 0;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (block->carries[middle].high < wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low < block->carry_count ? block->carries[low].row : count;
}

/* In a block the lower halves of one upper half ascend. */
uint64_t ky_column_find(const struct ky_column *column, uint64_t time_ns)
{
	uint32_t at = last_before(column, time_ns), low, high, count = KY_BLOCK_ROWS;
	const struct ky_block *block;
	uint64_t first, wanted;

	if (at == UINT32_MAX)
		return 0;
	block = &column->blocks[at];
	first = (uint64_t)at << KY_BLOCK_ROWS_SHIFT;
	if (column->row_count - first < count)
		count = (uint32_t)(column->row_count - first);
	wanted = time_ns - block->base_ns;
	low = first_of_high(block, wanted >> 32, count);
	high = first_of_high(block, (wanted >> 32) + 1, count);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const uint8_t *row = block->rows + (size_t)middle * column->row_bytes;

		if (*(const uint32_t *)(const void *)row < (uint32_t)wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return first + low;
}

static void find_carry(struct ky_cursor *cursor, const struct ky_block *block)
{
	cursor->carry_place = cursor->carry < block->carry_count ?
				      block->carries[cursor->carry].row :
				      UINT32_MAX;
}

void ky_cursor_carry(struct ky_cursor *cursor)
{
	const struct ky_block *block = &cursor->column->blocks[cursor->block];

	cursor->base_ns = block->base_ns + ((uint64_t)block->carries[cursor->carry].high << 32);
	cursor->carry++;
	find_carry(cursor, block);
}

bool ky_cursor_begin(struct ky_cursor *cursor, const struct ky_column *column, uint64_t row)
{
	const struct ky_block *block;
	uint64_t left;

	memset(cursor, 0, sizeof(*cursor));
	cursor->column = column;
	cursor->row = row;
	if (row >= column->row_count)
		return false;
	cursor->block = (uint32_t)(row >> KY_BLOCK_ROWS_SHIFT);
	cursor->place = (uint32_t)(row & (KY_BLOCK_ROWS - 1));
	block = &column->blocks[cursor->block];
	cursor->at = block->rows + (size_t)cursor->place * column->row_bytes;
	left = column->row_count - row - 1;
	if (left > KY_BLOCK_ROWS - 1 - cursor->place)
		left = KY_BLOCK_ROWS - 1 - cursor->place;
	cursor->left = (uint32_t)left;
	cursor->base_ns = block->base_ns;
	cursor->carry = carries_until(block, cursor->place);
	if (cursor->carry > 0) {
		cursor->carry--;
		ky_cursor_carry(cursor);
	} else {
		find_carry(cursor, block);
	}
	cursor->extra = block->extra;
	cursor->time_ns = cursor->base_ns + *(const uint32_t *)(const void *)cursor->at;
	return true;
}

bool ky_cursor_next_block(struct ky_cursor *cursor)
{
	return ky_cursor_begin(cursor, cursor->column, cursor->row + 1);
}

/* One ascending run of a column, as rows [at, end). */
struct run {
	struct ky_cursor cursor;
	uint64_t end;
};

struct merge {
	struct run *runs;
	uint32_t *heap; /* run numbers; the root is the earliest, ties by run number */
	uint32_t count;
};

static bool is_before(const struct merge *merge, uint32_t a, uint32_t b)
{
	uint64_t time_a = merge->runs[a].cursor.time_ns, time_b = merge->runs[b].cursor.time_ns;

	return time_a != time_b ? time_a < time_b : a < b;
}

static void sift_down(struct merge *merge, uint32_t at)
{
	for (;;) {
		uint32_t child = 2 * at + 1, moved = merge->heap[at];

		if (child >= merge->count)
			return;
		if (child + 1 < merge->count &&
		    is_before(merge, merge->heap[child + 1], merge->heap[child]))
			child++;
		if (!is_before(merge, merge->heap[child], moved))
			return;
		merge->heap[at] = merge->heap[child];
		merge->heap[child] = moved;
		at = child;
	}
}

static uint64_t count_runs(const struct ky_column *column)
{
	struct ky_cursor cursor;
	uint64_t runs = 1, last_ns;

	if (!ky_cursor_begin(&cursor, column, 0))
		return 0;
	last_ns = cursor.time_ns;
	while (ky_cursor_next(&cursor)) {
		if (cursor.time_ns < last_ns)
			runs++;
		last_ns = cursor.time_ns;
	}
	return runs;
}

static void find_runs(struct ky_column *column, struct merge *merge)
{
	struct ky_cursor cursor;
	uint64_t last_ns;

	ky_cursor_begin(&cursor, column, 0);
	merge->runs[merge->count++].cursor = cursor;
	last_ns = cursor.time_ns;
	while (ky_cursor_next(&cursor)) {
		if (cursor.time_ns < last_ns) {
			merge->runs[merge->count - 1].end = cursor.row;
			merge->runs[merge->count++].cursor = cursor;
		}
		last_ns = cursor.time_ns;
	}
	merge->runs[merge->count - 1].end = column->row_count;
}

static int merge_runs(struct merge *merge, struct ky_column *out)
{
	uint32_t i;

	for (i = 0; i < merge->count; i++)
		merge->heap[i] = i;
	for (i = merge->count / 2; i-- > 0;)
		sift_down(merge, i);
	while (merge->count > 0) {
		struct run *run = &merge->runs[merge->heap[0]];
		uint8_t *row = ky_column_append(out, run->cursor.time_ns);

		if (!row)
			return out->pages->failed;
		/* No run is empty, so there is a row. NOLINTNEXTLINE(clang-analyzer-core.*) */
		memcpy(row + 4, run->cursor.at + 4, out->row_bytes - 4);
		if (out->has_extra)
			*ky_column_extra(out, out->row_count - 1) = *ky_column_extra(
				run->cursor.column, run->cursor.row);
		if (!ky_cursor_next(&run->cursor) || run->cursor.row >= run->end)
			merge->heap[0] = merge->heap[--merge->count];
		sift_down(merge, 0);
	}
	return 0;
}

int ky_column_sort(struct ky_column *column)
{
	struct ky_column sorted;
	struct merge merge = {NULL, NULL, 0};
	uint64_t runs;
	int result;

	if (!column->is_unsorted)
		return 0;
	runs = count_runs(column);
	if (runs > UINT32_MAX / 2)
		return KYMO_E_LIMIT;
	ky_column_init(&sorted, column->pages, column->row_bytes);
	sorted.has_extra = column->has_extra;
	merge.runs = ky_pages_alloc(column->pages, runs * sizeof(*merge.runs));
	merge.heap = ky_pages_alloc(column->pages, runs * sizeof(*merge.heap));
	if (merge.runs && merge.heap) {
		find_runs(column, &merge);
		result = merge_runs(&merge, &sorted);
	} else {
		result = column->pages->failed;
	}
	ky_pages_free(column->pages, merge.runs, runs * sizeof(*merge.runs));
	ky_pages_free(column->pages, merge.heap, runs * sizeof(*merge.heap));
	if (result == 0) {
		ky_column_release(column);
		*column = sorted;
	} else {
		ky_column_release(&sorted);
	}
	return result;
}
