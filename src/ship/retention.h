/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* retention.h - which files below a service's directory are segments of ours, and deleting the
 * oldest.
 *
 * Invariants:  a file counts only with all of: a run directory (no link) of the run name's
 *              shape, with our marker in it; a regular file (no link) of a segment name's
 *              shape. It is deleted only when its first bytes are those of its kind, too.
 *              Everything else is never touched. Threads: owner.
 */
#ifndef KY_SHIP_RETENTION_H
#define KY_SHIP_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#define KY_RUN_MARKER ".kymo-run"
#define KY_RUN_MARKER_TEXT "kymo run directory, version 1\n"
#define KY_RUN_LOCK ".lock"

struct ky_retention {
	uint64_t total_bytes; /* left after the call, .active files included */
	uint64_t deleted_count;
	uint64_t deleted_bytes;
	uint64_t unsent_count; /* ... of them, that a destination does not have (sent_list.h) */
	uint64_t unsent_bytes;
};

/* Deletes the oldest segments below the directory until total_bytes <= bytes_max, or nothing
 * deletable is left. The newest segment of run `keep_run` stays, and so does a segment that a
 * living recorder still writes. Returns 0, -errno, -ENOMEM. */
int ky_retention_apply(int service_fd, const char *keep_run, uint64_t bytes_max,
		       struct ky_retention *out);

/* [DATE-]BOOTID8-PID-START, DATE such as 2026-05-18T12-30-00 */
bool ky_retention_is_run_name(const char *name);

/* What follows the date in a run's name. */
const char *ky_retention_run_process(const char *name);

/* NNNNNN.trc[.zst|.gz][.active]; *number and *is_active filled. */
bool ky_retention_is_segment_name(const char *name, uint64_t *number, bool *is_active);

#endif
