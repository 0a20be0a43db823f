/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/beneath.h>

#include <base/hash.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define STEP_FLAGS (O_RDONLY | O_CLOEXEC | O_NOFOLLOW)

/* One name of the path; false: it leads elsewhere, or is none. */
static bool cut_name(const char **path, char name[NAME_MAX + 1])
{
	size_t bytes = strcspn(*path, "/");

	if (!bytes || bytes > NAME_MAX)
		return false;
	memcpy(name, *path, bytes);
	name[bytes] = '\0';
	*path += bytes;
	*path += **path == '/';
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int ky_beneath_open(int directory, const char *path, struct stat *status)
{
	char name[NAME_MAX + 1];
	int at = directory, fd, result = 0;

	for (;;) {
		if (!cut_name(&path, name))
			result = -EXDEV;
		fd = result ? -1 :
			      openat(at, name,
				     *path ? STEP_FLAGS | O_DIRECTORY :
					     STEP_FLAGS | O_NONBLOCK | O_NOCTTY);
		if (fd < 0 && !result)
			result = -errno;
		if (at != directory)
			(void)close(at);
		if (fd < 0)
			return result;
		if (!*path)
			break;
		at = fd;
	}
	if (fstat(fd, status))
		result = -errno;
	else if (!S_ISREG(status->st_mode))
		result = -EINVAL;
	if (!result)
		return fd;
	(void)close(fd);
	return result;
}

uint64_t ky_beneath_identity(int directory, const char *name, const struct stat *status)
{
	/* device, inode, birth; what has no birth is known by the others alone */
	uint64_t key[4] = {status->st_dev, status->st_ino};
	struct statx more;

	if (statx(directory, name, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH, STATX_BTIME, &more) == 0 &&
	    (more.stx_mask & STATX_BTIME)) {
		key[2] = (uint64_t)more.stx_btime.tv_sec;
		key[3] = more.stx_btime.tv_nsec;
	}
	return ky_hash_bytes(KY_HASH_START, key, sizeof(key));
}
