/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <proc/proc_map.h>

#include <base/buf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAPS_BYTES_MAX ((size_t)64 << 20)
#define READ_BYTES 32768u

bool ky_proc_map_parse(struct ky_proc_map *out, const char *line)
{
	unsigned int major_number;
	char *at, *inode;

	out->start = strtoull(line, &at, 16);
	if (*at != '-')
		return false;
	out->end = strtoull(at + 1, &at, 16);
	if (strnlen(at, 6) < 6 || at[5] != ' ')
		return false;
	out->is_writable = at[2] == 'w';
	out->is_code = at[3] == 'x';
	out->is_shared = at[4] == 's';
	out->offset = strtoull(at + 6, &at, 16);
	major_number = (unsigned int)strtoul(at, &at, 16);
	if (*at != ':')
		return false;
	out->device = makedev(major_number, (unsigned int)strtoul(at + 1, &inode, 16));
	out->inode = strtoull(inode, &at, 10);
	out->path = at + strspn(at, " ");
	out->path_bytes = strcspn(out->path, "\n");
	return *inode == ' ' && at > inode && out->start < out->end;
}

char *ky_proc_maps_read(uint32_t pid, int *err)
{
	struct ky_buf text;
	char path[64];
	ssize_t got = 1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	*err = fd < 0 ? -errno : 0;
	ky_buf_init(&text, MAPS_BYTES_MAX);
	while (!*err && got > 0) {
		*err = ky_buf_reserve(&text, READ_BYTES + 1);
		got = *err ? 0 : read(fd, text.bytes + text.used, READ_BYTES);
		if (got < 0)
			*err = -errno;
		else
			text.used += (size_t)got;
	}
	if (fd >= 0)
		close(fd);
	if (!*err && text.used == 0)
		*err = -ESRCH;
	if (*err) {
		ky_buf_release(&text);
		return NULL;
	}
	text.bytes[text.used] = '\0';
	return (char *)text.bytes;
}
