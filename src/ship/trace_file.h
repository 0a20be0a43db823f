/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* trace_file.h - one process's whole trace in one file that the user named: no rotation.
 *
 * Invariants:  the file grows under its own name, chunk by chunk, so that it can be read meanwhile
 *              and holds every chunk so far if we are killed. It never exceeds bytes_max.
 * Names:       a trace that stood under the name is kept as NAME.old (an older trace NAME.old
 *              goes); an empty file is filled. Anything else there or as NAME.old is refused: only
 *              the first bytes count, and of a packed file those of the packing, because a host
 *              has nothing to unpack with. A further process of the same
 *              recording gets NAME with ".PID" before the ending, where a name that is taken is
 *              passed over: ".PID.2" and so on.
 * Errors:      a chunk that does not get through is dropped again and the file stays whole up to
 *              there; the next segment's start continues after it. At bytes_max every chunk is
 *              refused with KYMO_E_LIMIT but one that is a segment of its own, for which room is
 *              kept: it reports what is missing.
 * Threads:     owner.
 */
#ifndef KY_SHIP_TRACE_FILE_H
#define KY_SHIP_TRACE_FILE_H

#include <ship/compressor.h>
#include <stdbool.h>
#include <wire/chunk.h>

/* Kept free for the last word: 64 pairs of metadata and a report. */
#define KY_TRACE_FILE_RESERVE_BYTES (96u << 10)
#define KY_TRACE_FILE_BYTES_MIN (UINT64_C(1) << 20)

struct ky_trace_file;

struct ky_trace_file_options {
	const char *path;
	uint32_t further_pid; /* not 0: the name without it is another process's */
	const struct ky_compressor_factory *compressor;
	uint64_t bytes_max; /* 0: none; else at least KY_TRACE_FILE_BYTES_MIN */
};

struct ky_trace_file_stats {
	uint64_t bytes_raw, bytes_stored;
	bool is_full; /* bytes_max was reached */
	const char *path;
};

/* The compression a name says: "", ".zst" or ".gz" for one that ends in .trc or .bin, with .zst or
 * .gz after it or without, or in one of these alone; NULL: not the name of a trace file. */
const char *ky_trace_file_suffix(const char *path);

/* True when a file of this name would be packed in a way that we do not write (.xz, .bz2, .lz4,
 * .zstd ...), or has anything else after .trc: the user who gives it means a file, not a
 * directory. */
bool ky_trace_file_is_foreign(const char *path);

/* Can a trace be written under this name, as far as is known before? Returns 0; -EISDIR; -EINVAL:
 * no regular file; -EBUSY: another recorder writes it; -ENAMETOOLONG; KYMO_E_NOT_TRACE: a file that
 * is none stands there or as NAME.old; -errno of reading its first bytes. */
int ky_trace_file_check(const char *path);

/* Frees the name: a trace becomes NAME.old; an empty file goes, so that nothing never replaces what
 * NAME.old holds. Returns 0, also where nothing stands; as ky_trace_file_check(). */
int ky_trace_file_set_aside(const char *path);

/* Makes the directories above and the file. Returns 0; as ky_trace_file_check(); -errno; -ENOMEM.
 */
int ky_trace_file_open(struct ky_trace_file **out, const struct ky_trace_file_options *options);
/* Ends the compression and syncs; without a chunk the file goes. Returns 0, -errno. */
int ky_trace_file_close(struct ky_trace_file *file);

/* Returns 0; KYMO_E_LIMIT; -ENOENT: another process deleted the file, the next segment makes it
 * anew; -errno. */
int ky_trace_file_chunk(struct ky_trace_file *file, const struct ky_chunk *chunk);

void ky_trace_file_stats(const struct ky_trace_file *file, struct ky_trace_file_stats *out);

#endif
