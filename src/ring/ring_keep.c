/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <ring/ring_keep.h>

#include <ring/status_directory.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

int ky_ring_claim(int fd)
{
	/* Of the open file: flock() is the writer's, who may live on in a forked child. */
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return 0;
	/* A file system without locks: no process can be kept out. */
	return errno == EAGAIN || errno == EACCES ? -EBUSY : 0;
}

int ky_ring_is_claimed(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

	if (fcntl(fd, F_OFD_GETLK, &lock) != 0)
		return -errno;
	return lock.l_type != F_UNLCK;
}

bool ky_ring_is_mapped(int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		return true;
	flock(fd, LOCK_UN);
	return false;
}

void ky_ring_remove_at(int directory, const char *name, dev_t device, ino_t inode)
{
	struct stat st;

	if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == inode &&
	    st.st_dev == device)
		(void)unlinkat(directory, name, 0);
}

static bool is_dead(const struct ky_found_ring *ring)
{
	return !ring->is_process_there && !ring->is_anonymous &&
	       (ring->state == KY_FOUND_DEAD || ring->state == KY_FOUND_CLOSED);
}

static int newest_first(const void *left, const void *right)
{
	const struct ky_found_ring *a = left, *b = right;

	if (a->made_unix_ns != b->made_unix_ns)
		return a->made_unix_ns > b->made_unix_ns ? -1 : 1;
	return strcmp(a->path, b->path);
}

/* Memory it takes; a sparse part takes none. bound: lowered to half of the file system. */
static uint64_t bytes_of(const struct ky_found_ring *ring, uint64_t *bound)
{
	struct statvfs system;
	struct stat st;

	if (statvfs(ring->path, &system) == 0 &&
	    (uint64_t)system.f_blocks * system.f_frsize / 2 < *bound)
		*bound = (uint64_t)system.f_blocks * system.f_frsize / 2;
	return stat(ring->path, &st) == 0 ? (uint64_t)st.st_blocks * 512u : 0;
}

static bool remove_unclaimed(const struct ky_found_ring *ring)
{
	struct ky_open_ring open_ring;
	char why[KY_FOUND_WHY_BYTES];
	bool is_gone;

	if (ky_ring_open(&open_ring, ring, true, why) < 0)
		return false;
	is_gone = ky_ring_claim(open_ring.fd) == 0 && ky_ring_remove(ring) == 0;
	ky_ring_close(&open_ring);
	return is_gone;
}

int ky_ring_keep(const struct ky_ring_query *query, struct ky_ring_keep_result *out)
{
	uint64_t kept_bytes = 0, bound = KY_DEAD_RING_BYTES_MAX;
	struct ky_found_rings rings;
	uint32_t i, kept = 0;
	int err = ky_ring_find(&rings, query);

	memset(out, 0, sizeof(*out));
	if (query->service == NULL)
		(void)ky_status_directory_sweep(query->ring_directory);
	if (err < 0)
		return err;
	if (rings.count > 0)
		qsort(rings.rings, rings.count, sizeof(*rings.rings), newest_first);
	for (i = 0; i < rings.count; i++) {
		const struct ky_found_ring *ring = &rings.rings[i];
		uint64_t bytes;

		if (!is_dead(ring))
			continue;
		bytes = bytes_of(ring, &bound);
		if (kept == 0 || (kept < KY_DEAD_RINGS_MAX && kept_bytes + bytes <= bound)) {
			kept++;
			kept_bytes += bytes;
		} else if (remove_unclaimed(ring)) {
			out->removed_count++;
			out->removed_bytes += bytes;
		}
	}
	ky_found_rings_release(&rings);
	return 0;
}
