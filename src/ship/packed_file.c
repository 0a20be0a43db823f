/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ship/packed.h>

#include <base/alloc.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <kymo/base.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_BYTES 65536u

const char *ky_packed_name(const struct ky_packed *packed)
{
	if (packed->options.shown_name)
		return packed->options.shown_name;
	return packed->is_stdin ? "standard input" : packed->path;
}

__attribute__((format(printf, 3, 4))) int ky_packed_fail(struct ky_packed *packed, int code,
							 const char *format, ...)
{
	va_list args;

	packed->failed = code;
	if (packed->error && packed->error_bytes) {
		va_start(args, format);
		(void)vsnprintf(packed->error, packed->error_bytes, format, args);
		va_end(args);
	}
	return code;
}

uint64_t ky_packed_offset(const struct ky_packed *packed)
{
	return packed->stored - (packed->used - packed->at);
}

int ky_packed_open(struct ky_packed *packed)
{
	struct stat info;

	if (packed->is_stdin)
		packed->fd = STDIN_FILENO;
	else
		packed->fd = open(packed->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (packed->fd < 0)
		return ky_packed_fail(packed, -errno, "%s: cannot be opened: %s",
				      ky_packed_name(packed), kymo_error_text(-errno));
	if (fstat(packed->fd, &info) == 0 && S_ISDIR(info.st_mode))
		return ky_packed_fail(packed, -EISDIR, "%s: is a directory",
				      ky_packed_name(packed));
	packed->input = ky_alloc(INPUT_BYTES);
	if (!packed->input)
		return ky_packed_fail(packed, -ENOMEM, "%s: out of memory", ky_packed_name(packed));
	return 0;
}

/* Makes input non-empty, or sets at_end. */
int ky_packed_refill(struct ky_packed *packed)
{
	int result;

	if (packed->at < packed->used || packed->at_end)
		return 0;
	if (!packed->input) {
		result = ky_packed_open(packed);
		if (result)
			return result;
	}
	for (;;) {
		ssize_t count = read(packed->fd, packed->input, INPUT_BYTES);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return ky_packed_fail(packed, -errno,
					      "%s: reading fails at byte %" PRIu64 ": %s",
					      ky_packed_name(packed), packed->stored,
					      kymo_error_text(-errno));
		packed->at = 0;
		packed->used = (size_t)count;
		packed->stored += (uint64_t)count;
		packed->at_end = count == 0;
		return 0;
	}
}

/* At least `count` bytes of lookahead unless the file ends; a magic may straddle two reads. */
int ky_packed_look_ahead(struct ky_packed *packed, size_t count)
{
	int result = ky_packed_refill(packed);

	while (!result && !packed->at_end && packed->used - packed->at < count) {
		size_t kept = packed->used - packed->at;
		ssize_t got;

		memmove(packed->input, packed->input + packed->at, kept);
		packed->at = 0;
		packed->used = kept;
		got = read(packed->fd, packed->input + kept, INPUT_BYTES - kept);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return ky_packed_fail(packed, -errno,
					      "%s: reading fails at byte %" PRIu64 ": %s",
					      ky_packed_name(packed), packed->stored,
					      kymo_error_text(-errno));
		if (got == 0)
			break;
		packed->used += (size_t)got;
		packed->stored += (uint64_t)got;
	}
	return result;
}

/* Padding of zeros after the last member is what tape-minded tools leave; gzip ignores it too. */
int ky_packed_pass_zeros(struct ky_packed *packed)
{
	int result;

	for (;;) {
		result = ky_packed_refill(packed);
		if (result || packed->at_end)
			return result;
		while (packed->at < packed->used && packed->input[packed->at] == 0)
			packed->at++;
		if (packed->at < packed->used)
			return 0;
	}
}
