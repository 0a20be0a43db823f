/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* store.h - segments on disk: temporary name, fsync, rename, rotation, bounded total.
 *
 * Layout:  DIR/SERVICE/RUN/NNNNNN.trc[.zst|.gz]    sealed segment
 *          DIR/SERVICE/RUN/NNNNNN.trc[...].active  being written
 *          DIR/SERVICE/RUN/.lock                   flock held while recording, by this pid
 *          DIR/SERVICE/RUN/.sent-...               what a destination has (sent_list.h)
 *          DIR/SERVICE/latest                      link to the run that began last (latest.h)
 * RUN is DATE-BOOTID8-PID-START, DATE in UTC. A process has one: a later recorder of it takes the
 * directory that is there.
 * Retention counts bytes on disk of all sealed segments below DIR/SERVICE, earlier runs
 * included, and deletes the oldest first; it deletes only files of this exact shape that start
 * with our own bytes, and only in run directories that kymo made (a .kymo-run marker). The .active
 * file of a run that no process locks any more is one of them.
 *
 * Single file: with `file` none of this holds but what ship/trace_file.h says; there is no run
 * directory, no rotation, and total_bytes_max bounds the file (0: nothing does).
 *
 * Errors: disk full or a vanished directory never stop recording: the chunk is refused (the drain
 * counts it lost), the segment is sealed as far as it got, and a new one is tried at most once
 * a second. Threads: owner.
 */
#ifndef KY_SHIP_STORE_H
#define KY_SHIP_STORE_H

#include <ship/compressor.h>
#include <ship/trace_file.h>
#include <stdbool.h>
#include <wire/chunk.h>

/* Of its name, with the zero. Service, run and segment come after it in paths of 512 bytes. */
#define KY_STORE_DIRECTORY_BYTES 328u

struct ky_store;

struct ky_store_options {
	const char *file; /* NULL: directory, service and run; its name must fit the compressor */
	uint32_t file_further_pid; /* not 0: another process's file has that name */
	const char *directory;
	const char *service;      /* sanitised to [A-Za-z0-9._-] */
	const char *run;          /* "BOOTID8-PID-START"; ky_store_run_name() makes it */
	uint64_t started_unix_ns; /* for the date of a new run's directory; 0: it has none */
	const struct ky_compressor_factory *compressor;
	uint64_t segment_bytes_max;  /* raw; 0: 64 MiB */
	uint64_t rotate_interval_ns; /* 0: 60 s */
	uint64_t total_bytes_max;    /* on disk; 0: 1 GiB */
	char *errbuf;
	size_t errbuf_bytes;
};

/* Writes "BOOTID8-PID-START" of a process; out_bytes >= 64. */
void ky_store_run_name(char *out, size_t out_bytes, const char *boot_id, uint32_t pid,
		       uint64_t start_time_ticks);

/* Makes the directories, takes the run's lock, applies the bound.
 * Returns 0; -EBUSY: another process records into this run; -EINVAL; -ENAMETOOLONG; -errno;
 * -ENOMEM. */
int ky_store_open(struct ky_store **out, const struct ky_store_options *options);
void ky_store_close(struct ky_store *store); /* seals what is open */

/* A ky_chunk_fn: ctx is the store. Seals by itself after chunk.is_segment_end. Time is the
 * chunks' own: after an error the next try comes once a chunk ends a second later. */
int ky_store_chunk(void *ctx, const struct ky_chunk *chunk);

/* True when size or age ask for a new segment after one of so many raw bytes that began then: the
 * owner calls ky_drain_seal(). Threads: any. */
bool ky_store_is_over(const struct ky_store *store, uint64_t raw_bytes, uint64_t first_ns,
		      uint64_t now_ns);

struct ky_store_stats {
	uint64_t segments_sealed, bytes_raw, bytes_stored, segments_deleted, bytes_deleted;
	uint64_t segments_unsent, bytes_unsent; /* deleted, and a destination does not have them */
	int last_error;
	int latest_error;        /* why there is no link `latest` to this run; 0: there is */
	bool is_full;            /* the single file has reached its bound */
	char last_path[512];     /* last sealed segment */
	char run_directory[512]; /* or the single file */
};
void ky_store_stats(const struct ky_store *store, struct ky_store_stats *out);

#endif
