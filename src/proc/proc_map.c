/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <proc/proc_map.h>

#include <base/alloc.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAPS_BYTES_MAX ((size_t)64 << 20)

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
	char path[64], *text = NULL, *grown;
	size_t used = 0, capacity = 0;
	ssize_t got = 0;
	int fd;

	*err = 0;
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		*err = -errno;
		return NULL;
	}
	do {
		if (used + 4096 >= capacity) {
			capacity = capacity ? capacity * 2 : 32768;
			grown = capacity <= MAPS_BYTES_MAX ? ky_realloc(text, capacity) : NULL;
			if (!grown)
				break;
			text = grown;
		}
		got = read(fd, text + used, capacity - used - 1);
		if (got > 0)
			used += (size_t)got;
	} while (got > 0);
	if (got != 0)
		*err = got < 0 ? -errno : -ENOMEM;
	close(fd);
	/* A process in the middle of its end has no mappings any more. */
	if (!*err && used == 0)
		*err = -ESRCH;
	if (*err) {
		ky_free(text);
		return NULL;
	}
	text[used] = '\0';
	return text;
}
