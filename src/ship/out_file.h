/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* out_file.h - a file that appears under its name only when it is whole: temporary name beside it,
 * fsync, rename. "-" is standard output. A signal that ends the process leaves no temporary file.
 *
 * With may_replace a symbolic link leads to what it names, which is replaced and the link stays; a
 * device or a FIFO is written to as it stands. A new file is its owner's alone, because traces hold
 * names; one that is replaced passes on its mode, and its owner where the system lets it.
 * A trace is called NAME.active meanwhile, as segments are, and a signal leaves it: readers take
 * it.
 * Threads: owner.
 */
#ifndef KY_SHIP_OUT_FILE_H
#define KY_SHIP_OUT_FILE_H

#include <stdbool.h>
#include <ship/disk.h>
#include <stddef.h>
#include <stdint.h>

struct ky_out_file {
	int fd;
	struct ky_fd_identity is;
	char *path, *temporary; /* NULL: standard output, a device, a FIFO */
	bool may_replace;
	bool is_trace, sets_aside; /* of ky_out_file_open_trace() */
	uint64_t bytes;
};

/* Returns 0; -EEXIST: the name is taken and may_replace is false; -EINVAL: neither file nor device
 * nor FIFO; -ENOENT: no directory, or a link that leads nowhere; -errno. */
int ky_out_file_open(struct ky_out_file *file, const char *path, bool may_replace);
/* Writes to a descriptor, which stays the caller's. Returns 0, -errno. */
int ky_out_file_open_fd(struct ky_out_file *file, int fd);
/* A trace that grows. An earlier one of that name becomes NAME.old when this one is committed
 * (trace_file.h); without sets_aside the name must be free now. Makes the directories above, uses
 * no system call that a store does not use. Returns 0;
 * -EEXIST: the name, or NAME.active, is taken; as ky_trace_file_check(); -errno. */
int ky_out_file_open_trace(struct ky_out_file *file, const char *path, bool sets_aside);
/* A ky_write_fn: ctx is the file. */
int ky_out_file_write(void *ctx, const uint8_t *bytes, size_t count);
/* Gives it its name. Returns 0, -EEXIST, as ky_trace_file_check(), -errno; then nothing remains of
 * it. */
int ky_out_file_commit(struct ky_out_file *file);
/* Leaves nothing; also after commit. */
void ky_out_file_abort(struct ky_out_file *file);

#endif
