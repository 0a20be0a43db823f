/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/ring_process.h>

#include <proc/proc_map.h>
#include <proc/run_process.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define REMOVED " (deleted)"
#define RING_SUFFIX ".ring"
#define MAPPED_MAX 64u
#define PATH_BYTES 512u
#define PATH_ROOM (PATH_BYTES + 64u)

/* One mapping of a file from its first byte, shared and writable. */
struct mapping {
	char range[40]; /* START-END, as in map_files */
	ino_t inode;
	bool is_removed, is_anonymous;
	char path[PATH_BYTES];
};

static bool ends_in(const char *text, const char *end)
{
	size_t text_bytes = strlen(text), end_bytes = strlen(end);

	return text_bytes >= end_bytes && strcmp(text + text_bytes - end_bytes, end) == 0;
}

/* Is this line of /proc/PID/maps the beginning of a ring that its process writes? */
static bool read_mapping(struct mapping *out, char *line)
{
	struct ky_proc_map map;

	line[strcspn(line, "\n")] = '\0';
	if (!ky_proc_map_parse(&map, line) || map.offset != 0 || !map.is_writable || !map.is_shared)
		return false;
	out->inode = (ino_t)map.inode;
	snprintf(out->range, sizeof(out->range), "%" PRIx64 "-%" PRIx64, map.start, map.end);
	snprintf(out->path, sizeof(out->path), "%s", map.path);
	out->is_removed = ends_in(out->path, REMOVED);
	if (out->is_removed)
		out->path[strlen(out->path) - strlen(REMOVED)] = '\0';
	out->is_anonymous = strcmp(out->path, KY_RUN_ANONYMOUS_RING) == 0;
	return out->is_anonymous || (out->path[0] == '/' && ends_in(out->path, RING_SUFFIX));
}

static int open_same(const char *path, ino_t inode)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && st.st_ino == inode)
		return fd;
	close(fd);
	errno = ENOENT;
	return -1;
}

struct descriptor {
	ino_t inode;
	int fd;
	char *path;
};

static void keep_descriptor(void *ctx, int fd, const char *path)
{
	struct descriptor *wanted = ctx;
	struct stat st;

	if (wanted->fd >= 0 || fstat(fd, &st) != 0 || st.st_ino != wanted->inode) {
		close(fd);
		return;
	}
	wanted->fd = fd;
	snprintf(wanted->path, PATH_BYTES, "%s", path);
}

/* path: PATH_ROOM bytes, gets where it was opened. */
static int open_mapping(uint32_t pid, const struct mapping *mapping, char *path)
{
	struct descriptor wanted = {mapping->inode, -1, path};
	int fd, err;

	snprintf(path, PATH_BYTES, "%s", mapping->path);
	if (mapping->is_anonymous) {
		ky_run_process_anonymous_rings_of(pid, O_RDONLY, keep_descriptor, &wanted);
		if (wanted.fd >= 0)
			return wanted.fd;
	} else if (!mapping->is_removed) {
		/* Our own name for it first: it stays when the process goes. */
		fd = open_same(path, mapping->inode);
		if (fd >= 0)
			return fd;
		snprintf(path, PATH_ROOM, "/proc/%u/root%s", pid, mapping->path);
		fd = open_same(path, mapping->inode);
		if (fd >= 0)
			return fd;
	}
	snprintf(path, PATH_BYTES, "/proc/%u/map_files/%s", pid, mapping->range);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0) {
		err = errno;
		snprintf(path, PATH_ROOM, "%s%s", mapping->path,
			 mapping->is_removed ? REMOVED : "");
		errno = err;
	}
	return fd;
}

void ky_ring_process_mapped(uint32_t pid, ky_mapped_ring_fn found, void *ctx)
{
	char path[PATH_ROOM];
	struct mapping mapping;
	char *line = NULL;
	size_t room = 0;
	unsigned int count = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	maps = fopen(path, "re");
	if (maps == NULL)
		return;
	while (count < MAPPED_MAX && getline(&line, &room, maps) > 0) {
		if (!read_mapping(&mapping, line))
			continue;
		count++;
		found(ctx, pid, open_mapping(pid, &mapping, path), path);
	}
	free(line);
	(void)fclose(maps);
}

void ky_ring_process_each(ky_process_fn visit, void *ctx)
{
	DIR *stream = opendir("/proc");
	struct dirent *entry;

	if (stream == NULL)
		return;
	while ((entry = readdir(stream)) != NULL)
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    !visit(ctx, (uint32_t)strtoul(entry->d_name, NULL, 10)))
			break;
	closedir(stream);
}

bool ky_ring_process_user(uint32_t pid, uid_t *out)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (stat(path, &st) != 0)
		return false;
	*out = st.st_uid;
	return true;
}

uint32_t ky_ring_process_inner_pid(uint32_t pid)
{
	unsigned long inner = 0;
	char path[64], line[512];
	char *last;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	status = fopen(path, "re");
	if (status == NULL)
		return 0;
	while (inner == 0 && fgets(line, sizeof(line), status) != NULL) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		line[strcspn(line, "\n")] = '\0';
		last = strrchr(line, '\t');
		inner = last != NULL ? strtoul(last, NULL, 10) : 0;
	}
	(void)fclose(status);
	return (uint32_t)inner;
}

uint64_t ky_ring_process_namespace(uint32_t pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u/ns/pid", pid);
	return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

struct outer_search {
	uint64_t pid_namespace, start_ticks;
	uint32_t inner, outer;
};

static bool is_outer(void *ctx, uint32_t pid)
{
	struct outer_search *search = ctx;

	if (ky_ring_process_inner_pid(pid) != search->inner ||
	    ky_ring_process_namespace(pid) != search->pid_namespace ||
	    !ky_run_process_is_alive(pid, search->start_ticks))
		return true;
	search->outer = pid;
	return false;
}

uint32_t ky_ring_process_outer_pid(uint64_t pid_namespace, uint32_t inner, uint64_t start_ticks)
{
	struct outer_search search = {pid_namespace, start_ticks, inner, 0};

	ky_ring_process_each(is_outer, &search);
	return search.outer;
}

struct holder_search {
	dev_t device;
	ino_t inode;
	uint32_t but, holder;
};

static bool holds(void *ctx, uint32_t pid)
{
	struct holder_search *search = ctx;
	struct dirent *entry;
	char path[64];
	struct stat st;
	DIR *stream;

	if (pid == search->but || pid == (uint32_t)getpid())
		return true;
	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	stream = opendir(path);
	while (stream != NULL && search->holder == 0 && (entry = readdir(stream)) != NULL)
		if (fstatat(dirfd(stream), entry->d_name, &st, 0) == 0 &&
		    st.st_ino == search->inode && st.st_dev == search->device)
			search->holder = pid;
	if (stream != NULL)
		closedir(stream);
	return search->holder == 0;
}

uint32_t ky_ring_process_holder(dev_t device, ino_t inode, uint32_t but)
{
	struct holder_search search = {device, inode, but, 0};

	ky_ring_process_each(holds, &search);
	return search.holder;
}

static void read_name(const char *path, char *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t bytes = fd >= 0 ? read(fd, out, 15) : 0;

	if (fd >= 0)
		close(fd);
	out[bytes > 0 ? bytes : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

void ky_ring_process_command(uint32_t pid, char *out)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	read_name(path, out);
}

bool ky_ring_process_has_thread(uint32_t pid, const char *name)
{
	char path[320], found[16];
	struct dirent *entry;
	bool is_there = false;
	DIR *stream;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	stream = opendir(path);
	while (stream != NULL && !is_there && (entry = readdir(stream)) != NULL) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%u/task/%.20s/comm", pid, entry->d_name);
		read_name(path, found);
		is_there = strcmp(found, name) == 0;
	}
	if (stream != NULL)
		closedir(stream);
	return is_there;
}
