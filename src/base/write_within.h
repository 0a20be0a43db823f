/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* write_within.h - stores into a file at a place.
 * Threads: any.
 */
#ifndef KY_BASE_WRITE_WITHIN_H
#define KY_BASE_WRITE_WITHIN_H

#include <stddef.h>
#include <stdint.h>

/* Writes all of it. Returns 0; -errno; -ENOSPC. */
int ky_write_at(int fd, uint64_t at, const void *bytes, size_t count);

/* The same of a file that others can truncate, which never grows by it: all where the file as it is
 * now reaches so far, and else nothing. Also KYMO_E_TRUNCATED: it ends before at + count. */
int ky_write_within(int fd, uint64_t at, const void *bytes, size_t count);

#endif
