/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* time_order.h - the polls and wakes of all workers by time, some thousand rows at once.
 *
 * Invariants:  of equal times a wake comes before the poll that it may have caused, unless the task
 *              woke itself; then the feed that was added first. Rows of a feed keep their order.
 * Reading:     a batch is all rows of a piece of time, sorted by digits of their time. That is
 *              faster than to compare the next rows of all feeds for each row: there each step
 *              waits for the one before it.
 * Memory:      some 256 KiB and 200 bytes a feed; more where more rows have the very same time.
 * Threads:     owner.
 */
#ifndef KY_READ_TIME_ORDER_H
#define KY_READ_TIME_ORDER_H

#include <read/column.h>

struct ky_ordered_row {
	uint64_t key;  /* within the batch, ascending */
	uint32_t feed; /* whose next row it is */
	uint32_t task; /* that is polled, or woken */
};

struct ky_order_feed {
	struct ky_cursor next; /* the first row that is in no batch */
	struct ky_cursor tried;
	bool is_poll;
	bool has_ended, has_tried_all;
};

struct ky_time_order {
	struct ky_pages *pages;
	struct ky_order_feed *feeds;
	uint32_t feed_count, feed_capacity;
	struct ky_ordered_row *rows, *spare; /* the batch: rows[0 .. count) */
	uint32_t count, capacity;
	uint32_t *places; /* of digits */
	uint64_t from_ns, width_ns;
	uint64_t key_bits; /* at least those of the last key */
};

void ky_time_order_init(struct ky_time_order *order, struct ky_pages *pages);
void ky_time_order_release(struct ky_time_order *order);

/* A sorted column of struct ky_poll_row or struct ky_wake_row; without rows it is none. Returns
 * false with pages->failed set. */
bool ky_time_order_add(struct ky_time_order *order, const struct ky_column *column, bool is_poll);

/* The next batch. Returns 1; 0: there is none; negative: pages->failed. */
int ky_time_order_next(struct ky_time_order *order);

#endif
