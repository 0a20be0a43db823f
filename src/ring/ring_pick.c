/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The one ring that the caller means, and its mapping. */
#include <ring/ring_finder.h>

#include <ring/ring_guard.h>
#include <ring/ring_process.h>
#include <proc/run_process.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((format(printf, 3, 4))) static int refuse(char *why, int error, const char *format,
							...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(why, KY_FOUND_WHY_BYTES, format, args);
	va_end(args);
	return error;
}

/* ---- the one that is meant ---- */

/* Higher is better; 0: not to be taken. */
static int rank(const struct ky_found_ring *ring, bool is_dead_wanted)
{
	if (ring->state == KY_FOUND_ALIVE)
		return 4;
	if (!is_dead_wanted || ring->state == KY_FOUND_TROUBLE)
		return 0;
	if (ring->state == KY_FOUND_CLOSED && ring->is_process_there)
		return 3;
	return ring->is_other_boot ? 1 : 2;
}

static const struct ky_found_ring *best_of(const struct ky_found_rings *rings, bool is_dead_wanted)
{
	const struct ky_found_ring *best = NULL;
	uint32_t i;

	for (i = 0; i < rings->count; i++) {
		const struct ky_found_ring *ring = &rings->rings[i];
		int has = rank(ring, is_dead_wanted);
		int best_has = best != NULL ? rank(best, is_dead_wanted) : 0;

		if (has > best_has ||
		    (has != 0 && has == best_has && ring->made_unix_ns > best->made_unix_ns))
			best = ring;
	}
	return best;
}

/* Why nothing of this process will do. */
static int say_process(const struct ky_found_rings *rings, uint32_t pid, char *why)
{
	const struct ky_found_ring *trouble = NULL, *ended = NULL;
	uid_t uid;
	uint32_t i;

	for (i = 0; i < rings->count; i++) {
		if (rings->rings[i].state == KY_FOUND_TROUBLE)
			trouble = &rings->rings[i];
		else if (ended == NULL)
			ended = &rings->rings[i];
	}
	if (ended != NULL && ended->is_process_there && ended->state == KY_FOUND_CLOSED)
		return refuse(why, -ENODATA, "process %u has closed its recorder", pid);
	if (trouble != NULL)
		return refuse(why, trouble->error, "%s", trouble->why);
	if (!ky_ring_process_user(pid, &uid) || ky_run_process_is_zombie(pid))
		return ended != NULL ? refuse(why, -ESRCH,
					      "process %u is gone; what it recorded is still in %s "
					      "(`kymo recover` makes a trace of it)",
					      pid, ended->path) :
				       refuse(why, -ESRCH,
					      "there is no process %u, nor a ring of one", pid);
	if (uid != geteuid() && geteuid() != 0)
		return refuse(
			why, -EACCES,
			"process %u belongs to user %u: only that user and root may read what it "
			"records",
			pid, uid);
	return refuse(why, -ENODATA,
		      "process %u runs but does not record (`kymo ps` lists those that do)", pid);
}

static int find_by_pid(struct ky_found_ring *out, const struct ky_ring_query *query,
		       bool is_dead_wanted, char *why)
{
	const struct ky_found_ring *best;
	struct ky_found_rings rings;
	int err = ky_ring_find(&rings, query);

	if (err < 0)
		return refuse(why, err, "%s", kymo_error_text(err));
	best = best_of(&rings, is_dead_wanted);
	if (best != NULL)
		*out = *best;
	else if (rings.is_unseen)
		err = refuse(why, rings.rings[0].error, "%s", rings.rings[0].why);
	else
		err = say_process(&rings, query->pid, why);
	ky_found_rings_release(&rings);
	return err;
}

/* Drops what is of other services; one ring of each process stays. Returns how many alive. */
static uint32_t keep_service(struct ky_found_rings *rings, const char *service)
{
	uint32_t i, kept = 0, alive = 0;

	for (i = 0; i < rings->count; i++) {
		const struct ky_found_ring *ring = &rings->rings[i];

		if (ring->state == KY_FOUND_TROUBLE || strcmp(ring->service, service) != 0)
			continue;
		alive += ring->state == KY_FOUND_ALIVE;
		rings->rings[kept++] = *ring;
	}
	rings->count = kept;
	return alive;
}

static int say_several(const struct ky_found_rings *rings, const char *service, bool is_alive,
		       char *why)
{
	size_t used = (size_t)snprintf(
		why, KY_FOUND_WHY_BYTES,
		"several processes are called '%.63s', say which by its pid:", service);
	uint32_t i;

	for (i = 0; i < rings->count && used < KY_FOUND_WHY_BYTES - 16u; i++) {
		const struct ky_found_ring *ring = &rings->rings[i];

		if (!is_alive || ring->state == KY_FOUND_ALIVE)
			used += (size_t)snprintf(why + used, KY_FOUND_WHY_BYTES - used, " %u",
						 ky_found_pid(ring));
	}
	return -ENOTUNIQ;
}

static int find_by_service(struct ky_found_ring *out, const struct ky_ring_query *query,
			   const char *service, bool is_dead_wanted, char *why)
{
	const struct ky_found_ring *best;
	struct ky_found_rings rings;
	uint32_t alive;
	int err = ky_ring_find(&rings, query);

	if (err < 0)
		return refuse(why, err, "%s", kymo_error_text(err));
	if (rings.is_unseen) {
		err = refuse(why, rings.rings[0].error, "%s", rings.rings[0].why);
		ky_found_rings_release(&rings);
		return err;
	}
	alive = keep_service(&rings, service);
	best = best_of(&rings, is_dead_wanted);
	if (alive > 1 || (alive == 0 && is_dead_wanted && rings.count > 1))
		err = say_several(&rings, service, alive > 1, why);
	else if (best != NULL)
		*out = *best;
	else if (rings.count > 0)
		err = refuse(why, -ESRCH,
			     "no process of service '%.63s' records any more; what the last one "
			     "recorded is still in %s (`kymo recover` makes a trace of it)",
			     service, rings.rings[0].path);
	else
		err = refuse(
			why, -ESRCH,
			"no process of service '%.63s' records (`kymo ps` lists those that do)",
			service);
	ky_found_rings_release(&rings);
	return err;
}

int ky_ring_find_one(struct ky_found_ring *out, const struct ky_ring_query *query,
		     const char *pid_or_service, bool is_dead_wanted, char *why)
{
	struct ky_ring_query asked = *query;
	unsigned long pid;
	char *end;

	why[0] = '\0';
	if (pid_or_service[strspn(pid_or_service, "0123456789")] != '\0')
		return find_by_service(out, query, pid_or_service, is_dead_wanted, why);
	errno = 0;
	pid = strtoul(pid_or_service, &end, 10);
	if (errno != 0 || pid == 0 || pid > INT32_MAX)
		return refuse(why, -ESRCH, "'%.32s' is neither a pid nor a service",
			      pid_or_service);
	asked.pid = (uint32_t)pid;
	return find_by_pid(out, &asked, is_dead_wanted, why);
}

/* ---- its mapping ---- */

/* The page or pages around offset..offset + bytes, writable. Returns the byte asked for. */
static void *map_part(struct ky_open_ring *ring, int which, uint64_t offset, uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = offset / page * page;
	void *area;

	if (offset % 64u != 0 || offset > ring->image_bytes || bytes > ring->image_bytes - offset)
		return NULL;
	area = mmap(NULL, (size_t)(offset - from + bytes), PROT_READ | PROT_WRITE, MAP_SHARED,
		    ring->fd, (off_t)from);
	if (area == MAP_FAILED)
		return NULL;
	ring->write_areas[which] = area;
	ring->write_bytes[which] = (size_t)(offset - from + bytes);
	return (uint8_t *)area + (offset - from);
}

static int map_parts(void *ctx)
{
	struct ky_open_ring *ring = ctx;
	const struct ky_ring_header *header = (const struct ky_ring_header *)(void *)ring->image;
	uint64_t side_offset = header->side_offset, side_bytes = header->side_bytes;

	ring->control = map_part(ring, 0, header->page_bytes, sizeof(*ring->control));
	if (side_offset != 0 && side_bytes >= sizeof(*ring->side))
		ring->side = map_part(ring, 1, side_offset, sizeof(*ring->side));
	return ring->control != NULL ? 0 : KYMO_E_CORRUPT;
}

static int open_file(const struct ky_found_ring *found, bool is_writable, uint64_t *file_bytes)
{
	/* What a process holds is reached through a link of the kernel's own. */
	bool is_link = strncmp(found->path, "/proc/", 6) == 0 &&
		       (strstr(found->path, "/fd/") != NULL ||
			strstr(found->path, "/map_files/") != NULL);
	int fd = open(found->path, (is_writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK |
					   (is_link ? 0 : O_NOFOLLOW));
	struct stat st;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == found->inode &&
	    st.st_dev == found->device && st.st_size >= (off_t)sizeof(struct ky_ring_header)) {
		*file_bytes = (uint64_t)st.st_size;
		return fd;
	}
	close(fd);
	return -ENOENT;
}

int ky_ring_open(struct ky_open_ring *out, const struct ky_found_ring *found, bool is_writable,
		 char *why)
{
	uint64_t file_bytes = 0;
	void *image;
	int err;

	memset(out, 0, sizeof(*out));
	why[0] = '\0';
	out->fd = open_file(found, is_writable, &file_bytes);
	if (out->fd == -ENOENT)
		return refuse(why, -ENOENT, "%s: gone since it was found", found->path);
	if (out->fd < 0)
		return refuse(why, out->fd, "%s: %s", found->path, kymo_error_text(out->fd));
	image = mmap(NULL, (size_t)file_bytes, PROT_READ, MAP_SHARED, out->fd, 0);
	if (image == MAP_FAILED) {
		err = refuse(why, -errno, "%s: %s", found->path, kymo_error_text(-errno));
		ky_ring_close(out);
		return err;
	}
	out->image = image;
	out->pid = found->is_foreign && found->is_process_there ? found->pid : 0;
	out->image_bytes = (size_t)file_bytes;
	err = is_writable ? ky_ring_guarded(out, map_parts, out) : 0;
	if (err < 0) {
		(void)refuse(why, err, "%s: %s", found->path, kymo_error_text(err));
		ky_ring_close(out);
	}
	return err;
}

void ky_ring_close(struct ky_open_ring *ring)
{
	int i;

	for (i = 0; i < 2; i++)
		if (ring->write_areas[i] != NULL)
			munmap(ring->write_areas[i], ring->write_bytes[i]);
	if (ring->image != NULL)
		munmap(ring->image, ring->image_bytes);
	if (ring->fd >= 0)
		close(ring->fd);
	memset(ring, 0, sizeof(*ring));
	ring->fd = -1;
}

int ky_ring_guarded(const struct ky_open_ring *ring, int (*work)(void *ctx), void *ctx)
{
	const struct ky_guarded_area areas[] = {
		{ring->image, ring->image_bytes},
		{ring->write_areas[0], ring->write_bytes[0]},
		{ring->write_areas[1], ring->write_bytes[1]},
	};

	return ky_ring_guard(areas, 3, work, ctx);
}

int ky_ring_remove(const struct ky_found_ring *found)
{
	struct stat st;

	if (lstat(found->path, &st) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (st.st_ino != found->inode || st.st_dev != found->device)
		return 0;
	return unlink(found->path) == 0 || errno == ENOENT ? 0 : -errno;
}
