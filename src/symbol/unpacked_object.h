/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unpacked_object.h - a file with compressed debug information as one without: in a file that has
 * no name, below TMPDIR or /var/tmp, so that a reader maps it and has the pages in memory that it
 * looks at, where it would hold each section whole.
 *
 * Code and data of the program are left out (zeros stand there): names and lines need none of it.
 * Invariants:  the file is untrusted; ky_object_read_fd() has called it sane. Not more than
 *              bytes_max are written.
 * Memory:      128 KiB and the section headers while it works.
 * Threads:     any.
 */
#ifndef KY_SYMBOL_UNPACKED_OBJECT_H
#define KY_SYMBOL_UNPACKED_OBJECT_H

#include <stdint.h>

/* Does not take the descriptor. Returns another one, the caller's; -ENOENT: there is nothing that
 * is unpacked here (also where the file needs its neighbours: .gnu_debugaltlink); KYMO_E_CORRUPT;
 * KYMO_E_LIMIT; -ENOMEM; -errno of the disk. */
int ky_unpacked_object_open(int fd, uint64_t bytes_max);

#endif
