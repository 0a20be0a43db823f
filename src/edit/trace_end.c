/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <edit/trace_end.h>

#include <fcntl.h>
#include <read/trace.h>
#include <ship/inflate.h>
#include <ship/trace_paths.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define MAGIC_BYTES 4u
#define FRAME UINT32_C(0xfd2fb528)
#define ENDS_MAX 16u /* chunks of one moment: the first of a segment, however many tasks it lists */
#define SKIPPABLE UINT32_C(0x184d2a50) /* the low four bits are the user's */

static uint64_t end_of_file(const char *path)
{
	const struct ky_trace_options options = {.raw_bytes_max = 0};
	struct ky_byte_source source;
	struct ky_trace *trace = NULL;
	uint64_t last_ns = 0;

	if (ky_inflate_open(&source, path, NULL, NULL, 0) != 0)
		return 0;
	if (ky_trace_open(&trace, &source, 1, &options) == 0) {
		last_ns = trace->last_ns;
		ky_trace_close(trace);
	}
	source.close(source.ctx);
	return last_ns;
}

/* The first bytes of a file, as a file without a name. Returns a descriptor, -1. */
static int beginning_of(const char *path, uint64_t bytes)
{
	int from = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int to = from >= 0 ? memfd_create("kymo-end", MFD_CLOEXEC) : -1;
	off_t at = 0;
	bool is_whole = to >= 0;

	while (is_whole && (uint64_t)at < bytes)
		is_whole = sendfile(to, from, &at, (size_t)(bytes - (uint64_t)at)) > 0;
	if (from >= 0)
		close(from);
	if (is_whole)
		return to;
	if (to >= 0)
		close(to);
	return -1;
}

static uint64_t end_of_beginning(const char *path, uint64_t bytes)
{
	char name[64];
	uint64_t last_ns = 0;
	int fd = bytes != 0 ? beginning_of(path, bytes) : -1;

	if (fd < 0)
		return 0;
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	last_ns = end_of_file(name);
	close(fd);
	return last_ns;
}

uint64_t ky_trace_end_ns(const char *path, char *file, char *newest, size_t file_bytes)
{
	const struct ky_inflate_options inflate = {.ratio_max = 0};
	struct ky_trace_paths paths;
	uint64_t last_ns = 0;
	size_t at;

	memset(&paths, 0, sizeof(paths));
	file[0] = newest[0] = '\0';
	/* The newest segment may have been begun and hold nothing yet. */
	if (ky_trace_paths_add(&paths, path, &inflate, NULL, 0) == 0)
		for (at = paths.count; at > 0 && last_ns == 0; at--) {
			last_ns = end_of_file(paths.paths[at - 1]);
			(void)snprintf(file, file_bytes, "%s", paths.paths[at - 1]);
			if (at == paths.count)
				(void)snprintf(newest, file_bytes, "%s", paths.paths[at - 1]);
		}
	ky_trace_paths_release(&paths);
	return last_ns;
}

uint64_t ky_trace_whole_ns(const char *path, const char *file, uint64_t whole_bytes)
{
	const struct ky_inflate_options inflate = {.ratio_max = 0};
	uint64_t last_ns = end_of_beginning(file, whole_bytes);
	struct ky_trace_paths paths;
	bool is_before = false;
	size_t at;

	memset(&paths, 0, sizeof(paths));
	if (last_ns == 0 && ky_trace_paths_add(&paths, path, &inflate, NULL, 0) == 0)
		for (at = paths.count; at > 0 && last_ns == 0; at--) {
			if (is_before)
				last_ns = end_of_file(paths.paths[at - 1]);
			is_before |= strcmp(paths.paths[at - 1], file) == 0;
		}
	ky_trace_paths_release(&paths);
	return last_ns;
}

/* ---- zstd frames (RFC 8878), by their headers alone ---- */

static uint32_t number_at(const uint8_t *bytes, size_t count)
{
	uint32_t number = 0;

	while (count-- > 0)
		number = number << 8 | bytes[count];
	return number;
}

/* The offset after the frame at `at`; 0: it is none, or not all there. */
static uint64_t frame_end(int fd, uint64_t at)
{
	static const uint8_t dictionary_bytes[] = {0, 1, 2, 4}, size_bytes[] = {0, 2, 4, 8};
	uint8_t head[MAGIC_BYTES + 4] = {0};
	uint32_t block = 0, flags;

	if (pread(fd, head, sizeof(head), (off_t)at) != (ssize_t)sizeof(head))
		return 0;
	if ((number_at(head, MAGIC_BYTES) & ~UINT32_C(15)) == SKIPPABLE)
		return at + sizeof(head) + number_at(head + MAGIC_BYTES, 4);
	if (number_at(head, MAGIC_BYTES) != FRAME)
		return 0;
	flags = head[MAGIC_BYTES];
	at += MAGIC_BYTES + 1u + dictionary_bytes[flags & 3u] + size_bytes[flags >> 6];
	/* One segment: no window, but the size, of one byte at least. */
	at += !(flags & 0x20u) || !(flags >> 6);
	while (!(block & 1u)) {
		if (pread(fd, head, 3, (off_t)at) != 3)
			return 0;
		block = number_at(head, 3);
		at += 3u + ((block >> 1 & 3u) == 1u ? 1u : block >> 3);
	}
	return at + (flags & 4u ? 4u : 0u);
}

static bool is_frame(int fd, uint64_t at)
{
	uint8_t head[MAGIC_BYTES] = {0};

	return pread(fd, head, sizeof(head), (off_t)at) == (ssize_t)sizeof(head) &&
	       number_at(head, MAGIC_BYTES) == FRAME;
}

bool ky_trace_is_torn(const char *file, uint64_t *whole_bytes, bool *is_chunk)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	off_t bytes = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
	uint64_t at = 0, next = 0;
	bool is_zstd = fd >= 0 && is_frame(fd, 0);

	while (is_zstd && (next = frame_end(fd, at)) != 0 && next <= (uint64_t)bytes)
		at = next;
	*is_chunk = is_zstd && is_frame(fd, at);
	if (fd >= 0)
		close(fd);
	*whole_bytes = at;
	return is_zstd && at < (uint64_t)bytes;
}

uint32_t ky_trace_chunks_at(const char *path, const char *file, uint64_t whole_bytes,
			    uint64_t last_ns)
{
	uint64_t starts[ENDS_MAX], at = 0, next;
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	uint32_t count = 0, ends = 0;

	while (fd >= 0 && at < whole_bytes && (next = frame_end(fd, at)) != 0) {
		if (is_frame(fd, at))
			starts[count++ % ENDS_MAX] = at;
		at = next;
	}
	if (fd >= 0)
		close(fd);
	if (at != whole_bytes)
		return 0;
	while (ends < count && ends < ENDS_MAX) {
		ends++;
		if (ky_trace_whole_ns(path, file, starts[(count - ends) % ENDS_MAX]) != last_ns)
			break;
	}
	return ends;
}
