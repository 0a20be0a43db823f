/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <ring/ring_finder.h>

#include <base/alloc.h>
#include <base/first_line.h>
#include <base/now.h>
#include <ring/ring_process.h>
#include <proc/run_process.h>
#include <dirent.h>
#include <ring/ring_view.h>
#include <errno.h>
#include <fcntl.h>
#include <kymo/base.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define RING_SUFFIX ".ring"
#define RING_BYTES_MAX (UINT64_C(5) << 30)
#define DIRECTORIES_MAX 4096u
#define SHARED_MEMORY "/dev/shm"
#define DIRECTORY_PREFIX "kymo-"
#define LOCK_TRIES 3

struct finder {
	const struct ky_ring_query *query;
	struct ky_found_rings *out;
	uint32_t capacity;
	uid_t uid;
	uint64_t pid_namespace;
	char boot_id[sizeof(((struct ky_found_ring *)0)->boot_id)];
	struct {
		dev_t device;
		ino_t inode;
	} seen[DIRECTORIES_MAX];
	uint32_t seen_count;
	bool is_out_of_memory;
};

/* ---- one file ---- */

/* NULL when there is no room for one more. */
static struct ky_found_ring *add(struct finder *finder, const char *path)
{
	struct ky_found_rings *out = finder->out;
	struct ky_found_ring *ring;

	if (out->count == KY_FOUND_RINGS_MAX) {
		out->is_incomplete = true;
		return NULL;
	}
	if (ky_grow(&out->rings, &finder->capacity, out->count + 1, sizeof(*ring))) {
		finder->is_out_of_memory = true;
		return NULL;
	}
	ring = &out->rings[out->count++];
	memset(ring, 0, sizeof(*ring));
	snprintf(ring->path, sizeof(ring->path), "%s", path);
	return ring;
}

__attribute__((format(printf, 3, 4))) static void trouble(struct ky_found_ring *ring, int error,
							  const char *format, ...)
{
	size_t bytes = (size_t)snprintf(ring->why, sizeof(ring->why),
					"%.*s: ", (int)KY_FOUND_PATH_BYTES - 1, ring->path);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(ring->why + bytes, sizeof(ring->why) - bytes, format, args);
	va_end(args);
	ring->error = error;
	ring->state = KY_FOUND_TROUBLE;
}

/* SERVICE-PID-START.ring, where START may be followed by .N: for what has no header to say it. */
static uint32_t pid_of_name(const char *path)
{
	const char *end = strrchr(path, '-'), *at = end;

	while (at != NULL && at > path && at[-1] >= '0' && at[-1] <= '9')
		at--;
	if (at == NULL || at == end || at == path || at[-1] != '-')
		return 0;
	return (uint32_t)strtoul(at, NULL, 10);
}

/* Does a process map it? The writer's lock goes with the last mapping. Another process may be
 * asking the same at this moment. */
static bool is_mapped(int fd)
{
	const struct timespec wait = {.tv_nsec = 1000000};
	int i;

	for (i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
			(void)flock(fd, LOCK_UN);
			return false;
		}
		nanosleep(&wait, NULL);
	}
	return true;
}

static void find_process(const struct finder *finder, struct ky_found_ring *ring, int fd,
			 uint64_t pid_namespace, uint32_t hint)
{
	ring->is_foreign = pid_namespace != 0 && finder->pid_namespace != 0 &&
			   pid_namespace != finder->pid_namespace;
	ring->is_other_boot = finder->boot_id[0] != '\0' &&
			      strcmp(ring->boot_id, finder->boot_id) != 0;
	if (!ring->is_foreign)
		ring->pid = ring->ring_pid;
	if (ring->is_other_boot)
		return;
	if (!ring->is_foreign) {
		ring->is_process_there = ky_run_process_is_alive(ring->pid, ring->start_time_ticks);
		return;
	}
	if (hint != 0 && ky_ring_process_inner_pid(hint) == ring->ring_pid &&
	    ky_ring_process_namespace(hint) == pid_namespace)
		ring->pid = hint;
	else
		ring->pid = ky_ring_process_outer_pid(pid_namespace, ring->ring_pid,
						      ring->start_time_ticks);
	ring->is_process_there = ring->pid != 0 || is_mapped(fd);
}

static void read_stopped(struct ky_found_ring *ring, int fd, uint32_t page_bytes)
{
	off_t at = (off_t)page_bytes + (off_t)offsetof(struct ky_ring_control, settings) +
		   (off_t)offsetof(struct ky_ring_settings, stopped_ns);

	if (pread(fd, &ring->stopped_ns, sizeof(ring->stopped_ns), at) !=
	    (ssize_t)sizeof(ring->stopped_ns))
		ring->stopped_ns = 0;
}

static void read_mode(struct ky_found_ring *ring, int fd, uint32_t page_bytes)
{
	uint32_t mode = 0;
	off_t at = (off_t)page_bytes + (off_t)offsetof(struct ky_ring_control, settings) +
		   (off_t)offsetof(struct ky_ring_settings, mode);

	if (pread(fd, &mode, sizeof(mode), at) != (ssize_t)sizeof(mode) ||
	    mode > KY_RING_MODE_FLIGHT)
		mode = KY_RING_MODE_AS_OPENED;
	if (mode == KY_RING_MODE_AS_OPENED)
		mode = (ring->flags & KY_RING_FLIGHT) != 0 ? KY_RING_MODE_FLIGHT :
							     KY_RING_MODE_STREAM;
	ring->mode = mode;
}

static void describe(struct ky_found_ring *ring, const struct ky_ring_view *view,
		     const struct ky_ring_header *header)
{
	uint64_t room = ring->file_bytes > view->slots_offset ?
				(ring->file_bytes - view->slots_offset) / KY_SLOT_BYTES :
				0;
	uint64_t slots = header->slot_count < room ? header->slot_count : room;
	uint64_t populated = atomic_load_explicit(&header->populated_count, memory_order_relaxed);

	ring->ring_pid = view->pid;
	ring->start_time_ticks = view->start_time_ticks;
	ring->session = header->session;
	ring->ticks_per_second = view->ticks_per_second;
	ring->made_ns = view->open_anchor.monotonic_ns;
	ring->made_unix_ns = view->open_anchor.realtime_ns;
	ring->ring_bytes = slots * KY_SLOT_BYTES;
	ring->populated_bytes = (populated < slots ? populated : slots) * KY_SLOT_BYTES;
	ring->dropped_count = atomic_load_explicit(&header->dropped_count, memory_order_relaxed);
	ring->flags = view->flags;
	ring->is_anonymous = (view->flags & KY_RING_ANONYMOUS) != 0;
	ring->is_truncated = ring->file_bytes < header->file_bytes;
	memcpy(ring->boot_id, view->boot_id, sizeof(ring->boot_id));
	memcpy(ring->service, view->service, sizeof(ring->service));
}

/* Returns false when no process has recorded into it yet. */
static bool read_header(const struct finder *finder, struct ky_found_ring *ring, int fd,
			uint32_t hint)
{
	_Alignas(64) struct ky_ring_header header;
	struct ky_ring_view view;
	ssize_t bytes = pread(fd, &header, sizeof(header), 0);
	int err;

	if (bytes < 0) {
		trouble(ring, -errno, "%s", kymo_error_text(-errno));
		return true;
	}
	if (ring->file_bytes == 0)
		return false;
	if (bytes >= 8 && atomic_load_explicit(&header.magic, memory_order_relaxed) == 0)
		return false;
	if (bytes >= 8 &&
	    atomic_load_explicit(&header.magic, memory_order_relaxed) != KY_RING_MAGIC)
		err = KYMO_E_NOT_TRACE;
	else if (bytes < (ssize_t)sizeof(header))
		err = KYMO_E_TRUNCATED;
	else
		err = ky_ring_view_init(&view, (const uint8_t *)&header, sizeof(header));
	if (err == KYMO_E_NOT_TRACE)
		trouble(ring, err, "it does not begin as a ring does");
	else if (err == KYMO_E_TRUNCATED)
		trouble(ring, err, "it ends inside its header, at byte %zd", bytes);
	else if (err == KYMO_E_VERSION)
		trouble(ring, err, "written in version %u of the ring's layout, this kymo reads %u",
			header.version, KY_RING_VERSION);
	else if (err < 0)
		trouble(ring, err, "its header contradicts itself: damaged, or made up");
	if (err < 0)
		return true;
	describe(ring, &view, &header);
	if (ring->ring_bytes == 0) {
		trouble(ring, KYMO_E_TRUNCATED,
			"truncated at byte %llu, before its first sub-buffer",
			(unsigned long long)ring->file_bytes);
		return true;
	}
	read_mode(ring, fd, header.page_bytes);
	read_stopped(ring, fd, header.page_bytes);
	find_process(finder, ring, fd, header.pid_namespace, hint);
	if (atomic_load_explicit(&header.state, memory_order_relaxed) == KY_RING_CLOSED)
		ring->state = KY_FOUND_CLOSED;
	else
		ring->state = ring->is_process_there ? KY_FOUND_ALIVE : KY_FOUND_DEAD;
	return true;
}

static bool is_known(const struct finder *finder, const struct stat *st)
{
	const struct ky_found_rings *out = finder->out;
	uint32_t i;

	for (i = 0; i < out->count; i++)
		if (out->rings[i].inode == st->st_ino && out->rings[i].device == st->st_dev)
			return true;
	return false;
}

/* owner: whose file it has to be. hint: a process that maps it; 0 none. */
static void look_at(struct finder *finder, int fd, const char *path, uid_t owner, uint32_t hint)
{
	struct ky_found_ring *ring;
	struct stat st;

	if (fstat(fd, &st) != 0 || is_known(finder, &st))
		return;
	ring = add(finder, path);
	if (ring == NULL)
		return;
	ring->device = st.st_dev;
	ring->inode = st.st_ino;
	ring->uid = st.st_uid;
	ring->file_bytes = (uint64_t)st.st_size;
	ring->ring_pid = hint != 0 ? hint : pid_of_name(path);
	if (!S_ISREG(st.st_mode))
		trouble(ring, -EINVAL, "not a regular file, as a ring is; left alone");
	else if (st.st_uid != owner)
		trouble(ring, -EPERM, "belongs to user %u, not %u; left alone", st.st_uid, owner);
	else if ((uint64_t)st.st_size > RING_BYTES_MAX)
		trouble(ring, KYMO_E_LIMIT, "longer than a ring can be (%llu bytes)",
			(unsigned long long)st.st_size);
	else if (!read_header(finder, ring, fd, hint))
		finder->out->count--;
}

/* ---- directories ---- */

static bool is_ring_name(const char *name)
{
	size_t bytes = strlen(name);

	return name[0] != '.' && bytes > strlen(RING_SUFFIX) &&
	       strcmp(name + bytes - strlen(RING_SUFFIX), RING_SUFFIX) == 0;
}

static void match_name(struct finder *finder, int directory, const char *path, uid_t owner,
		       const char *name)
{
	char full[KY_FOUND_PATH_BYTES];
	struct ky_found_ring *ring;
	int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	int err = errno;

	snprintf(full, sizeof(full), "%s/%s", path, name);
	if (fd >= 0) {
		look_at(finder, fd, full, owner, 0);
		close(fd);
		return;
	}
	if (err == ENOENT)
		return; /* gone meanwhile */
	ring = add(finder, full);
	if (ring == NULL)
		return;
	ring->ring_pid = pid_of_name(full);
	if (err == ELOOP)
		trouble(ring, -err, "a symbolic link, which no recorder makes; not followed");
	else
		trouble(ring, -err, "%s", kymo_error_text(-err));
}

static bool is_seen(struct finder *finder, const struct stat *st)
{
	uint32_t i;

	for (i = 0; i < finder->seen_count; i++)
		if (finder->seen[i].inode == st->st_ino && finder->seen[i].device == st->st_dev)
			return true;
	if (finder->seen_count < DIRECTORIES_MAX) {
		finder->seen[finder->seen_count].device = st->st_dev;
		finder->seen[finder->seen_count++].inode = st->st_ino;
	} else {
		finder->out->is_incomplete = true;
	}
	return false;
}

static void directory_trouble(struct finder *finder, const char *path, int error, const char *text)
{
	struct ky_found_ring *ring = add(finder, path);

	if (ring != NULL)
		trouble(ring, error, "%s", text);
}

/* Takes the descriptor. Anybody who may write in the directory could swap its files. */
static void scan(struct finder *finder, int directory, const char *path)
{
	struct dirent *entry;
	struct stat st;
	DIR *stream;

	if (fstat(directory, &st) != 0 || is_seen(finder, &st)) {
		close(directory);
		return;
	}
	if (st.st_uid != finder->uid && finder->uid != 0) {
		directory_trouble(
			finder, path, -EPERM,
			"the directory belongs to another user; its rings are left alone");
		close(directory);
		return;
	}
	if ((st.st_mode & 022) != 0) {
		directory_trouble(finder, path, -EPERM,
				  "others may write in this directory, so nothing in it is trusted "
				  "(`chmod go-w` shuts it)");
		close(directory);
		return;
	}
	stream = fdopendir(directory);
	if (stream == NULL) {
		close(directory);
		return;
	}
	while ((entry = readdir(stream)) != NULL)
		if (is_ring_name(entry->d_name))
			match_name(finder, dirfd(stream), path, st.st_uid, entry->d_name);
	closedir(stream);
}

static void scan_path(struct finder *finder, const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0)
		scan(finder, fd, path);
	else if (errno == ELOOP)
		directory_trouble(finder, path, -ELOOP, "a symbolic link, which is not followed");
	else if (errno == ENOENT && path == finder->query->ring_directory)
		directory_trouble(finder, path, -ENOENT, "there is no such directory");
	else if (errno != ENOENT)
		directory_trouble(finder, path, -errno, kymo_error_text(-errno));
}

/* The ring directories of all users below /dev/shm of the file system that `root` is the top of.
 * One step after the other: what lies there may belong to a hostile container. */
static void scan_shared_memory(struct finder *finder, const char *root)
{
	char path[KY_FOUND_PATH_BYTES];
	struct dirent *entry;
	int top, dev, shm, fd;
	DIR *stream;

	top = open(root[0] != '\0' ? root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	dev = openat(top, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	shm = openat(dev, "shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (top >= 0)
		close(top);
	if (dev >= 0)
		close(dev);
	stream = shm >= 0 ? fdopendir(shm) : NULL;
	if (stream == NULL) {
		if (shm >= 0)
			close(shm);
		return;
	}
	while ((entry = readdir(stream)) != NULL) {
		if (strncmp(entry->d_name, DIRECTORY_PREFIX, strlen(DIRECTORY_PREFIX)) != 0)
			continue;
		fd = openat(dirfd(stream), entry->d_name,
			    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0)
			continue;
		snprintf(path, sizeof(path), "%s" SHARED_MEMORY "/%s", root, entry->d_name);
		scan(finder, fd, path);
	}
	closedir(stream);
}

/* ---- processes ---- */

static bool is_removed(const char *path)
{
	static const char mark[] = " (deleted)";
	size_t bytes = strlen(path);

	return bytes >= sizeof(mark) && strcmp(path + bytes - (sizeof(mark) - 1), mark) == 0;
}

static void on_mapped(void *ctx, uint32_t pid, int fd, const char *path)
{
	struct finder *finder = ctx;
	struct ky_found_ring *ring = NULL;
	int err = errno;
	struct stat st;

	if (fd < 0) {
		/* Said about the process that was asked for, and about ours whose ring no process
		 * finds by its name: else nothing seems to record. */
		if (finder->query->pid == pid || (finder->query->pid == 0 && is_removed(path)))
			ring = add(finder, path);
		if (ring == NULL)
			return;
		ring->ring_pid = ring->pid = pid;
		ring->is_process_there = true;
		trouble(ring, -err,
			"process %u records into it, but it has no name any more and "
			"cannot be opened (%s); root can",
			pid, kymo_error_text(-err));
		return;
	}
	/* Found through a process: one that could map it for writing had the right to. */
	if (fstat(fd, &st) == 0 && (finder->uid == 0 || st.st_uid == finder->uid))
		look_at(finder, fd, path, st.st_uid, pid);
	close(fd);
}

static bool read_the_process(void *ctx, uint32_t pid)
{
	struct finder *finder = ctx;
	char root[32];
	uid_t uid;

	if (!ky_ring_process_user(pid, &uid) ||
	    (uid != finder->uid && !finder->query->is_all_users))
		return true;
	ky_ring_process_mapped(pid, on_mapped, finder);
	if (finder->query->is_all_users) {
		/* Dead ones in its mount namespace; the same /dev/shm is read once. */
		snprintf(root, sizeof(root), "/proc/%u/root", pid);
		scan_shared_memory(finder, root);
	}
	return true;
}

static void scan_everything(struct finder *finder)
{
	const char *wish = secure_getenv("KYMO_RING_DIR");
	uint32_t pid = finder->query->pid;
	char path[64];

	if (wish != NULL && wish[0] != '\0')
		scan_path(finder, wish);
	if (finder->query->is_all_users || (pid != 0 && finder->uid == 0)) {
		scan_shared_memory(finder, "");
	} else {
		snprintf(path, sizeof(path), SHARED_MEMORY "/" DIRECTORY_PREFIX "%u",
			 (unsigned int)finder->uid);
		scan_path(finder, path);
	}
	if (pid == 0) {
		ky_ring_process_each(read_the_process, finder);
		return;
	}
	ky_ring_process_mapped(pid, on_mapped, finder);
	if (finder->uid == 0) {
		snprintf(path, sizeof(path), "/proc/%u/root", pid);
		scan_shared_memory(finder, path);
	}
}

/* ---- all of them ---- */

static int by_pid_then_age(const void *left, const void *right)
{
	const struct ky_found_ring *a = left, *b = right;
	uint32_t a_pid = ky_found_pid(a);
	uint32_t b_pid = ky_found_pid(b);

	if (a_pid != b_pid)
		return a_pid < b_pid ? -1 : 1;
	if (a->made_unix_ns != b->made_unix_ns)
		return a->made_unix_ns > b->made_unix_ns ? -1 : 1;
	return strcmp(a->path, b->path);
}

static bool is_of_same_process(const struct ky_found_ring *a, const struct ky_found_ring *b)
{
	return a->pid != 0 && a->pid == b->pid && a->start_time_ticks == b->start_time_ticks &&
	       !a->is_other_boot && !b->is_other_boot;
}

/* A process that calls exec keeps its number and its start time, and loses its mappings. */
static void say_replaced(struct ky_found_rings *rings)
{
	uint32_t i;
	int fd;

	for (i = 1; i < rings->count; i++) {
		struct ky_found_ring *ring = &rings->rings[i];
		const struct ky_found_ring *newer = &rings->rings[i - 1];

		if (ring->state != KY_FOUND_ALIVE || newer->state == KY_FOUND_TROUBLE ||
		    !is_of_same_process(ring, newer))
			continue;
		fd = open(ring->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			continue;
		ring->is_replaced = !is_mapped(fd);
		if (ring->is_replaced)
			ring->state = KY_FOUND_DEAD;
		close(fd);
	}
}

/* Of the directory that was named itself: it says why nothing else was found. */
static bool is_directory_trouble(const struct ky_found_rings *rings,
				 const struct ky_ring_query *query)
{
	return query->ring_directory != NULL && rings->count == 1 &&
	       rings->rings[0].state == KY_FOUND_TROUBLE &&
	       strcmp(rings->rings[0].path, query->ring_directory) == 0;
}

static bool is_asked_for(const struct ky_found_ring *ring, const struct ky_ring_query *query)
{
	if (query->service != NULL && strcmp(ring->service, query->service) != 0)
		return false;
	if (query->pid == 0 || ring->pid == query->pid)
		return true;
	/* Damaged, or of a namespace that cannot be seen from here: by what it says itself. */
	return ring->pid == 0 && ring->ring_pid == query->pid;
}

static void keep_asked_for(struct ky_found_rings *rings, const struct ky_ring_query *query)
{
	uint32_t i, kept = 0;

	for (i = 0; i < rings->count; i++)
		if (is_asked_for(&rings->rings[i], query))
			rings->rings[kept++] = rings->rings[i];
	rings->count = kept;
}

static struct finder *make_finder(struct ky_found_rings *out, const struct ky_ring_query *query)
{
	struct finder *finder = ky_alloc(sizeof(*finder));

	memset(out, 0, sizeof(*out));
	if (finder == NULL)
		return NULL;
	finder->query = query;
	finder->out = out;
	finder->uid = geteuid();
	finder->pid_namespace = ky_run_process_namespace();
	(void)ky_read_first_line(KY_BOOT_ID_PATH, finder->boot_id, sizeof(finder->boot_id));
	return finder;
}

int ky_ring_find(struct ky_found_rings *out, const struct ky_ring_query *query)
{
	struct finder *finder = make_finder(out, query);
	bool is_out_of_memory;

	if (finder == NULL)
		return -ENOMEM;
	if (query->ring_directory != NULL)
		scan_path(finder, query->ring_directory);
	else
		scan_everything(finder);
	is_out_of_memory = finder->is_out_of_memory;
	ky_free(finder);
	if (is_out_of_memory) {
		ky_found_rings_release(out);
		return -ENOMEM;
	}
	if (out->count > 0)
		qsort(out->rings, out->count, sizeof(*out->rings), by_pid_then_age);
	say_replaced(out);
	out->is_unseen = is_directory_trouble(out, query);
	if (!out->is_unseen)
		keep_asked_for(out, query);
	return 0;
}

void ky_found_rings_release(struct ky_found_rings *rings)
{
	ky_free(rings->rings);
	memset(rings, 0, sizeof(*rings));
}

int ky_ring_find_file(struct ky_found_ring *out, const char *path, char *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), err = -errno;
	const struct ky_ring_query query = {.ring_directory = NULL};
	struct ky_found_rings found;
	struct finder *finder;
	struct stat st;

	why[0] = '\0';
	if (fd >= 0 && strlen(path) >= KY_FOUND_PATH_BYTES) { /* it is opened again by its name */
		close(fd);
		fd = -1;
		err = -ENAMETOOLONG;
	}
	if (fd < 0 || fstat(fd, &st) != 0) {
		(void)snprintf(why, KY_FOUND_WHY_BYTES, "%.511s: %s", path,
			       err == -ELOOP ? "a symbolic link, which no recorder makes" :
					       kymo_error_text(err));
		return err;
	}
	finder = make_finder(&found, &query);
	if (finder != NULL)
		look_at(finder, fd, path, st.st_uid, 0);
	ky_free(finder);
	close(fd);
	err = found.count > 0 ? found.rings[0].error : finder == NULL ? -ENOMEM : -ENODATA;
	if (err == 0)
		*out = found.rings[0];
	else
		(void)snprintf(why, KY_FOUND_WHY_BYTES, "%.600s",
			       found.count > 0 ? found.rings[0].why :
			       err == -ENODATA ? "no process has recorded into this ring" :
						 kymo_error_text(err));
	ky_found_rings_release(&found);
	return err;
}
