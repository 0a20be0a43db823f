/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/sent_list.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ship/disk.h>
#include <ship/retention.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX ".sent-"
#define LIST_BYTES_MAX ((off_t)64 << 20)
#define LINE_BYTES 320

void ky_sent_list_name(char out[KY_SENT_LIST_NAME_BYTES], const char *destination)
{
	snprintf(out, KY_SENT_LIST_NAME_BYTES, PREFIX "%016llx",
		 (unsigned long long)ky_hash_bytes(KY_HASH_START, destination,
						   strlen(destination)));
}

bool ky_sent_list_is_name(const char *name)
{
	size_t prefix = sizeof(PREFIX) - 1;

	return strncmp(name, PREFIX, prefix) == 0 && strlen(name) == prefix + 16 &&
	       strspn(name + prefix, "0123456789abcdef") == 16;
}

/* ---- the table ---- */

static uint64_t hash_of(const char *name, size_t count)
{
	uint64_t hash = ky_hash_number(ky_hash_bytes(KY_HASH_START, name, count));

	return hash ? hash : 1;
}

static void put(uint64_t *table, uint32_t capacity, uint64_t hash)
{
	uint32_t at = (uint32_t)hash & (capacity - 1);

	while (table[at] && table[at] != hash)
		at = (at + 1) & (capacity - 1);
	table[at] = hash;
}

static bool is_in(const struct ky_sent_names *names, uint64_t hash)
{
	uint32_t capacity = names->capacity, at = (uint32_t)hash & (capacity - 1);

	while (capacity && names->hashes[at] && names->hashes[at] != hash)
		at = (at + 1) & (capacity - 1);
	return capacity && names->hashes[at] == hash;
}

static int remember(struct ky_sent_names *names, uint64_t hash)
{
	if ((names->count + 1) * 2 > names->capacity) {
		uint32_t capacity = names->capacity ? names->capacity * 2 : 64;
		uint64_t *grown = ky_alloc(capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		for (uint32_t i = 0; i < names->capacity; i++)
			if (names->hashes[i])
				put(grown, capacity, names->hashes[i]);
		ky_free(names->hashes);
		names->hashes = grown;
		names->capacity = capacity;
	}
	if (!is_in(names, hash)) {
		put(names->hashes, names->capacity, hash);
		names->count++;
	}
	return 0;
}

/* ---- lines ---- */

/* The whole file. Returns its bytes, 0 for an empty one, -errno. */
static int64_t read_all(int fd, char **out)
{
	struct stat about;
	int64_t used = 0;

	*out = NULL;
	if (fstat(fd, &about) != 0)
		return -errno;
	if (!S_ISREG(about.st_mode) || about.st_size > LIST_BYTES_MAX)
		return -EFBIG;
	*out = ky_alloc((size_t)about.st_size + 1);
	if (!*out)
		return -ENOMEM;
	while (used < about.st_size) {
		ssize_t got = pread(fd, *out + used, (size_t)(about.st_size - used), used);

		if (got <= 0)
			break;
		used += got;
	}
	return used;
}

struct line {
	const char *verb, *name, *rest, *end;
	size_t name_bytes;
};

/* The whole line that begins at *at, and moves *at to the next one. False: there is none. */
static bool next_line(const char *text, int64_t count, int64_t *at, struct line *line)
{
	const char *begin, *end, *blank;

	if (!text || *at >= count)
		return false;
	begin = text + *at;
	end = memchr(begin, '\n', (size_t)(count - *at));
	if (!end)
		return false;
	*at = end + 1 - text;
	*line = (struct line){.verb = begin, .name = end, .rest = end, .end = end};
	blank = memchr(begin, ' ', (size_t)(end - begin));
	if (!blank)
		return true;
	line->name = blank + 1;
	blank = memchr(line->name, ' ', (size_t)(end - line->name));
	line->name_bytes = (size_t)((blank ? blank : end) - line->name);
	line->rest = blank ? blank + 1 : end;
	return true;
}

static bool is_verb(const struct line *line, const char *verb)
{
	return line->name_bytes && strncmp(line->verb, verb, strlen(verb)) == 0;
}

static int append(int fd, const char *text)
{
	int err = ky_disk_write_all(fd, (const uint8_t *)text, strlen(text));

	return err ? err : fdatasync(fd) == 0 ? 0 : -errno;
}

/* ---- the object ---- */

static int take_line(struct ky_sent_list *list, const struct line *line)
{
	if (is_verb(line, "took "))
		return remember(&list->taken, hash_of(line->name, line->name_bytes));
	if (is_verb(line, "part "))
		return remember(&list->parts,
				hash_of(line->name, (size_t)(line->end - line->name)));
	if (is_verb(line, "lost ")) {
		list->lost_count++;
		list->lost_bytes += strtoull(line->rest, NULL, 10);
	}
	return 0;
}

static int load(struct ky_sent_list *list, const char *destination)
{
	char *text, head[LINE_BYTES];
	int64_t count = read_all(list->fd, &text), at = 0;
	struct line line;
	int err = count < 0 ? (int)count : 0;

	while (!err && next_line(text, count, &at, &line))
		err = take_line(list, &line);
	ky_free(text);
	if (!err && at < count && ftruncate(list->fd, at) != 0)
		err = -errno;
	if (!err && at == 0) {
		snprintf(head, sizeof(head), "to %.300s\n", destination);
		err = append(list->fd, head);
	}
	return err;
}

int ky_sent_list_open(struct ky_sent_list *list, int run_fd, const char *destination)
{
	char name[KY_SENT_LIST_NAME_BYTES];
	int err = 0;

	*list = (struct ky_sent_list){.fd = -1};
	ky_sent_list_name(name, destination);
	list->fd = openat(run_fd, name, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			  KY_DISK_FILE_MODE);
	if (list->fd < 0)
		return -errno;
	if (flock(list->fd, LOCK_EX | LOCK_NB) != 0)
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (!err)
		err = load(list, destination);
	if (err)
		ky_sent_list_close(list);
	return err;
}

/* A forked dump's maker may hold the same file open: only an unlock frees it. */
void ky_sent_list_close(struct ky_sent_list *list)
{
	if (list->fd >= 0)
		(void)flock(list->fd, LOCK_UN);
	ky_disk_close(&list->fd);
	ky_free(list->taken.hashes);
	ky_free(list->parts.hashes);
	*list = (struct ky_sent_list){.fd = -1};
}

bool ky_sent_list_has(const struct ky_sent_list *list, const char *segment)
{
	return is_in(&list->taken, hash_of(segment, strlen(segment)));
}

int ky_sent_list_refuse(struct ky_sent_list *list, const char *segment)
{
	return remember(&list->taken, hash_of(segment, strlen(segment)));
}

/* verb: with a blank behind it. name: what follows it, and is remembered. */
static int add_line(struct ky_sent_list *list, struct ky_sent_names *names, const char *verb,
		    const char *name)
{
	char line[LINE_BYTES];
	int err = remember(names, hash_of(name, strlen(name))), written;

	snprintf(line, sizeof(line), "%s%.310s\n", verb, name);
	written = append(list->fd, line);
	return written ? written : err;
}

int ky_sent_list_add(struct ky_sent_list *list, const char *segment)
{
	return add_line(list, &list->taken, "took ", segment);
}

int ky_sent_list_add_part(struct ky_sent_list *list, const char *segment, const char *part)
{
	char name[LINE_BYTES];

	snprintf(name, sizeof(name), "%.270s %.32s", segment, part);
	return add_line(list, &list->parts, "part ", name);
}

bool ky_sent_list_has_part(const struct ky_sent_list *list, const char *segment, const char *part)
{
	char name[LINE_BYTES];

	snprintf(name, sizeof(name), "%.270s %.32s", segment, part);
	return is_in(&list->parts, hash_of(name, strlen(name)));
}

/* ---- the lists of a directory ---- */

static int next_list(DIR *lists, int flags, char name[KY_SENT_LIST_NAME_BYTES])
{
	struct dirent *entry;

	while ((entry = readdir(lists))) {
		if (!ky_sent_list_is_name(entry->d_name))
			continue;
		memcpy(name, entry->d_name, strlen(entry->d_name) + 1);
		return openat(dirfd(lists), name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	}
	name[0] = '\0';
	return -1;
}

static void count_waiting(struct ky_sent_counts *counts, const struct ky_sent_list *list,
			  int run_fd)
{
	DIR *segments = ky_disk_list(run_fd, ".");
	struct dirent *entry;
	uint64_t number;
	bool is_active;

	while (segments && (entry = readdir(segments)))
		counts->waiting_count += ky_retention_is_segment_name(entry->d_name, &number,
								      &is_active) &&
					 !is_active && !ky_sent_list_has(list, entry->d_name);
	if (segments)
		closedir(segments);
}

static void count_list(struct ky_sent_counts *counts, int run_fd, int fd)
{
	struct ky_sent_list list = {.fd = -1};
	char *text;
	int64_t count = read_all(fd, &text), at = 0;
	struct line line;

	counts->destination_count++;
	while (count > 0 && next_line(text, count, &at, &line))
		(void)take_line(&list, &line);
	ky_free(text);
	counts->taken_count += list.taken.count;
	counts->lost_count += list.lost_count;
	counts->lost_bytes += list.lost_bytes;
	count_waiting(counts, &list, run_fd);
	ky_sent_list_close(&list);
}

void ky_sent_counts_add(struct ky_sent_counts *counts, int run_fd)
{
	char name[KY_SENT_LIST_NAME_BYTES];
	DIR *lists = ky_disk_list(run_fd, ".");

	while (lists) {
		int fd = next_list(lists, O_RDONLY, name);

		if (fd >= 0) {
			count_list(counts, run_fd, fd);
			close(fd);
		} else if (!name[0]) {
			break;
		}
	}
	if (lists)
		closedir(lists);
}

static bool has_line(int fd, const char *segment)
{
	size_t segment_bytes = strlen(segment);
	char *text;
	int64_t count = read_all(fd, &text), at = 0;
	bool is_found = false;
	struct line line;

	while (!is_found && count > 0 && next_line(text, count, &at, &line))
		is_found = (is_verb(&line, "took ") || is_verb(&line, "lost ")) &&
			   line.name_bytes == segment_bytes &&
			   memcmp(line.name, segment, segment_bytes) == 0;
	ky_free(text);
	return is_found;
}

uint32_t ky_sent_lists_note_deleted(int run_fd, const char *segment, uint64_t bytes)
{
	char name[KY_SENT_LIST_NAME_BYTES], line[LINE_BYTES];
	DIR *lists = ky_disk_list(run_fd, ".");
	uint32_t missing = 0;

	snprintf(line, sizeof(line), "lost %.280s %llu\n", segment, (unsigned long long)bytes);
	while (lists) {
		int fd = next_list(lists, O_RDWR | O_APPEND, name);

		if (fd >= 0) {
			if (!has_line(fd, segment)) {
				missing++;
				(void)append(fd, line);
			}
			close(fd);
		} else if (!name[0]) {
			break;
		}
	}
	if (lists)
		closedir(lists);
	return missing;
}

void ky_sent_lists_remove(int run_fd)
{
	DIR *lists = ky_disk_list(run_fd, ".");
	struct dirent *entry;

	while (lists && (entry = readdir(lists)))
		if (ky_sent_list_is_name(entry->d_name))
			(void)unlinkat(run_fd, entry->d_name, 0);
	if (lists)
		closedir(lists);
}
