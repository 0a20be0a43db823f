/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_paths.h - which files a person means who names files and directories.
 *
 * A file named outright is taken as it is. Below a directory every file that holds a trace is
 * taken, in natural order (9 before 10), at any depth, symbolic links followed; files that hold
 * none are counted and the first of them is remembered; names that start with a dot are passed
 * over.
 * Threads: owner.
 */
#ifndef KY_SHIP_TRACE_PATHS_H
#define KY_SHIP_TRACE_PATHS_H

#include <ship/inflate.h>
#include <stddef.h>
#include <stdint.h>

#define KY_TRACE_PATHS_MAX (1u << 20)

struct ky_trace_paths {
	char **paths;
	uint32_t count, capacity;
	uint64_t foreign_count;    /* files below directories that hold no trace */
	char *foreign_first;       /* NULL: none */
	uint64_t unreadable_count; /* could not be opened or listed */
	char *unreadable_first;
};

/* Adds what `path` stands for.
 *
 * Returns  0; -errno of the path itself; KYMO_E_NOT_TRACE: a directory without a trace;
 *          KYMO_E_LIMIT. error: NULL or one sentence.
 */
int ky_trace_paths_add(struct ky_trace_paths *list, const char *path,
		       const struct ky_inflate_options *options, char *error, size_t error_bytes);
void ky_trace_paths_release(struct ky_trace_paths *list);

#endif
