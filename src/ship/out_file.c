/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/out_file.h>

#include <base/alloc.h>
#include <ship/unfinished_file.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <ship/disk.h>
#include <ship/trace_file.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_names(struct ky_out_file *file, const char *path)
{
	size_t bytes = strlen(path) + 40;

	file->path = ky_alloc(bytes);
	file->temporary = ky_alloc(bytes);
	if (!file->path || !file->temporary)
		return -ENOMEM;
	(void)snprintf(file->path, bytes, "%s", path);
	if (file->is_trace)
		(void)snprintf(file->temporary, bytes, "%s.active", path);
	else
		(void)snprintf(file->temporary, bytes, "%s.%ld.tmp", path, (long)getpid());
	return 0;
}

static int create(struct ky_out_file *file)
{
	file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
			KY_DISK_FILE_MODE);
	if (file->fd < 0)
		return -errno;
	ky_fd_identify(file->fd, &file->is);
	return 0;
}

static int open_temporary(struct ky_out_file *file, const char *path, const struct stat *replaced)
{
	int result = make_names(file, path);

	if (!result)
		result = create(file);
	/* What a process that was killed has left; -EBUSY: another one writes it. */
	if (result == -EEXIST && file->sets_aside) {
		result = ky_trace_file_set_aside(file->temporary);
		if (!result)
			result = create(file);
	}
	if (result && file->temporary)
		file->temporary[0] = '\0'; /* not ours to remove */
	if (result) {
		ky_out_file_abort(file);
		return result;
	}
	if (!file->is_trace)
		ky_unfinished_note(file->temporary);
	/* A group that cannot be passed on must not get its rights passed to another. */
	if (replaced) {
		bool is_owned = fchown(file->fd, replaced->st_uid, replaced->st_gid) == 0 ||
				fchown(file->fd, (uid_t)-1, replaced->st_gid) == 0;

		(void)fchmod(file->fd, replaced->st_mode & (is_owned ? 0777u : 0707u));
	}
	return 0;
}

static int open_replacing(struct ky_out_file *file, const char *path)
{
	struct stat info;
	char *target;
	int result;

	if (lstat(path, &info) != 0)
		return errno == ENOENT ? open_temporary(file, path, NULL) : -errno;
	if (stat(path, &info) != 0)
		return -errno; /* a link that leads nowhere, too */
	if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode) || S_ISFIFO(info.st_mode)) {
		file->fd = open(path, O_WRONLY | O_CLOEXEC);
		return file->fd < 0 ? -errno : 0;
	}
	if (!S_ISREG(info.st_mode))
		return -EINVAL;
	target = ky_alloc(PATH_MAX);
	if (!target)
		return -ENOMEM;
	result = realpath(path, target) ? open_temporary(file, target, &info) : -errno;
	ky_free(target);
	return result;
}

int ky_out_file_open(struct ky_out_file *file, const char *path, bool may_replace)
{
	struct stat info;

	memset(file, 0, sizeof(*file));
	file->fd = -1;
	file->may_replace = may_replace;
	if (strcmp(path, "-") == 0) {
		file->fd = STDOUT_FILENO;
		return 0;
	}
	if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
		return -EISDIR;
	if (!may_replace && lstat(path, &info) == 0)
		return -EEXIST;
	return may_replace ? open_replacing(file, path) : open_temporary(file, path, NULL);
}

int ky_out_file_open_fd(struct ky_out_file *file, int fd)
{
	memset(file, 0, sizeof(*file));
	file->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return file->fd < 0 ? -errno : 0;
}

int ky_out_file_open_trace(struct ky_out_file *file, const char *path, bool sets_aside)
{
	struct stat info;
	int result;

	memset(file, 0, sizeof(*file));
	file->fd = -1;
	file->is_trace = true;
	file->sets_aside = sets_aside;
	if (!sets_aside && lstat(path, &info) == 0)
		return -EEXIST;
	result = sets_aside ? ky_trace_file_check(path) : 0;
	if (!result)
		result = ky_disk_make_parent(path);
	if (!result)
		result = open_temporary(file, path, NULL);
	/* For who finds it; file systems without locks are fine, too. */
	if (!result)
		(void)flock(file->fd, LOCK_EX | LOCK_NB);
	return result;
}

/* Of one that was made: the program that we are part of may have closed it. */
static bool is_ours(const struct ky_out_file *file)
{
	return ky_fd_is(file->fd, &file->is);
}

int ky_out_file_write(void *ctx, const uint8_t *bytes, size_t count)
{
	struct ky_out_file *file = ctx;
	int result = file->path && !is_ours(file) ? -EBADF :
						    ky_disk_write_all(file->fd, bytes, count);

	if (!result)
		file->bytes += count;
	return result;
}

/* Without permission to replace, the name must still be free now: link refuses one that is taken.
 */
static int give_name(struct ky_out_file *file)
{
	/* It may have come meanwhile. A host under a filter of system calls may die of link(). */
	int err = file->is_trace ? ky_trace_file_set_aside(file->path) : 0;

	if (err)
		return err;
	if (file->may_replace || file->is_trace)
		return rename(file->temporary, file->path) ? -errno : 0;
	if (link(file->temporary, file->path) == 0)
		return unlink(file->temporary) ? -errno : 0;
	if (errno == EEXIST)
		return -EEXIST;
	return rename(file->temporary, file->path) ? -errno : 0; /* file system without links */
}

int ky_out_file_commit(struct ky_out_file *file)
{
	int result = 0;

	if (!file->path) { /* what was there before keeps its name */
		if (file->fd >= 0 && file->fd != STDOUT_FILENO && close(file->fd) != 0)
			result = -errno;
		file->fd = -1;
		return result;
	}
	if (!is_ours(file)) {
		ky_out_file_abort(file);
		return -EBADF;
	}
	if (fsync(file->fd) != 0 && errno != EINVAL && errno != EROFS)
		result = -errno;
	/* A child that was forked from us has this descriptor, too. */
	if (file->is_trace)
		(void)flock(file->fd, LOCK_UN);
	if (close(file->fd) != 0 && !result)
		result = -errno;
	file->fd = -1;
	if (!result)
		result = give_name(file);
	ky_unfinished_drop(file->temporary);
	if (!result)
		file->temporary[0] = '\0';
	ky_out_file_abort(file);
	return result;
}

void ky_out_file_abort(struct ky_out_file *file)
{
	if (file->path && file->fd >= 0)
		ky_disk_close_own(&file->fd, &file->is);
	else if (file->fd >= 0 && file->fd != STDOUT_FILENO)
		(void)close(file->fd);
	file->fd = -1;
	if (file->temporary && file->temporary[0])
		(void)unlink(file->temporary);
	ky_unfinished_drop(file->temporary);
	ky_free(file->path);
	ky_free(file->temporary);
	file->path = file->temporary = NULL;
}
