/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <ship/unnamed_file.h>

#include <errno.h>
#include <fcntl.h>
#include <ship/disk.h>
#include <stdlib.h>
#include <unistd.h>

int ky_unnamed_file_open(const char *directory)
{
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, KY_DISK_FILE_MODE);

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
		char name[] = "/var/tmp/kymo-send-XXXXXX";

		fd = mkostemp(name, O_CLOEXEC);
		if (fd >= 0)
			unlink(name);
	}
	return fd < 0 ? -errno : fd;
}

int ky_unnamed_file_temporary(void)
{
	const char *directory = getenv("TMPDIR");

	return ky_unnamed_file_open(directory && directory[0] ? directory : "/tmp");
}
