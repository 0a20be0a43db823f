/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <proc/proc_map.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <unwind/unwind_maps.h>

#define PATH_BYTES_MAX 2048u

static bool is_vdso(const struct ky_proc_map *map)
{
	return map->path_bytes == 6 && memcmp(map->path, "[vdso]", 6) == 0;
}

bool ky_unwind_maps_next(struct ky_unwind_maps *maps, struct ky_unwind_mapping *out)
{
	struct ky_proc_map map;

	while (*maps->at) {
		const char *line = maps->at;
		size_t bytes = strcspn(line, "\n");

		maps->at += bytes + (line[bytes] == '\n');
		if (!ky_proc_map_parse(&map, line) || (map.inode == 0 && !is_vdso(&map)))
			continue;
		if (map.inode != maps->inode || map.device != maps->device || map.inode == 0)
			maps->image = 0;
		maps->inode = map.inode;
		maps->device = map.device;
		if (map.offset == 0)
			maps->image = map.start;
		*out = (struct ky_unwind_mapping){map.start,  map.end,       map.offset,
						  map.device, map.inode,     maps->image,
						  map.path,   map.path_bytes};
		if (map.is_code)
			return true;
	}
	return false;
}

static int open_checked(const char *path, uint64_t inode)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd >= 0 &&
	    (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_ino != inode)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int ky_unwind_mapping_open(uint32_t pid, const struct ky_unwind_mapping *mapping)
{
	char path[PATH_BYTES_MAX + 64];
	int fd = -1;

	if (mapping->inode == 0)
		return -1;
	/* The very file, whatever it is called now; takes a privilege. */
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, pid,
		 mapping->start, mapping->end);
	fd = open_checked(path, mapping->inode);
	if (fd < 0 && mapping->path[0] == '/' && mapping->path_bytes < PATH_BYTES_MAX) {
		/* Its own root: it may live in another mount namespace. */
		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root%.*s", pid,
			 (int)mapping->path_bytes, mapping->path);
		fd = open_checked(path, mapping->inode);
	}
	if (fd < 0) {
		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/exe", pid);
		fd = open_checked(path, mapping->inode);
	}
	return fd;
}

void ky_unwind_file_times(int fd, uint64_t *bytes, uint64_t *modified_ns)
{
	struct stat st;

	*bytes = *modified_ns = 0;
	if (fd < 0 || fstat(fd, &st) != 0)
		return;
	*bytes = (uint64_t)st.st_size;
	*modified_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
}

size_t ky_unwind_read_file(void *ctx, uint64_t at, void *out, size_t bytes)
{
	const int *fd = ctx;
	ssize_t got = at <= INT64_MAX ? pread(*fd, out, bytes, (off_t)at) : -1;

	return got > 0 ? (size_t)got : 0;
}

size_t ky_unwind_read_process(void *ctx, uint64_t at, void *out, size_t bytes)
{
	const uint32_t *pid = ctx;
	struct iovec to = {out, bytes}, from = {(void *)(uintptr_t)at, bytes};
	ssize_t got = process_vm_readv((pid_t)*pid, &to, 1, &from, 1, 0);

	return got > 0 ? (size_t)got : 0;
}
