/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <cli/page_file.h>

#include <base/buf.h>
#include <base/text.h>
#include <cli/cli.h>
#include <edit/rewrite.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <kymo/base.h>
#include <limits.h>
#include <ship/container.h>
#include <ship/out_file.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PART_BYTES (48u << 10) /* divides by 3, so that parts of base64 join */
#define PART_CHARS (PART_BYTES / 3 * 4)

/* Where in the viewer the trace goes. */
static const char place[] = "<!--kymo-trace-->";
#define NAMED_FILE "/named.trc.zst"
#define SCRUBBED_FILE "/scrubbed.trc.zst"

extern char **environ;

/* ---- the viewer ---- */

static int read_all(int fd, struct ky_buf *out)
{
	static uint8_t part[65536];
	ssize_t got;

	while ((got = read(fd, part, sizeof(part))) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (ky_buf_append(out, part, (size_t)got))
			return out->failed;
	}
	return 0;
}

/* Returns a descriptor; -ENOENT. */
static int open_viewer(void)
{
	static const char *const places[] = {"viewer/viewer.html", "../share/kymo/viewer.html"};
	static char program[PATH_MAX], path[PATH_MAX + 64];
	ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);
	const char *directory;

	if (bytes <= 0)
		return -ENOENT;
	program[bytes] = '\0';
	directory = dirname(program);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int fd;

		if ((size_t)snprintf(path, sizeof(path), "%s/%s", directory, places[i]) >=
		    sizeof(path))
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
	}
	return -ENOENT;
}

int ky_page_viewer_read(struct ky_buf *viewer)
{
	int fd = open_viewer(), result;

	if (fd < 0) {
		ky_cli_error("the viewer is not installed: neither viewer/viewer.html beside kymo "
			     "nor ../share/kymo/viewer.html is there; `make viewer` builds it");
		return KY_EXIT_TROUBLE;
	}
	result = read_all(fd, viewer);
	(void)close(fd);
	if (result == -ENOMEM)
		ky_cli_error("out of memory");
	else if (result)
		ky_cli_error("viewer.html cannot be read: %s", kymo_error_text(result));
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

/* *at: where the trace goes. */
static int load_viewer(struct ky_buf *viewer, size_t *at)
{
	const uint8_t *found;
	int code = ky_page_viewer_read(viewer);

	if (code)
		return code;
	found = memmem(viewer->bytes, viewer->used, place, strlen(place));
	if (!found) {
		ky_cli_error("viewer.html is not the viewer of this kymo; `make viewer` builds it");
		return KY_EXIT_TROUBLE;
	}
	*at = (size_t)(found - viewer->bytes);
	return KY_EXIT_OK;
}

/* ---- the trace ---- */

/* Returns a descriptor; -1, said why. */
static int open_trace(const char *path, bool is_bounded)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t first[KY_CONTAINER_MAGIC_BYTES] = {0};
	struct stat status;
	ssize_t got;

	if (fd < 0 || fstat(fd, &status)) {
		ky_cli_error("%s: %s", path, strerror(errno));
	} else if (!S_ISREG(status.st_mode)) {
		ky_cli_error("%s is no file; `kymo convert -o FILE` makes one of a directory",
			     path);
	} else if (is_bounded && (uint64_t)status.st_size > KY_PAGE_TRACE_BYTES_MAX) {
		ky_cli_error("%s has more than 256 MiB, which no browser reads as part of a page; "
			     "open it with the viewer's own button, or give --max-mb 256 for a "
			     "page of its findings",
			     path);
	} else {
		got = pread(fd, first, sizeof(first), 0);
		if (got > 0 && ky_container_of(first, (size_t)got) != KY_CONTAINER_NONE)
			return fd;
		ky_cli_error("%s is not a trace", path);
	}
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

/* `kymo symbolize`, silently. Returns whether it wrote the file. */
static bool symbolize(const char *trace, const char *output)
{
	char *arguments[] = {strdup("kymo"), strdup("symbolize"), strdup("-q"),  strdup("-o"),
			     strdup(output), strdup("--"),        strdup(trace), NULL};
	const size_t count = sizeof(arguments) / sizeof(arguments[0]) - 1;
	posix_spawn_file_actions_t actions;
	bool is_whole = true;
	int status = -1;
	pid_t pid;

	for (size_t i = 0; i < count; i++)
		is_whole = is_whole && arguments[i];
	if (is_whole && !posix_spawn_file_actions_init(&actions)) {
		for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
			(void)posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR,
							       0);
		if (!posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ))
			while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
				;
		(void)posix_spawn_file_actions_destroy(&actions);
	}
	for (size_t i = 0; i < count; i++)
		free(arguments[i]);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Writes the trace anew without what is redacted. Returns an exit code; trouble has been said. */
static int scrub(char *trace, uint32_t redacted, const char *output)
{
	struct ky_redact redact;
	struct ky_input input = {.arguments = &trace, .argument_count = 1};
	struct ky_rewrite rewrite = {
		.input = &input, .redact = &redact, .output = output, .is_mix = true};
	int result = ky_redact_init(&redact, redacted);

	if (result) {
		ky_cli_error("the system gives no random numbers: %s", kymo_error_text(result));
		return KY_EXIT_TROUBLE;
	}
	result = ky_input_open(&input);
	if (!result)
		result = ky_rewrite_prepare(&rewrite);
	if (!result)
		result = ky_rewrite_run(&rewrite);
	if (result)
		ky_cli_error("%s", *input.error ? input.error : kymo_error_text(result));
	ky_input_close(&input);
	ky_redact_release(&redact);
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

static int open_limited(const char *path, bool is_bounded)
{
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && (fstat(fd, &status) ||
			(is_bounded && (uint64_t)status.st_size > KY_PAGE_TRACE_BYTES_MAX))) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

/* The trace as the page gets it: with the names of its code, which a page cannot look up because
 * they lie in the program's files; where that is not possible, without. And without what is
 * redacted. *fd: of the trace, and then of that one. Returns an exit code. */
static int prepare_trace(const char *trace, uint32_t redacted, bool is_bounded, int *fd)
{
	const char *place_of = getenv("TMPDIR");
	static char directory[PATH_MAX], named[PATH_MAX + sizeof(NAMED_FILE)],
		scrubbed[PATH_MAX + sizeof(SCRUBBED_FILE)];
	bool is_named;
	int prepared = -1, code = KY_EXIT_OK;

	(void)snprintf(directory, sizeof(directory), "%s/kymo-page-XXXXXX",
		       place_of && *place_of ? place_of : "/tmp");
	if (!mkdtemp(directory)) {
		if (!redacted)
			return KY_EXIT_OK;
		ky_cli_error("%s: %s; a page is redacted there, or not at all with --keep all",
			     directory, strerror(errno));
		return KY_EXIT_TROUBLE;
	}
	(void)snprintf(named, sizeof(named), "%s%s", directory, NAMED_FILE);
	(void)snprintf(scrubbed, sizeof(scrubbed), "%s%s", directory, SCRUBBED_FILE);
	is_named = symbolize(trace, named);
	if (redacted) {
		char *from = strdup(is_named ? named : trace);

		code = from ? scrub(from, redacted, scrubbed) : KY_EXIT_TROUBLE;
		free(from);
		if (!code)
			prepared = open_limited(scrubbed, is_bounded);
		if (!code && prepared < 0) {
			ky_cli_error("%s is too long for a page once it is redacted", trace);
			code = KY_EXIT_TROUBLE;
		}
	} else if (is_named) {
		prepared = open_limited(named, is_bounded);
	}
	(void)unlink(named);
	(void)unlink(scrubbed);
	(void)rmdir(directory);
	if (prepared >= 0) {
		(void)close(*fd);
		*fd = prepared;
	}
	return code;
}

/* What `kymo report --json` says of a trace that is open, as a file. Returns a descriptor; -1, said
 * why. */
static int summarize(int trace)
{
	char *arguments[] = {strdup("kymo"),   strdup("report"),          strdup("-q"),
			     strdup("--json"), strdup("/proc/self/fd/0"), NULL};
	const size_t count = sizeof(arguments) / sizeof(arguments[0]) - 1;
	int out = memfd_create("kymo-summary", MFD_CLOEXEC), status = -1;
	posix_spawn_file_actions_t actions;
	bool is_whole = out >= 0;
	pid_t pid;

	for (size_t i = 0; i < count; i++)
		is_whole = is_whole && arguments[i];
	if (is_whole && !posix_spawn_file_actions_init(&actions)) {
		(void)posix_spawn_file_actions_adddup2(&actions, trace, STDIN_FILENO);
		(void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
		if (!posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ))
			while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
				;
		(void)posix_spawn_file_actions_destroy(&actions);
	}
	for (size_t i = 0; i < count; i++)
		free(arguments[i]);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return out;
	ky_cli_error("the findings of the trace could not be made; see `kymo report`");
	if (out >= 0)
		(void)close(out);
	return -1;
}

static size_t base64(char *out, const uint8_t *bytes, size_t count)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t used = 0;

	for (size_t i = 0; i < count; i += 3) {
		uint32_t left = count - i < 3 ? (uint32_t)(count - i) : 3;
		uint32_t three = (uint32_t)bytes[i] << 16;

		if (left > 1)
			three |= (uint32_t)bytes[i + 1] << 8;
		if (left > 2)
			three |= bytes[i + 2];
		out[used++] = digits[three >> 18];
		out[used++] = digits[three >> 12 & 63];
		out[used++] = left > 1 ? digits[three >> 6 & 63] : '=';
		out[used++] = left > 2 ? digits[three & 63] : '=';
	}
	return used;
}

static int put(struct ky_out_file *file, const void *bytes, size_t count)
{
	return ky_out_file_write(file, bytes, count);
}

/* The name as the value of an attribute. */
static int put_name(struct ky_out_file *file, const char *path)
{
	const char *slash = strrchr(path, '/');
	int result = 0;

	for (const char *at = slash ? slash + 1 : path; *at && !result; at++) {
		if (*at == '&')
			result = put(file, "&amp;", 5);
		else if (*at == '"')
			result = put(file, "&quot;", 6);
		else if (*at == '<')
			result = put(file, "&lt;", 4);
		else
			result = put(file, at, 1);
	}
	return result;
}

/* A file that grows meanwhile is taken as far as it was read. Returns 0, -errno. */
static int put_trace(struct ky_out_file *file, int fd)
{
	static uint8_t bytes[PART_BYTES];
	static char text[PART_CHARS];
	uint64_t at = 0;
	int result = 0;

	while (!result && at <= KY_PAGE_TRACE_BYTES_MAX) {
		size_t used = 0;
		ssize_t got = 1;

		while (used < sizeof(bytes) && got > 0) {
			got = pread(fd, bytes + used, sizeof(bytes) - used, (off_t)(at + used));
			if (got < 0)
				return -errno;
			used += (size_t)got;
		}
		if (!used)
			break;
		at += used;
		result = put(file, text, base64(text, bytes, used));
	}
	return result;
}

/* JSON inside a page: no text of it ends the element. */
static int put_json(struct ky_out_file *file, int fd)
{
	static char bytes[PART_BYTES];
	int result = 0;
	off_t at = 0;
	ssize_t got;

	while (!result && (got = pread(fd, bytes, sizeof(bytes), at)) > 0) {
		ssize_t from = 0;

		for (ssize_t i = 0; i < got && !result; i++) {
			if (bytes[i] != '<')
				continue;
			result = put(file, bytes + from, (size_t)(i - from));
			if (!result)
				result = put(file, "\\u003c", 6);
			from = i + 1;
		}
		if (!result)
			result = put(file, bytes + from, (size_t)(got - from));
		at += got;
	}
	return result;
}

/* summary: the descriptor is that of a report, not of a trace. */
static int put_page(struct ky_out_file *file, const struct ky_buf *viewer, size_t at, int fd,
		    bool is_summary, const char *trace)
{
	static const char trace_begin[] = "<script type=\"application/octet-stream\" "
					  "id=\"kymo-trace\" data-name=\"";
	static const char summary_begin[] = "<script type=\"application/json\" "
					    "id=\"kymo-summary\" data-name=\"";
	const char *begin = is_summary ? summary_begin : trace_begin;
	int result = put(file, viewer->bytes, at);

	if (!result)
		result = put(file, begin, strlen(begin));
	if (!result)
		result = put_name(file, trace);
	if (!result)
		result = put(file, "\">", 2);
	if (!result)
		result = is_summary ? put_json(file, fd) : put_trace(file, fd);
	if (!result)
		result = put(file, "</script>", 9);
	at += strlen(place);
	return result ? result : put(file, viewer->bytes + at, viewer->used - at);
}

static int write_page(const struct ky_buf *viewer, size_t at, int fd, bool is_summary,
		      const char *trace, const char *output, bool may_replace, uint64_t *bytes)
{
	struct ky_out_file file = {.fd = -1};
	int result = ky_out_file_open(&file, output, may_replace);

	if (!result) {
		result = put_page(&file, viewer, at, fd, is_summary, trace);
		*bytes = file.bytes;
		if (!result)
			result = ky_out_file_commit(&file);
		ky_out_file_abort(&file);
	}
	if (result == -EEXIST)
		ky_cli_error("%s exists; --force replaces it", output);
	else if (result)
		ky_cli_error("%s: %s", output, strerror(-result));
	return result ? KY_EXIT_TROUBLE : KY_EXIT_OK;
}

/* In place of a trace that is too large: its summary. Returns an exit code. */
static int shorten(int *fd, uint64_t trace_bytes_max, bool *is_summary)
{
	struct stat status;
	int summary;

	*is_summary = trace_bytes_max && !fstat(*fd, &status) &&
		      (uint64_t)status.st_size > trace_bytes_max;
	if (!*is_summary)
		return KY_EXIT_OK;
	summary = summarize(*fd);
	if (summary < 0)
		return KY_EXIT_TROUBLE;
	(void)close(*fd);
	*fd = summary;
	return KY_EXIT_OK;
}

int ky_page_file_write(const char *trace, uint32_t redacted, uint64_t trace_bytes_max,
		       const char *output, bool may_replace, uint64_t *bytes)
{
	bool is_bounded = !trace_bytes_max, is_summary = false;
	struct ky_buf viewer;
	size_t at = 0;
	int code, fd;

	ky_buf_init(&viewer, KY_PAGE_VIEWER_BYTES_MAX);
	code = load_viewer(&viewer, &at);
	fd = code ? -1 : open_trace(trace, is_bounded);
	if (!code && fd < 0)
		code = KY_EXIT_TROUBLE;
	if (!code)
		code = prepare_trace(trace, redacted, is_bounded, &fd);
	if (!code)
		code = shorten(&fd, trace_bytes_max, &is_summary);
	if (!code)
		code = write_page(&viewer, at, fd, is_summary, trace, output, may_replace, bytes);
	if (fd >= 0)
		(void)close(fd);
	ky_buf_release(&viewer);
	return code;
}
