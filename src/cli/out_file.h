/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* out_file.h - a file that appears under its name only when it is whole: temporary name beside it,
 * fsync, rename. "-" is standard output.
 * Threads: owner.
 */
#ifndef KY_CLI_OUT_FILE_H
#define KY_CLI_OUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ky_out_file {
	int fd;
	char *path, *temporary; /* NULL: standard output */
	bool may_replace;
	uint64_t bytes;
};

/* Returns 0; -EEXIST: the name is taken and may_replace is false; -errno. */
int ky_out_file_open(struct ky_out_file *file, const char *path, bool may_replace);
/* A ky_write_fn: ctx is the file. */
int ky_out_file_write(void *ctx, const uint8_t *bytes, size_t count);
/* Gives it its name. Returns 0, -EEXIST, -errno; then nothing is left behind. */
int ky_out_file_commit(struct ky_out_file *file);
/* Leaves nothing behind; also after commit. */
void ky_out_file_abort(struct ky_out_file *file);

#endif
