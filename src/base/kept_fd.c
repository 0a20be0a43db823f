/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/kept_fd.h>

#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTED_MAX 1024

static struct noted {
	uint64_t device, inode; /* zeros: not noted */
} noted[NOTED_MAX];

static struct noted file_of(int fd)
{
	struct noted file = {0, 0};
	struct stat about;

	if (fstat(fd, &about) == 0)
		file = (struct noted){(uint64_t)about.st_dev, (uint64_t)about.st_ino};
	return file;
}

int ky_kept_fd_note(int fd)
{
	if (fd >= 0 && fd < NOTED_MAX)
		noted[fd] = file_of(fd);
	return fd;
}

void ky_kept_fd_close(int fd)
{
	struct noted was = {0, 0}, now = {0, 0};

	if (fd >= 0 && fd < NOTED_MAX) {
		was = noted[fd];
		now = file_of(fd);
		noted[fd] = (struct noted){0, 0};
	}
	if (fd < 0 ||
	    ((was.device || was.inode) && (was.device != now.device || was.inode != now.inode)))
		return;
	close(fd);
}
