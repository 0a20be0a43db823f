/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <session/table_thread.h>

#include <agent/unwind_tables.h>
#include <base/alloc.h>
#include <base/now.h>
#include <base/start_thread.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NICE 10

/* Of one ring. What says nothing else is the thread's alone once the ring is in the list. */
struct ring_tables {
	struct ring_tables *next; /* under the lock */
	dev_t device;             /* never changes, as the inode and the process */
	ino_t inode;
	struct ky_table_thread *owner;
	bool is_removed, is_over;     /* written under the lock; atomic */
	uint64_t due_ns;              /* under the lock, as what follows */
	uint64_t looked_ns, clock_ns; /* due_ns UINT64_MAX: from when on its clock is looked at, and
				       * what that showed */
	struct ky_unwind_stats stats; /* under the lock */
	struct ky_unwind_tables tables;
	struct ky_probe probe; /* of these */
};

struct ky_table_thread {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	pthread_cond_t rested; /* no ring is stepped */
	struct ring_tables *rings;
	const struct ring_tables *stepped; /* under the lock */
	uint32_t is_stopping;              /* atomic */
};

/* ---- the thread ---- */

static int stop_early(void *ctx)
{
	const struct ring_tables *ring = ctx;

	return __atomic_load_n(&ring->owner->is_stopping, __ATOMIC_RELAXED) ||
			       __atomic_load_n(&ring->is_removed, __ATOMIC_RELAXED) ||
			       __atomic_load_n(&ring->is_over, __ATOMIC_RELAXED) ?
		       -ECANCELED :
		       0;
}

static void drop(struct ring_tables *ring)
{
	close(ring->tables.area.access.fd);
	ky_probes_close(&ring->probe, 1);
	ky_free(ring);
}

/* Under the lock. */
static void drop_removed(struct ky_table_thread *thread)
{
	struct ring_tables **at = &thread->rings;

	while (*at) {
		struct ring_tables *ring = *at;

		if (ring->is_removed) {
			*at = ring->next;
			drop(ring);
		} else {
			at = &ring->next;
		}
	}
}

/* Under the lock. The ring that waits longest; NULL: there is none. */
static struct ring_tables *first_due(const struct ky_table_thread *thread)
{
	struct ring_tables *first = NULL;

	for (struct ring_tables *ring = thread->rings; ring; ring = ring->next)
		if (!first || ring->due_ns < first->due_ns)
			first = ring;
	return first;
}

/* Under the lock, which it leaves meanwhile: only this thread frees a ring. */
static void step(struct ky_table_thread *thread, struct ring_tables *ring, uint64_t now_ns)
{
	const struct ky_probe_moment moment = {.now_ns = now_ns};
	uint64_t due_ns;

	thread->stepped = ring;
	pthread_mutex_unlock(&thread->lock);
	due_ns = ky_probes_step(&ring->probe, 1, &moment);
	pthread_mutex_lock(&thread->lock);
	thread->stepped = NULL;
	pthread_cond_broadcast(&thread->rested);
	/* Until it has run: who looks at the rings sees that, and saves the thread a wake-up. */
	ring->clock_ns = ring->tables.clock_ns;
	ring->looked_ns = ring->is_over ? UINT64_MAX : due_ns;
	ring->due_ns = ring->tables.is_resting || ring->is_over ? UINT64_MAX : due_ns;
	ring->stats = ring->tables.stats;
}

static void wait_until(struct ky_table_thread *thread, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
				 .tv_nsec = (long)(until_ns % 1000000000)};

	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&thread->changed, &thread->lock);
	else
		(void)pthread_cond_clockwait(&thread->changed, &thread->lock, CLOCK_MONOTONIC,
					     &until);
}

static void *run(void *ctx)
{
	struct ky_table_thread *thread = ctx;
	id_t tid = (id_t)syscall(SYS_gettid);

	pthread_setname_np(pthread_self(), "kymo-unwind");
	errno = 0;
	(void)setpriority(PRIO_PROCESS, tid, getpriority(PRIO_PROCESS, tid) + NICE);
	pthread_mutex_lock(&thread->lock);
	while (!__atomic_load_n(&thread->is_stopping, __ATOMIC_RELAXED)) {
		uint64_t now_ns = ky_now_ns(CLOCK_MONOTONIC);
		struct ring_tables *ring;

		drop_removed(thread);
		ring = first_due(thread);
		if (ring && ring->due_ns <= now_ns)
			step(thread, ring, now_ns);
		else
			wait_until(thread, ring ? ring->due_ns : UINT64_MAX);
	}
	pthread_mutex_unlock(&thread->lock);
	return NULL;
}

/* ---- its caller ---- */

static int open_thread(struct ky_table_thread **out)
{
	struct ky_table_thread *thread = ky_alloc(sizeof(*thread));
	int err;

	if (!thread)
		return -ENOMEM;
	pthread_mutex_init(&thread->lock, NULL);
	pthread_cond_init(&thread->changed, NULL);
	pthread_cond_init(&thread->rested, NULL);
	err = ky_start_thread(&thread->thread, run, thread);
	if (err)
		ky_free(thread);
	else
		*out = thread;
	return err;
}

/* Under the lock. NULL: there are none. */
static struct ring_tables *find(struct ky_table_thread *thread, const struct stat *st)
{
	for (struct ring_tables *ring = thread->rings; ring; ring = ring->next)
		if (!ring->is_removed && ring->inode == st->st_ino && ring->device == st->st_dev)
			return ring;
	return NULL;
}

static void remove_ring(struct ring_tables *ring)
{
	__atomic_store_n(&ring->is_removed, true, __ATOMIC_RELAXED);
}

static struct ring_tables *make(int ring_fd, const struct stat *st,
				const struct ky_unwind_tables *tables)
{
	struct ring_tables *ring = ky_alloc(sizeof(*ring));
	int fd = ring ? dup(ring_fd) : -1;

	if (fd < 0) {
		ky_free(ring);
		return NULL;
	}
	ring->device = st->st_dev;
	ring->inode = st->st_ino;
	ring->tables = *tables;
	ring->tables.is_hasty = ring->tables.follows_cpu = true;
	ring->tables.between = stop_early;
	ring->tables.area.access.fd = fd;
	ring->probe = ky_unwind_tables_probe(&ring->tables);
	return ring;
}

void ky_table_thread_add(struct ky_table_thread **out, int ring_fd,
			 const struct ky_ring_header *header)
{
	struct ring_tables *ring, *before;
	struct ky_unwind_tables tables;
	struct ky_table_thread *thread;
	struct stat st;

	ky_unwind_tables_init(&tables, ring_fd, header);
	if (!tables.area.bytes || fstat(ring_fd, &st) != 0 || (!*out && open_thread(out) != 0))
		return;
	thread = *out;
	pthread_mutex_lock(&thread->lock);
	before = find(thread, &st);
	ring = before && before->tables.pid == tables.pid ? NULL : make(ring_fd, &st, &tables);
	if (ring) {
		ring->owner = thread;
		ring->tables.ctx = ring;
		ring->tables.early = KY_TABLE_THREAD_EARLY;
		ring->next = thread->rings;
		thread->rings = ring;
		if (before)
			remove_ring(before);
		pthread_cond_signal(&thread->changed);
	}
	pthread_mutex_unlock(&thread->lock);
}

void ky_table_thread_remove(struct ky_table_thread *thread, int ring_fd)
{
	struct ring_tables *ring;
	struct stat st;

	if (!thread || fstat(ring_fd, &st) != 0)
		return;
	pthread_mutex_lock(&thread->lock);
	ring = find(thread, &st);
	if (ring)
		remove_ring(ring);
	pthread_cond_signal(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
}

/* The kernel takes the part of /proc that is of it apart when it is reaped, and spins on our CPU as
 * long as another thread of ours is in the middle of reading there. */
void ky_table_thread_end(struct ky_table_thread *thread, uint32_t pid)
{
	if (!thread)
		return;
	pthread_mutex_lock(&thread->lock);
	for (struct ring_tables *ring = thread->rings; ring; ring = ring->next) {
		if (ring->tables.pid != pid)
			continue;
		__atomic_store_n(&ring->is_over, true, __ATOMIC_RELAXED);
		ring->due_ns = ring->looked_ns = UINT64_MAX;
		while (thread->stepped == ring)
			pthread_cond_wait(&thread->rested, &thread->lock);
	}
	pthread_mutex_unlock(&thread->lock);
}

void ky_table_thread_look(struct ky_table_thread *thread, uint64_t now_ns)
{
	uint64_t clock_ns;

	if (!thread)
		return;
	pthread_mutex_lock(&thread->lock);
	for (struct ring_tables *ring = thread->rings; ring; ring = ring->next) {
		if (ring->due_ns != UINT64_MAX || now_ns < ring->looked_ns ||
		    (ky_process_cpu_ns(ring->tables.pid, &clock_ns) && clock_ns == ring->clock_ns))
			continue;
		ring->due_ns = 0;
		pthread_cond_signal(&thread->changed);
	}
	pthread_mutex_unlock(&thread->lock);
}

void ky_table_thread_close(struct ky_table_thread *thread)
{
	if (!thread)
		return;
	pthread_mutex_lock(&thread->lock);
	__atomic_store_n(&thread->is_stopping, 1, __ATOMIC_RELAXED);
	pthread_cond_signal(&thread->changed);
	pthread_mutex_unlock(&thread->lock);
	pthread_join(thread->thread, NULL);
	for (struct ring_tables *ring = thread->rings; ring; ring = ring->next)
		remove_ring(ring);
	drop_removed(thread);
	pthread_cond_destroy(&thread->changed);
	pthread_cond_destroy(&thread->rested);
	pthread_mutex_destroy(&thread->lock);
	ky_free(thread);
}

void ky_table_thread_text(struct ky_table_thread *thread, int ring_fd, char *out, size_t capacity)
{
	const struct ring_tables *ring;
	struct ky_unwind_stats stats;
	struct stat st;

	(void)snprintf(out, capacity, "none: the ring file has no room for them");
	if (!thread || fstat(ring_fd, &st) != 0)
		return;
	pthread_mutex_lock(&thread->lock);
	ring = find(thread, &st);
	if (ring)
		stats = ring->stats;
	pthread_mutex_unlock(&thread->lock);
	if (ring)
		ky_unwind_tables_text(&stats, out, capacity);
}
