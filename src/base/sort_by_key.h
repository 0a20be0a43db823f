/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* sort_by_key.h - records that begin with a number of 64 bits, by that number: fast where the
 * numbers lie close to each other, as addresses of one file do. Equal ones stay in their order.
 *
 * Threads: any.
 */
#ifndef KY_BASE_SORT_BY_KEY_H
#define KY_BASE_SORT_BY_KEY_H

#include <stdbool.h>
#include <stddef.h>

/* record_bytes: multiple of 8. Returns false when there is no memory for it: nothing has moved. */
bool ky_sort_by_key(void *records, size_t count, size_t record_bytes);

#endif
