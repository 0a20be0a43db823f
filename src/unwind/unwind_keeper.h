/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unwind_keeper.h - keeps the unwind area of a ring file as the process is mapped: builds tables of
 * what has come, from the files or from the process's own memory, and takes out what has gone.
 *
 * Waits for no lock of the process. A file's tables are made once and stay, however often it comes
 * and goes. Between two readings code may lie where other code was: see ky_unwind_keeper_scan().
 * Memory:      some 400 KiB and the text of the process's map, whatever the size of its files.
 * Threads:     owner; at low priority, for large files take a while.
 */
#ifndef KY_UNWIND_UNWIND_KEEPER_H
#define KY_UNWIND_UNWIND_KEEPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unwind/unwind_build.h>

struct ky_unwind_keeper;

/* Where the area is. write: makes the pages exist, or fails; what it wrote is seen by others in the
 * order of the calls, 8 aligned bytes at once. */
struct ky_unwind_target {
	uint32_t pid;
	uint64_t area_bytes;
	ky_unwind_write_fn write;
	void *ctx;
	/* The name of a file, which stays: its tables, and the program's, are made by a reading of
	 * their own, so that they are there soon. NULL: all at once. */
	const char *early;
};

struct ky_unwind_stats {
	uint32_t module_count;  /* mapped now, with tables */
	uint32_t file_count;    /* built so far */
	uint32_t refused_count; /* mapped now, without: no information, or no room */
	uint64_t used_bytes;
	uint64_t row_count;
	uint64_t function_count, unknown_count;
	uint64_t build_ns; /* of the CPU */
	int last_error;
};

/* Returns 0, and the head is there, for the caller to announce (ky_ring_header.unwind_ready);
 * -ENOMEM; what `write` returned: there is no area then. */
int ky_unwind_keeper_open(struct ky_unwind_keeper **out, const struct ky_unwind_target *target);
void ky_unwind_keeper_close(struct ky_unwind_keeper *keeper); /* NULL: no-op */

/* A reading of what is mapped. Returns how many modules came or went; -errno: not readable, nothing
 * is changed. */
int ky_unwind_keeper_scan(struct ky_unwind_keeper *keeper);

/* The next reading makes more, also where nothing has changed. */
bool ky_unwind_keeper_is_behind(const struct ky_unwind_keeper *keeper);

void ky_unwind_keeper_stats(const struct ky_unwind_keeper *keeper, struct ky_unwind_stats *out);

#endif
