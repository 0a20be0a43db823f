/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* kept_fd.h - descriptors that are kept for long in a process which may close all descriptors, as
 * one that becomes a daemon does: by their number another file may be open then, which is not ours
 * to close.
 *
 * Threads: each descriptor's owner.      Memory: 16 KiB of zeros; descriptors above 1,023 are not
 * noted, and closed as they are.
 */
#ifndef KY_BASE_KEPT_FD_H
#define KY_BASE_KEPT_FD_H

#include <stdbool.h>
#include <stdint.h>

/* Which file a descriptor leads to. */
struct ky_fd_identity {
	uint64_t device, inode; /* zeros: not known */
};
void ky_fd_identify(int fd, struct ky_fd_identity *out);
bool ky_fd_is(int fd, const struct ky_fd_identity *identity); /* not known: false */

/* For who has no place to keep the identity. */

/* It was just opened; -1: it was not. Returns it. */
int ky_kept_fd_note(int fd);
/* Where it is still the file that was noted. */
void ky_kept_fd_close(int fd);

#endif
