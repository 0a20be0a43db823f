/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* input_processes.h - which of the traces are of which process, so that those of one are read
 * together and those of several one after the other: their ids are alike.
 *
 * Invariants: a file belongs to the process that its first SegmentMetadataEvent names. Files that
 *             name none are of the process that the others name when that is one alone, else of
 *             one of their own, or of several where their clocks are of different boots.
 * Threads:    owner.
 */
#ifndef KY_EDIT_INPUT_PROCESSES_H
#define KY_EDIT_INPUT_PROCESSES_H

#include <base/buf.h>
#include <edit/input.h>
#include <read/processes.h>

#define KY_INPUT_SERVICE_BYTES 64u

struct ky_input_process {
	struct ky_process_key key; /* pid "": its files do not name it */
	char service[KY_INPUT_SERVICE_BYTES], host[KY_INPUT_SERVICE_BYTES];
	uint64_t clock_offset_ns; /* wall clock minus time stamp; where is_clocked */
	bool is_clocked;
	size_t first, count; /* of input->opened */
};

/* Sorts the sources of an open input by process, and leaves those of input->pid, service and host
 * where they are given.
 * Returns 0, or a negative error with its sentence in input->error. */
int ky_input_processes_find(struct ky_input *input);

/* From here on the input is that process alone. */
void ky_input_processes_choose(struct ky_input *input, size_t process);

/* "pid 230 of web (boot 0a1b2c3d)": as much as tells it from the others. */
void ky_input_processes_name(struct ky_buf *out, const struct ky_input *input, size_t process);

/* "2 processes, whose ...: pid 230 of web, pid 267 of web": the input is of more than one. */
void ky_input_processes_list(struct ky_buf *out, const struct ky_input *input);

#endif
