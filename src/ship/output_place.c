/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <ship/output_place.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <ship/disk.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int refuse(char *why, const char *place, int err)
{
	const char *text = err == -ENOTDIR ? "is no directory" :
			   err == -ENOENT  ? "is a link that leads nowhere" :
			   err == -EACCES  ? "may not be written by this user" :
					     kymo_error_text(err);

	(void)snprintf(why, KY_OUTPUT_PLACE_BYTES,
		       "%.*s %s; traces need a directory to write to, or a file's name in .trc, "
		       ".trc.zst or .trc.gz",
		       (int)KY_DISK_PATH_BYTES, place, text);
	return err;
}

/* The folder that holds it; of a name alone the current one. */
static void climb(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash == NULL)
		memcpy(path, ".", 2);
	else
		slash[slash == path ? 1 : 0] = '\0';
}

static void drop_slashes(char *path)
{
	size_t bytes = strlen(path);

	while (bytes > 1 && path[bytes - 1] == '/')
		path[--bytes] = '\0';
}

static bool may_write(int dir, const char *path)
{
	return faccessat(dir, path, W_OK | X_OK, AT_EACCESS) == 0;
}

/* A service may have a folder of its own in one that is not for all to write. */
static bool has_writable_folder(const char *path)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;
	bool is_found = false;
	char inside[sizeof(entry->d_name) + 2];

	if (folder == NULL)
		return errno == EACCES; /* it is not known */
	while (!is_found && (entry = readdir(folder)) != NULL) {
		(void)snprintf(inside, sizeof(inside), "%s/.", entry->d_name);
		is_found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			   may_write(dirfd(folder), inside);
	}
	(void)closedir(folder);
	return is_found;
}

int ky_output_place_check(const char *path, bool is_file, char *why)
{
	char place[KY_DISK_PATH_BYTES];
	struct stat about;
	bool is_there = true;
	int err;

	/* Made for us, it is taken. */
	if (is_file && stat(path, &about) == 0 && about.st_size == 0 &&
	    faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0)
		return 0;
	if (strlen(path) >= sizeof(place))
		return 0; /* reported by the process that bounds it */
	(void)snprintf(place, sizeof(place), "%s", path);
	drop_slashes(place);
	if (is_file)
		climb(place);
	while (stat(place, &about) != 0) {
		err = -errno;
		if (err != -ENOENT && err != -ENOTDIR)
			return refuse(why, place, err);
		if (err == -ENOENT && lstat(place, &about) == 0)
			return refuse(why, place, err);
		if (strcmp(place, ".") == 0)
			return refuse(why, place, err);
		is_there = false;
		climb(place);
		drop_slashes(place);
	}
	if (!S_ISDIR(about.st_mode))
		return refuse(why, place, -ENOTDIR);
	if (may_write(AT_FDCWD, place))
		return 0;
	err = -errno;
	/* A disk that failed and is read-only now must keep no service from its start: CMD runs,
	 * and what could not be written is reported. */
	if (err == -EROFS)
		return 0;
	return is_there && !is_file && has_writable_folder(place) ? 0 : refuse(why, place, err);
}
