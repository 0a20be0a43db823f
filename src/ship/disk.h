/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* disk.h - what everything that writes traces to disk needs.
 * Threads: any.
 */
#ifndef KY_SHIP_DISK_H
#define KY_SHIP_DISK_H

#include <base/kept_fd.h>
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>

#define KY_DISK_FILE_MODE 0600
#define KY_DISK_DIRECTORY_MODE 0700
#define KY_DISK_PATH_BYTES 512u /* with its terminating zero */

/* Makes the directory and those above it. Returns 0, -ENAMETOOLONG from KY_DISK_PATH_BYTES on,
 * -errno. */
int ky_disk_make_path(const char *path);
/* The same for the directory that a file of this path lies in. */
int ky_disk_make_parent(const char *path);
/* Makes a new name in that directory durable. Returns 0, also where the directory cannot be opened
 * or its file system cannot do that; -errno. */
int ky_disk_sync_parent(const char *path);
/* Returns 0; -errno, with part of it written perhaps. */
int ky_disk_write_all(int fd, const uint8_t *bytes, size_t count);
void ky_disk_close(int *fd); /* *fd is -1 then, and may be before */

/* The same as ky_disk_close() where it is this file still: the program that we are part of may
 * close all descriptors, as one that becomes a daemon does, and the number be its own file's then.
 * That one must not be written to, cut, or closed. */
void ky_disk_close_own(int *fd, const struct ky_fd_identity *identity);

/* What is in a directory of that one, "." itself; closedir() ends it. NULL: it is none, or cannot
 * be read. */
DIR *ky_disk_list(int parent_fd, const char *name);

#endif
