/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* row_order.h - the polls or wakes of a trace by spawn place or by task: counted into place, never
 * compared, so that SQLite has nothing to sort.
 *
 * Invariants:  keys ascend as SQLite compares them (NULL, then text by bytes or ids as signed
 *              numbers); the rows of a key are by worker, then by time.
 * Memory:      4 bytes a row and 4 to 12 a key, until release.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_QUERY_ROW_ORDER_H
#define KY_QUERY_ROW_ORDER_H

#include <read/trace.h>

struct ky_row_order {
	uint32_t *rows;   /* numbers of rows over all workers: by worker, then by time */
	uint32_t *keys;   /* name or task indexes, KY_NONE first */
	uint32_t *begins; /* by key, in rows; one more at the end */
	uint32_t key_count, row_count;
};

/* The column of a worker with rows of that kind: enum ky_query_rows. */
const struct ky_column *ky_query_lane(const struct ky_worker *worker, uint8_t rows);
/* All of them; more than UINT32_MAX - 1 have no order. */
uint64_t ky_query_lane_rows(const struct ky_trace *trace, uint8_t rows);

/* key: KY_KEY_SITE or KY_KEY_TASK. Returns 0, -ENOMEM. */
int ky_row_order_make(struct ky_row_order *out, const struct ky_trace *trace, uint8_t rows,
		      uint32_t key);
void ky_row_order_release(struct ky_row_order *order);

/* Place in keys of a name or a task; key_count: it has no row. */
uint32_t ky_row_order_site(const struct ky_row_order *order, const struct ky_trace *trace,
			   const char *site);
uint32_t ky_row_order_task(const struct ky_row_order *order, const struct ky_trace *trace,
			   int64_t id);

#endif
