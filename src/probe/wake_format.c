/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <probe/wake_format.h>

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT_BYTES 3584u /* it has some 700 */
#define RECORD_BYTES_MAX 1024u

/* The field of this name and size. */
static bool find_field(const char *text, const char *name, uint32_t bytes, uint32_t *offset)
{
	size_t name_bytes = strlen(name);

	for (const char *at = strstr(text, "\tfield:"); at; at = strstr(at + 1, "\tfield:")) {
		const char *end = strchr(at, ';'), *place, *size;

		if (!end || (size_t)(end - at) <= name_bytes + 1 ||
		    end[-(ptrdiff_t)name_bytes - 1] != ' ' ||
		    strncmp(end - name_bytes, name, name_bytes) != 0)
			continue;
		place = strstr(end, "offset:");
		size = strstr(end, "size:");
		if (!place || !size || strtoul(size + 5, NULL, 10) != bytes)
			return false;
		*offset = (uint32_t)strtoul(place + 7, NULL, 10);
		return *offset <= RECORD_BYTES_MAX - bytes;
	}
	return false;
}

bool ky_wake_format_parse(struct ky_wake_format *out, const char *text)
{
	const char *id = strstr(text, "\nID: ");

	memset(out, 0, sizeof(*out));
	if (!id || !find_field(text, "common_flags", 1, &out->flags_at) ||
	    !find_field(text, "pid", 4, &out->pid_at))
		return false;
	out->id = (uint32_t)strtoul(id + 5, NULL, 10);
	out->bytes = out->pid_at + 4 > out->flags_at + 1 ? out->pid_at + 4 : out->flags_at + 1;
	return out->id != 0;
}

static int read_file(const char *path, char *text, size_t text_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
	size_t used = 0;
	ssize_t bytes;

	if (fd < 0)
		return -errno;
	while (used < text_bytes - 1 &&
	       (bytes = read(fd, text + used, text_bytes - 1 - used)) != 0) {
		if (bytes < 0) {
			err = -errno;
			break;
		}
		used += (size_t)bytes;
	}
	close(fd);
	text[used] = '\0';
	return err;
}

/* Where tracefs is usually mounted. Returns as ky_wake_format_read(), but for -EPROTO. */
static int read_format(char *text, size_t text_bytes)
{
	static const char *const roots[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	int result = -ENOENT;
	char path[96];

	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		int err;

		(void)snprintf(path, sizeof(path), "%s/events/sched/sched_waking/format", roots[i]);
		err = read_file(path, text, text_bytes);
		if (!err)
			return 0;
		if (err != -ENOENT)
			result = err;
	}
	return result;
}

int ky_wake_format_read(struct ky_wake_format *out)
{
	char text[FORMAT_BYTES];
	int err = read_format(text, sizeof(text));

	memset(out, 0, sizeof(*out));
	if (err)
		return err;
	return ky_wake_format_parse(out, text) ? 0 : -EPROTO;
}
