/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_file.h - the ring's file and its mapping: created, populated step by step, detached.
 *
 * Invariants:  slots are KY_SLOT_BYTES-aligned in the address space; nothing above the populated
 *              part is touched, so a full tmpfs shows as fewer usable slots and never as SIGBUS.
 *              populated and usable change together in one private word: once usable has shrunk to
 *              p, no slot at or above p was ever given out.
 * Memory:      the mapping only; no allocation.
 * Threads:     create, detach, forget: one at a time. populate: any.
 * Signals:     populate: safe.
 */
#ifndef KY_RECORD_EMIT_RING_FILE_H
#define KY_RECORD_EMIT_RING_FILE_H

#include <kymo/arch.h>
#include <record/emit/clock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wire/alloc_table.h>
#include <wire/place_table.h>
#include <wire/resource_area.h>
#include <wire/ring_image.h>
#include <wire/sample_area.h>

#define KY_RING_PATH_BYTES 512u
#define KY_POPULATE_BYTES 65536u
#define KY_RING_BYTES_MIN (128u << 10)
#define KY_RING_BYTES_DEFAULT (32u << 20)
#define KY_RING_BYTES_MAX (UINT64_C(4) << 30)

/* What became of the pages of the place table, or of the table of allocations. */
enum ky_place_state {
	KY_PLACE_UNTRIED = 0,
	KY_PLACE_BEING_MADE,
	KY_PLACE_MADE,
	KY_PLACE_REFUSED
};

struct ky_ring {
	uint8_t *base;
	size_t mapped_bytes;
	struct ky_ring_header *header;
	struct ky_ring_control *control;
	struct ky_ring_side *side;
	uint8_t *directory;
	size_t directory_bytes;
	uint8_t *slots;
	uint32_t slot_count;
	size_t slots_end;        /* the sample area begins there */
	uint64_t sample_bytes;   /* 0: there is none */
	uint64_t place_bytes;    /* of the place table after it; 0: there is none */
	uint64_t resource_bytes; /* of the resource area after that; 0: there is none */
	uint32_t place_state;    /* atomic; enum ky_place_state */
	uint64_t alloc_bytes;    /* of the table of allocations after that; 0: there is none */
	uint32_t alloc_state;    /* atomic; enum ky_place_state */
	struct ky_sample_ring alloc_samples;
	struct ky_sample_ring cpu_samples; /* of timer_source.c; made once, before it is used */
	uint8_t *unwind;                   /* the unwind area, the last one; NULL: there is none */
	uint64_t unwind_bytes;
	uint32_t directory_steps; /* KY_POPULATE_BYTES each, populated */
	uint64_t extent;          /* atomic: populated slots << 32 | usable slots */
	bool is_prefilled;        /* kernel before 5.14: everything was allocated at creation */
	int fd; /* of a memfd, which other processes reach through /proc/PID/fd; else -1 */
	uint64_t fd_inode;
	uint64_t start_time_ticks;
	uint32_t pid;                  /* of the process of start_time_ticks */
	struct ky_clock clock;         /* stamps the records of this ring */
	char path[KY_RING_PATH_BYTES]; /* "" for a memfd */
};

struct ky_ring_request {
	const char *directory; /* NULL: KYMO_RING_DIR, else /dev/shm/kymo-UID */
	const char *service;   /* file name part, already sanitised */
	uint64_t ring_bytes;   /* of slots; rounded up to KY_POPULATE_BYTES */
	uint64_t directory_bytes;
	uint64_t sample_bytes; /* of the sample area; 0: none */
};

/* Creates and maps the file; its header says where everything is, but `magic` is still 0.
 * A file that cannot be had (directory missing, foreign, full) is replaced by a memfd.
 *
 * out      unchanged on failure. The struct lies in a page of its own that is never unmapped.
 * Returns  0; -errno of the memfd or the mapping; -EFBIG when RLIMIT_FSIZE leaves no room.
 */
int ky_ring_create(struct ky_ring **out, const struct ky_ring_request *request,
		   const struct ky_clock *clock);

/* Notes which process this is, by /proc: in a forked child it is another one. */
void ky_ring_identify(struct ky_ring *ring);

/* True when slot may be written: its pages exist. May shrink the usable part. */
bool ky_ring_populate(struct ky_ring *ring, uint32_t slot);

/* Same for the first `bytes` of the directory. Call under the directory's lock. */
bool ky_ring_populate_directory(struct ky_ring *ring, size_t bytes);

/* The class's cells of the sample area, whose pages exist from now on. False: there is no area (a
 * file-size limit), or no memory for it.
 * Signals  safe.   Cost a system call a page, the first time they are made. */
bool ky_ring_samples(struct ky_ring *ring, uint32_t which, struct ky_sample_ring *out);

/* The place table, of which all but the units of frames exists from now on. NULL: there is none, no
 * memory for it, or another thread makes it just now.
 * Signals  safe.   Cost a system call a page, the first time. */
uint8_t *ky_ring_places(struct ky_ring *ring);
/* Makes its pages at once, while a program is set up; where that is refused they are made one by
 * one, as they are otherwise. Keeps errno. */
void ky_ring_populate_places(const struct ky_ring *ring);

/* The same for the table of allocations, and the class of samples that goes with it. begin: called
 * before it is there, by the one thread that makes it. */
uint8_t *ky_ring_allocs(struct ky_ring *ring, void (*begin)(void));

/* Where its resource area begins, if it has one. */
uint64_t ky_ring_resources_at(const struct ky_ring *ring);

/* Makes the page of this word exist; overwrites it. False: no memory. Signals safe. */
bool ky_ring_touch(void *word);

/* Private zeros at these addresses from now on, whatever was there. Where there is no memory for
 * them, what was there stays. */
void ky_map_private(void *address, size_t bytes);

/* Replaces the mapping by private memory: a thread that is still inside an event writes into the
 * void. The addresses stay taken (not the memory), so that such a thread can neither fault nor hit
 * another ring. */
void ky_ring_detach(struct ky_ring *ring);

/* After detach: closes the memfd; removes the file when asked to. */
void ky_ring_forget(struct ky_ring *ring, bool is_unlinking);

static inline uint32_t ky_extent_usable(uint64_t extent)
{
	return (uint32_t)extent;
}

static inline uint32_t ky_extent_populated(uint64_t extent)
{
	return (uint32_t)(extent >> 32);
}

static inline struct ky_sub_buffer *ky_ring_slot(const struct ky_ring *ring, uint32_t slot)
{
	return (struct ky_sub_buffer *)(void *)(ring->slots + (size_t)slot * KY_SLOT_BYTES);
}

#endif
