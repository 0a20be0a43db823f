/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* buf.h - the one growing byte array.
 *
 * Invariants:  used <= capacity <= bytes_max; after a failed append the content is unchanged and
 *              `failed` keeps the first error, so a sequence of appends is checked once at its end.
 * Memory:      ky_alloc; released by ky_buf_release.
 * Threads:     owner.
 */
#ifndef KY_BASE_BUF_H
#define KY_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct ky_buf {
	uint8_t *bytes;
	size_t used;
	size_t capacity;
	size_t bytes_max; /* 0: 1 GiB */
	int failed;       /* 0, -ENOMEM or KYMO_E_LIMIT */
};

void ky_buf_init(struct ky_buf *buf, size_t bytes_max);
void ky_buf_release(struct ky_buf *buf);
void ky_buf_clear(struct ky_buf *buf); /* used = 0, failed = 0; keeps the memory */

/* Room for `count` more bytes. Returns 0, -ENOMEM, KYMO_E_LIMIT (also kept in failed). */
int ky_buf_reserve(struct ky_buf *buf, size_t count);
int ky_buf_append(struct ky_buf *buf, const void *bytes, size_t count);

#endif
