/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* beneath.h - a file below a directory that is open, through no symbolic link and no "..".
 *
 * Threads: any.
 */
#ifndef KY_SERVE_BENEATH_H
#define KY_SERVE_BENEATH_H

#include <stdint.h>
#include <sys/stat.h>

/* Opens a regular file for reading; *status: its own. A pipe or a device is never waited for.
 * Returns a descriptor; -errno; -EXDEV: the path leads out; -EINVAL: it is no regular file. */
int ky_beneath_open(int directory, const char *path, struct stat *status);

/* Names the file itself, whatever it is called and however it grows. */
uint64_t ky_beneath_identity(int directory, const char *name, const struct stat *status);

#endif
