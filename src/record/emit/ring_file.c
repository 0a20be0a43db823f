/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <base/gnu.h>

#include <record/emit/ring_file.h>

#include <base/testpoint.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <wire/unwind_image.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define SLOTS_PER_STEP (KY_POPULATE_BYTES / KY_SLOT_BYTES)
#define SAME_NAME_MAX 16
#define PLACE_READS_MAX 1000000u /* a millisecond at most */

/* Header, control words, side area: whole pages in front of the directory. */
#define SIDE_OFFSET (2 * (size_t)KYMO_ARCH_PAGE_BYTES)
#define SIDE_BYTES                                                                                 \
	((sizeof(struct ky_ring_side) + KYMO_ARCH_PAGE_BYTES - 1) & ~(KYMO_ARCH_PAGE_BYTES - 1ul))
#define DIRECTORY_OFFSET (SIDE_OFFSET + SIDE_BYTES)

_Static_assert(KYMO_ARCH_PAGE_BYTES % 4096 == 0, "the kernel's pages are no larger than ours");

/* Field 22 of /proc/self/stat: after the last ')', because the name in field 2 may hold
 * anything. */
static uint64_t process_start_time(void)
{
	char text[1024];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t count;
	char *at;

	if (fd < 0)
		return 0;
	count = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (count <= 0)
		return 0;
	text[count] = 0;
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

void ky_ring_identify(struct ky_ring *ring)
{
	ring->pid = (uint32_t)getpid();
	ring->start_time_ticks = process_start_time();
}

/* The directory must be ours and closed to others: anybody who can rename in it could swap
 * files. */
static int open_directory(const char *wish)
{
	char path[KY_RING_PATH_BYTES];
	mode_t others = 022;
	struct stat st;
	int fd, count;

	if (!wish)
		wish = secure_getenv("KYMO_RING_DIR");
	if (wish && wish[0]) {
		count = snprintf(path, sizeof(path), "%s", wish);
	} else {
		others = 077;
		count = snprintf(path, sizeof(path), "/dev/shm/kymo-%u", (unsigned)geteuid());
	}
	if (count < 0 || (size_t)count >= sizeof(path))
		return -ENAMETOOLONG;
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & others) == 0)
		return fd;
	close(fd);
	return -EPERM;
}

static int create_named(struct ky_ring *ring, const struct ky_ring_request *request)
{
	int directory = open_directory(request->directory), fd = -1, err = 0;
	char link[64], name[160];
	ssize_t count;

	if (directory < 0)
		return directory;
	/* A name that exists belongs to an earlier program of this process (exec) or to a second
	 * recorder in it; either still has its reader. */
	for (int i = 0; i < SAME_NAME_MAX && fd < 0 && (i == 0 || err == -EEXIST); i++) {
		char number[16] = "";

		if (i > 0)
			snprintf(number, sizeof(number), ".%d", i);
		snprintf(name, sizeof(name), "%.63s-%ld-%llu%s.ring", request->service,
			 (long)getpid(), (unsigned long long)ring->start_time_ticks, number);
		fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
		err = fd < 0 ? -errno : 0;
	}
	if (fd >= 0) {
		fchmod(fd, 0600);
		snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
		count = readlink(link, ring->path, sizeof(ring->path) - sizeof(name) - 2);
		if (count > 0)
			snprintf(ring->path + count, sizeof(name) + 2, "/%s", name);
		if (count <= 0) {
			unlinkat(directory, name, 0);
			close(fd);
			fd = -1;
			err = -ENOENT;
		}
	}
	close(directory);
	return fd >= 0 ? fd : err;
}

static size_t places_at(const struct ky_ring *ring)
{
	return ring->slots_end + (size_t)ring->sample_bytes;
}

static size_t allocs_at(const struct ky_ring *ring)
{
	return places_at(ring) + (size_t)ring->place_bytes;
}

static void lay_out(struct ky_ring *ring, const struct ky_ring_request *request)
{
	uint64_t room = UINT64_MAX, front, slots;
	struct rlimit limit;

	/* ftruncate() beyond RLIMIT_FSIZE raises SIGXFSZ, whose default kills the host. */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		room = limit.rlim_cur;
	ring->directory_bytes = (size_t)request->directory_bytes;
	slots = (request->ring_bytes + KY_POPULATE_BYTES - 1) & ~(uint64_t)(KY_POPULATE_BYTES - 1);
	if (room < slots + DIRECTORY_OFFSET + KY_SLOT_BYTES + ring->directory_bytes &&
	    ring->directory_bytes > room / 8)
		ring->directory_bytes = KY_POPULATE_BYTES;
	front = DIRECTORY_OFFSET + ring->directory_bytes;
	front = (front + KY_SLOT_BYTES - 1) & ~(uint64_t)(KY_SLOT_BYTES - 1);
	if (room < front + slots)
		slots = room < front ? 0 : (room - front) & ~(uint64_t)(KY_POPULATE_BYTES - 1);
	ring->slot_count = (uint32_t)(slots / KY_SLOT_BYTES);
	ring->slots_end = (size_t)(front + slots);
	/* Stacks are what a small file does without. */
	ring->sample_bytes = request->sample_bytes / KYMO_ARCH_PAGE_BYTES * KYMO_ARCH_PAGE_BYTES;
	if (room < ring->slots_end + ring->sample_bytes)
		ring->sample_bytes = 0;
	ring->mapped_bytes = ring->slots_end + ring->sample_bytes;
	if (ring->sample_bytes && room >= ring->mapped_bytes + KY_PLACE_AREA_BYTES)
		ring->place_bytes = KY_PLACE_AREA_BYTES;
	ring->mapped_bytes += ring->place_bytes;
	if (ring->place_bytes && room >= ring->mapped_bytes + KY_ALLOC_AREA_BYTES)
		ring->alloc_bytes = KY_ALLOC_AREA_BYTES;
	ring->mapped_bytes += ring->alloc_bytes;
	if (room >= ring->mapped_bytes + KY_RESOURCE_AREA_BYTES)
		ring->resource_bytes = KY_RESOURCE_AREA_BYTES;
	ring->mapped_bytes += ring->resource_bytes;
	ring->unwind_bytes = room < ring->mapped_bytes + KY_UNWIND_AREA_BYTES ?
				     0 :
				     KY_UNWIND_AREA_BYTES;
	ring->mapped_bytes += ring->unwind_bytes;
}

/* Makes the page at `at` exist, or says that there is no memory for it, where a store of our own
 * would be a SIGBUS: the kernel writes the thread's signal mask, eight bytes, there. A thread is
 * not made without this call, so no filter of system calls kills for it; it may for madvise(). */
static bool touch(uint8_t *at)
{
	return syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, at, sizeof(uint64_t)) == 0;
}

/* Where `kymo run` has made the pages already (run_populate.h), one fault on reading brings in all
 * of a step; the kernel reads the word before it finds that there is no such operation. Where it
 * has not, or there is no memory, the reading by touch() decides. */
static void search_around(const uint8_t *at)
{
	(void)syscall(SYS_rt_sigprocmask, -1, at, NULL, sizeof(uint64_t));
}

/* Two threads may touch the same slot, the later one when the slot is in use already: what is
 * written must be unused. `reserved` is, and so is the last word (see point_at() of slot.c). */
static bool touch_slots(const struct ky_ring *ring, uint32_t from, uint32_t to)
{
	uint8_t *at = ring->slots + (size_t)from * KY_SLOT_BYTES;

	if (!ring->is_prefilled && from < to) {
		search_around(at);
		search_around(ring->slots + (size_t)to * KY_SLOT_BYTES - sizeof(uint64_t));
	}
	for (; !ring->is_prefilled && from < to; from++, at += KY_SLOT_BYTES)
		if (!touch(at + offsetof(struct ky_sub_buffer, reserved)) ||
		    !touch(at + KY_SLOT_BYTES - sizeof(uint64_t)))
			return false;
	return true;
}

/* At the creation, and while a program is set up, when everything is still allowed. */
static bool populate(uint8_t *from, uint8_t *to)
{
	/* EAGAIN, EINTR: rare and transient; whatever persists is "no memory". */
	for (int i = 0; i < 3; i++) {
		if (madvise(from, (size_t)(to - from), MADV_POPULATE_WRITE) == 0)
			return true;
		if (errno != EAGAIN && errno != EINTR)
			return false;
	}
	return false;
}

/* Maps fd with the slots on an 8 KiB boundary: reserve one slot more, then map over the aligned
 * part. */
static int map(struct ky_ring *ring, int fd)
{
	size_t reserve = ring->mapped_bytes + KY_SLOT_BYTES, front, head;
	uint8_t *area = mmap(NULL, reserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			     -1, 0);
	uint8_t *base;

	if (area == MAP_FAILED)
		return -errno;
	base = (uint8_t *)(((uintptr_t)area + KY_SLOT_BYTES - 1) & ~(uintptr_t)(KY_SLOT_BYTES - 1));
	head = (size_t)(base - area);
	if (mmap(base, ring->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		int err = -errno;

		munmap(area, reserve);
		return err;
	}
	if (head)
		munmap(area, head);
	if (head < KY_SLOT_BYTES)
		munmap(base + ring->mapped_bytes, KY_SLOT_BYTES - head);
	front = ring->slots_end - (size_t)ring->slot_count * KY_SLOT_BYTES;
	ring->base = base;
	ring->header = (struct ky_ring_header *)(void *)base;
	ring->control = (struct ky_ring_control *)(void *)(base + KYMO_ARCH_PAGE_BYTES);
	ring->side = (struct ky_ring_side *)(void *)(base + SIDE_OFFSET);
	ring->directory = base + DIRECTORY_OFFSET;
	ring->slots = base + front;
	ring->unwind = ring->unwind_bytes ? base + ring->mapped_bytes - ring->unwind_bytes : NULL;
	return 0;
}

/* What comes before the directory, its first step and the first slots must exist, or the file is of
 * no use. */
static int fill_first(struct ky_ring *ring, int fd)
{
	uint32_t first = ring->slot_count < SLOTS_PER_STEP ? ring->slot_count : SLOTS_PER_STEP;

	if (!populate(ring->base, ring->directory + KY_POPULATE_BYTES)) {
		if (errno != EINVAL)
			return -ENOSPC;
		if (fallocate(fd, 0, 0, (off_t)ring->slots_end) != 0)
			return -errno;
		ring->is_prefilled = true;
		first = ring->slot_count;
	}
	if (!populate(ring->slots, ring->slots + (size_t)first * KY_SLOT_BYTES))
		return -ENOSPC;
	ring->directory_steps = 1;
	ring->extent = (uint64_t)first << 32 | ring->slot_count;
	return 0;
}

static int try_file(struct ky_ring *ring, int fd)
{
	int err = 0;

	if (ftruncate(fd, (off_t)ring->mapped_bytes) != 0)
		err = -errno;
	if (!err)
		err = map(ring, fd);
	/* The mapping keeps the lock when the descriptor is closed; the kernel drops it with the
	 * last process that maps the ring. Readers in another pid namespace go by it. */
	if (!err)
		(void)flock(fd, LOCK_SH | LOCK_NB);
	if (!err)
		err = fill_first(ring, fd);
	if (err && ring->base) {
		munmap(ring->base, ring->mapped_bytes);
		ring->base = NULL;
	}
	return err;
}

/* A daemonizing host closes every descriptor; what we close later must still be ours. */
static void keep_descriptor(struct ky_ring *ring, int fd)
{
	struct stat st;

	ring->fd = fd;
	if (fstat(fd, &st) == 0)
		ring->fd_inode = (uint64_t)st.st_ino;
}

static void drop_descriptor(struct ky_ring *ring)
{
	struct stat st;

	if (ring->fd >= 0 && fstat(ring->fd, &st) == 0 && (uint64_t)st.st_ino == ring->fd_inode)
		close(ring->fd);
}

uint64_t ky_ring_resources_at(const struct ky_ring *ring)
{
	return ring->slots_end + ring->sample_bytes + ring->place_bytes + ring->alloc_bytes;
}

static void describe(struct ky_ring *ring, bool is_anonymous)
{
	struct ky_ring_header *header = ring->header;
	struct stat namespace;

	header->version = KY_RING_VERSION;
	header->page_bytes = KYMO_ARCH_PAGE_BYTES;
	header->file_bytes = ring->mapped_bytes;
	header->side_offset = SIDE_OFFSET;
	header->side_bytes = SIDE_BYTES;
	header->directory_offset = DIRECTORY_OFFSET;
	header->directory_bytes = ring->directory_bytes;
	header->slots_offset = (uint64_t)(ring->slots - ring->base);
	header->unwind_offset = ring->unwind ? (uint64_t)(ring->unwind - ring->base) : 0;
	header->unwind_bytes = ring->unwind_bytes;
	header->sample_offset = ring->sample_bytes ? ring->slots_end : 0;
	header->sample_bytes = ring->sample_bytes;
	header->place_offset = ring->place_bytes ? ring->slots_end + ring->sample_bytes : 0;
	header->alloc_offset = ring->alloc_bytes ? allocs_at(ring) : 0;
	header->alloc_bytes = ring->alloc_bytes;
	header->place_bytes = ring->place_bytes;
	header->resource_offset = ring->resource_bytes ? ky_ring_resources_at(ring) : 0;
	header->resource_bytes = ring->resource_bytes;
	header->slot_count = ring->slot_count;
	header->slot_bytes = KY_SLOT_BYTES;
	header->flags = is_anonymous ? KY_RING_ANONYMOUS : 0;
	header->uid = (uint32_t)geteuid();
	header->pid = ring->pid;
	header->start_time_ticks = ring->start_time_ticks;
	if (stat("/proc/self/ns/pid", &namespace) == 0)
		header->pid_namespace = (uint64_t) namespace.st_ino;
	atomic_store_explicit(&header->mapped_address, (uint64_t)(uintptr_t)ring->base,
			      memory_order_relaxed);
	atomic_store_explicit(&header->populated_count, ky_extent_populated(ring->extent),
			      memory_order_relaxed);
	atomic_store_explicit(&header->usable_count, ring->slot_count, memory_order_relaxed);
}

static int make(struct ky_ring *ring, const struct ky_ring_request *request)
{
	bool is_anonymous = false;
	int fd, err;

	ring->fd = -1;
	ky_ring_identify(ring);
	lay_out(ring, request);
	if (ring->slot_count < KY_RING_BYTES_MIN / KY_SLOT_BYTES)
		return -EFBIG;
	fd = create_named(ring, request);
	err = fd < 0 ? fd : try_file(ring, fd);
	if (fd >= 0)
		close(fd);
	if (err) {
		if (ring->path[0])
			unlink(ring->path);
		ring->path[0] = 0;
		is_anonymous = true;
		fd = memfd_create("kymo-ring", MFD_CLOEXEC);
		if (fd < 0)
			return -errno;
		err = try_file(ring, fd);
		if (err) {
			close(fd);
			return err;
		}
		keep_descriptor(ring, fd);
	}
	describe(ring, is_anonymous);
	return 0;
}

int ky_ring_create(struct ky_ring **out, const struct ky_ring_request *request,
		   const struct ky_clock *clock)
{
	struct ky_ring *ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err;

	if (ring == MAP_FAILED)
		return -ENOMEM;
	ring->clock = *clock;
	err = make(ring, request);
	if (err)
		munmap(ring, sizeof(*ring));
	else
		__atomic_store_n(out, ring, __ATOMIC_RELEASE);
	return err;
}

/* Two threads may publish in either order, and each may be killed at any point: no store may take
 * back what the other has said. Populated slots only grow in number, usable ones only shrink. */
static void publish_extent(struct ky_ring *ring)
{
	uint64_t extent = __atomic_load_n(&ring->extent, __ATOMIC_ACQUIRE);
	uint32_t populated = ky_extent_populated(extent), usable = ky_extent_usable(extent);
	uint32_t said = atomic_load_explicit(&ring->header->populated_count, memory_order_relaxed);

	while (said < populated && !atomic_compare_exchange_weak_explicit(
					   &ring->header->populated_count, &said, populated,
					   memory_order_seq_cst, memory_order_relaxed))
		;
	said = atomic_load_explicit(&ring->header->usable_count, memory_order_relaxed);
	while (said > usable &&
	       !atomic_compare_exchange_weak_explicit(&ring->header->usable_count, &said, usable,
						      memory_order_seq_cst, memory_order_relaxed))
		;
}

bool ky_ring_populate(struct ky_ring *ring, uint32_t slot)
{
	uint64_t extent = __atomic_load_n(&ring->extent, __ATOMIC_ACQUIRE);

	while (slot >= ky_extent_populated(extent) && slot < ky_extent_usable(extent)) {
		uint32_t from = ky_extent_populated(extent), usable = ky_extent_usable(extent);
		uint32_t to = (slot / SLOTS_PER_STEP + 1) * SLOTS_PER_STEP;
		uint64_t next;

		if (to > usable)
			to = usable;
		/* The whole gap, not our own step alone: `populated` says "all below". */
		if (touch_slots(ring, from, to))
			next = (uint64_t)to << 32 | usable;
		else
			next = (uint64_t)from << 32 | from;
		/* Losing the race means that another thread moved either half: check again. */
		if (__atomic_compare_exchange_n(&ring->extent, &extent, next, false,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
			KY_TESTPOINT("ring.populated");
			publish_extent(ring);
			extent = next;
		}
	}
	if (slot >= ky_extent_usable(extent))
		return false;
	/* The thread that made the slot's pages may not have come to say so, and may never: what is
	 * recorded here must be found all the same. */
	if (slot >= atomic_load_explicit(&ring->header->populated_count, memory_order_relaxed))
		publish_extent(ring);
	return true;
}

void ky_map_private(void *address, size_t bytes)
{
	const long flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	const long access = PROT_READ | PROT_WRITE;
	/* Not through mmap(): that is one step for every thread that reads along, but the thread
	 * sanitizer's wrapper takes it for a write. */
	long elsewhere = syscall(SYS_mmap, NULL, bytes, access, flags, -1L, 0L);

	/* Where memory is committed strictly (vm.overcommit_memory 2) the kernel takes away what is
	 * at the address before it finds that there is none to put there. So it is asked first, and
	 * what cannot be had leaves all as it was. */
	if (elsewhere == -1)
		return;
	(void)syscall(SYS_munmap, elsewhere, bytes);
	(void)syscall(SYS_mmap, address, bytes, access, flags | MAP_FIXED, -1L, 0L);
}

bool ky_ring_populate_directory(struct ky_ring *ring, size_t bytes)
{
	while ((size_t)ring->directory_steps * KY_POPULATE_BYTES < bytes) {
		uint8_t *from = ring->directory + (size_t)ring->directory_steps * KY_POPULATE_BYTES;
		uint8_t *to = from + KY_POPULATE_BYTES;

		if (to > ring->directory + ring->directory_bytes)
			to = ring->directory + ring->directory_bytes;
		for (; from < to && !ring->is_prefilled; from += KYMO_ARCH_PAGE_BYTES) {
			if (!touch(from))
				return false;
			memset(from, 0, sizeof(uint64_t));
		}
		ring->directory_steps++;
	}
	return true;
}

/* Every page of [from, to) by its last word, which no thread uses. */
static bool touch_pages(uint8_t *from, const uint8_t *to)
{
	for (; from < to; from += KYMO_ARCH_PAGE_BYTES)
		if (!touch(from + KYMO_ARCH_PAGE_BYTES - sizeof(uint64_t)))
			return false;
	return true;
}

bool ky_ring_samples(struct ky_ring *ring, uint32_t which, struct ky_sample_ring *out)
{
	uint8_t *area = ring->base + ring->slots_end;
	struct ky_sample_head *head = (struct ky_sample_head *)(void *)area;
	uint64_t offset;
	uint32_t count = ky_sample_range(ring->sample_bytes, which, &offset);
	uint32_t there = atomic_load_explicit(&ring->header->sample_classes, memory_order_relaxed);

	memset(out, 0, sizeof(*out));
	if (!count)
		return false;
	/* Whatever the file says exists is made sure of once by each process that writes there: a
	 * bit alone would be something read back. */
	if (!touch_pages(area, area + KY_SAMPLE_PAGE_BYTES) ||
	    !touch_pages(area + offset, area + offset + (size_t)count * KY_SAMPLE_CELL_BYTES))
		return false;
	if (!(there & 1u << which))
		atomic_fetch_or_explicit(&ring->header->sample_classes, 1u << which,
					 memory_order_release);
	out->head = &head->classes[which];
	out->cells = area + offset;
	out->cell_count = count;
	return true;
}

bool ky_ring_touch(void *word)
{
	return touch(word);
}

/* Their last words are of use to another thread, which comes later. */
static bool touch_and_clear(uint8_t *from, const uint8_t *to)
{
	for (; from < to; from += KYMO_ARCH_PAGE_BYTES) {
		uint8_t *word = from + KYMO_ARCH_PAGE_BYTES - sizeof(uint64_t);

		if (!touch(word))
			return false;
		memset(word, 0, sizeof(uint64_t));
	}
	return true;
}

void ky_ring_populate_places(const struct ky_ring *ring)
{
	uint8_t *area = ring->base + places_at(ring);
	int before = errno;

	if (ring->place_bytes &&
	    __atomic_load_n(&ring->place_state, __ATOMIC_ACQUIRE) == KY_PLACE_UNTRIED)
		(void)populate(area, area + KY_PLACE_UNITS_OFFSET);
	errno = before;
}

static bool make_places(struct ky_ring *ring)
{
	uint8_t *area = ring->base + places_at(ring);

	if (!ring->place_bytes || !touch_and_clear(area, area + KY_PLACE_UNITS_OFFSET))
		return false;
	atomic_store_explicit(&ring->header->place_ready, 1, memory_order_release);
	return true;
}

static bool make_allocs(struct ky_ring *ring)
{
	uint8_t *area = ring->base + allocs_at(ring);

	if (!ring->alloc_bytes || !ky_ring_samples(ring, KY_SAMPLES_MEMORY, &ring->alloc_samples) ||
	    !touch_and_clear(area, area + KY_ALLOC_ENTRIES_OFFSET) ||
	    !touch_and_clear(area + KY_ALLOC_STACKS_OFFSET, area + KY_ALLOC_UNITS_OFFSET))
		return false;
	atomic_store_explicit(&ring->header->alloc_ready, 1, memory_order_release);
	return true;
}

/* Some hundred system calls of another thread: what this one is about to say is not said again. */
static uint32_t wait_for_table(const uint32_t *of)
{
	uint32_t state = KY_PLACE_BEING_MADE;

	for (uint32_t i = 0; i < PLACE_READS_MAX && state == KY_PLACE_BEING_MADE; i++)
		state = __atomic_load_n(of, __ATOMIC_ACQUIRE);
	return state;
}

static bool is_made(struct ky_ring *ring, uint32_t *of, bool (*make_it)(struct ky_ring *ring),
		    void (*begin)(void))
{
	uint32_t state = __atomic_load_n(of, __ATOMIC_ACQUIRE);

	if (state == KY_PLACE_MADE)
		return true;
	state = KY_PLACE_UNTRIED;
	if (__atomic_compare_exchange_n(of, &state, KY_PLACE_BEING_MADE, false, __ATOMIC_ACQUIRE,
					__ATOMIC_ACQUIRE)) {
		if (begin)
			begin();
		state = make_it(ring) ? KY_PLACE_MADE : KY_PLACE_REFUSED;
		__atomic_store_n(of, state, __ATOMIC_RELEASE);
	} else if (state == KY_PLACE_BEING_MADE) {
		state = wait_for_table(of);
	}
	return state == KY_PLACE_MADE;
}

uint8_t *ky_ring_places(struct ky_ring *ring)
{
	return is_made(ring, &ring->place_state, make_places, NULL) ? ring->base + places_at(ring) :
								      NULL;
}

uint8_t *ky_ring_allocs(struct ky_ring *ring, void (*begin)(void))
{
	return is_made(ring, &ring->alloc_state, make_allocs, begin) ?
		       ring->base + allocs_at(ring) :
		       NULL;
}

void ky_ring_detach(struct ky_ring *ring)
{
	ky_map_private(ring->base, ring->mapped_bytes);
}

void ky_ring_forget(struct ky_ring *ring, bool is_unlinking)
{
	if (is_unlinking && ring->path[0])
		unlink(ring->path);
	drop_descriptor(ring);
	ring->fd = -1;
	ring->path[0] = 0;
}
