/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/disk.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
