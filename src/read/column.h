/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* column.h - rows with a time stamp in 12 to 16 bytes: what a trace keeps of its events.
 *
 * Invariants:  a column is a list of blocks of at most 4,096 rows; row number = block * 4,096 +
 *              place, only the last block is not full. A row starts with a u32: the low half of
 *              its time minus the block's base. Where the upper half changes, the block notes a
 *              carry, so any time is exact and sparse rows cost no block of their own. Full
 *              blocks lie in 1 MiB pages and never move.
 * Memory:      everything goes through struct ky_pages and its limit; released with the column.
 * Threads:     owner; any number of readers once loading is over.
 */
#ifndef KY_READ_COLUMN_H
#define KY_READ_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_BLOCK_ROWS 4096u
#define KY_BLOCK_ROWS_SHIFT 12
#define KY_PAGE_BYTES (1u << 20)

/* Counts every byte a trace holds and gives out blocks cut from 1 MiB pages. */
struct ky_pages {
	uint64_t bytes_used;
	uint64_t bytes_max;
	int failed; /* 0, -ENOMEM or KYMO_E_LIMIT: kept until the owner checks */
	void **pages;
	uint32_t page_count;
	uint32_t page_left; /* bytes not yet given out in the last page */
	void *free_blocks;  /* 64 KiB blocks given back */
};

struct ky_carry {
	uint32_t row;
	uint32_t high; /* upper half of (time - base) from this row on */
};

struct ky_block {
	uint64_t base_ns;
	uint8_t *rows;
	uint32_t capacity; /* rows; the first block of a column starts small */
	struct ky_carry *carries;
	uint32_t carry_count;
	uint32_t carry_capacity;
	uint32_t *extra; /* one u32 per row, where the column has them (delays of polls) */
	uint32_t extra_capacity;
};

struct ky_column {
	struct ky_pages *pages;
	struct ky_block *blocks;
	uint32_t block_count;
	uint32_t block_capacity;
	uint32_t row_bytes; /* 12 or 16 */
	bool has_extra;
	bool is_unsorted; /* a row was appended that is earlier than its predecessor */
	uint64_t last_ns;
	uint64_t row_count;
	/* Where the next row goes, while rows_left > 0 and its time is in [near_ns, + 2^32). */
	uint8_t *next_row;
	uint64_t near_ns;
	uint32_t rows_left;
};

void ky_pages_init(struct ky_pages *pages, uint64_t bytes_max);
void ky_pages_release(struct ky_pages *pages);

/* Plain zeroed memory under the same limit. NULL and pages->failed set when refused. */
void *ky_pages_alloc(struct ky_pages *pages, size_t bytes);
void ky_pages_free(struct ky_pages *pages, void *memory, size_t bytes);

/* Makes room for `needed` elements in a doubling array (*capacity elements of element_bytes); array
 * is the address of the pointer to it. Returns false with pages->failed set. */
bool ky_pages_array(struct ky_pages *pages, void *array, uint32_t *capacity, uint32_t needed,
		    size_t element_bytes);

void ky_column_init(struct ky_column *column, struct ky_pages *pages, uint32_t row_bytes);
void ky_column_release(struct ky_column *column);

/* A new row at time_ns: its memory, with the time stored. NULL and pages->failed set when
 * refused. */
void *ky_column_append_slow(struct ky_column *column, uint64_t time_ns);

static inline void *ky_column_append(struct ky_column *column, uint64_t time_ns)
{
	uint8_t *row = column->next_row;
	uint64_t delta = time_ns - column->near_ns;

	if (__builtin_expect(column->rows_left == 0 || delta > UINT32_MAX, 0))
		return ky_column_append_slow(column, time_ns);
	column->is_unsorted |= time_ns < column->last_ns;
	column->last_ns = time_ns;
	column->next_row = row + column->row_bytes;
	column->rows_left--;
	column->row_count++;
	*(uint32_t *)(void *)row = (uint32_t)delta;
	return row;
}

/* The row appended last, its time is last_ns; NULL: none. */
static inline void *ky_column_last(const struct ky_column *column)
{
	return column->row_count ? column->next_row - column->row_bytes : NULL;
}

/* Gives back the rows of a block that nothing will read again; the column can then only be
 * released. */
void ky_column_drop_block(struct ky_column *column, uint32_t block);

/* Stable sort by time: merges the ascending runs. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_column_sort(struct ky_column *column);

/* The u32 beside a row of a column with has_extra; 0 in a new row. */
static inline uint32_t *ky_column_extra(const struct ky_column *column, uint64_t row)
{
	return &column->blocks[row >> KY_BLOCK_ROWS_SHIFT].extra[row & (KY_BLOCK_ROWS - 1)];
}

/* Row and time by row number (< row_count). */
void *ky_column_row(const struct ky_column *column, uint64_t row);
uint64_t ky_column_time(const struct ky_column *column, uint64_t row);

/* First row at or after time_ns in a sorted column; row_count when there is none. */
uint64_t ky_column_find(const struct ky_column *column, uint64_t time_ns);

/* Walks a column from a row on. Returns false at the end. Cost: a few ns per row. */
struct ky_cursor {
	const struct ky_column *column;
	const uint8_t *at;
	uint64_t time_ns; /* of the current row */
	uint64_t base_ns; /* block base + carry */
	uint64_t row;
	uint32_t left; /* rows of this block after the current one */
	uint32_t block;
	uint32_t place;
	uint32_t carry;       /* the next one of the block */
	uint32_t carry_place; /* where it stands; UINT32_MAX: there is none */
	uint32_t *extra;      /* of the block's first row, where the column has them */
};
bool ky_cursor_begin(struct ky_cursor *cursor, const struct ky_column *column, uint64_t row);
bool ky_cursor_next_block(struct ky_cursor *cursor);
void ky_cursor_carry(struct ky_cursor *cursor);

static inline bool ky_cursor_next(struct ky_cursor *cursor)
{
	if (cursor->left == 0)
		return ky_cursor_next_block(cursor);
	cursor->left--;
	cursor->row++;
	cursor->place++;
	cursor->at += cursor->column->row_bytes;
	if (__builtin_expect(cursor->place == cursor->carry_place, 0))
		ky_cursor_carry(cursor);
	cursor->time_ns = cursor->base_ns + *(const uint32_t *)(const void *)cursor->at;
	return true;
}

#endif
