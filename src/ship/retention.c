/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/retention.h>

#include <base/alloc.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ship/disk.h>
#include <ship/latest.h>
#include <ship/sent_list.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUN_BYTES 64
#define NAME_BYTES 48
#define SEGMENTS_MAX (1u << 20)

struct segment {
	char run[RUN_BYTES];
	char name[NAME_BYTES];
	uint64_t number;
	uint64_t bytes;
	struct timespec changed;
	bool is_kept;
};

struct found_segment {
	struct segment *segments;
	uint32_t count, capacity;
	uint64_t total_bytes;
	const char *keep_run;
	int err;
};

static const char *skip_digits(const char *at)
{
	while (*at >= '0' && *at <= '9')
		at++;
	return at;
}

/* One character for each: 0 stands for a digit. */
static const char date_shape[] = "0000-00-00T00-00-00-";

const char *ky_retention_run_process(const char *name)
{
	size_t i = 0;

	while (date_shape[i] &&
	       (date_shape[i] == '0' ? name[i] >= '0' && name[i] <= '9' : name[i] == date_shape[i]))
		i++;
	return date_shape[i] ? name : name + i;
}

bool ky_retention_is_run_name(const char *name)
{
	const char *process = ky_retention_run_process(name), *at = process, *end;

	for (; at < process + 8; at++) {
		if (!((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f')))
			return false;
	}
	if (*at++ != '-' || (end = skip_digits(at)) == at || *end != '-')
		return false;
	at = end + 1;
	end = skip_digits(at);
	return end != at && !*end && end - name < RUN_BYTES;
}

bool ky_retention_is_segment_name(const char *name, uint64_t *number, bool *is_active)
{
	const char *end = skip_digits(name);

	if (end - name < 6 || end - name > 18 || strncmp(end, ".trc", 4) != 0)
		return false;
	*number = strtoull(name, NULL, 10);
	end += 4;
	if (strncmp(end, ".zst", 4) == 0)
		end += 4;
	else if (strncmp(end, ".gz", 3) == 0)
		end += 3;
	*is_active = strcmp(end, ".active") == 0;
	return !*end || *is_active;
}

static bool has_marker(int run_fd)
{
	char text[sizeof(KY_RUN_MARKER_TEXT)];
	int fd = openat(run_fd, KY_RUN_MARKER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t count;

	if (fd < 0)
		return false;
	count = read(fd, text, sizeof(text));
	close(fd);
	return count == (ssize_t)sizeof(KY_RUN_MARKER_TEXT) - 1 &&
	       memcmp(text, KY_RUN_MARKER_TEXT, (size_t)count) == 0;
}

static int add_segment(struct found_segment *found, const char *run, const char *name,
		       uint64_t number, const struct stat *about)
{
	struct segment *segment;

	if (found->count >= SEGMENTS_MAX)
		return 0;
	if (ky_grow(&found->segments, &found->capacity, found->count + 1, sizeof(*segment)))
		return -ENOMEM;
	segment = &found->segments[found->count++];
	memset(segment, 0, sizeof(*segment));
	memcpy(segment->run, run, strnlen(run, sizeof(segment->run) - 1));
	memcpy(segment->name, name, strnlen(name, sizeof(segment->name) - 1));
	segment->number = number;
	segment->bytes = (uint64_t)about->st_size;
	segment->changed = about->st_mtim;
	return 0;
}

/* A recorder holds the lock of its run as long as it lives: without one, what is still called
 * active is what a killed recorder left. */
static bool is_run_abandoned(int run_fd)
{
	int lock = openat(run_fd, KY_RUN_LOCK, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool is_free = lock < 0 ? errno == ENOENT : flock(lock, LOCK_SH | LOCK_NB) == 0;

	if (lock >= 0)
		close(lock);
	return is_free;
}

static void scan_run(struct found_segment *found, int service_fd, const char *run)
{
	size_t newest = SIZE_MAX;
	bool is_abandoned = false, has_asked = false;
	struct dirent *entry;
	DIR *list = ky_disk_list(service_fd, run);

	if (!list)
		return;
	while (!found->err && has_marker(dirfd(list)) && (entry = readdir(list))) {
		struct stat about;
		uint64_t number;
		bool is_active;

		if (!ky_retention_is_segment_name(entry->d_name, &number, &is_active) ||
		    strlen(entry->d_name) >= NAME_BYTES ||
		    fstatat(dirfd(list), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(about.st_mode))
			continue;
		found->total_bytes += (uint64_t)about.st_size;
		if (is_active && !has_asked) {
			is_abandoned = strcmp(run, found->keep_run) != 0 &&
				       is_run_abandoned(dirfd(list));
			has_asked = true;
		}
		if (is_active && !is_abandoned)
			continue;
		found->err = add_segment(found, run, entry->d_name, number, &about);
		if (!found->err && strcmp(run, found->keep_run) == 0 &&
		    (newest == SIZE_MAX || found->segments[newest].number < number))
			newest = found->count - 1;
	}
	if (newest != SIZE_MAX)
		found->segments[newest].is_kept = true;
	closedir(list);
}

static int by_number(const void *a, const void *b)
{
	const struct segment *left = a, *right = b;
	int runs = strcmp(left->run, right->run);

	if (runs != 0)
		return runs;
	if (left->number != right->number)
		return left->number < right->number ? -1 : 1;
	return strcmp(left->name, right->name);
}

static int by_age(const void *a, const void *b)
{
	const struct segment *left = a, *right = b;

	if (left->changed.tv_sec != right->changed.tv_sec)
		return left->changed.tv_sec < right->changed.tv_sec ? -1 : 1;
	if (left->changed.tv_nsec != right->changed.tv_nsec)
		return left->changed.tv_nsec < right->changed.tv_nsec ? -1 : 1;
	return by_number(a, b);
}

/* Times step back within a run where the clock was set or files were copied; numbers never do. So
 * none counts as younger than one after it, and both agree. */
static void sort_by_age(struct found_segment *found)
{
	if (!found->count)
		return;
	qsort(found->segments, found->count, sizeof(*found->segments), by_number);
	for (size_t i = found->count - 1; i-- > 0;) {
		struct segment *segment = &found->segments[i];

		if (strcmp(segment[0].run, segment[1].run) == 0 && by_age(segment, segment + 1) > 0)
			segment->changed = segment[1].changed;
	}
	qsort(found->segments, found->count, sizeof(*found->segments), by_age);
}

/* The first bytes of what we write, by kind. */
static bool has_our_magic(int fd, const char *name)
{
	static const uint8_t raw[] = {'T', 'R', 'C', 0}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd},
			     gzip[] = {0x1f, 0x8b};
	const char *kind = strstr(name, ".trc") + 4;
	uint8_t head[4] = {0};

	if (read(fd, head, sizeof(head)) < 2)
		return false;
	if (strncmp(kind, ".zst", 4) == 0)
		return memcmp(head, zstd, sizeof(zstd)) == 0;
	if (strncmp(kind, ".gz", 3) == 0)
		return memcmp(head, gzip, sizeof(gzip)) == 0;
	return memcmp(head, raw, sizeof(raw)) == 0;
}

/* *unsent: destinations that do not have it. */
static bool delete_segment(int service_fd, const struct segment *segment, uint32_t *unsent)
{
	int run_fd = openat(service_fd, segment->run,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
	    fd;
	bool is_deleted = false;
	struct stat about;

	if (run_fd < 0)
		return false;
	fd = openat(run_fd, segment->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0) {
		is_deleted = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
			     has_our_magic(fd, segment->name) &&
			     unlinkat(run_fd, segment->name, 0) == 0;
		close(fd);
		if (is_deleted)
			*unsent = ky_sent_lists_note_deleted(run_fd, segment->name, segment->bytes);
	}
	close(run_fd);
	return is_deleted;
}

/* A run that has nothing left but our own two files, and whose lock no process holds. The link to
 * it then leads to keep_run. */
static void remove_empty_run(int service_fd, const char *run, const char *keep_run)
{
	DIR *list = ky_disk_list(service_fd, run);
	bool is_empty = true;
	struct dirent *entry;
	int lock;

	if (!list)
		return;
	while ((entry = readdir(list))) {
		const char *name = entry->d_name;

		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		    strcmp(name, KY_RUN_LOCK) != 0 && strcmp(name, KY_RUN_MARKER) != 0 &&
		    !ky_sent_list_is_name(name))
			is_empty = false;
	}
	lock = is_empty ? openat(dirfd(list), KY_RUN_LOCK, O_RDWR | O_NOFOLLOW | O_CLOEXEC) : -1;
	if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0) {
		ky_sent_lists_remove(dirfd(list));
		unlinkat(dirfd(list), KY_RUN_LOCK, 0);
		unlinkat(dirfd(list), KY_RUN_MARKER, 0);
		if (unlinkat(service_fd, run, AT_REMOVEDIR) == 0 && ky_latest_is(service_fd, run))
			(void)ky_latest_set(service_fd, keep_run);
	}
	if (lock >= 0)
		close(lock);
	closedir(list);
}

int ky_retention_apply(int service_fd, const char *keep_run, uint64_t bytes_max,
		       struct ky_retention *out)
{
	struct found_segment found = {.keep_run = keep_run};
	struct dirent *entry;
	DIR *list = ky_disk_list(service_fd, ".");

	memset(out, 0, sizeof(*out));
	if (!list)
		return -errno;
	while (!found.err && (entry = readdir(list))) {
		if (ky_retention_is_run_name(entry->d_name))
			scan_run(&found, service_fd, entry->d_name);
	}
	closedir(list);
	out->total_bytes = found.total_bytes;
	if (!found.err)
		sort_by_age(&found);
	for (size_t i = 0; !found.err && i < found.count && out->total_bytes > bytes_max; i++) {
		const struct segment *segment = &found.segments[i];
		uint32_t unsent = 0;

		if (segment->is_kept || !delete_segment(service_fd, segment, &unsent))
			continue;
		out->unsent_count += unsent != 0;
		out->unsent_bytes += unsent ? segment->bytes : 0;
		out->total_bytes -= segment->bytes;
		out->deleted_bytes += segment->bytes;
		out->deleted_count++;
		if (strcmp(segment->run, keep_run) != 0)
			remove_empty_run(service_fd, segment->run, keep_run);
	}
	ky_free(found.segments);
	return found.err;
}
