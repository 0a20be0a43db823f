/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/rest_place.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ship/disk.h>
#include <ship/retention.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static bool is_below(const char *directory, const char *run)
{
	char *top = realpath(directory, NULL), *place = realpath(run, NULL);
	size_t count = top ? strlen(top) : 0;
	bool is = top && place && strncmp(top, place, count) == 0 &&
		  (place[count] == '/' || place[count] == '\0' || count == 1);

	free(top);
	free(place);
	return is;
}

static int open_run(struct ky_rest_place *place, const char *run)
{
	const char *name = strrchr(run, '/');

	if (!name || !ky_retention_is_run_name(name + 1))
		return -ENOENT; /* a trace that is one file */
	place->run_fd = open(run, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (place->run_fd < 0)
		return errno == ENOTDIR || errno == ELOOP ? -ENOENT : -errno;
	if (faccessat(place->run_fd, KY_RUN_MARKER, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
		return -ENOENT;
	place->lock_fd = openat(place->run_fd, KY_RUN_LOCK,
				O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (place->lock_fd < 0)
		return -errno;
	return flock(place->lock_fd, LOCK_EX | LOCK_NB) == 0 ? 0 :
	       errno == EWOULDBLOCK                          ? -EBUSY :
							       -errno;
}

int ky_rest_place_open(struct ky_rest_place *place, const char *directory, const char *run)
{
	int err;

	*place = (struct ky_rest_place){-1, -1};
	err = run[0] && is_below(directory, run) ? open_run(place, run) : -ENOENT;
	if (err)
		ky_rest_place_close(place);
	return err;
}

void ky_rest_place_close(struct ky_rest_place *place)
{
	ky_disk_close(&place->lock_fd);
	ky_disk_close(&place->run_fd);
}

/* Calls each with every segment's number until it returns false. Returns 0, -errno. */
static int walk(const struct ky_rest_place *place, bool (*each)(uint32_t *number, uint64_t found),
		uint32_t *number)
{
	DIR *list = ky_disk_list(place->run_fd, ".");
	struct dirent *entry;
	bool is_active, wants_more = true;
	uint64_t found;

	if (!list)
		return -errno;
	while (wants_more && (entry = readdir(list)))
		if (ky_retention_is_segment_name(entry->d_name, &found, &is_active))
			wants_more = each(number, found);
	closedir(list);
	return 0;
}

static bool is_later(uint32_t *number, uint64_t found)
{
	if (found >= *number && found < UINT32_MAX - 1)
		*number = (uint32_t)found + 1;
	return true;
}

int ky_rest_place_next(const struct ky_rest_place *place, uint32_t *number)
{
	*number = 0;
	return walk(place, is_later, number);
}

static bool is_other(uint32_t *number, uint64_t found)
{
	if (found != *number)
		return true;
	*number = UINT32_MAX;
	return false;
}

bool ky_rest_place_has(const struct ky_rest_place *place, uint32_t number)
{
	return walk(place, is_other, &number) == 0 && number == UINT32_MAX;
}
