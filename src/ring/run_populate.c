/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <ring/run_populate.h>

#include <sys/mman.h>
#include <sys/statvfs.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define PAGE ((uintptr_t)4096)
#define AHEAD_MIN 64u   /* slots: 512 KiB */
#define AHEAD_MAX 1024u /* 8 MiB */
#define ROOM_BYTES (UINT64_C(16) << 20)

/* The slots that writers are expected to need before the next reading; at most those there are. */
static uint32_t wanted(const struct ky_ring_view *view, uint32_t populated, uint64_t claims)
{
	uint32_t usable = ky_ring_view_usable(view), ahead = AHEAD_MIN;

	if (usable > view->slot_count)
		usable = view->slot_count;
	if (claims > AHEAD_MIN / 2)
		ahead = claims < AHEAD_MAX / 2 ? (uint32_t)claims * 2 : AHEAD_MAX;
	return usable > populated && usable - populated > ahead ? populated + ahead : usable;
}

/* Room for this, and as much again and more for others. A file system of anonymous files has no
 * bound and says 0. */
static bool has_room(int fd, uint64_t bytes)
{
	struct statvfs room;

	if (fstatvfs(fd, &room) != 0)
		return false;
	return room.f_blocks == 0 ||
	       (uint64_t)room.f_bavail * room.f_frsize >= 2 * bytes + ROOM_BYTES;
}

uint32_t ky_run_populate(struct ky_run_populate *populate, const struct ky_ring_view *view, int fd)
{
	uint64_t claim_index = atomic_load_explicit(&view->header->claim_index,
						    memory_order_relaxed);
	uint64_t claims = claim_index - populate->claim_index;
	uint32_t populated = ky_ring_view_populated(view), from, to;
	uintptr_t start, end;

	populate->claim_index = claim_index;
	if (populate->made < populated)
		populate->made = populated;
	populate->is_making = claims > 0 && populate->made < view->slot_count;
	from = populate->made;
	to = wanted(view, populated, claims);
	/* A few at a time are not worth the calls. */
	if (!claims || to <= from || (to - from < AHEAD_MIN / 2 && to < view->slot_count) ||
	    !has_room(fd, (uint64_t)(to - from) * KY_SLOT_BYTES))
		return 0;
	start = (uintptr_t)view->image + view->slots_offset + (uintptr_t)from * KY_SLOT_BYTES;
	end = start + (uintptr_t)(to - from) * KY_SLOT_BYTES;
	start = (start + PAGE - 1) / PAGE * PAGE;
	populate->made = to; /* or will not be, and then writers see to it themselves */
	if (start >= end ||
	    madvise((void *)start, (end - start) / PAGE * PAGE, MADV_POPULATE_READ) != 0)
		return 0;
	return to - from;
}
