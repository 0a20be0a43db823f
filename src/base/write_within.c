/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/write_within.h>

#include <errno.h>
#include <kymo/base.h>
#include <sys/stat.h>
#include <unistd.h>

int ky_write_at(int fd, uint64_t at, const void *bytes, size_t count)
{
	const uint8_t *from = bytes;

	while (count > 0) {
		ssize_t done = pwrite(fd, from, count, (off_t)at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? -errno : -ENOSPC;
		from += done;
		at += (uint64_t)done;
		count -= (size_t)done;
	}
	return 0;
}

int ky_write_within(int fd, uint64_t at, const void *bytes, size_t count)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (at > (uint64_t)st.st_size || count > (uint64_t)st.st_size - at)
		return KYMO_E_TRUNCATED;
	return ky_write_at(fd, at, bytes, count);
}
