/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/segment_copy.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make(struct ky_segment_copy *copy, const struct ky_segment_filter *filter,
		const struct kymo_segment *segment, char *why)
{
	int err;

	ky_segment_copy_release(copy);
	copy->fd = -1;
	snprintf(copy->service, sizeof(copy->service), "%s", segment->service);
	snprintf(copy->host, sizeof(copy->host), "%s", segment->host);
	snprintf(copy->name, sizeof(copy->name), "%s", segment->name);
	err = filter->make(filter->ctx, segment, copy, why);
	snprintf(copy->of, sizeof(copy->of), "%s", err ? "" : segment->path);
	snprintf(copy->path, sizeof(copy->path), "/proc/self/fd/%d", copy->fd);
	return err;
}

int ky_segment_copy_use(struct ky_segment_copy *copy, const struct ky_segment_filter *filter,
			struct kymo_segment *segment, char *why)
{
	struct stat about;
	int err = 0;

	if (!filter->make)
		return 0;
	if (strcmp(copy->of, segment->path) != 0)
		err = make(copy, filter, segment, why);
	if (err)
		return err;
	segment->service = copy->service;
	segment->host = copy->host;
	segment->name = copy->name;
	segment->origin = copy->origin;
	if (copy->fd < 0)
		return 0;
	if (fstat(copy->fd, &about) != 0)
		return -errno;
	segment->fd = copy->fd;
	segment->path = copy->path;
	segment->byte_count = (uint64_t)about.st_size;
	return 0;
}

void ky_segment_copy_release(struct ky_segment_copy *copy)
{
	if (copy->of[0] && copy->fd >= 0)
		close(copy->fd);
	*copy = (struct ky_segment_copy){.fd = -1};
}
