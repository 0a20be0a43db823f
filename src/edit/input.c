/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <edit/input.h>

#include <base/alloc.h>
#include <edit/input_processes.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <ship/container.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STDIN_NAME "standard input"
#define STDIN_PATH "/proc/self/fd/0"

struct ky_input_progress {
	uint64_t done, total; /* stored bytes; total 0: not known */
	size_t ended;         /* sources that have been read to their end */
	bool is_loading;      /* and then sorted */
};

struct ky_input_file {
	struct ky_byte_source inner;
	struct ky_input *input;
	uint64_t counted; /* stored bytes already in progress->done */
	bool is_limited;  /* a read met a limit; the sentence is in error */
	bool is_ended;    /* counted in progress->ended */
	FILE *spool;      /* copy of what can be read only once; NULL: none */
	char error[KY_INPUT_ERROR_BYTES];
};

void ky_input_step(const struct ky_input *input, const char *what)
{
	if (input->view.step)
		input->view.step(what);
}

static void show_count(const struct ky_input *input, uint64_t done, uint64_t total)
{
	if (input->view.count)
		input->view.count(done, total);
}

void ky_input_say(const struct ky_input *input, const char *format, ...)
{
	char text[KY_INPUT_ERROR_BYTES];
	va_list args;

	if (!input->view.notice)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	input->view.notice(text);
}

int ky_input_fail(struct ky_input *input, int code, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(input->error, sizeof(input->error), format, args);
	va_end(args);
	return code;
}

static int64_t file_read(void *ctx, uint8_t *out, size_t capacity)
{
	struct ky_input_file *file = ctx;
	struct ky_input_progress *progress = file->input->progress;
	int64_t count = file->inner.read(file->inner.ctx, out, capacity);
	uint64_t stored = ky_inflate_stored_offset(&file->inner);

	file->is_limited |= count == KYMO_E_LIMIT;
	if (stored > file->counted)
		progress->done += stored - file->counted;
	file->counted = stored;
	show_count(file->input, progress->done, progress->total);
	if (count <= 0 && !file->is_ended) {
		file->is_ended = true;
		if (++progress->ended == file->input->count && progress->is_loading)
			ky_input_step(file->input, "sorting");
	}
	return count;
}

void ky_input_restart(struct ky_input *input)
{
	struct ky_input_progress *progress = input->progress;

	progress->done = progress->total = progress->ended = 0;
	for (size_t i = 0; i < input->count; i++) {
		struct ky_input_file *file = input->sources[i].ctx;

		file->counted = 0;
		file->is_ended = false;
		progress->total += file->inner.stored_bytes;
	}
}

static int file_seek(void *ctx, uint64_t offset)
{
	struct ky_input_file *file = ctx;
	struct ky_input_progress *progress = file->input->progress;

	if (progress->ended == file->input->count) { /* all over again, one after the other */
		ky_input_restart(file->input);
		ky_input_step(file->input, "reading again");
	}
	progress->done -= file->counted;
	progress->ended -= file->is_ended;
	file->is_ended = false;
	file->counted = 0;
	file->is_limited = false;
	file->error[0] = '\0';
	return file->inner.seek(file->inner.ctx, offset);
}

static const char *file_reason(void *ctx)
{
	const struct ky_input_file *file = ctx;

	return file->error;
}

static void file_close(void *ctx)
{
	struct ky_input_file *file = ctx;

	if (file->inner.close)
		file->inner.close(file->inner.ctx);
	file->inner.close = NULL;
	if (file->spool)
		(void)fclose(file->spool);
	file->spool = NULL;
}

void ky_input_notice(struct ky_input *input, const char *text)
{
	if (input->notice_count++ < KY_INPUT_NOTICES_MAX) {
		ky_input_say(input, "%s", text);
	} else if (input->notice_count == KY_INPUT_NOTICES_MAX + 1) {
		ky_input_say(input, "there are more of these; the first %u are shown",
			     KY_INPUT_NOTICES_MAX);
	}
}

/* A pipe may have no end: what is no trace is not copied, and inflate says what it is. */
static bool is_worth_copying(const uint8_t *block, size_t bytes)
{
	return ky_container_of(block, bytes) != KY_CONTAINER_NONE;
}

static int copy_all(const struct ky_input *input, int from, FILE *to)
{
	static uint8_t block[65536];
	size_t held = 0; /* too little to recognise what it is */
	uint64_t copied = 0;
	bool is_known = false;

	ky_input_step(input, "reading");
	for (;;) {
		ssize_t got = read(from, block + held, sizeof(block) - held);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		held += (size_t)got;
		copied += (size_t)got;
		show_count(input, copied, 0);
		if (got > 0 && !is_known && held < KY_CONTAINER_MAGIC_BYTES)
			continue;
		if (fwrite(block, 1, held, to) != held)
			return -errno;
		if (got == 0 || (!is_known && !is_worth_copying(block, held)))
			return fflush(to) ? -errno : 0;
		is_known = true;
		held = 0;
	}
}

/* A file as standard input can be read as often as we like, if it stands at its start and we may
 * open it again. */
static bool is_rereadable_stdin(void)
{
	struct stat info;

	return fstat(STDIN_FILENO, &info) == 0 && S_ISREG(info.st_mode) &&
	       lseek(STDIN_FILENO, 0, SEEK_CUR) == 0 && access(STDIN_PATH, R_OK) == 0;
}

static const char *shown_name(const struct ky_input *input, const char *path)
{
	for (size_t i = 0; input->shown_names && i < input->argument_count; i++)
		if (strcmp(input->arguments[i], path) == 0)
			return input->shown_names[i];
	return NULL;
}

/* Commands read their input twice: a pipe is first copied to a file without a name. */
static int spool(const struct ky_input *input, struct ky_input_file *file, const char *path)
{
	bool is_stdin = strcmp(path, "-") == 0;
	struct stat info;
	int result, fd;

	if (!is_stdin && (stat(path, &info) != 0 || !S_ISFIFO(info.st_mode)))
		return 0;
	fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0; /* opening it in earnest says why */
	file->spool = tmpfile();
	result = file->spool ? copy_all(input, fd, file->spool) : -errno;
	if (!is_stdin)
		(void)close(fd);
	if (result)
		(void)snprintf(file->error, sizeof(file->error),
			       "%s: cannot be copied to a temporary file: %s",
			       is_stdin ? STDIN_NAME : path, kymo_error_text(result));
	return result;
}

static int open_inner(struct ky_input *input, struct ky_input_file *file, const char *path)
{
	struct ky_inflate_options options = input->inflate;
	bool is_stdin = strcmp(path, "-") == 0, is_direct = is_stdin && is_rereadable_stdin();
	char name[64] = STDIN_PATH;
	int result = is_direct ? 0 : spool(input, file, path);

	if (result)
		return result;
	if (file->spool)
		(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fileno(file->spool));
	options.shown_name = is_stdin ? STDIN_NAME : shown_name(input, path);
	if (file->spool && !options.shown_name)
		options.shown_name = path;
	return ky_inflate_open(&file->inner, file->spool || is_direct ? name : path, &options,
			       file->error, sizeof(file->error));
}

static int add_source(struct ky_input *input, const char *path, bool is_named)
{
	struct ky_input_file *file = &input->files[input->count];
	struct ky_byte_source *source = &input->opened[input->count];
	int result = open_inner(input, file, path);

	if (result) {
		/* A recorder that was killed leaves such a beginning after its whole segments. */
		is_named = is_named && (result != KYMO_E_TRUNCATED || input->paths.count == 1);
		if (is_named)
			(void)ky_input_fail(input, result, "%s", file->error);
		else
			ky_input_say(input, "%s; this file is left out", file->error);
		file_close(file);
		return is_named ? result : 0;
	}
	file->input = input;
	*source = file->inner;
	source->read = file_read;
	source->seek = file->inner.seek ? file_seek : NULL;
	source->close = file_close;
	source->reason = file_reason;
	source->ctx = file;
	input->progress->total += file->inner.stored_bytes;
	input->count++;
	return 0;
}

static void say_passed_over(const struct ky_input *input)
{
	const struct ky_trace_paths *paths = &input->paths;

	if (paths->foreign_count)
		ky_input_say(input, "%" PRIu64 " %s no trace and left out, the first is %s",
			     paths->foreign_count,
			     paths->foreign_count == 1 ? "file is" : "files are",
			     paths->foreign_first ? paths->foreign_first : "?");
	if (paths->unreadable_count)
		ky_input_say(input, "%" PRIu64 " %s not be read and left out, the first is %s",
			     paths->unreadable_count,
			     paths->unreadable_count == 1 ? "file can" : "files can",
			     paths->unreadable_first ? paths->unreadable_first : "?");
}

static bool is_argument(const struct ky_input *input, const char *path)
{
	for (size_t i = 0; i < input->argument_count; i++) {
		if (strcmp(input->arguments[i], path) == 0)
			return true;
	}
	return false;
}

static int find_paths(struct ky_input *input)
{
	for (size_t i = 0; i < input->argument_count; i++) {
		int result = ky_trace_paths_add(&input->paths, input->arguments[i], &input->inflate,
						input->error, sizeof(input->error));

		if (result)
			return result;
	}
	say_passed_over(input);
	return 0;
}

struct identity {
	dev_t device;
	ino_t inode;
};

/* One file by two names, or one below a directory that is named too, counts once: else every event
 * of it would count twice. */
static int leave_out_doubles(struct ky_input *input)
{
	struct ky_trace_paths *paths = &input->paths;
	struct identity *seen = ky_alloc(paths->count * sizeof(*seen) + 1);
	uint32_t kept = 0, known = 0;

	if (!seen)
		return -ENOMEM;
	for (size_t i = 0; i < paths->count; i++) {
		char *path = paths->paths[i];
		struct stat info;
		uint32_t at = 0;

		if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) {
			while (at < known &&
			       (seen[at].inode != info.st_ino || seen[at].device != info.st_dev))
				at++;
			if (at < known) {
				ky_input_say(input, "%s: is among the files already and left out",
					     path);
				ky_free(path);
				continue;
			}
			seen[known++] = (struct identity){info.st_dev, info.st_ino};
		}
		paths->paths[kept++] = path;
	}
	paths->count = kept;
	ky_free(seen);
	return 0;
}

static int open_all(struct ky_input *input)
{
	int result = 0;

	input->progress = ky_alloc(sizeof(*input->progress));
	input->files = ky_alloc(input->paths.count * sizeof(*input->files));
	input->opened = ky_alloc(input->paths.count * sizeof(*input->opened));
	if (!input->progress || !input->files || !input->opened)
		return -ENOMEM;
	for (size_t i = 0; i < input->paths.count && !result; i++) {
		const char *path = input->paths.paths[i];

		result = add_source(input, path, is_argument(input, path));
	}
	input->sources = input->opened;
	input->opened_count = input->count;
	ky_input_step(input, "reading");
	if (!result && !input->count)
		result = ky_input_fail(input, -ENOENT, "none of the files can be read");
	return result;
}

int ky_input_result(struct ky_input *input, int result)
{
	if (result && !input->error[0])
		(void)ky_input_fail(input, result, "%s",
				    result == -ENOMEM ? "out of memory" : kymo_error_text(result));
	return result;
}

int ky_input_open(struct ky_input *input)
{
	int result;

	ky_input_step(input, "searching for traces");
	result = find_paths(input);
	if (!result && input->paths.count > 1)
		result = leave_out_doubles(input);
	if (!result)
		result = open_all(input);
	if (!result)
		result = ky_input_processes_find(input);
	return ky_input_result(input, result);
}

void ky_input_close(struct ky_input *input)
{
	for (size_t i = 0; i < input->opened_count; i++)
		input->opened[i].close(input->opened[i].ctx);
	ky_free(input->processes);
	ky_free(input->opened);
	ky_free(input->files);
	ky_free(input->progress);
	ky_trace_paths_release(&input->paths);
	if (input->release)
		input->release(input->release_ctx);
	memset(input, 0, sizeof(*input));
}

const char *ky_input_limit(const struct ky_input *input, size_t source)
{
	const struct ky_input_file *file = input->sources[source].ctx;

	return file->is_limited ? file->error : NULL;
}

bool ky_input_is_limited(const struct ky_input *input)
{
	for (size_t i = 0; i < input->count; i++)
		if (ky_input_limit(input, i))
			return true;
	return false;
}

void ky_input_note_unsealed(struct ky_input *input, const struct ky_unsealed *unsealed)
{
	char text[KY_INPUT_ERROR_BYTES];

	if (!unsealed->count || !unsealed->is_kymo)
		return;
	if (unsealed->count == 1)
		(void)snprintf(text, sizeof(text),
			       "%s: ends without its seal: the recorder was killed, is still "
			       "writing, or the file was truncated",
			       unsealed->first);
	else
		(void)snprintf(text, sizeof(text),
			       "%s and %u more: end without their seal: the recorder was killed, "
			       "is still writing, or the files were truncated",
			       unsealed->first, unsealed->count - 1);
	ky_input_notice(input, text);
}

void ky_input_note_damage(struct ky_input *input, const struct ky_trace *trace)
{
	struct ky_unsealed unsealed = {.is_kymo = trace->is_kymo};

	for (uint32_t i = 0; i < trace->notice_count; i++) {
		int code = trace->notices[i].code;

		input->is_damaged |= code != 0 && code != KYMO_E_TRUNCATED;
		ky_input_notice(input, trace->notices[i].text);
	}
	for (uint32_t i = 0; i < trace->file_count; i++)
		ky_unsealed_note(&unsealed, trace->files[i].name, trace->files[i].is_sealed,
				 trace->files[i].is_torn, trace->files[i].event_count);
	ky_input_note_unsealed(input, &unsealed);
}

int ky_input_trace(struct ky_input *input, struct ky_trace **out)
{
	struct ky_trace_options options = {
		.memory_bytes_max = input->memory_bytes_max,
		.memory_option = "--max-memory",
		.errbuf = input->error,
		.errbuf_bytes = sizeof(input->error),
	};
	int result;

	input->progress->is_loading = true;
	result = ky_trace_open(out, input->sources, input->count, &options);
	input->progress->is_loading = false;
	return ky_input_result(input, result);
}
