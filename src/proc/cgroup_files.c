/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <proc/cgroup_files.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ky_proc_read_text(int dir, const char *path, char *out, size_t out_bytes)
{
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t count;
	int err;

	if (fd < 0)
		return -errno;
	do
		count = pread(fd, out, out_bytes - 1, 0);
	while (count < 0 && errno == EINTR);
	err = errno;
	close(fd);
	if (count < 0)
		return -err;
	out[count] = 0;
	return (int)count;
}

int ky_cgroup_read(const char *path, const char *name, char *out, size_t out_bytes)
{
	char file[KY_CGROUP_PATH_BYTES + 64];
	int count = snprintf(file, sizeof(file), "%s/%s", path, name);

	if (count < 0 || (size_t)count >= sizeof(file))
		return -ENAMETOOLONG;
	return ky_proc_read_text(AT_FDCWD, file, out, out_bytes);
}

bool ky_proc_number(const char *text, const char *key, uint64_t *out)
{
	size_t bytes = strlen(key);

	while (text) {
		if (strncmp(text, key, bytes) == 0 && (text[bytes] == ' ' || text[bytes] == '\t')) {
			text += bytes + strspn(text + bytes, " \t");
			if (*text < '0' || *text > '9')
				return false;
			*out = strtoull(text, NULL, 10);
			return true;
		}
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return false;
}

/* ---- finding them ---- */

struct finding {
	struct ky_cgroup *out;
	const char *mount, *controller;
	ky_cgroup_accepts_fn accepts;
};

static bool make_path(char path[KY_CGROUP_PATH_BYTES], const struct finding *finding,
		      const char *hierarchy, const char *from, size_t bytes)
{
	int count = snprintf(path, KY_CGROUP_PATH_BYTES, "%s%s%.*s", finding->mount, hierarchy,
			     (int)bytes, from);

	return count > 0 && (size_t)count < KY_CGROUP_PATH_BYTES;
}

static void add_level(struct finding *finding, const char *hierarchy, const char *from,
		      size_t bytes, uint8_t up)
{
	struct ky_cgroup *out = finding->out;
	char *path = out->path[out->levels];

	if (make_path(path, finding, hierarchy, from, bytes) && finding->accepts(path, out->is_v1))
		out->up[out->levels++] = up;
}

/* The root that a container sees is a group of the machine, and may limit. With version 1 it may be
 * all there is: the path is the machine's, and the mount shows the container's own group as its
 * root. With version 2 a root that has none of the path below it is another's. */
static bool is_root_above(const struct finding *finding, const char *hierarchy, const char *from,
			  size_t top_bytes)
{
	char path[KY_CGROUP_PATH_BYTES];

	return finding->out->is_v1 || !top_bytes ||
	       (make_path(path, finding, hierarchy, from, top_bytes) && access(path, F_OK) == 0);
}

/* The folders from the process's own up to the root of the mount that have what is searched for. */
static void add_levels(struct finding *finding, const char *hierarchy, const char *from,
		       size_t bytes)
{
	struct ky_cgroup *out = finding->out;
	size_t top_bytes = 0; /* of the one below the root */
	uint8_t up = 0;

	if (bytes == 1) /* "/" */
		bytes = 0;
	while (bytes && out->levels < KY_CGROUP_LEVELS) {
		add_level(finding, hierarchy, from, bytes, up);
		if (up < UINT8_MAX)
			up++;
		top_bytes = bytes;
		do
			bytes--;
		while (bytes && from[bytes] != '/');
	}
	if (out->levels < KY_CGROUP_LEVELS && is_root_above(finding, hierarchy, from, top_bytes))
		add_level(finding, hierarchy, from, 0, up);
}

static bool has_controller(const char *list, size_t bytes, const char *name)
{
	size_t name_bytes = strlen(name);

	while (bytes) {
		const char *comma = memchr(list, ',', bytes);
		size_t count = comma ? (size_t)(comma - list) : bytes;

		if (count == name_bytes && memcmp(list, name, count) == 0)
			return true;
		count += comma != NULL;
		list += count;
		bytes -= count;
	}
	return false;
}

static void add_v1(struct finding *finding, const char *path, size_t bytes)
{
	char hierarchy[32];

	snprintf(hierarchy, sizeof(hierarchy), "/%.24s", finding->controller);
	finding->out->is_v1 = true;
	add_levels(finding, hierarchy, path, bytes);
	if (!finding->out->levels && strcmp(finding->controller, "cpu") == 0)
		add_levels(finding, "/cpu,cpuacct", path, bytes);
	finding->out->is_v1 = finding->out->levels > 0;
}

/* One line of /proc/PID/cgroup, "0::/a/b" or "4:cpu,cpuacct:/a/b". */
static void take_line(struct finding *finding, const char *line, size_t bytes)
{
	const char *list = memchr(line, ':', bytes), *end = line + bytes, *path;
	struct ky_cgroup *out = finding->out;

	if (!list)
		return;
	list++;
	path = memchr(list, ':', (size_t)(end - list));
	/* A path out of our namespace leads nowhere. */
	if (!path || end - path < 2 || path[1] != '/' || strncmp(path + 1, "/..", 3) == 0)
		return;
	if (path == list) {
		add_levels(finding, "", path + 1, (size_t)(end - path - 1));
		if (!out->levels)
			add_levels(finding, "/unified", path + 1, (size_t)(end - path - 1));
	} else if (has_controller(list, (size_t)(path - list), finding->controller)) {
		add_v1(finding, path + 1, (size_t)(end - path - 1));
	}
	if (out->levels)
		snprintf(out->name, sizeof(out->name), "%.*s", (int)(end - path - 1), path + 1);
}

void ky_cgroup_find(struct ky_cgroup *out, int dir, const char *mount, const char *controller,
		    ky_cgroup_accepts_fn accepts)
{
	struct finding finding = {out, mount ? mount : "/sys/fs/cgroup", controller, accepts};
	char text[2048];
	int count = ky_proc_read_text(dir, "cgroup", text, sizeof(text));
	const char *line = text, *end = text + (count > 0 ? count : 0);

	out->is_v1 = false;
	out->levels = 0;
	out->name[0] = 0;
	while (line < end && !out->levels) {
		size_t bytes = strcspn(line, "\n");

		take_line(&finding, line, bytes);
		line += bytes + 1;
	}
}
