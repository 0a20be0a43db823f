/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unpack.h - the file of the page as a byte source: as it is, or through libzstd's decoder.
 *
 * Memory:  1 MiB of packed bytes, and what zstd's window needs (128 MiB at most).
 * Threads: owner.
 */
#ifndef KY_LANES_UNPACK_H
#define KY_LANES_UNPACK_H

#include <base/byte_source.h>

/* name has to live as long. Returns 0, -ENOMEM. */
int ky_unpack_open(struct ky_byte_source *out, uint64_t file_bytes, const char *name);

#endif
