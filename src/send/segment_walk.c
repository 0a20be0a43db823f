/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <send/segment_walk.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <send/dump_name.h>
#include <ship/disk.h>
#include <ship/retention.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 1024
#define DUMP_NAME_BYTES 128 /* of struct ky_segment_facts */
#define NAMES_MAX (1u << 20)

struct names {
	char (*names)[64];
	uint32_t count, capacity;
};

struct directory_walk {
	ky_walk_run_fn each;
	void *ctx;
	struct ky_walk_segment *segments; /* of the run that is being read */
	uint32_t segment_count, segment_capacity;
	char *names; /* of its segments, each with a zero */
	uint32_t names_used, names_capacity;
	uint32_t run_count;
	bool is_ended;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* A run's name begins with its date; one without a date sorts before. */
static int by_number(const void *a, const void *b)
{
	const struct ky_walk_segment *left = a, *right = b;

	if (left->number != right->number)
		return left->number < right->number ? -1 : 1;
	return strcmp(left->name, right->name);
}

static bool has_marker(int run_fd)
{
	struct stat about;

	return fstatat(run_fd, KY_RUN_MARKER, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(about.st_mode) && about.st_size == sizeof(KY_RUN_MARKER_TEXT) - 1;
}

/* Who records into it; 0: nothing does. *lock_fd: ours then, and held, so that nothing begins to;
 * -1: there is none. */
static uint32_t read_owner(int run_fd, int *lock_fd)
{
	char text[24] = "";

	*lock_fd = openat(run_fd, KY_RUN_LOCK, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (*lock_fd < 0 || flock(*lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (pread(*lock_fd, text, sizeof(text) - 1, 0) < 0)
		text[0] = '\0';
	close(*lock_fd);
	*lock_fd = -1;
	return text[0] ? (uint32_t)strtoul(text, NULL, 10) : UINT32_MAX;
}

static bool seal(int run_fd, char *name)
{
	char active[64];
	size_t count = strlen(name) - (sizeof(".active") - 1);
	struct stat about;

	snprintf(active, sizeof(active), "%s", name);
	name[count] = '\0';
	return fstatat(run_fd, name, &about, AT_SYMLINK_NOFOLLOW) != 0 &&
	       renameat(run_fd, active, run_fd, name) == 0;
}

/* Their names move while more are added: a segment has its own once all are there. */
static int note_segment(struct directory_walk *walk, const char *name, uint64_t number,
			uint64_t bytes)
{
	uint32_t name_bytes = (uint32_t)strlen(name) + 1;

	if (ky_grow(&walk->segments, &walk->segment_capacity, walk->segment_count + 1,
		    sizeof(*walk->segments)) ||
	    ky_grow(&walk->names, &walk->names_capacity, walk->names_used + name_bytes, 1))
		return -ENOMEM;
	memcpy(walk->names + walk->names_used, name, name_bytes);
	walk->names_used += name_bytes;
	walk->segments[walk->segment_count++] = (struct ky_walk_segment){.number = number,
									 .bytes = bytes};
	return 0;
}

static int add_segment(struct directory_walk *walk, int run_fd, const char *entry, bool is_free)
{
	char name[64];
	struct stat about;
	uint64_t number;
	bool is_active;
	size_t count = strlen(entry);

	if (count >= sizeof(name) || !ky_retention_is_segment_name(entry, &number, &is_active) ||
	    walk->segment_count >= NAMES_MAX || (is_active && !is_free) ||
	    fstatat(run_fd, entry, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode) ||
	    about.st_size == 0)
		return 0;
	memcpy(name, entry, count + 1);
	if (is_active && !seal(run_fd, name))
		return 0;
	return note_segment(walk, name, number, (uint64_t)about.st_size);
}

static void give_names(struct directory_walk *walk)
{
	const char *name = walk->names;

	for (uint32_t i = 0; i < walk->segment_count; i++) {
		walk->segments[i].name = name;
		name += strlen(name) + 1;
	}
	if (walk->segment_count)
		qsort(walk->segments, walk->segment_count, sizeof(*walk->segments), by_number);
}

static int walk_run(struct directory_walk *walk, int parent_fd, const char *path,
		    const char *service, const char *run)
{
	struct ky_walk_run found = {.path = path, .service = service, .run = run};
	DIR *list = ky_disk_list(parent_fd, parent_fd == AT_FDCWD ? path : run);
	struct dirent *entry;
	int lock_fd, err = 0;

	if (!list || !has_marker(dirfd(list))) {
		if (list)
			closedir(list);
		return 0;
	}
	walk->segment_count = walk->names_used = 0;
	walk->run_count++;
	found.owner_pid = read_owner(dirfd(list), &lock_fd);
	while (!err && (entry = readdir(list)))
		err = add_segment(walk, dirfd(list), entry->d_name, lock_fd >= 0);
	if (lock_fd >= 0) { /* a forked dump's maker may hold it open, too */
		(void)flock(lock_fd, LOCK_UN);
		close(lock_fd);
	}
	give_names(walk);
	found.fd = dirfd(list);
	found.segments = walk->segments;
	found.segment_count = walk->segment_count;
	if (!err)
		walk->is_ended = !walk->each(walk->ctx, &found);
	closedir(list);
	return err;
}

/* Names of directories, or of runs alone, sorted. */
static int read_names(struct names *names, DIR *list, bool are_runs)
{
	struct dirent *entry;

	while ((entry = readdir(list))) {
		if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof(names->names[0]) ||
		    ky_retention_is_run_name(entry->d_name) != are_runs ||
		    names->count >= NAMES_MAX)
			continue;
		if (ky_grow(&names->names, &names->capacity, names->count + 1,
			    sizeof(names->names[0])))
			return -ENOMEM;
		memcpy(names->names[names->count++], entry->d_name, strlen(entry->d_name) + 1);
	}
	if (names->count)
		qsort(names->names, names->count, sizeof(names->names[0]), by_name);
	return 0;
}

static int walk_service(struct directory_walk *walk, const char *path, const char *service)
{
	struct names names = {.count = 0};
	DIR *list = ky_disk_list(AT_FDCWD, path);
	char below[PATH_BYTES];
	int err;

	if (!list)
		return 0;
	err = read_names(&names, list, true);
	for (uint32_t i = 0; !err && !walk->is_ended && i < names.count; i++) {
		snprintf(below, sizeof(below), "%s/%s", path, names.names[i]);
		err = walk_run(walk, dirfd(list), below, service, names.names[i]);
	}
	closedir(list);
	ky_free(names.names);
	return err;
}

static int walk_services(struct directory_walk *walk, const char *path)
{
	struct names names = {.count = 0};
	DIR *list = ky_disk_list(AT_FDCWD, path);
	char below[PATH_BYTES];
	int err;

	if (!list)
		return -errno;
	err = read_names(&names, list, false);
	closedir(list);
	for (uint32_t i = 0; !err && !walk->is_ended && i < names.count; i++) {
		snprintf(below, sizeof(below), "%s/%s", path, names.names[i]);
		err = walk_service(walk, below, names.names[i]);
	}
	ky_free(names.names);
	return err;
}

/* The last part of an absolute path, and the one before it. */
static void split(char *path, const char **last, const char **before)
{
	char *slash = strrchr(path, '/');

	*last = slash ? slash + 1 : path;
	*before = "";
	if (!slash || slash == path)
		return;
	*slash = '\0';
	slash = strrchr(path, '/');
	*before = slash ? slash + 1 : path;
}

int ky_segment_walk(const char *path, ky_walk_run_fn each, void *ctx)
{
	struct directory_walk walk = {.each = each, .ctx = ctx};
	char *whole = realpath(path, NULL), parts[PATH_BYTES];
	const char *last, *before;
	int err;

	if (!whole)
		return -errno;
	if (strlen(whole) >= PATH_BYTES - 160) {
		free(whole);
		return -ENAMETOOLONG;
	}
	snprintf(parts, sizeof(parts), "%s", whole);
	split(parts, &last, &before);
	if (ky_retention_is_run_name(last))
		err = walk_run(&walk, AT_FDCWD, whole, before, last);
	else
		err = walk_service(&walk, whole, last);
	if (!err && !walk.is_ended)
		err = walk_services(&walk, whole);
	ky_free(walk.segments);
	ky_free(walk.names);
	free(whole);
	return err ? err : walk.run_count ? 0 : -ENOENT;
}

/* ---- dumps ---- */

static int add_dump(struct directory_walk *walk, int fd, const char *entry)
{
	struct ky_dump_name name;
	struct stat about;

	if (!ky_dump_name_parse(&name, entry) || walk->segment_count >= NAMES_MAX ||
	    fstatat(fd, entry, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(about.st_mode) ||
	    about.st_size == 0)
		return 0;
	return note_segment(walk, entry, ky_dump_name_number(&name), (uint64_t)about.st_size);
}

static int give_dumps(struct directory_walk *walk, const char *path, int fd)
{
	struct ky_walk_run found = {.path = path, .service = "", .run = "", .fd = fd};

	give_names(walk);
	found.segments = walk->segments;
	found.segment_count = walk->segment_count;
	if (!found.segment_count)
		return -ENOENT;
	(void)walk->each(walk->ctx, &found);
	return 0;
}

/* Lists have a line a name. */
static bool is_listable(const char *name)
{
	size_t count = strlen(name);

	for (size_t i = 0; i < count; i++)
		if ((unsigned char)name[i] < ' ')
			return false;
	return count && count < DUMP_NAME_BYTES;
}

/* path: absolute, without links. */
static int walk_file(struct directory_walk *walk, const char *path, const struct stat *about)
{
	const char *slash = strrchr(path, '/');
	char directory[PATH_BYTES];
	int fd, err;

	if (!is_listable(slash + 1) || slash - path >= PATH_BYTES - DUMP_NAME_BYTES)
		return -EINVAL;
	snprintf(directory, sizeof(directory), "%.*s", slash == path ? 1 : (int)(slash - path),
		 path);
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = note_segment(walk, slash + 1, 0, (uint64_t)about->st_size);
	if (!err)
		err = give_dumps(walk, directory, fd);
	close(fd);
	return err;
}

static int walk_dumps(struct directory_walk *walk, const char *path)
{
	DIR *list = ky_disk_list(AT_FDCWD, path);
	struct dirent *entry;
	int err = 0;

	if (!list)
		return -errno;
	while (!err && (entry = readdir(list)))
		err = add_dump(walk, dirfd(list), entry->d_name);
	if (!err)
		err = give_dumps(walk, path, dirfd(list));
	closedir(list);
	return err;
}

int ky_dump_walk(const char *path, ky_walk_run_fn each, void *ctx)
{
	struct directory_walk walk = {.each = each, .ctx = ctx};
	char *whole = realpath(path, NULL);
	struct stat about = {.st_mode = 0};
	int err = whole && stat(whole, &about) == 0 ? 0 : -errno;

	if (!err)
		err = S_ISREG(about.st_mode) ? walk_file(&walk, whole, &about) :
					       walk_dumps(&walk, path);
	ky_free(walk.segments);
	ky_free(walk.names);
	free(whole);
	return err;
}

/* ---- has anything changed? ---- */

static uint64_t stamp_of(uint64_t hash, int parent_fd, const char *name)
{
	struct stat about;

	if (fstatat(parent_fd, name, &about, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(about.st_mode))
		return hash;
	hash = ky_hash_bytes(hash, name, strlen(name));
	hash = ky_hash_bytes(hash, &about.st_mtim.tv_sec, sizeof(about.st_mtim.tv_sec));
	return ky_hash_bytes(hash, &about.st_mtim.tv_nsec, sizeof(about.st_mtim.tv_nsec));
}

static uint64_t stamp_below(uint64_t sum, int parent_fd, const char *name, uint32_t depth)
{
	DIR *list = ky_disk_list(parent_fd, name);
	struct dirent *entry;

	while (list && (entry = readdir(list))) {
		if (entry->d_name[0] == '.' || entry->d_type == DT_REG || entry->d_type == DT_LNK)
			continue;
		/* A sum, for a directory has no order. */
		sum += stamp_of(KY_HASH_START, dirfd(list), entry->d_name);
		if (depth && !ky_retention_is_run_name(entry->d_name))
			sum = stamp_below(sum, dirfd(list), entry->d_name, depth - 1);
	}
	if (list)
		closedir(list);
	return sum;
}

uint64_t ky_segment_walk_stamp(const char *path)
{
	return stamp_below(stamp_of(KY_HASH_START, AT_FDCWD, path), AT_FDCWD, path, 1);
}
