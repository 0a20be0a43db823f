/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_end.h - how a process ended, as its ring reports it: written by the process that waited for
 * it, read by the process that makes a trace of the ring.
 * Threads: any. What is read comes from an untrusted image.
 */
#ifndef KY_RING_RING_END_H
#define KY_RING_RING_END_H

#include <ring/ring_finder.h>

#define KY_END_TEXT_BYTES 256u

/* A copy of what counts; kind KY_END_UNKNOWN: no process waited for it. */
struct ky_ring_ending {
	uint32_t kind; /* enum ky_end_kind */
	uint32_t code;
	uint32_t oom; /* enum ky_end_oom */
	bool has_core;
	bool has_crash; /* its own handler of a fatal signal left word */
	uint32_t crash_signal, crash_tid;
	uint64_t crash_address;
	bool is_closed; /* its recorder was closed in order */
	bool is_other_boot;
};

/* Run it inside ky_ring_guarded(). */
void ky_ring_ending_read(struct ky_ring_ending *out, const struct ky_open_ring *ring,
			 const struct ky_found_ring *found);

/* Of a process that was waited for. */
void ky_ring_ending_of(struct ky_ring_ending *out, int wait_status, uint32_t oom);

/* "signal 9 (SIGKILL), out of memory", "exit status 3", "unknown, no process waited for it", ...
 * Returns the length. */
size_t ky_ring_ending_text(const struct ky_ring_ending *ending, char *out, size_t out_bytes);

/* Did it end otherwise than it should? Exit status 0, an orderly close and "unknown" are none. */
bool ky_ring_ending_is_abnormal(const struct ky_ring_ending *ending);

/* Writes the end of a process that was waited for into its ring, through the file. wait_status as
 * of waitpid. Returns 0; -ENODATA: the ring has no side area; what
 * ky_write_within() returns. */
int ky_ring_end_write(int fd, uint64_t side_offset, uint64_t side_bytes, int wait_status,
		      uint32_t oom, uint64_t monotonic_ns);

#endif
