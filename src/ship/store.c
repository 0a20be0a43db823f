/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/store.h>

#include <base/alloc.h>
#include <base/file_name.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <ship/disk.h>
#include <ship/latest.h>
#include <ship/retention.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SEGMENT_BYTES_DEFAULT (UINT64_C(64) << 20)
#define ROTATE_DEFAULT_NS UINT64_C(60000000000)
#define TOTAL_BYTES_DEFAULT (UINT64_C(1) << 30)
#define RETRY_NS UINT64_C(1000000000)
#define NAME_BYTES 48

struct ky_store {
	struct ky_trace_file *file; /* then nothing below holds but errors and statistics */
	char directory[KY_STORE_DIRECTORY_BYTES];
	char service[64];
	char run[64]; /* the directory's name, once it is open */
	struct ky_compressor_factory factory;
	uint64_t segment_bytes_max, rotate_interval_ns, total_bytes_max;
	int service_fd, run_fd, lock_fd;
	struct ky_fd_identity service_is, run_is, lock_is;
	/* the open segment */
	int fd;
	struct ky_fd_identity segment_is;
	struct ky_compressor compressor;
	char name[NAME_BYTES]; /* without .active */
	uint64_t raw_bytes;
	uint64_t stored_bytes; /* written so far */
	uint64_t whole_bytes;  /* ... up to the end of the last whole chunk */
	uint64_t number;       /* of the next segment */
	uint64_t sealed_total; /* of all segments of the service, as of the last reading */
	uint64_t retry_bytes;  /* no reading of the total before the segment has grown to this */
	uint64_t retry_ns;
	struct ky_store_stats stats;
};

/* ---- the compressor that does nothing ---- */

static int none_write(void *compressor, const uint8_t *chunk, size_t chunk_bytes, ky_write_fn out,
		      void *ctx)
{
	(void)compressor;
	return out(ctx, chunk, chunk_bytes);
}

static int none_finish(void *compressor, ky_write_fn out, void *ctx)
{
	(void)compressor;
	(void)out;
	(void)ctx;
	return 0;
}

static void none_close(void *compressor)
{
	(void)compressor;
}

static int none_open(const struct ky_compressor_factory *self, struct ky_compressor *out)
{
	(void)self;
	*out = (struct ky_compressor){none_write, none_finish, none_close, NULL};
	return 0;
}

const struct ky_compressor_factory ky_compressor_none = {"", none_open, 0};

/* ---- directories ---- */

void ky_store_run_name(char *out, size_t out_bytes, const char *boot_id, uint32_t pid,
		       uint64_t start_time_ticks)
{
	char boot[9] = "00000000";

	for (size_t i = 0; i < 8 && boot_id[i]; i++) {
		char c = boot_id[i];

		if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))
			boot[i] = c;
	}
	snprintf(out, out_bytes, "%s-%u-%llu", boot, pid, (unsigned long long)start_time_ticks);
}

static void sanitise(char *out, size_t out_bytes, const char *in)
{
	snprintf(out, out_bytes, "%s", *in ? in : "unnamed");
	ky_file_name_clean(out);
}

static int open_below(int parent_fd, const char *name, int *out)
{
	if (mkdirat(parent_fd, name, KY_DISK_DIRECTORY_MODE) != 0 && errno != EEXIST)
		return -errno;
	*out = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *out < 0 ? -errno : 0;
}

/* The marker makes the directory ours: retention of later runs deletes nothing without it. */
static int mark_run(struct ky_store *store)
{
	int fd = openat(store->run_fd, KY_RUN_MARKER,
			O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, KY_DISK_FILE_MODE);
	int err = fd < 0 ? -errno : 0;

	if (!err)
		err = ky_disk_write_all(fd, (const uint8_t *)KY_RUN_MARKER_TEXT,
					sizeof(KY_RUN_MARKER_TEXT) - 1);
	ky_disk_close(&fd);
	return err;
}

/* Who holds it, for a sender that serves its own process alone. */
static void write_owner(int lock_fd)
{
	char text[24];
	int count = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	if (ftruncate(lock_fd, 0) == 0)
		(void)ky_disk_write_all(lock_fd, (const uint8_t *)text, (size_t)count);
}

static int lock_run(struct ky_store *store)
{
	store->lock_fd = openat(store->run_fd, KY_RUN_LOCK,
				O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, KY_DISK_FILE_MODE);
	if (store->lock_fd < 0)
		return -errno;
	ky_fd_identify(store->lock_fd, &store->lock_is);
	if (flock(store->lock_fd, LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	write_owner(store->lock_fd);
	return 0;
}

static void close_directories(struct ky_store *store)
{
	ky_disk_close_own(&store->lock_fd, &store->lock_is);
	ky_disk_close_own(&store->run_fd, &store->run_is);
	ky_disk_close_own(&store->service_fd, &store->service_is);
}

/* The directory that an earlier recorder of this process made, whatever its date. */
static void find_run(struct ky_store *store)
{
	DIR *list = ky_disk_list(store->service_fd, ".");
	const char *process = ky_retention_run_process(store->run);
	struct dirent *entry;

	if (!list)
		return;
	while ((entry = readdir(list))) {
		if (!ky_retention_is_run_name(entry->d_name) ||
		    strcmp(ky_retention_run_process(entry->d_name), process) != 0)
			continue;
		memcpy(store->run, entry->d_name, strlen(entry->d_name) + 1);
		break;
	}
	closedir(list);
}

static int open_directories(struct ky_store *store)
{
	int top = -1, err = ky_disk_make_path(store->directory);

	if (!err) {
		top = open(store->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		err = top < 0 ? -errno : open_below(top, store->service, &store->service_fd);
	}
	ky_fd_identify(store->service_fd, &store->service_is);
	if (!err)
		find_run(store);
	if (!err)
		err = open_below(store->service_fd, store->run, &store->run_fd);
	ky_fd_identify(store->run_fd, &store->run_is);
	if (!err)
		err = lock_run(store);
	if (!err)
		err = mark_run(store);
	if (!err)
		store->stats.latest_error = ky_latest_set(store->service_fd, store->run);
	ky_disk_close(&top);
	if (err)
		close_directories(store);
	return err;
}

/* Another process may have removed or replaced what we hold open. */
static bool is_still_there(const struct ky_store *store)
{
	char path[sizeof(store->directory) + sizeof(store->service) + sizeof(store->run) + 4];
	struct stat held, now;

	if (store->run_fd < 0)
		return false;
	snprintf(path, sizeof(path), "%s/%s/%s", store->directory, store->service, store->run);
	return fstat(store->run_fd, &held) == 0 && lstat(path, &now) == 0 &&
	       held.st_ino == now.st_ino && held.st_dev == now.st_dev;
}

/* ---- one segment ---- */

static int put_bytes(void *ctx, const uint8_t *bytes, size_t count)
{
	struct ky_store *store = ctx;
	int err;

	if (!ky_fd_is(store->fd, &store->segment_is))
		return -EBADF;
	err = ky_disk_write_all(store->fd, bytes, count);
	if (!err)
		store->stored_bytes += count;
	return err;
}

static int open_segment(struct ky_store *store)
{
	char active[NAME_BYTES + 8];
	int err = 0;

	if (!is_still_there(store)) {
		close_directories(store);
		err = open_directories(store);
		if (err)
			return err;
	}
	/* A number that exists (an earlier recorder of this very process) is passed over. */
	for (int tries = 0; tries < 100000; tries++) {
		struct stat about;

		snprintf(store->name, sizeof(store->name), "%06llu.trc%s",
			 (unsigned long long)store->number++, store->factory.suffix);
		if (fstatat(store->run_fd, store->name, &about, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		snprintf(active, sizeof(active), "%s.active", store->name);
		store->fd = openat(store->run_fd, active,
				   O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				   KY_DISK_FILE_MODE);
		err = store->fd < 0 ? -errno : 0;
		if (err != -EEXIST)
			break;
	}
	if (err)
		return err;
	ky_fd_identify(store->fd, &store->segment_is);
	err = store->factory.open(&store->factory, &store->compressor);
	if (err) {
		ky_disk_close(&store->fd);
		unlinkat(store->run_fd, active, 0);
		return err;
	}
	store->raw_bytes = store->stored_bytes = store->whole_bytes = 0;
	store->retry_bytes = 0;
	return 0;
}

static void keep_error(struct ky_store *store, int err)
{
	if (err)
		store->stats.last_error = err;
}

static void apply_bound(struct ky_store *store)
{
	struct ky_retention done;
	uint64_t active = store->fd >= 0 ? store->stored_bytes : 0;
	int err;

	if (!ky_fd_is(store->service_fd, &store->service_is))
		return;
	err = ky_retention_apply(store->service_fd, store->run, store->total_bytes_max, &done);
	keep_error(store, err);
	if (err)
		return;
	store->stats.segments_deleted += done.deleted_count;
	store->stats.bytes_deleted += done.deleted_bytes;
	store->stats.segments_unsent += done.unsent_count;
	store->stats.bytes_unsent += done.unsent_bytes;
	store->sealed_total = done.total_bytes > active ? done.total_bytes - active : 0;
	/* Checking again makes sense only once there is more to read. */
	store->retry_bytes = active + store->total_bytes_max / 64;
}

static void drop_tail(struct ky_store *store)
{
	if (!ky_fd_is(store->fd, &store->segment_is))
		keep_error(store, -EBADF);
	else if (ftruncate(store->fd, (off_t)store->whole_bytes) != 0)
		keep_error(store, -errno);
	store->stored_bytes = store->whole_bytes;
}

/* is_broken: the last chunk did not go through; what came before it is kept. */
static void seal(struct ky_store *store, bool is_broken)
{
	char active[NAME_BYTES + 8];

	if (is_broken)
		drop_tail(store);
	snprintf(active, sizeof(active), "%s.active", store->name);
	if (store->whole_bytes &&
	    store->compressor.finish(store->compressor.self, put_bytes, store) != 0)
		drop_tail(store); /* a tail is worth less than a clean end */
	store->compressor.close(store->compressor.self);
	/* The program has closed them: the segment stays as an active one, which is recovered. */
	if (!ky_fd_is(store->fd, &store->segment_is) || !ky_fd_is(store->run_fd, &store->run_is)) {
		keep_error(store, -EBADF);
		ky_disk_close_own(&store->fd, &store->segment_is);
		return;
	}
	if (!store->whole_bytes) {
		ky_disk_close(&store->fd);
		unlinkat(store->run_fd, active, 0);
		return;
	}
	keep_error(store, fsync(store->fd) == 0 ? 0 : -errno);
	ky_disk_close(&store->fd);
	if (renameat(store->run_fd, active, store->run_fd, store->name) != 0) {
		keep_error(store, -errno);
		return;
	}
	keep_error(store, fsync(store->run_fd) == 0 ? 0 : -errno);
	store->stats.segments_sealed++;
	store->stats.bytes_raw += store->raw_bytes;
	store->stats.bytes_stored += store->stored_bytes;
	snprintf(store->stats.last_path, sizeof(store->stats.last_path), "%s/%s/%s/%s",
		 store->directory, store->service, store->run, store->name);
	apply_bound(store);
}

static bool is_deleted(const struct ky_store *store)
{
	struct stat about;

	return !ky_fd_is(store->fd, &store->segment_is) || fstat(store->fd, &about) != 0 ||
	       about.st_nlink == 0;
}

/* Another process deleted the file meanwhile: what it held is gone, what is written on would be
 * lost, too. Or the program closed its descriptor. */
static void drop_segment(struct ky_store *store)
{
	store->compressor.close(store->compressor.self);
	ky_disk_close_own(&store->fd, &store->segment_is);
}

static int write_chunk(struct ky_store *store, const struct ky_chunk *chunk)
{
	int err;

	if (chunk->is_segment_start && store->fd >= 0)
		seal(store, false);
	if (store->fd >= 0 && is_deleted(store)) {
		drop_segment(store);
		return -ENOENT;
	}
	if (store->fd < 0) {
		err = open_segment(store);
		if (err)
			return err;
	}
	err = store->compressor.write(store->compressor.self, chunk->bytes, chunk->byte_count,
				      put_bytes, store);
	if (err) {
		seal(store, true);
		return err;
	}
	store->raw_bytes += chunk->byte_count;
	store->whole_bytes = store->stored_bytes;
	if (chunk->is_segment_end)
		seal(store, false);
	else if (store->sealed_total + store->stored_bytes > store->total_bytes_max &&
		 store->stored_bytes >= store->retry_bytes)
		apply_bound(store);
	return 0;
}

/* ---- the object ---- */

static int fail_open(const struct ky_store_options *options, const char *what, int err)
{
	if (options->errbuf && options->errbuf_bytes && options->file)
		snprintf(options->errbuf, options->errbuf_bytes, "%s: %s: %s", options->file, what,
			 kymo_error_text(err));
	else if (options->errbuf && options->errbuf_bytes)
		snprintf(options->errbuf, options->errbuf_bytes, "%s/%s: %s: %s",
			 options->directory ? options->directory : "", options->service, what,
			 kymo_error_text(err));
	return err;
}

/* "2026-05-18T12-30-00-0123abcd-42-777" */
static void name_run(struct ky_store *store, const struct ky_store_options *options)
{
	time_t seconds = (time_t)(options->started_unix_ns / 1000000000);
	struct tm parts;
	size_t used = 0;

	if (seconds > 0 && gmtime_r(&seconds, &parts))
		used = strftime(store->run, sizeof(store->run), "%Y-%m-%dT%H-%M-%S-", &parts);
	snprintf(store->run + used, sizeof(store->run) - used, "%s", options->run);
	if (!ky_retention_is_run_name(store->run)) /* a date far from ours */
		snprintf(store->run, sizeof(store->run), "%s", options->run);
}

static int copy_options(struct ky_store *store, const struct ky_store_options *options)
{
	if (!options->directory || !options->directory[0] || !options->service || !options->run)
		return -EINVAL;
	if (strlen(options->directory) >= sizeof(store->directory))
		return -ENAMETOOLONG;
	if (!ky_retention_is_run_name(options->run))
		return -EINVAL;
	snprintf(store->directory, sizeof(store->directory), "%s", options->directory);
	sanitise(store->service, sizeof(store->service), options->service);
	name_run(store, options);
	store->factory = options->compressor ? *options->compressor : ky_compressor_none;
	store->segment_bytes_max = options->segment_bytes_max ? options->segment_bytes_max :
								SEGMENT_BYTES_DEFAULT;
	store->rotate_interval_ns = options->rotate_interval_ns ? options->rotate_interval_ns :
								  ROTATE_DEFAULT_NS;
	store->total_bytes_max = options->total_bytes_max ? options->total_bytes_max :
							    TOTAL_BYTES_DEFAULT;
	return 0;
}

static int open_file(struct ky_store *store, const struct ky_store_options *options)
{
	const struct ky_compressor_factory *compressor = options->compressor ? options->compressor :
									       &ky_compressor_none;
	struct ky_trace_file_options file = {.path = options->file,
					     .further_pid = options->file_further_pid,
					     .compressor = compressor,
					     .bytes_max = options->total_bytes_max};
	const char *suffix = ky_trace_file_suffix(options->file);
	struct ky_trace_file_stats stats;
	int err;

	if (!suffix || strcmp(suffix, compressor->suffix) != 0)
		return fail_open(options, "the name says another compression", -EINVAL);
	err = ky_trace_file_open(&store->file, &file);
	if (err == -EBUSY)
		return fail_open(options, "another recorder writes this file", err);
	if (err == -EINVAL)
		return fail_open(options, "is no regular file", err);
	if (err)
		return fail_open(options, "cannot be made", err);
	ky_trace_file_stats(store->file, &stats);
	snprintf(store->stats.run_directory, sizeof(store->stats.run_directory), "%s", stats.path);
	return 0;
}

int ky_store_open(struct ky_store **out, const struct ky_store_options *options)
{
	struct ky_store *store;
	int err;

	*out = NULL;
	store = ky_alloc(sizeof(*store));
	if (!store)
		return -ENOMEM;
	store->fd = store->service_fd = store->run_fd = store->lock_fd = -1;
	if (options->file) {
		err = open_file(store, options);
		if (err)
			ky_store_close(store);
		else
			*out = store;
		return err;
	}
	err = copy_options(store, options);
	if (err) {
		ky_store_close(store);
		return fail_open(options,
				 err == -ENAMETOOLONG ?
					 "the directory's name is too long" :
					 "directory, service and run name of a process are needed",
				 err);
	}
	err = open_directories(store);
	if (err) {
		ky_store_close(store);
		return fail_open(options,
				 err == -EBUSY ? "another recorder writes into this run" :
						 "cannot make the directory of this run",
				 err);
	}
	snprintf(store->stats.run_directory, sizeof(store->stats.run_directory), "%s/%s/%s",
		 store->directory, store->service, store->run);
	apply_bound(store);
	*out = store;
	return 0;
}

void ky_store_close(struct ky_store *store)
{
	if (!store)
		return;
	(void)ky_trace_file_close(store->file);
	if (store->fd >= 0)
		seal(store, false);
	close_directories(store);
	ky_free(store);
}

int ky_store_chunk(void *ctx, const struct ky_chunk *chunk)
{
	struct ky_store *store = ctx;
	bool is_last_word = chunk->is_segment_start && chunk->is_segment_end;
	int err;

	if (store->retry_ns && !is_last_word && chunk->last_ns < store->retry_ns &&
	    chunk->last_ns + RETRY_NS >= store->retry_ns)
		return store->stats.last_error;
	store->retry_ns = 0;
	err = store->file ? ky_trace_file_chunk(store->file, chunk) : write_chunk(store, chunk);
	if (err) {
		keep_error(store, err);
		store->retry_ns = chunk->last_ns + RETRY_NS;
	}
	return err;
}

bool ky_store_is_over(const struct ky_store *store, uint64_t raw_bytes, uint64_t first_ns,
		      uint64_t now_ns)
{
	if (store->file)
		return false;
	return raw_bytes >= store->segment_bytes_max ||
	       (now_ns > first_ns && now_ns - first_ns >= store->rotate_interval_ns);
}

static void add_file_stats(const struct ky_store *store, struct ky_store_stats *out)
{
	struct ky_trace_file_stats file;

	ky_trace_file_stats(store->file, &file);
	out->bytes_raw = file.bytes_raw;
	out->bytes_stored = file.bytes_stored;
	out->is_full = file.is_full;
	snprintf(out->last_path, sizeof(out->last_path), "%s", file.path);
}

void ky_store_stats(const struct ky_store *store, struct ky_store_stats *out)
{
	*out = store->stats;
	if (store->file)
		add_file_stats(store, out);
	if (store->fd >= 0) {
		out->bytes_raw += store->raw_bytes;
		out->bytes_stored += store->stored_bytes;
	}
}
