/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <proc/proc_map.h>

#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

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
