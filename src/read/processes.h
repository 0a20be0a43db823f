/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* processes.h - reports when what is read as one trace comes from more than one process: ids of
 * tasks, workers and threads then mean different things at different places.
 *
 * A process is known by its pid, start and boot id in SegmentMetadataEvent. Writers that say none
 * of them are distinguished by their clocks, file by file.
 * Threads: owner.
 */
#ifndef KY_READ_PROCESSES_H
#define KY_READ_PROCESSES_H

#include <stdbool.h>
#include <wire/trc_dec.h>

struct ky_process_key {
	char boot[40], pid[24], start[24]; /* as written, cut; "" not said */
};

/* Whose this SegmentMetadataEvent is. Returns false when it does not say. */
bool ky_process_key_read(struct ky_process_key *out, struct ky_trc_dec *dec,
			 const struct ky_frame *frame);

struct ky_processes {
	struct ky_process_key first;
	char first_name[256], clock_name[256];
	uint64_t clock_offset_ns; /* wall clock minus time stamp, of the first reading */
	uint32_t file, clock_file;
	bool has_first, has_clock, is_reported;
	char text[1024];
};

/* Any event of the input, in file order. name: of its file. Returns a sentence about the second
 * process, valid as long as *processes, once; else NULL. */
const char *ky_processes_event(struct ky_processes *processes, struct ky_trc_dec *dec,
			       const struct ky_frame *frame, uint32_t file, const char *name);

#endif
