/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_end.h - how far a trace on disk reaches, and where its writer was killed inside a chunk.
 * Threads: any.
 */
#ifndef KY_EDIT_TRACE_END_H
#define KY_EDIT_TRACE_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Time of the last whole event below `path` (a file, or a run directory, whose newest segment
 * counts), and in which file it is, and which is the newest, of file_bytes each. 0: there is no
 * event. */
uint64_t ky_trace_end_ns(const char *path, char *file, char *newest, size_t file_bytes);

/* The same, as if `file`, one of those below `path`, ended at whole_bytes. */
uint64_t ky_trace_whole_ns(const char *path, const char *file, uint64_t whole_bytes);

/* Whether the file is a sequence of zstd frames, a chunk each, whose last one is not all there;
 * then where that one begins, and whether it is a chunk: not the table after all chunks, and not
 * too short to be recognised. */
bool ky_trace_is_torn(const char *file, uint64_t *whole_bytes, bool *is_chunk);

/* How many whole chunks at the end of the first whole_bytes of `file`, one of those below `path`,
 * end at last_ns. 0: what is not a sequence of zstd frames does not say. */
uint32_t ky_trace_chunks_at(const char *path, const char *file, uint64_t whole_bytes,
			    uint64_t last_ns);

#endif
