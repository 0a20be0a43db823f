/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/disk.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PARENT_BYTES 1024u

int ky_disk_make_path(const char *path)
{
	char part[KY_DISK_PATH_BYTES];
	size_t length = strlen(path);

	if (length >= sizeof(part))
		return -ENAMETOOLONG;
	for (size_t i = 1; i <= length; i++) {
		if (path[i] != '/' && path[i] != 0)
			continue;
		memcpy(part, path, i);
		part[i] = 0;
		if (mkdir(part, KY_DISK_DIRECTORY_MODE) != 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

/* "" in the working directory. Returns 0, -ENAMETOOLONG. */
static int parent_of(const char *path, char out[PARENT_BYTES])
{
	const char *slash = strrchr(path, '/');
	size_t count = slash ? (size_t)(slash - path) + (slash == path) : 0;

	if (count >= PARENT_BYTES)
		return -ENAMETOOLONG;
	(void)snprintf(out, PARENT_BYTES, "%.*s", (int)count, path);
	return 0;
}

int ky_disk_make_parent(const char *path)
{
	char parent[PARENT_BYTES];
	int err = parent_of(path, parent);

	return err || !parent[0] ? err : ky_disk_make_path(parent);
}

int ky_disk_sync_parent(const char *path)
{
	char parent[PARENT_BYTES];
	int fd, err = parent_of(path, parent);

	if (err)
		return err;
	fd = open(parent[0] ? parent : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	err = fsync(fd) != 0 && errno != EINVAL && errno != EROFS ? -errno : 0;
	ky_disk_close(&fd);
	return err;
}

int ky_disk_write_all(int fd, const uint8_t *bytes, size_t count)
{
	while (count) {
		ssize_t written = write(fd, bytes, count);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return written < 0 ? -errno : -EIO;
		bytes += written;
		count -= (size_t)written;
	}
	return 0;
}

void ky_disk_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void ky_disk_close_own(int *fd, const struct ky_fd_identity *identity)
{
	if (!ky_fd_is(*fd, identity))
		*fd = -1;
	ky_disk_close(fd);
}

DIR *ky_disk_list(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list)
		ky_disk_close(&fd);
	return list;
}
