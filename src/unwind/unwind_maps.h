/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_maps.h - the code that a process has mapped, and its bytes: from the file, or, where there
 * is none that can be had (the vDSO, replaced or foreign files), from the process's memory.
 *
 * Threads:     owner.
 */
#ifndef KY_UNWIND_UNWIND_MAPS_H
#define KY_UNWIND_UNWIND_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ky_unwind_mapping {
	uint64_t start, end, offset;
	uint64_t device, inode; /* 0, 0: the vDSO */
	uint64_t image;         /* where the file's first byte is mapped; 0: nowhere */
	const char *path;
	size_t path_bytes;
};

/* The next executable mapping of a file in the text of ky_proc_maps_read(); *at moves on. False: no
 * more. */
struct ky_unwind_maps {
	const char *at;
	uint64_t device, inode, image; /* of the file that the last lines were of */
};
bool ky_unwind_maps_next(struct ky_unwind_maps *maps, struct ky_unwind_mapping *out);

/* Its file, by inode: another file may have its name by now. -1: not to be had. */
int ky_unwind_mapping_open(uint32_t pid, const struct ky_unwind_mapping *mapping);

/* What distinguishes a file from a later one of the same number; zeros for -1. */
void ky_unwind_file_times(int fd, uint64_t *bytes, uint64_t *modified_ns);

/* ky_unwind_read_fn. ctx: a descriptor; a process id. */
size_t ky_unwind_read_file(void *ctx, uint64_t at, void *out, size_t bytes);
size_t ky_unwind_read_process(void *ctx, uint64_t at, void *out, size_t bytes);

#endif
