/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* disk_room.h - what a failed write means to the user who has to mend it.
 * Threads: any.
 */
#ifndef KY_SHIP_DISK_ROOM_H
#define KY_SHIP_DISK_ROOM_H

#include <stdbool.h>
#include <stddef.h>

#define KY_DISK_ROOM_BYTES 768u

/* True for errors that room on a file system would mend. */
bool ky_disk_room_is_missing(int err);

/* The error's text; where room is missing, also which file system has none (or no inode left) and
 * how large it is. path: what was to be written, which need not exist. Returns out, which has
 * KY_DISK_ROOM_BYTES. */
const char *ky_disk_room_text(char *out, const char *path, int err);

#endif
