/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* segment_walk.h - the sealed segments below a directory of traces, run by run, oldest first.
 *
 * path: a directory of services (what `kymo run -o` writes), of a service's runs, or a run.
 * Only what store.h describes is seen: a run has our marker, a segment the shape of its name; links
 * are not followed. What a killed recorder left as .active is sealed first: it got as far as it
 * got.
 * Memory:  the names of one run at a time.
 * Threads: owner.
 */
#ifndef KY_SEND_SEGMENT_WALK_H
#define KY_SEND_SEGMENT_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ky_walk_segment {
	const char *name; /* valid as long as the run is */
	uint64_t number, bytes;
};

struct ky_walk_run {
	const char *path;          /* of the run's directory */
	const char *service, *run; /* "": of dumps, whose names say it */
	int fd;                    /* of the directory */
	const struct ky_walk_segment *segments;
	uint32_t segment_count;
	uint32_t owner_pid; /* who records into it now; 0: nothing does */
};

/* Returns false to end the walk. */
typedef bool (*ky_walk_run_fn)(void *ctx, const struct ky_walk_run *run);

/* Returns 0; -errno of path itself; -ENOMEM; -ENAMETOOLONG; -ENOENT: no run is below it. */
int ky_segment_walk(const char *path, ky_walk_run_fn each, void *ctx);

/* The dumps in a directory, as one run, by name; or one file, whatever its name. Returns 0;
 * -ENOENT: there is none; -ENOMEM; -errno of path; -EINVAL: no list can hold the file's name. */
int ky_dump_walk(const char *path, ky_walk_run_fn each, void *ctx);

/* Changes when a file of a run appears, is sealed or is deleted. Cost: two system calls a run. */
uint64_t ky_segment_walk_stamp(const char *path);

#endif
