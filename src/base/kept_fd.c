/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/kept_fd.h>

#include <sys/stat.h>
#include <unistd.h>

#define NOTED_MAX 1024

static struct ky_fd_identity noted[NOTED_MAX];

void ky_fd_identify(int fd, struct ky_fd_identity *out)
{
	struct stat about;

	*out = (struct ky_fd_identity){0, 0};
	if (fd >= 0 && fstat(fd, &about) == 0)
		*out = (struct ky_fd_identity){(uint64_t)about.st_dev, (uint64_t)about.st_ino};
}

static bool is_known(const struct ky_fd_identity *identity)
{
	return identity->device || identity->inode;
}

bool ky_fd_is(int fd, const struct ky_fd_identity *identity)
{
	struct ky_fd_identity now;

	ky_fd_identify(fd, &now);
	return is_known(&now) && now.device == identity->device && now.inode == identity->inode;
}

int ky_kept_fd_note(int fd)
{
	if (fd >= 0 && fd < NOTED_MAX)
		ky_fd_identify(fd, &noted[fd]);
	return fd;
}

void ky_kept_fd_close(int fd)
{
	struct ky_fd_identity was = {0, 0};

	if (fd >= 0 && fd < NOTED_MAX) {
		was = noted[fd];
		noted[fd] = (struct ky_fd_identity){0, 0};
	}
	if (fd >= 0 && (!is_known(&was) || ky_fd_is(fd, &was)))
		close(fd);
}
