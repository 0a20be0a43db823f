/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* named_dump.h - a dump of another process's ring, as the program kymo makes it: with names of
 * code, under the guard, with at least one record. What its file is called.
 *
 * Threads: one at a time in the process (ring_guard.h).
 */
#ifndef KY_AGENT_NAMED_DUMP_H
#define KY_AGENT_NAMED_DUMP_H

#include <agent/dump_writer.h>

#define KY_DUMP_NAME_BYTES 160u /* of what is chosen in a directory, with its "/" */

/* As ky_dump_write(): sets the image, the names and what a dump of `ring` needs. */
int ky_dump_write_named(struct ky_dump_job *job, const struct ky_open_ring *ring);

/* SERVICE-PID-20260518T123000Z with the ending of `compressor` in `directory` ("": here). */
void ky_dump_name(char *out, size_t out_bytes, const char *directory, const char *service,
		  uint32_t pid, uint64_t unix_ns, const struct ky_compressor_factory *compressor);

/* The compression a file's name asks for, zstd where it says nothing. Returns 0; -EINVAL: the name
 * is no trace's (.trc, .trc.zst, .trc.gz), or contradicts what --compress asked for. */
int ky_dump_choose_compressor(const char *path, bool has_compressor,
			      struct ky_compressor_factory *compressor);

#endif
