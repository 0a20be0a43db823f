/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* status_directory.h - where the library in CMD reports to `kymo run` what it found: a directory a
 * run, beside the rings, removed with the run, or by a later one when its own was killed.
 *
 * Invariants: the process that made it holds a lock on it as long as it lives, whatever its pid and
 *             pid namespace; removed is only what has our name's shape, belongs to us and is locked
 *             by no process, and of what is in it only PID.status files.
 * Threads:    owner.
 */
#ifndef KY_RING_STATUS_DIRECTORY_H
#define KY_RING_STATUS_DIRECTORY_H

#include <stddef.h>
#include <stdint.h>

/* path: gets the new directory's. Returns a descriptor that holds the lock, -errno. */
int ky_status_directory_open(const char *ring_directory, char *path, size_t path_bytes);
void ky_status_directory_close(const char *path, int fd);

/* Removes those that killed runs left. ring_directory: NULL for KYMO_RING_DIR and
 * /dev/shm/kymo-UID. Returns how many. */
uint32_t ky_status_directory_sweep(const char *ring_directory);

#endif
