/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* unnamed_file.h - room on disk for what is needed for a while: it is gone with its descriptor.
 * Threads: any.
 */
#ifndef KY_SHIP_UNNAMED_FILE_H
#define KY_SHIP_UNNAMED_FILE_H

/* In that directory, or in /var/tmp where it has no such files. Returns a descriptor to read and
 * write, the caller's; -errno. */
int ky_unnamed_file_open(const char *directory);
/* The same where TMPDIR says, else in /tmp. */
int ky_unnamed_file_temporary(void);

#endif
