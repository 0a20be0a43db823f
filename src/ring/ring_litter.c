/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <ring/ring_litter.h>

#include <base/alloc.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define NAMES_MAX 4096u
#define DEAD_MAX 512u /* the rest goes with the next start */
#define STAT_FIELD_START 22

struct dead_ring {
	uint64_t made_unix_ns, bytes;
	ino_t inode;
	char name[256];
};

struct litter {
	const struct ky_ring_header *own;
	ino_t own_inode;
	int directory;
	uint32_t count;
	struct dead_ring rings[DEAD_MAX];
};

/* False also where it cannot be read: then it may be there. */
static bool is_process_gone(uint32_t pid, uint64_t start_time_ticks)
{
	char path[32], text[1024];
	const char *at;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes <= 0)
		return false;
	text[bytes] = 0;
	at = strrchr(text, ')'); /* the name may hold anything */
	for (int field = 2; at && field < STAT_FIELD_START; field++)
		at = strchr(at + 1, ' ');
	return at && strtoull(at, NULL, 10) != start_time_ticks;
}

static bool is_of_service(const struct litter *litter, const struct ky_ring_header *header)
{
	const struct ky_ring_header *own = litter->own;

	return atomic_load_explicit(&header->magic, memory_order_relaxed) == KY_RING_MAGIC &&
	       header->uid == own->uid &&
	       strncmp(header->service, own->service, sizeof(own->service)) == 0;
}

static bool is_dead(const struct litter *litter, int fd, const struct ky_ring_header *header)
{
	const struct ky_ring_header *own = litter->own;
	bool is_mapped;

	if (own->boot_id[0] && header->boot_id[0] &&
	    strncmp(own->boot_id, header->boot_id, sizeof(own->boot_id)) != 0)
		return true;
	/* Whoever maps a ring holds this lock, in whatever pid namespace. */
	is_mapped = flock(fd, LOCK_EX | LOCK_NB) != 0;
	if (!is_mapped)
		(void)flock(fd, LOCK_UN);
	return !is_mapped && header->pid_namespace && header->pid_namespace == own->pid_namespace &&
	       is_process_gone(header->pid, header->start_time_ticks);
}

/* Open for the claim of whoever makes a trace of it; -1: it is not ours to judge. */
static int open_dead(const struct litter *litter, const char *name, struct stat *about,
		     struct ky_ring_header *header)
{
	int fd = openat(litter->directory, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return -1;
	if (fstat(fd, about) == 0 && S_ISREG(about->st_mode) && about->st_uid == geteuid() &&
	    about->st_ino != litter->own_inode &&
	    pread(fd, header, sizeof(*header), 0) == (ssize_t)sizeof(*header) &&
	    is_of_service(litter, header) && is_dead(litter, fd, header))
		return fd;
	close(fd);
	return -1;
}

static void look_at(struct litter *litter, const char *name)
{
	struct dead_ring *ring = &litter->rings[litter->count];
	struct ky_ring_header header;
	struct stat about;
	int fd = open_dead(litter, name, &about, &header);

	if (fd < 0)
		return;
	close(fd);
	*ring = (struct dead_ring){header.open_anchor.realtime_ns, (uint64_t)about.st_blocks * 512u,
				   about.st_ino, ""};
	snprintf(ring->name, sizeof(ring->name), "%s", name);
	litter->count++;
}

static int newest_first(const void *left, const void *right)
{
	const struct dead_ring *a = left, *b = right;

	if (a->made_unix_ns != b->made_unix_ns)
		return a->made_unix_ns > b->made_unix_ns ? -1 : 1;
	return strcmp(a->name, b->name);
}

/* As ky_ring_claim() of the program: nobody makes a trace of it, and nobody begins to. */
static bool claim(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

static bool remove_ring(const struct litter *litter, const struct dead_ring *ring)
{
	struct ky_ring_header header;
	struct stat about;
	bool is_gone;
	int fd = open_dead(litter, ring->name, &about, &header);

	if (fd < 0)
		return false;
	is_gone = about.st_ino == ring->inode && claim(fd) &&
		  unlinkat(litter->directory, ring->name, 0) == 0;
	close(fd);
	return is_gone;
}

static uint32_t keep_newest(struct litter *litter)
{
	uint64_t kept_bytes = 0, bound = KY_DEAD_RING_BYTES_MAX;
	uint32_t kept = 0, removed = 0;
	struct statvfs room;

	if (fstatvfs(litter->directory, &room) == 0 &&
	    (uint64_t)room.f_blocks * room.f_frsize / 2 < bound)
		bound = (uint64_t)room.f_blocks * room.f_frsize / 2;
	qsort(litter->rings, litter->count, sizeof(*litter->rings), newest_first);
	for (uint32_t i = 0; i < litter->count; i++) {
		const struct dead_ring *ring = &litter->rings[i];

		if (!kept || (kept < KY_DEAD_RINGS_MAX && kept_bytes + ring->bytes <= bound)) {
			kept++;
			kept_bytes += ring->bytes;
		} else {
			removed += remove_ring(litter, ring);
		}
	}
	return removed;
}

static void find(struct litter *litter, const char *service)
{
	int fd = openat(litter->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	size_t service_bytes = strlen(service);

	if (!stream && fd >= 0)
		close(fd);
	for (uint32_t i = 0; stream && i < NAMES_MAX && litter->count < DEAD_MAX; i++) {
		entry = readdir(stream);
		if (!entry)
			break;
		if (strncmp(entry->d_name, service, service_bytes) == 0)
			look_at(litter, entry->d_name);
	}
	if (stream)
		closedir(stream);
}

uint32_t ky_ring_litter_remove(const struct ky_ring *own)
{
	const char *slash = strrchr(own->path, '/');
	char directory[KY_RING_PATH_BYTES];
	struct litter *litter;
	struct stat about;
	uint32_t removed = 0;

	/* A ring without a file has no neighbours. */
	if (!slash || stat(own->path, &about) != 0)
		return 0;
	litter = ky_alloc(sizeof(*litter));
	if (!litter)
		return 0;
	snprintf(directory, sizeof(directory), "%.*s", (int)(slash - own->path), own->path);
	litter->own = own->header;
	litter->own_inode = about.st_ino;
	litter->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (litter->directory >= 0) {
		find(litter, own->header->service);
		removed = keep_newest(litter);
		close(litter->directory);
	}
	ky_free(litter);
	return removed;
}
