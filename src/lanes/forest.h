/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* forest.h - over rows in the order of their begins: the longest of any range of them, the one that
 * ends last, and the sum of their lengths, in logarithmic time. It is what makes the single worst
 * poll visible at every zoom: a range names a row, never an average.
 *
 * Invariants:  of equal rows the first counts. Rows are added once, in ascending order.
 * Memory:      32 bytes for every 16 rows, and a fifteenth of that above.
 * Threads:     owner while it is made; any number of readers afterwards.
 */
#ifndef KY_LANES_FOREST_H
#define KY_LANES_FOREST_H

#include <stdbool.h>
#include <stdint.h>

#define KY_FOREST_SHIFT 4
#define KY_FOREST_FAN (1u << KY_FOREST_SHIFT)
#define KY_FOREST_LEVELS 8u /* 16^8: all of 32 bits */

struct ky_forest_node {
	uint64_t longest_ns, end_ns, sum_ns;
	uint32_t longest, last; /* rows; UINT32_MAX: the node is empty */
};

/* Begin and length of a row. */
typedef void (*ky_forest_row_fn)(const void *ctx, uint32_t row, uint64_t *start_ns,
				 uint64_t *length_ns);

struct ky_forest {
	struct ky_forest_node *levels[KY_FOREST_LEVELS];
	uint32_t counts[KY_FOREST_LEVELS], capacities[KY_FOREST_LEVELS];
	uint32_t row_count;
	ky_forest_row_fn row;
	const void *ctx;
};

/* ctx of the rows has to live as long. */
void ky_forest_init(struct ky_forest *forest, ky_forest_row_fn row, const void *ctx);
void ky_forest_release(struct ky_forest *forest);

/* Before the first row: so many will come, so that what is added need not be moved. More may come.
 * Returns 0, -ENOMEM. */
int ky_forest_reserve(struct ky_forest *forest, uint32_t rows);
/* The next rows. Returns 0, -ENOMEM. */
int ky_forest_add(struct ky_forest *forest, const uint64_t *starts_ns, const uint64_t *lengths_ns,
		  uint32_t count);
/* After the last row: the levels above the first. Returns 0, -ENOMEM. */
int ky_forest_finish(struct ky_forest *forest);

/* Of rows [first, end); longest is UINT32_MAX where there is none. */
struct ky_forest_node ky_forest_range(const struct ky_forest *forest, uint32_t first, uint32_t end);

/* First row that begins at time_ns or later; of rows from `first` on, which is near. */
uint32_t ky_forest_find(const struct ky_forest *forest, uint64_t time_ns);
uint32_t ky_forest_find_from(const struct ky_forest *forest, uint64_t time_ns, uint32_t first);

#endif
