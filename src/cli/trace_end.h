/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_end.h - how far a trace on disk reaches.
 * Threads: any.
 */
#ifndef KY_CLI_TRACE_END_H
#define KY_CLI_TRACE_END_H

#include <stdint.h>

/* Time of the last whole event below `path` (a file, or a run directory, whose newest segment
 * counts). 0: there is none. */
uint64_t ky_trace_end_ns(const char *path);

#endif
