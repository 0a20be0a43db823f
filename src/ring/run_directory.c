/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <ring/run_directory.h>

#include <base/now.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

/* Changes of one tick of the kernel's clock have one time. */
#define TICK_NS INT64_C(50000000)

void ky_run_directory_init(struct ky_run_directory *directory, const char *path)
{
	*directory = (struct ky_run_directory){.path = path, .fd = -1, .news_fd = -1};
}

void ky_run_directory_close(struct ky_run_directory *directory)
{
	if (directory->fd >= 0)
		close(directory->fd);
	if (directory->news_fd >= 0)
		close(directory->news_fd);
	directory->fd = directory->news_fd = -1;
}

/* Only what more of them would mend. */
static int note(struct ky_run_directory *directory, int fd)
{
	if (fd < 0 && (errno == EMFILE || errno == ENFILE))
		directory->open_error = -errno;
	return fd;
}

int ky_run_directory_open(struct ky_run_directory *directory, const char *name, int flags)
{
	int fd = note(directory, openat(directory->fd, name, flags | O_CLOEXEC | O_NOFOLLOW));

	if (fd >= 0)
		directory->open_error = 0;
	return fd;
}

/* Without it the directory is only read now and then. */
static void open_news(struct ky_run_directory *directory)
{
	int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

	if (fd >= 0 &&
	    inotify_add_watch(fd, directory->path, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) < 0) {
		close(fd);
		fd = -1;
	}
	directory->news_fd = fd;
}

bool ky_run_directory_take_news(const struct ky_run_directory *directory)
{
	char events[4096];
	bool has_any = false;

	while (directory->news_fd >= 0 && read(directory->news_fd, events, sizeof(events)) > 0)
		has_any = true;
	return has_any;
}

static bool open_it(struct ky_run_directory *directory)
{
	struct statfs system;

	if (directory->fd >= 0)
		return true;
	directory->fd = note(directory, open(directory->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	directory->is_exact = directory->fd >= 0 && fstatfs(directory->fd, &system) == 0 &&
			      system.f_type == TMPFS_MAGIC;
	if (directory->is_exact)
		open_news(directory);
	return directory->fd >= 0;
}

/* So long ago that what comes from now on has another time. */
static bool is_past(const struct timespec *changed)
{
	int64_t changed_ns = changed->tv_sec * INT64_C(1000000000) + changed->tv_nsec;

	return (int64_t)ky_now_ns(CLOCK_REALTIME) - changed_ns > TICK_NS;
}

static bool is_unchanged(const struct ky_run_directory *directory, const struct stat *st)
{
	return directory->is_settled && st->st_mtim.tv_sec == directory->changed.tv_sec &&
	       st->st_mtim.tv_nsec == directory->changed.tv_nsec;
}

void ky_run_directory_scan(struct ky_run_directory *directory, bool is_forced, ky_run_name_fn visit,
			   void *ctx)
{
	struct dirent *entry;
	struct stat st;
	DIR *stream;
	int fd;

	if (!open_it(directory) || fstat(directory->fd, &st) != 0 ||
	    (!is_forced && is_unchanged(directory, &st)))
		return;
	directory->is_settled = directory->is_exact && is_past(&st.st_mtim);
	directory->changed = st.st_mtim;
	directory->walk_count++;
	fd = note(directory, openat(directory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	stream = fd >= 0 ? fdopendir(fd) : NULL;
	if (stream == NULL) {
		if (fd >= 0)
			close(fd);
		directory->is_settled = false;
		return;
	}
	while ((entry = readdir(stream)) != NULL)
		if (entry->d_name[0] != '.' && !visit(ctx, entry->d_name, st.st_dev, entry->d_ino))
			directory->is_settled = false;
	closedir(stream);
}
