/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/trace_file.h>

#include <base/alloc.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <ship/disk.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 512
#define NAME_TRIES_MAX 100000u
/* What ends the compression: a row of the seek table for each chunk, and some. */
#define TAIL_BYTES 64u
#define TAIL_BYTES_PER_CHUNK 8u

struct ky_trace_file {
	char path[PATH_BYTES];  /* of the file that is open */
	char named[PATH_BYTES]; /* as asked for */
	uint32_t further_pid;
	uint64_t bytes_max;
	struct ky_compressor_factory factory;
	struct ky_compressor compressor;
	bool has_coder, is_full;
	int fd;
	struct ky_fd_identity is;
	uint64_t raw_bytes;
	uint64_t stored_bytes; /* written so far */
	uint64_t whole_bytes;  /* ... up to the end of the last whole chunk */
	uint64_t chunk_count;
	uint64_t room_end; /* of the current chunk; 0: no bound */
};

/* ---- names ---- */

static size_t without(const char *name, size_t count, const char *ending)
{
	size_t bytes = strlen(ending);

	return count > bytes && memcmp(name + count - bytes, ending, bytes) == 0 ? count - bytes :
										   count;
}

/* Returns the bytes before the ending, the directories included; 0: none that we know. */
static size_t stem(const char *path, const char **suffix)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	size_t whole = strlen(name), packed, bytes;

	*suffix = "";
	packed = without(name, whole, ".zst");
	if (packed != whole) {
		*suffix = ".zst";
	} else {
		packed = without(name, whole, ".gz");
		if (packed != whole)
			*suffix = ".gz";
	}
	bytes = without(name, without(name, packed, ".trc"), ".bin");
	return bytes == whole ? 0 : (size_t)(name - path) + bytes;
}

const char *ky_trace_file_suffix(const char *path)
{
	const char *suffix;

	return stem(path, &suffix) ? suffix : NULL;
}

bool ky_trace_file_is_foreign(const char *path)
{
	static const char *const packings[] = {".xz",   ".bz2", ".lz4",  ".lz",  ".lzma",
					       ".zstd", ".br",  ".gzip", ".zip", ".7z"};
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const char *ending = strrchr(name, '.');
	size_t bytes = ending ? (size_t)(ending - name) : 0;

	if (!bytes || !ending[1] || ky_trace_file_suffix(path))
		return false;
	if (without(name, bytes, ".trc") != bytes)
		return true;
	for (size_t i = 0; i < sizeof(packings) / sizeof(packings[0]); i++) {
		if (strcmp(ending, packings[i]) == 0)
			return true;
	}
	return false;
}

/* The name of the n-th try. */
static int make_name(struct ky_trace_file *file, uint32_t n)
{
	const char *suffix;
	size_t bytes = stem(file->named, &suffix);
	char copy[16] = "";
	int count;

	if (n)
		(void)snprintf(copy, sizeof(copy), ".%u", n + 1);
	if (!file->further_pid)
		count = snprintf(file->path, sizeof(file->path), "%s", file->named);
	else
		count = snprintf(file->path, sizeof(file->path), "%.*s.%u%s%s", (int)bytes,
				 file->named, file->further_pid, copy, file->named + bytes);
	return count >= 0 && (size_t)count < sizeof(file->path) ? 0 : -ENAMETOOLONG;
}

/* Who writes a trace holds a lock on it. Nothing to see is nothing to mind. */
static bool is_being_written(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	bool is_locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;

	ky_disk_close(&fd);
	return is_locked;
}

/* What may be moved away or replaced: a trace, packed or not, or nothing at all. A name is no proof
 * of that, so the first bytes must say it. */
static int check_begins_as_trace(const char *path)
{
	static const uint8_t plain[4] = {'T', 'R', 'C', 0}, zstd[4] = {0x28, 0xb5, 0x2f, 0xfd};
	static const uint8_t gzip[2] = {0x1f, 0x8b};
	uint8_t bytes[4];
	struct stat about;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), err = KYMO_E_NOT_TRACE;
	ssize_t count;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
		count = read(fd, bytes, sizeof(bytes));
		if (count == 0 ||
		    (count == 4 && (memcmp(bytes, plain, 4) == 0 || memcmp(bytes, zstd, 4) == 0 ||
				    memcmp(bytes, gzip, 2) == 0)))
			err = 0;
	}
	ky_disk_close(&fd);
	return err;
}

static int check_old(const char *path)
{
	char old[PATH_BYTES];

	(void)snprintf(old, sizeof(old), "%s.old", path);
	return check_begins_as_trace(old);
}

int ky_trace_file_check(const char *path)
{
	struct stat about;
	int err;

	if (strlen(path) + sizeof(".old") > PATH_BYTES)
		return -ENAMETOOLONG;
	if (stat(path, &about) != 0)
		return 0; /* making it will say what is wrong, if anything is */
	if (S_ISDIR(about.st_mode))
		return -EISDIR;
	if (!S_ISREG(about.st_mode))
		return -EINVAL;
	if (is_being_written(path))
		return -EBUSY;
	err = check_begins_as_trace(path);
	return err || about.st_size == 0 ? err : check_old(path);
}

/* ---- making the file ---- */

/* An empty file may have been made for us, with owner and mode as they shall be. */
static int adopt(struct ky_trace_file *file)
{
	struct stat about;

	file->fd = open(file->path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file->fd >= 0 && fstat(file->fd, &about) == 0 && S_ISREG(about.st_mode) &&
	    about.st_size == 0)
		return 0;
	ky_disk_close(&file->fd);
	return -EEXIST;
}

/* One step each: at every moment the earlier trace has one of the two names. */
int ky_trace_file_set_aside(const char *path)
{
	char old[PATH_BYTES];
	struct stat about;
	int err = ky_trace_file_check(path);

	if (err)
		return err;
	if (lstat(path, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == 0)
		return unlink(path) == 0 || errno == ENOENT ? 0 : -errno;
	err = check_old(path); /* where a link leads to an empty file that was not read */
	if (err)
		return err;
	(void)snprintf(old, sizeof(old), "%s.old", path);
	return rename(path, old) == 0 || errno == ENOENT ? 0 : -errno;
}

static int make_file(struct ky_trace_file *file)
{
	int err = -EEXIST;

	for (uint32_t n = 0; err == -EEXIST && n < NAME_TRIES_MAX; n++) {
		err = make_name(file, n);
		if (err)
			return err;
		file->fd = open(file->path,
				O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				KY_DISK_FILE_MODE);
		err = file->fd < 0 ? -errno : 0;
		if (err != -EEXIST || file->further_pid)
			continue;
		err = adopt(file);
		if (err && (err = ky_trace_file_set_aside(file->path)) == 0)
			err = -EEXIST; /* the name is free now */
	}
	/* File systems without locks are fine, too. */
	if (!err && flock(file->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
		err = -EBUSY;
	return err;
}

static int begin_coder(struct ky_trace_file *file)
{
	int err = file->factory.open(&file->factory, &file->compressor);

	if (err)
		(void)unlink(file->path); /* empty */
	return err;
}

static int begin(struct ky_trace_file *file)
{
	int err = ky_disk_make_parent(file->named);

	if (!err)
		err = make_file(file);
	if (!err)
		err = begin_coder(file);
	if (err) {
		ky_disk_close(&file->fd);
		return err;
	}
	ky_fd_identify(file->fd, &file->is);
	file->has_coder = true;
	file->raw_bytes = file->stored_bytes = file->whole_bytes = file->chunk_count = 0;
	return 0;
}

static void end(struct ky_trace_file *file)
{
	if (file->has_coder)
		file->compressor.close(file->compressor.self);
	file->has_coder = false;
	/* A child that was forked from us has this descriptor, too. */
	if (ky_fd_is(file->fd, &file->is))
		(void)flock(file->fd, LOCK_UN);
	ky_disk_close_own(&file->fd, &file->is);
}

int ky_trace_file_open(struct ky_trace_file **out, const struct ky_trace_file_options *options)
{
	struct ky_trace_file *file;
	int err;

	*out = NULL;
	if (strlen(options->path) + sizeof(".old") > PATH_BYTES)
		return -ENAMETOOLONG;
	file = ky_alloc(sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->fd = -1;
	(void)snprintf(file->named, sizeof(file->named), "%s", options->path);
	file->further_pid = options->further_pid;
	file->factory = *options->compressor;
	file->bytes_max = options->bytes_max;
	err = begin(file);
	if (err) {
		ky_free(file);
		return err;
	}
	*out = file;
	return 0;
}

/* ---- writing ---- */

static int put_bytes(void *ctx, const uint8_t *bytes, size_t count)
{
	struct ky_trace_file *file = ctx;
	int err;

	if (file->room_end && file->stored_bytes + count > file->room_end)
		return KYMO_E_LIMIT;
	if (!ky_fd_is(file->fd, &file->is))
		return -EBADF;
	err = ky_disk_write_all(file->fd, bytes, count);
	if (!err)
		file->stored_bytes += count;
	return err;
}

/* The file is opened to append: what is written next stands after what is left. */
static int drop_tail(struct ky_trace_file *file)
{
	file->stored_bytes = file->whole_bytes;
	if (!ky_fd_is(file->fd, &file->is))
		return -EBADF;
	return ftruncate(file->fd, (off_t)file->whole_bytes) == 0 ? 0 : -errno;
}

static uint64_t room_end(const struct ky_trace_file *file, bool is_last_word)
{
	uint64_t tail = TAIL_BYTES + TAIL_BYTES_PER_CHUNK * (file->chunk_count + 2);
	uint64_t taken = tail + (is_last_word ? 0 : KY_TRACE_FILE_RESERVE_BYTES);

	if (!file->bytes_max)
		return 0;
	return file->bytes_max > taken ? file->bytes_max - taken : 1;
}

static bool is_deleted(const struct ky_trace_file *file)
{
	struct stat about;

	return !ky_fd_is(file->fd, &file->is) || fstat(file->fd, &about) != 0 ||
	       about.st_nlink == 0;
}

int ky_trace_file_chunk(struct ky_trace_file *file, const struct ky_chunk *chunk)
{
	bool is_last_word = chunk->is_segment_start && chunk->is_segment_end;
	int err = 0;

	/* What it held is gone; what is written on would be lost, too. Or the program has closed
	 * the descriptor. */
	if (file->fd >= 0 && is_deleted(file)) {
		end(file);
		return -ENOENT;
	}
	if (file->is_full && !is_last_word)
		return KYMO_E_LIMIT;
	if (file->fd < 0)
		err = begin(file);
	if (err)
		return err;
	file->room_end = room_end(file, is_last_word);
	err = file->compressor.write(file->compressor.self, chunk->bytes, chunk->byte_count,
				     put_bytes, file);
	file->room_end = 0;
	if (err) {
		file->is_full = file->is_full || err == KYMO_E_LIMIT;
		(void)drop_tail(file);
		return err;
	}
	file->chunk_count++;
	file->raw_bytes += chunk->byte_count;
	file->whole_bytes = file->stored_bytes;
	return 0;
}

int ky_trace_file_close(struct ky_trace_file *file)
{
	int err = 0;

	if (!file)
		return 0;
	if (file->fd >= 0 && !file->whole_bytes) {
		if (!is_deleted(file))
			(void)unlink(file->path);
	} else if (file->fd >= 0) {
		err = file->compressor.finish(file->compressor.self, put_bytes, file);
		if (err)
			(void)drop_tail(file); /* a tail is worth less than a clean end */
		if (ky_fd_is(file->fd, &file->is) && fsync(file->fd) != 0 && !err &&
		    errno != EINVAL && errno != EROFS)
			err = -errno;
	}
	end(file);
	ky_free(file);
	return err;
}

void ky_trace_file_stats(const struct ky_trace_file *file, struct ky_trace_file_stats *out)
{
	*out = (struct ky_trace_file_stats){.bytes_raw = file->raw_bytes,
					    .bytes_stored = file->stored_bytes,
					    .is_full = file->is_full,
					    .path = file->path};
}
