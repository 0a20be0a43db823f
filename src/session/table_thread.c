/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <session/table_thread.h>

#include <base/alloc.h>
#include <base/now.h>
#include <errno.h>
#include <kymo/base.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <unwind/unwind_keeper.h>

#define MS_NS UINT64_C(1000000)
#define PACE_NS (1000 * MS_NS)
/* Most of what a program ever loads it loads now. */
#define PACE_YOUNG_NS (100 * MS_NS)
#define YOUNG_NS (2000 * MS_NS)
#define NICE 10

struct ky_run_unwound {
	struct ky_run_unwound *next;
	struct ky_run_unwind *owner;
	int fd;
	uint32_t pid;
	uint64_t area_offset, area_bytes;
	uint64_t added_ns, due_ns;
	dev_t device;
	ino_t inode;
	uint64_t clock_ns; /* of its CPU time, just before the last look; 0: unknown */
	bool is_ahead;     /* under the lock; nobody records into it yet */
	bool is_removed;   /* under the lock */
	struct ky_unwind_keeper *keeper; /* the thread's alone; NULL: not begun, or no room */
	int error;                       /* the thread's alone: why there is none */
	struct ky_unwind_stats stats;    /* under the lock */
};

struct ky_run_unwind {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	struct ky_run_unwound *rings;
	uint32_t is_stopping; /* atomic */
};

/* ---- the file ---- */

/* Page after page comes to be as it is written; a full file system says so here. */
static int put(void *ctx, uint64_t offset, const void *bytes, size_t count)
{
	const struct ky_run_unwound *ring = ctx;
	const uint8_t *at = bytes;

	if (__atomic_load_n(&ring->owner->is_stopping, __ATOMIC_RELAXED))
		return -ECANCELED;
	if (offset > ring->area_bytes || count > ring->area_bytes - offset)
		return KYMO_E_LIMIT;
	offset += ring->area_offset;
	while (count > 0) {
		ssize_t done = pwrite(ring->fd, at, count, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? -errno : -ENOSPC;
		at += done;
		offset += (uint64_t)done;
		count -= (size_t)done;
	}
	return 0;
}

static int announce(void *ctx)
{
	const struct ky_run_unwound *ring = ctx;
	uint32_t ready = 1;
	ssize_t done = pwrite(ring->fd, &ready, sizeof(ready),
			      (off_t)offsetof(struct ky_ring_header, unwind_ready));

	return done == sizeof(ready) ? 0 : done < 0 ? -errno : -ENOSPC;
}

/* ---- the thread ---- */

/* What maps something runs. A clock that says nothing: it is looked at. */
static bool has_run(struct ky_run_unwound *ring)
{
	uint64_t before_ns = ring->clock_ns;

	return !ky_process_cpu_ns(ring->pid, &ring->clock_ns) || ring->clock_ns != before_ns;
}

static void look(struct ky_run_unwound *ring)
{
	const struct ky_unwind_target target = {.pid = ring->pid,
						.area_bytes = ring->area_bytes,
						.write = put,
						.announce = announce,
						.ctx = ring};
	int err = 0;

	if (!ring->keeper && !ring->error)
		ring->error = ky_unwind_keeper_open(&ring->keeper, &target);
	if (ring->keeper)
		err = ky_unwind_keeper_look(ring->keeper);
	pthread_mutex_lock(&ring->owner->lock);
	if (ring->keeper)
		ky_unwind_keeper_stats(ring->keeper, &ring->stats);
	/* At its end a process has no map any more: that is no trouble. */
	if (ring->error || (err < 0 && !ring->stats.module_count))
		ring->stats.last_error = ring->error ? ring->error : err;
	pthread_mutex_unlock(&ring->owner->lock);
}

static void drop(struct ky_run_unwound *ring)
{
	ky_unwind_keeper_close(ring->keeper);
	close(ring->fd);
	ky_free(ring);
}

/* Under the lock. */
static void drop_removed(struct ky_run_unwind *unwind)
{
	struct ky_run_unwound **at = &unwind->rings;

	while (*at) {
		struct ky_run_unwound *ring = *at;

		if (ring->is_removed) {
			*at = ring->next;
			drop(ring);
		} else {
			at = &ring->next;
		}
	}
}

/* Under the lock. The one to look at now, or NULL and when. */
static struct ky_run_unwound *next_due(struct ky_run_unwind *unwind, uint64_t now_ns,
				       uint64_t *until_ns)
{
	struct ky_run_unwound *first = NULL;

	for (struct ky_run_unwound *ring = unwind->rings; ring; ring = ring->next)
		if (!first || ring->due_ns < first->due_ns)
			first = ring;
	*until_ns = first ? first->due_ns : UINT64_MAX;
	if (!first || first->due_ns > now_ns)
		return NULL;
	first->due_ns = now_ns + (now_ns - first->added_ns < YOUNG_NS ? PACE_YOUNG_NS : PACE_NS);
	return first;
}

static void wait_until(struct ky_run_unwind *unwind, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
				 .tv_nsec = (long)(until_ns % 1000000000)};

	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&unwind->changed, &unwind->lock);
	else
		(void)pthread_cond_clockwait(&unwind->changed, &unwind->lock, CLOCK_MONOTONIC,
					     &until);
}

static void *run(void *ctx)
{
	struct ky_run_unwind *unwind = ctx;
	id_t tid = (id_t)syscall(SYS_gettid);

	pthread_setname_np(pthread_self(), "kymo-unwind");
	errno = 0;
	(void)setpriority(PRIO_PROCESS, tid, getpriority(PRIO_PROCESS, tid) + NICE);
	pthread_mutex_lock(&unwind->lock);
	while (!__atomic_load_n(&unwind->is_stopping, __ATOMIC_RELAXED)) {
		struct ky_run_unwound *ring;
		uint64_t until_ns;

		drop_removed(unwind);
		ring = next_due(unwind, ky_now_ns(CLOCK_MONOTONIC), &until_ns);
		if (!ring) {
			wait_until(unwind, until_ns);
			continue;
		}
		/* Only this thread frees it. */
		pthread_mutex_unlock(&unwind->lock);
		if (has_run(ring))
			look(ring);
		pthread_mutex_lock(&unwind->lock);
	}
	pthread_mutex_unlock(&unwind->lock);
	return NULL;
}

/* ---- its caller ---- */

static int open_thread(struct ky_run_unwind **out)
{
	struct ky_run_unwind *unwind = ky_alloc(sizeof(*unwind));
	sigset_t all, before;
	int err;

	if (!unwind)
		return -ENOMEM;
	pthread_mutex_init(&unwind->lock, NULL);
	pthread_cond_init(&unwind->changed, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&unwind->thread, NULL, run, unwind);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		ky_free(unwind);
		return -err;
	}
	*out = unwind;
	return 0;
}

static struct ky_run_unwound *find_ahead(struct ky_run_unwind *unwind, const struct stat *st)
{
	for (struct ky_run_unwound *ring = unwind->rings; ring; ring = ring->next)
		if (ring->is_ahead && !ring->is_removed && ring->inode == st->st_ino &&
		    ring->device == st->st_dev)
			return ring;
	return NULL;
}

/* One that was begun with goes on when it is of the same process; else, after a fork, it makes room
 * for the new one, for they write the same area. Under the lock. */
static struct ky_run_unwound *take_ahead(struct ky_run_unwind *unwind, const struct stat *st,
					 uint32_t pid)
{
	struct ky_run_unwound *ring = find_ahead(unwind, st);

	if (!ring)
		return NULL;
	ring->is_ahead = false;
	if (ring->pid == pid)
		return ring;
	ring->is_removed = true;
	return NULL;
}

static bool has_area(const struct ky_ring_header *header)
{
	return header->unwind_offset != 0 && header->unwind_offset <= INT64_MAX / 2 &&
	       header->unwind_bytes <= KY_UNWIND_AREA_BYTES;
}

static struct ky_run_unwound *add(struct ky_run_unwind **unwind, int ring_fd,
				  const struct ky_ring_header *header, bool is_ahead)
{
	struct ky_run_unwound *ring;
	struct stat st;

	if (!has_area(header) || fstat(ring_fd, &st) != 0)
		return NULL;
	if (!*unwind && (open_thread(unwind) != 0 || !*unwind))
		return NULL;
	pthread_mutex_lock(&(*unwind)->lock);
	ring = is_ahead ? find_ahead(*unwind, &st) : take_ahead(*unwind, &st, header->pid);
	pthread_mutex_unlock(&(*unwind)->lock);
	if (ring)
		return ring;
	ring = ky_alloc(sizeof(*ring));
	if (!ring)
		return NULL;
	ring->owner = *unwind;
	ring->pid = header->pid;
	ring->device = st.st_dev;
	ring->inode = st.st_ino;
	ring->is_ahead = is_ahead;
	ring->area_offset = header->unwind_offset;
	ring->area_bytes = header->unwind_bytes;
	ring->added_ns = ring->due_ns = ky_now_ns(CLOCK_MONOTONIC);
	ring->fd = dup(ring_fd);
	if (ring->fd < 0) {
		ky_free(ring);
		return NULL;
	}
	pthread_mutex_lock(&(*unwind)->lock);
	ring->next = (*unwind)->rings;
	(*unwind)->rings = ring;
	pthread_cond_signal(&(*unwind)->changed);
	pthread_mutex_unlock(&(*unwind)->lock);
	return ring;
}

struct ky_run_unwound *ky_run_unwind_add(struct ky_run_unwind **unwind, int ring_fd,
					 const struct ky_ring_header *header)
{
	return add(unwind, ring_fd, header, false);
}

void ky_run_unwind_ahead(struct ky_run_unwind **unwind, int ring_fd,
			 const struct ky_ring_header *header)
{
	(void)add(unwind, ring_fd, header, true);
}

void ky_run_unwind_forget(struct ky_run_unwind *unwind, int ring_fd)
{
	struct ky_run_unwound *ring = NULL;
	struct stat st;

	if (!unwind || fstat(ring_fd, &st) != 0)
		return;
	pthread_mutex_lock(&unwind->lock);
	ring = find_ahead(unwind, &st);
	if (ring)
		ring->is_removed = true;
	pthread_cond_signal(&unwind->changed);
	pthread_mutex_unlock(&unwind->lock);
}

void ky_run_unwind_remove(struct ky_run_unwind *unwind, struct ky_run_unwound *ring)
{
	if (!ring)
		return;
	pthread_mutex_lock(&unwind->lock);
	ring->is_removed = true;
	pthread_cond_signal(&unwind->changed);
	pthread_mutex_unlock(&unwind->lock);
}

void ky_run_unwind_close(struct ky_run_unwind *unwind)
{
	if (!unwind)
		return;
	pthread_mutex_lock(&unwind->lock);
	__atomic_store_n(&unwind->is_stopping, 1, __ATOMIC_RELAXED);
	pthread_cond_signal(&unwind->changed);
	pthread_mutex_unlock(&unwind->lock);
	pthread_join(unwind->thread, NULL);
	for (struct ky_run_unwound *ring = unwind->rings; ring; ring = ring->next)
		ring->is_removed = true;
	drop_removed(unwind);
	pthread_cond_destroy(&unwind->changed);
	pthread_mutex_destroy(&unwind->lock);
	ky_free(unwind);
}

int ky_run_unwind_once(int ring_fd, const struct ky_ring_header *header, uint32_t pid)
{
	struct ky_run_unwind nobody = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct ky_run_unwound ring = {.owner = &nobody,
				      .fd = ring_fd,
				      .pid = pid,
				      .area_offset = header->unwind_offset,
				      .area_bytes = header->unwind_bytes};

	if (!has_area(header))
		return -ENOSPC;
	look(&ring);
	ky_unwind_keeper_close(ring.keeper);
	return ring.stats.module_count ? 0 : ring.stats.last_error;
}

void ky_run_unwind_text(struct ky_run_unwind *unwind, struct ky_run_unwound *ring, char *out,
			size_t capacity)
{
	struct ky_unwind_stats stats = {.last_error = KYMO_E_LIMIT};
	int count;

	if (!ring) {
		(void)snprintf(out, capacity, "none: the ring file has no room for them");
		return;
	}
	pthread_mutex_lock(&unwind->lock);
	stats = ring->stats;
	pthread_mutex_unlock(&unwind->lock);
	if (!stats.module_count) {
		(void)snprintf(out, capacity, "none: %s",
			       stats.last_error ? kymo_error_text(stats.last_error) :
						  "the process ended before they were made");
		return;
	}
	count = snprintf(out, capacity, "%u modules, %llu rows", stats.module_count,
			 (unsigned long long)stats.row_count);
	if (stats.refused_count && count > 0 && (size_t)count < capacity)
		(void)snprintf(out + count, capacity - (size_t)count, ", %u without (%s)",
			       stats.refused_count, kymo_error_text(stats.last_error));
}
