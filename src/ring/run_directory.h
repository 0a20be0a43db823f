/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_directory.h - the directory where ring files appear, read only when something has changed.
 *
 * Invariant: a name that was there before a reading began has been visited once the reading is
 *            over: a directory is taken as unchanged only on a file system of memory, whose times
 *            are this machine's, and only a while after its last change.
 * Threads:   owner.
 */
#ifndef KY_RING_RUN_DIRECTORY_H
#define KY_RING_RUN_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct ky_run_directory {
	const char *path; /* the caller's, as long as this lives */
	int fd;           /* -1: it does not exist yet */
	int news_fd;      /* readable when a name has come; -1: that is not reported */
	bool is_exact;    /* its times report each change */
	bool is_settled;  /* nothing is to be visited again until it changes */
	struct timespec changed;
	int open_error;      /* for want of descriptors, -errno; 0: the last name could be opened */
	uint32_t walk_count; /* for tests */
};

/* Returns false: it is to be visited again, though nothing in the directory changes. */
typedef bool (*ky_run_name_fn)(void *ctx, const char *name, dev_t device, ino_t inode);

void ky_run_directory_init(struct ky_run_directory *directory, const char *path);
void ky_run_directory_close(struct ky_run_directory *directory);

/* Visits every name but hidden ones, when there may be something new. is_forced: in any case. */
void ky_run_directory_scan(struct ky_run_directory *directory, bool is_forced, ky_run_name_fn visit,
			   void *ctx);

/* Takes what news_fd reports. Returns whether a name has come. */
bool ky_run_directory_take_news(const struct ky_run_directory *directory);

/* A file in it. Returns a descriptor, or -1. */
int ky_run_directory_open(struct ky_run_directory *directory, const char *name, int flags);

#endif
