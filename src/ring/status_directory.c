/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <ring/status_directory.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".status-"
#define RANDOM "XXXXXX"
#define SUFFIX ".status"
#define DIRECTORY_FLAGS (O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
#define TRIES_MAX 8u
#define NAMES_MAX 4096u /* the rest goes with the next run */

/* Returns a descriptor; -EAGAIN when another process sweeps just here and found it without its
 * lock. */
static int lock_new(const char *path)
{
	int fd = open(path, DIRECTORY_FLAGS);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	/* A file system without locks: no process takes it for dead either. */
	if ((flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) && fstat(fd, &st) == 0 &&
	    st.st_nlink > 0)
		return fd;
	close(fd);
	return -EAGAIN;
}

int ky_status_directory_open(const char *ring_directory, char *path, size_t path_bytes)
{
	int fd = -EAGAIN;

	for (uint32_t i = 0; i < TRIES_MAX && fd == -EAGAIN; i++) {
		int bytes = snprintf(path, path_bytes, "%s/" PREFIX RANDOM, ring_directory);

		if (bytes < 0 || (size_t)bytes >= path_bytes)
			return -ENAMETOOLONG;
		if (mkdtemp(path) == NULL)
			return -errno;
		fd = lock_new(path);
	}
	return fd;
}

static bool is_status_name(const char *name)
{
	size_t digits = strspn(name, "0123456789");

	return digits > 0 && strcmp(name + digits, SUFFIX) == 0;
}

static void empty(int fd)
{
	int again = openat(fd, ".", DIRECTORY_FLAGS);
	DIR *stream = again >= 0 ? fdopendir(again) : NULL;
	struct dirent *entry;

	if (stream == NULL && again >= 0)
		close(again);
	while (stream != NULL && (entry = readdir(stream)) != NULL)
		if (is_status_name(entry->d_name))
			unlinkat(fd, entry->d_name, 0);
	if (stream != NULL)
		closedir(stream);
}

void ky_status_directory_close(const char *path, int fd)
{
	empty(fd);
	rmdir(path);
	close(fd);
}

static bool is_ours(int fd, bool is_private)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	       (st.st_mode & (is_private ? 077 : 022)) == 0;
}

static bool remove_dead(int directory, const char *name)
{
	int fd = openat(directory, name, DIRECTORY_FLAGS);
	bool is_gone = false;

	if (fd < 0)
		return false;
	if (is_ours(fd, true) && flock(fd, LOCK_EX | LOCK_NB) == 0) {
		empty(fd);
		is_gone = unlinkat(directory, name, AT_REMOVEDIR) == 0;
	}
	close(fd);
	return is_gone;
}

static bool is_directory_name(const char *name)
{
	return strlen(name) == strlen(PREFIX RANDOM) && strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

static uint32_t sweep(const char *path)
{
	int fd = open(path, DIRECTORY_FLAGS);
	DIR *stream = fd >= 0 && is_ours(fd, false) ? fdopendir(fd) : NULL;
	struct dirent *entry;
	uint32_t removed = 0;

	if (stream == NULL) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	for (uint32_t i = 0; i < NAMES_MAX && (entry = readdir(stream)) != NULL; i++)
		if (is_directory_name(entry->d_name))
			removed += remove_dead(fd, entry->d_name);
	closedir(stream);
	return removed;
}

uint32_t ky_status_directory_sweep(const char *ring_directory)
{
	const char *wish = secure_getenv("KYMO_RING_DIR");
	char path[48];
	uint32_t removed;

	if (ring_directory != NULL)
		return sweep(ring_directory);
	removed = wish != NULL && wish[0] != '\0' ? sweep(wish) : 0;
	snprintf(path, sizeof(path), "/dev/shm/kymo-%u", (unsigned int)geteuid());
	return removed + sweep(path);
}
