/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* first_line.h - small files of the kernel, of which one line is of interest.
 * Threads: any. Signals: safe.
 */
#ifndef KY_BASE_FIRST_LINE_H
#define KY_BASE_FIRST_LINE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define KY_BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"

/* The first line without its end, cut to capacity - 1 bytes. Returns false, and "" in `out`, when
 * there is nothing to read. */
static inline bool ky_read_first_line(const char *path, char *out, size_t capacity)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t count = fd < 0 ? 0 : read(fd, out, capacity - 1);

	if (fd >= 0)
		(void)close(fd);
	out[count > 0 ? count : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return count > 0;
}

#endif
