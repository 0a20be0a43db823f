/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* proc_map.h - /proc/PID/maps: its text, and one line of it.
 * Threads: any.
 */
#ifndef KY_PROC_PROC_MAP_H
#define KY_PROC_PROC_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ky_proc_map {
	uint64_t start, end, offset;
	uint64_t device, inode; /* as stat() reports them */
	bool is_writable, is_code, is_shared;
	char *path; /* in the line, writable if that is; "" none, "[heap]", "/a b (deleted)" */
	size_t path_bytes;
};

/* line: up to a line break or a NUL, and so is the path. Returns false for what is none, a damaged
 * one for instance. */
bool ky_proc_map_parse(struct ky_proc_map *out, const char *line);

/* The text, NUL-terminated, for ky_free(). NULL: *err is -errno; -ESRCH of a process in the middle
 * of its end, which has no mappings any more. */
char *ky_proc_maps_read(uint32_t pid, int *err);

#endif
