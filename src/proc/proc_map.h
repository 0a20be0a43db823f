/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* proc_map.h - one line of /proc/PID/maps.
 * Pure. Threads: any.
 */
#ifndef KY_PROC_PROC_MAP_H
#define KY_PROC_PROC_MAP_H

#include <stdbool.h>
#include <stdint.h>

struct ky_proc_map {
	uint64_t start, end, offset;
	uint64_t device, inode; /* as stat() tells them */
	bool is_writable, is_code, is_shared;
	char *path; /* in the line; "" none, "[heap]", "/a b (deleted)" */
};

/* line: without its line break. Returns false for what is none, a damaged one for instance. */
bool ky_proc_map_parse(struct ky_proc_map *out, char *line);

#endif
