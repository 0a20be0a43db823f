/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_finder.h - the rings of this machine: of processes that record now, and of those that are
 * gone.
 *
 * Where:   the ring directory of --ring-dir alone where one is named; else KYMO_RING_DIR and
 *          /dev/shm/kymo-UID, and through /proc every process that maps a ring: anonymous ones,
 *          ring directories that are not named, and, as far as permitted, those of other
 *          mount and pid namespaces.
 * Trust:   none. A ring is a regular file ending in ".ring" whose owner is whose directory it is
 *          in; symbolic links are refused, sizes bounded, headers checked on a copy. What fails
 *          is listed with its trouble, and the others are still found. Finding only reads, and
 *          maps nothing.
 * Threads: owner.
 */
#ifndef KY_RING_RING_FINDER_H
#define KY_RING_RING_FINDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <wire/ring_image.h>

#define KY_FOUND_WHY_BYTES 640u
#define KY_FOUND_PATH_BYTES 512u

enum ky_found_state {
	KY_FOUND_ALIVE = 1, /* its process runs and records into it */
	/* closed by its process, which may be there or not: everything is in it */
	KY_FOUND_CLOSED = 2,
	/* its process is gone, of another boot, or another program since an exec */
	KY_FOUND_DEAD = 3,
	KY_FOUND_TROUBLE = 4 /* no ring that could be read; `why` says it */
};

struct ky_found_ring {
	char path[KY_FOUND_PATH_BYTES]; /* to open: a file, or below /proc/PID */
	char why[KY_FOUND_WHY_BYTES];   /* KY_FOUND_TROUBLE: a sentence without its full stop */
	int error;                      /* KY_FOUND_TROUBLE: KYMO_E_* or -errno; else 0 */
	uint32_t state;                 /* enum ky_found_state */
	dev_t device;
	ino_t inode;
	uid_t uid;           /* of the file */
	uint64_t file_bytes; /* that are there; fewer than the header says when it was truncated */
	uint32_t pid;        /* in our pid namespace; 0: not visible from here */
	uint32_t ring_pid;   /* as the ring says, in its own pid namespace */
	bool is_process_there;
	bool is_foreign;    /* ring_pid counts in another pid namespace */
	bool is_other_boot; /* written before this machine was started */
	bool is_anonymous;  /* no file: dies with its process */
	bool is_truncated;  /* the file is shorter than its header says */
	bool is_replaced;   /* a later ring of the same process is alive (exec) */
	/* header, copied; its changing words as they were when found */
	uint64_t start_time_ticks, session, ticks_per_second;
	uint64_t made_ns, made_unix_ns; /* CLOCK_MONOTONIC of its boot; wall clock */
	uint64_t ring_bytes;            /* of all its sub-buffers */
	uint64_t populated_bytes;
	uint64_t stopped_ns; /* since when it records no more; 0: it does */
	uint64_t dropped_count;
	uint32_t flags; /* enum ky_ring_flags */
	uint32_t mode;  /* enum ky_ring_mode: as set, else as opened */
	char boot_id[41];
	char service[65];
};

/* By what people know it: the number here, else the one that its ring was made with. */
static inline uint32_t ky_found_pid(const struct ky_found_ring *ring)
{
	return ring->pid != 0 ? ring->pid : ring->ring_pid;
}

struct ky_found_rings {
	struct ky_found_ring *rings; /* by pid, then the newest first */
	uint32_t count;
	bool is_incomplete; /* more than KY_FOUND_RINGS_MAX */
	bool is_unseen;     /* the directory that was named could not be read: its trouble */
};
#define KY_FOUND_RINGS_MAX 4096u

struct ky_ring_query {
	const char *ring_directory; /* --ring-dir; NULL: see above */
	const char *service;        /* only of this service; NULL: of all */
	bool is_all_users;          /* of every user whose rings we may read (root) */
	uint32_t pid;               /* only this process's (of our namespace), whichever; 0: all */
};

/* Returns 0, -ENOMEM. Directories that do not exist are no error; the one that was named is listed
 * as trouble then, as is one that is another's or open to others. Rings that no process has
 * recorded into yet are left out. */
int ky_ring_find(struct ky_found_rings *out, const struct ky_ring_query *query);
void ky_found_rings_release(struct ky_found_rings *rings);

/* The one ring that the caller names by pid or, when only one such is recording (or, with
 * is_dead_wanted, only one is there), by service. Of several rings of one process the newest, of
 * several processes that had this pid the living one, else the newest.
 *
 * why      KY_FOUND_WHY_BYTES, a sentence without its full stop when there is none
 * Returns  0; -ESRCH: no such process or service; -ENODATA: there, but does not record;
 *          -ENOTUNIQ: several of this name; -EACCES: another user's; -ENOMEM; the ring's trouble.
 */
int ky_ring_find_one(struct ky_found_ring *out, const struct ky_ring_query *query,
		     const char *pid_or_service, bool is_dead_wanted, char *why);

/* The ring in this file, wherever it lies and whosever it is, as far as we may read it. Returns 0;
 * its trouble; -ENODATA: no process has recorded into it; -ENOMEM. */
int ky_ring_find_file(struct ky_found_ring *out, const char *path, char *why);

struct ky_open_ring {
	int fd;
	uint32_t pid;   /* here, of a process of another pid namespace that is there; else 0 */
	uint8_t *image; /* MAP_SHARED: readable */
	size_t image_bytes;
	/* is_writable: control page and side area, mapped writable each; NULL when there is none */
	struct ky_ring_control *control;
	struct ky_ring_side *side;
	uint8_t *write_areas[2];
	size_t write_bytes[2];
};

/* Opens and maps what was found, if it is still the same file. Whatever reads the image runs inside
 * ky_ring_guarded(). Returns 0; -errno; KYMO_E_*; `why` as above. */
int ky_ring_open(struct ky_open_ring *out, const struct ky_found_ring *found, bool is_writable,
		 char *why);
void ky_ring_close(struct ky_open_ring *ring); /* a zeroed one with fd = -1, too */

/* ky_ring_guard() over the image and the writable parts. */
int ky_ring_guarded(const struct ky_open_ring *ring, int (*work)(void *ctx), void *ctx);

/* Removes the file if it is still the same. Returns 0 (also when it is gone already), -errno. */
int ky_ring_remove(const struct ky_found_ring *found);

#endif
