/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <proc/proc_map.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

bool ky_proc_map_parse(struct ky_proc_map *out, char *line)
{
	unsigned int major_number, minor_number;
	char flags[5];
	int path = 0;

	/* The kernel writes it, and 64 bits hold it. NOLINTNEXTLINE(cert-err34-c) */
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &out->start, &out->end, flags, &out->offset, &major_number, &minor_number,
		   &out->inode, &path) < 7 ||
	    strlen(flags) < 4)
		return false;
	out->device = makedev(major_number, minor_number);
	out->is_writable = flags[1] == 'w';
	out->is_code = flags[2] == 'x';
	out->is_shared = flags[3] == 's';
	out->path = path ? line + path : line + strlen(line);
	return true;
}
