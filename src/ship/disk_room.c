/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/disk_room.h>

#include <base/out_text.h>
#include <errno.h>
#include <kymo/base.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

bool ky_disk_room_is_missing(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

/* Cuts the last part off a path with a slash. Returns where, NULL at the root. */
static char *go_up(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || !path[1])
		return NULL;
	if (slash == path)
		slash++;
	*slash = '\0';
	return slash;
}

/* Absolute and without links; of what does not exist, what is above it. NULL: not known, or a
 * device, which has no room of its own. The caller frees it. */
static char *find_existing(const char *path)
{
	char copy[1024], *found;
	struct stat about;

	if (snprintf(copy, sizeof(copy), "%s%s", path[0] == '/' ? "" : "./", path) >=
	    (int)sizeof(copy))
		return NULL;
	while (!(found = realpath(copy, NULL))) {
		if (errno != ENOENT || !go_up(copy))
			return NULL;
	}
	if (stat(found, &about) == 0 && (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)))
		return found;
	free(found);
	return NULL;
}

/* Up to the last directory on the same device. */
static void find_mount(char *path)
{
	struct stat here, above;

	while (path[1] && stat(path, &here) == 0) {
		size_t bytes = strlen(path);
		char last = strrchr(path, '/') == path ? path[1] : '/', *cut = go_up(path);

		if (cut == NULL)
			return;
		if (stat(path, &above) == 0 && here.st_dev == above.st_dev)
			continue;
		*cut = last;
		path[bytes] = '\0';
		return;
	}
}

const char *ky_disk_room_text(char *out, const char *path, int err)
{
	char size[KY_OUT_CELL_BYTES], left[KY_OUT_CELL_BYTES], *mount = NULL;
	struct statvfs room;
	const char *what;

	(void)snprintf(out, KY_DISK_ROOM_BYTES, "%s", kymo_error_text(err));
	if (ky_disk_room_is_missing(err) && strcmp(path, "-") != 0) /* not standard output */
		mount = find_existing(path);
	if (!mount || statvfs(mount, &room) != 0) {
		free(mount);
		return out;
	}
	find_mount(mount);
	what = err == -EDQUOT                                  ? "has no room left for this user" :
	       room.f_bavail && room.f_files && !room.f_favail ? "has no inode left" :
								 "has too little room";
	ky_out_bytes(size, (uint64_t)room.f_blocks * room.f_frsize);
	ky_out_bytes(left, (uint64_t)room.f_bavail * room.f_frsize);
	(void)snprintf(out, KY_DISK_ROOM_BYTES,
		       "%s: the file system at %.500s %s (%s, %s free now)", kymo_error_text(err),
		       mount, what, size, left);
	free(mount);
	return out;
}
