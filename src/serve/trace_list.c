/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <serve/trace_list.h>

#include <base/alloc.h>
#include <base/hash.h>
#include <base/now.h>
#include <base/start_thread.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <libgen.h>
#include <limits.h>
#include <serve/beneath.h>
#include <serve/listing.h>
#include <ship/container.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that grows is read again after so many times what the last reading took. */
#define REST_TIMES 10u
#define RECHECK_NS UINT64_C(500000000)

struct root {
	int fd;           /* of the directory, of a file: of the one that it is in */
	const char *text; /* as named; of argv */
	char *file;       /* its name in there; NULL: a directory */
};

struct ky_trace_list {
	struct root *roots;
	uint32_t root_count;
	struct ky_listed *entries;
	uint32_t count, capacity;
	uint64_t info_bytes; /* of all facts */
	uint32_t *places;    /* by id: index + 1 */
	uint32_t place_count;
	bool is_cut, is_closing, is_started, is_unsorted;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	pthread_t reader;
};

/* ---- entries by id ---- */

static struct ky_listed *find(const struct ky_trace_list *list, uint64_t id)
{
	if (!list->place_count)
		return NULL;
	for (uint64_t at = ky_hash_number(id);; at++) {
		uint32_t place = list->places[at & (list->place_count - 1)];

		if (!place)
			return NULL;
		if (list->entries[place - 1].id == id)
			return &list->entries[place - 1];
	}
}

static void put_place(struct ky_trace_list *list, uint32_t index)
{
	uint64_t at = ky_hash_number(list->entries[index].id);

	while (list->places[at & (list->place_count - 1)])
		at++;
	list->places[at & (list->place_count - 1)] = index + 1;
}

/* After entries moved, or for more of them. */
static int place_all(struct ky_trace_list *list, uint32_t wanted)
{
	uint32_t places = 64;
	uint32_t *more;

	while (places < wanted * 2)
		places *= 2;
	if (places > list->place_count) {
		more = ky_realloc(list->places, places * sizeof(*more));
		if (!more)
			return -ENOMEM;
		list->places = more;
		list->place_count = places;
	}
	memset(list->places, 0, list->place_count * sizeof(*list->places));
	for (uint32_t i = 0; i < list->count; i++)
		put_place(list, i);
	return 0;
}

static void drop_facts(struct ky_trace_list *list, struct ky_listed *one)
{
	list->info_bytes -= one->facts.info ? strlen(one->facts.info) : 0;
	ky_trace_facts_release(&one->facts);
}

static void keep_facts(struct ky_trace_list *list, struct ky_listed *one,
		       const struct ky_trace_facts *facts)
{
	size_t bytes = facts->info ? strlen(facts->info) : 0;

	drop_facts(list, one);
	one->facts = *facts;
	if (list->info_bytes + bytes > KY_LISTED_INFO_MAX)
		ky_trace_facts_release(&one->facts);
	else
		list->info_bytes += bytes;
}

static void drop(struct ky_trace_list *list, struct ky_listed *one)
{
	drop_facts(list, one);
	ky_free(one->path);
	ky_free(one->shown);
}

/* ---- the scan ---- */

static bool has_name_of_trace(const char *name)
{
	static const char *const endings[] = {".trc",        ".trc.zst",        ".trc.gz",
					      ".trc.active", ".trc.zst.active", ".trc.gz.active"};
	size_t bytes = strlen(name);

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		size_t ending = strlen(endings[i]);

		if (bytes > ending && strcmp(name + bytes - ending, endings[i]) == 0)
			return true;
	}
	return false;
}

/* By its first bytes, or by its name, so that a damaged one is seen. */
static bool is_worth_reading(const struct ky_trace_list *list, const struct ky_listed *one)
{
	uint8_t first[KY_CONTAINER_MAGIC_BYTES] = {0};
	struct stat status;
	ssize_t got;
	int fd;

	if (one->is_named || has_name_of_trace(one->name))
		return true;
	fd = ky_beneath_open(list->roots[one->root].fd, one->path, &status);
	if (fd < 0)
		return false;
	got = pread(fd, first, sizeof(first), 0);
	(void)close(fd);
	return got > 0 && ky_container_of(first, (size_t)got) != KY_CONTAINER_NONE;
}

static char *join(const char *directory, const char *name)
{
	size_t bytes = strlen(directory) + strlen(name) + 2;
	bool needs_slash = directory[0] && directory[strlen(directory) - 1] != '/';
	char *out = ky_alloc(bytes);

	if (out)
		(void)snprintf(out, bytes, "%s%s%s", directory, needs_slash ? "/" : "", name);
	return out;
}

static int set_path(struct ky_trace_list *list, struct ky_listed *one, uint32_t root,
		    const char *path)
{
	const struct root *top = &list->roots[root];
	const char *slash;

	if (one->path && one->root == root && strcmp(one->path, path) == 0)
		return 0;
	ky_free(one->path);
	ky_free(one->shown);
	one->root = root;
	list->is_unsorted = true;
	one->path = join("", path);
	one->shown = top->file ? join("", top->text) : join(top->text, path);
	if (!one->path || !one->shown) {
		ky_free(one->path);
		ky_free(one->shown);
		one->path = one->shown = NULL;
		return -ENOMEM;
	}
	slash = strrchr(one->path, '/');
	one->name = slash ? slash + 1 : one->path;
	return 0;
}

static int take_file(struct ky_trace_list *list, uint32_t root, int directory, const char *name,
		     const char *path, const struct stat *status)
{
	uint64_t id = ky_beneath_identity(directory, name, status);
	uint64_t changed_ns = (uint64_t)status->st_mtim.tv_sec * UINT64_C(1000000000) +
			      (uint64_t)status->st_mtim.tv_nsec;
	struct ky_listed *one = find(list, id);
	bool is_new = !one;

	if (one && one->is_seen) /* by another name or root */
		return 0;
	if (!one) {
		if (list->count == KY_LISTED_MAX) {
			list->is_cut = true;
			return 0;
		}
		if (ky_grow(&list->entries, &list->capacity, list->count + 1,
			    sizeof(*list->entries)))
			return -ENOMEM;
		one = &list->entries[list->count];
		memset(one, 0, sizeof(*one));
		one->id = id;
	}
	if (set_path(list, one, root, path)) {
		/* Without a name the scan that comes next drops it. */
		one->is_seen = false;
		return -ENOMEM;
	}
	if (is_new) {
		list->count++;
		if (list->count * 2 > list->place_count) {
			int result = place_all(list, list->count);

			if (result)
				return result;
		} else {
			put_place(list, list->count - 1);
		}
	}
	one->is_seen = true;
	if (is_new ||
	    (one->state == KY_LISTED_FOREIGN &&
	     (one->bytes != (uint64_t)status->st_size || one->changed_ns != changed_ns))) {
		one->is_named = list->roots[root].file != NULL;
		one->state = is_worth_reading(list, one) ? KY_LISTED_WAITING : KY_LISTED_FOREIGN;
	}
	one->bytes = (uint64_t)status->st_size;
	one->changed_ns = changed_ns;
	return 0;
}

static int scan_directory(struct ky_trace_list *list, uint32_t root, int fd, const char *path,
			  uint32_t depth);

static int take_name(struct ky_trace_list *list, uint32_t root, int directory, const char *name,
		     const char *above, uint32_t depth)
{
	struct stat status;
	char *path;
	int result = 0, fd;

	if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW))
		return 0; /* gone meanwhile */
	if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
		return 0;
	path = join(above, name);
	if (!path)
		return -ENOMEM;
	if (S_ISREG(status.st_mode)) {
		result = take_file(list, root, directory, name, path, &status);
	} else if (depth == KY_LISTED_DEPTH_MAX) {
		list->is_cut = true;
	} else {
		fd = openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			result = scan_directory(list, root, fd, path, depth + 1);
	}
	ky_free(path);
	return result;
}

/* Takes the descriptor. */
static int scan_directory(struct ky_trace_list *list, uint32_t root, int fd, const char *path,
			  uint32_t depth)
{
	DIR *directory = fdopendir(fd);
	const struct dirent *entry;
	int result = 0;

	if (!directory) {
		(void)close(fd);
		return 0;
	}
	while (!result && !list->is_cut && (entry = readdir(directory)) != NULL)
		if (entry->d_name[0] != '.')
			result = take_name(list, root, fd, entry->d_name, path, depth);
	(void)closedir(directory);
	return result;
}

static int by_name(const void *left, const void *right)
{
	const struct ky_listed *a = left, *b = right;

	return a->root != b->root ? (a->root < b->root ? -1 : 1) : strverscmp(a->path, b->path);
}

/* What no root has any more goes. */
static void sweep(struct ky_trace_list *list)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		if (list->entries[i].is_seen)
			list->entries[kept++] = list->entries[i];
		else
			drop(list, &list->entries[i]);
	}
	list->count = kept;
	if (kept && list->is_unsorted)
		qsort(list->entries, kept, sizeof(*list->entries), by_name);
	list->is_unsorted = false;
	if (list->place_count)
		(void)place_all(list, 0); /* there is room already */
}

static int scan(struct ky_trace_list *list)
{
	int result = 0;

	list->is_cut = false;
	for (uint32_t i = 0; i < list->count; i++)
		list->entries[i].is_seen = false;
	for (uint32_t i = 0; i < list->root_count && !result; i++) {
		const struct root *root = &list->roots[i];
		struct stat status;
		int fd;

		if (root->file) {
			if (fstatat(root->fd, root->file, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
			    S_ISREG(status.st_mode))
				result = take_file(list, i, root->fd, root->file, root->file,
						   &status);
			continue;
		}
		fd = openat(root->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			result = scan_directory(list, i, fd, "", 0);
	}
	sweep(list);
	return result;
}

/* ---- reading ---- */

static bool is_due(const struct ky_listed *one, uint64_t now_ns)
{
	if (one->state == KY_LISTED_WAITING)
		return true;
	return one->state != KY_LISTED_FOREIGN && !ky_listed_is_current(one) &&
	       now_ns >= one->due_ns;
}

static const struct ky_listed *find_due(const struct ky_trace_list *list)
{
	uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);

	/* What was never read goes first. */
	for (uint32_t i = 0; i < list->count; i++)
		if (list->entries[i].state == KY_LISTED_WAITING)
			return &list->entries[i];
	for (uint32_t i = 0; i < list->count; i++)
		if (is_due(&list->entries[i], now_ns))
			return &list->entries[i];
	return NULL;
}

/* Reads one with the mutex open meanwhile. */
static void read_one(struct ky_trace_list *list, const struct ky_listed *due)
{
	uint64_t id = due->id, start_ns = ky_now_ns(CLOCK_MONOTONIC), bytes = due->bytes;
	uint64_t changed_ns = due->changed_ns, took_ns;
	struct ky_trace_facts facts = {.info = NULL};
	struct stat status;
	int directory = list->roots[due->root].fd, result, fd;
	char *path = join("", due->path), *shown = join("", due->shown);
	struct ky_listed *one;

	(void)pthread_mutex_unlock(&list->mutex);
	fd = path && shown ? ky_beneath_open(directory, path, &status) : -ENOMEM;
	result = fd < 0 ? fd : ky_trace_facts_read(&facts, fd, shown);
	if (fd < 0)
		(void)snprintf(facts.sentence, sizeof(facts.sentence), "%s: %s",
			       shown ? shown : "a trace", strerror(-fd));
	else
		(void)close(fd);
	took_ns = ky_now_ns(CLOCK_MONOTONIC) - start_ns;
	(void)pthread_mutex_lock(&list->mutex);
	one = find(list, id);
	if (one) {
		keep_facts(list, one, &facts);
		one->state = result ? KY_LISTED_FAILED : KY_LISTED_READ;
		if (result == KYMO_E_NOT_TRACE && !one->is_named && !has_name_of_trace(one->name))
			one->state = KY_LISTED_FOREIGN;
		one->read_bytes = fd < 0 ? UINT64_MAX : bytes; /* it may have a new name */
		one->read_changed_ns = changed_ns;
		one->due_ns = start_ns + took_ns * (REST_TIMES + 1) + (fd < 0 ? RECHECK_NS : 0);
	} else {
		ky_trace_facts_release(&facts);
	}
	ky_free(path);
	ky_free(shown);
}

static void *read_all(void *ctx)
{
	struct ky_trace_list *list = ctx;

	(void)pthread_mutex_lock(&list->mutex);
	while (!list->is_closing) {
		const struct ky_listed *due = find_due(list);
		uint64_t until_ns;
		struct timespec until;

		if (due) {
			read_one(list, due);
			continue;
		}
		until_ns = ky_now_ns(CLOCK_MONOTONIC) + RECHECK_NS;
		until.tv_sec = (time_t)(until_ns / UINT64_C(1000000000));
		until.tv_nsec = (long)(until_ns % UINT64_C(1000000000));
		(void)pthread_cond_timedwait(&list->changed, &list->mutex, &until);
	}
	(void)pthread_mutex_unlock(&list->mutex);
	return NULL;
}

/* ---- the list ---- */

static int open_root(struct root *root, const char *text)
{
	static char whole[PATH_MAX];
	struct stat status;
	char *slash;

	root->fd = -1;
	root->text = text;
	if (!realpath(text, whole) || stat(whole, &status))
		return -errno;
	if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
		return -EINVAL;
	if (S_ISREG(status.st_mode)) {
		slash = strrchr(whole, '/');
		root->file = join("", slash + 1);
		if (!root->file)
			return -ENOMEM;
		slash[slash == whole] = '\0';
	}
	root->fd = open(whole, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root->fd < 0 ? -errno : 0;
}

static int start(struct ky_trace_list *list)
{
	pthread_condattr_t monotonic;
	int result;

	(void)pthread_mutex_init(&list->mutex, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&list->changed, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	result = ky_start_thread(&list->reader, read_all, list);
	list->is_started = !result;
	return result;
}

int ky_trace_list_open(struct ky_trace_list **out, char **paths, size_t count, char *error,
		       size_t error_bytes)
{
	struct ky_trace_list *list = ky_alloc(sizeof(*list));
	const char *about = "kymo serve";
	int result = list ? 0 : -ENOMEM;

	*out = NULL;
	if (list)
		list->roots = ky_alloc(count * sizeof(*list->roots) + 1);
	if (!list || !list->roots)
		result = -ENOMEM;
	for (size_t i = 0; i < count && !result; i++) {
		about = paths[i];
		result = open_root(&list->roots[list->root_count++], paths[i]);
	}
	if (!result)
		result = start(list);
	if (!result) {
		*out = list;
		return 0;
	}
	(void)snprintf(error, error_bytes, "%s: %s", about,
		       result == -EINVAL ? "is neither a file nor a directory" : strerror(-result));
	ky_trace_list_close(list);
	return result;
}

void ky_trace_list_close(struct ky_trace_list *list)
{
	if (!list)
		return;
	if (list->is_started) {
		(void)pthread_mutex_lock(&list->mutex);
		list->is_closing = true;
		(void)pthread_cond_signal(&list->changed);
		(void)pthread_mutex_unlock(&list->mutex);
		(void)pthread_join(list->reader, NULL);
	}
	for (uint32_t i = 0; i < list->count; i++)
		drop(list, &list->entries[i]);
	for (uint32_t i = 0; list->roots && i < list->root_count; i++) {
		if (list->roots[i].fd >= 0)
			(void)close(list->roots[i].fd);
		ky_free(list->roots[i].file);
	}
	ky_free(list->entries);
	ky_free(list->places);
	ky_free(list->roots);
	ky_free(list);
}

const struct ky_listed *ky_trace_list_begin(struct ky_trace_list *list, size_t *count,
					    size_t *waiting_count, bool *is_cut)
{
	(void)pthread_mutex_lock(&list->mutex);
	if (scan(list))
		list->is_cut = true; /* memory is short: what was found is shown */
	*count = list->count;
	*is_cut = list->is_cut;
	*waiting_count = 0;
	for (uint32_t i = 0; i < list->count; i++)
		*waiting_count += list->entries[i].state == KY_LISTED_WAITING;
	(void)pthread_cond_signal(&list->changed);
	return list->entries;
}

void ky_trace_list_end(struct ky_trace_list *list)
{
	(void)pthread_mutex_unlock(&list->mutex);
}

static bool read_id(const char *text, uint64_t *id)
{
	*id = 0;
	if (strlen(text) != KY_LISTED_ID_BYTES - 1 ||
	    strspn(text, "0123456789abcdef") != KY_LISTED_ID_BYTES - 1)
		return false;
	*id = strtoull(text, NULL, 16);
	return true;
}

const struct ky_listed *ky_trace_list_find(const struct ky_trace_list *list, const char *id)
{
	uint64_t number;

	return read_id(id, &number) ? find(list, number) : NULL;
}

/* -ENOENT: gone, or no such id. etag: "FILE-SIZE-TIME". */
static int open_listed(void *ctx, const char *id, struct ky_served_file *out, char *why)
{
	struct ky_trace_list *list = ctx;
	const struct ky_listed *one;
	struct stat status = {.st_size = 0};
	uint64_t number;

	(void)why;
	*out = (struct ky_served_file){.fd = -ENOENT};
	(void)pthread_mutex_lock(&list->mutex);
	one = ky_trace_list_find(list, id);
	if (one && one->state != KY_LISTED_FOREIGN) {
		out->fd = ky_beneath_open(list->roots[one->root].fd, one->path, &status);
		(void)snprintf(out->name, sizeof(out->name), "%s", one->name);
	}
	(void)pthread_mutex_unlock(&list->mutex);
	if (out->fd < 0)
		return -ENOENT;
	if (!read_id(id, &number) || number != ky_beneath_identity(out->fd, "", &status)) {
		ky_served_file_release(out);
		return -ENOENT;
	}
	out->bytes = (uint64_t)status.st_size;
	(void)snprintf(out->etag, sizeof(out->etag), "\"%016llx-%llx-%llx\"",
		       (unsigned long long)number, (unsigned long long)status.st_size,
		       (unsigned long long)status.st_mtim.tv_sec * 1000000000 +
			       (unsigned long long)status.st_mtim.tv_nsec);
	return 0;
}

/* ---- as a listing ---- */

static const struct ky_listed *begin_listing(void *ctx, size_t *count, size_t *waiting_count,
					     bool *is_cut)
{
	return ky_trace_list_begin(ctx, count, waiting_count, is_cut);
}

static void end_listing(void *ctx)
{
	ky_trace_list_end(ctx);
}

static const struct ky_listed *find_listed(void *ctx, const char *id)
{
	return ky_trace_list_find(ctx, id);
}

struct ky_listing ky_trace_list_listing(struct ky_trace_list *list)
{
	return (struct ky_listing){.ctx = list,
				   .begin = begin_listing,
				   .end = end_listing,
				   .find = find_listed,
				   .open_file = open_listed,
				   .open_segments = open_listed};
}
