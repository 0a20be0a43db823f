/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* borders.h - where in the time of a trace one process ends and another continues, so that nothing
 * is measured from one into the other: their tasks have the same numbers.
 *
 * Invariants: a file that says of itself two processes, and the time in which files of two overlap,
 *             are border all along. Where a trace is of one process there is none.
 * Threads:    owner.
 */
#ifndef KY_READ_BORDERS_H
#define KY_READ_BORDERS_H

#include <read/load.h>

/* The file that is read says whose it is. Returns false when memory is out. */
bool ky_borders_note(struct ky_load *load, const struct ky_frame *metadata);

/* When all files are read. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_borders_make(struct ky_trace *trace);

/* Does this stretch of time reach over a border, or touch one that is wide? */
bool ky_borders_cross(const struct ky_trace *trace, uint64_t from_ns, uint64_t to_ns);

#endif
