/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_environment.h - what CMD finds in its environment, and its two directories.
 *
 *   LD_PRELOAD        what was there, then libkymo-preload.so
 *   KYMO_SESSION      16 hex digits: recorders put it into their ring's header
 *   KYMO_RING_DIR     where ring files go; owner-only
 *   KYMO_STATUS_DIR   where a preloaded library says in PID.status what it found
 *   KYMO_STATUS_PARENT our pid: only our direct child says anything
 *   KYMO_SERVICE, KYMO_RING_BYTES, KYMO_MODE   only when asked for on the command line
 *
 * Children inherit all of it, which is how they are recorded too.
 * Threads: owner.
 */
#ifndef KY_SESSION_RUN_ENVIRONMENT_H
#define KY_SESSION_RUN_ENVIRONMENT_H

#include <session/session_options.h>
#include <stdbool.h>
#include <stdint.h>

struct ky_run_environment {
	uint64_t session;
	char preload[512];
	char ring_directory[KY_RING_DIRECTORY_BYTES];
	char status_directory[300];
	int status_fd;         /* holds its lock */
	char *sample_variable; /* one of them: KYMO_SAMPLE=HZ */
	char **variables;      /* NULL-terminated, for exec */
};

/* Returns 0; or -errno / KYMO_E_* with one sentence in errbuf about why nothing can be recorded
 * here. */
int ky_run_environment_open(struct ky_run_environment *environment,
			    const struct ky_session_options *options, char *errbuf,
			    size_t errbuf_bytes);

/* Where libkymo-preload.so is: KYMO_PRELOAD, beside this program, or where it was installed.
 * Returns 0, -ENOENT. */
int ky_run_find_preload(char *out, size_t capacity);

#define KY_RING_ROOM_MIN (UINT64_C(4) << 20)

/* Is there room for so much where the ring files are? Where there is less than KY_RING_ROOM_MIN,
 * recorders keep their rings in anonymous memory, and that of a process which ends before it is
 * found is lost. */
bool ky_run_environment_has_room(const struct ky_run_environment *environment, uint64_t bytes);

/* Removes the status directory, frees the rest. */
void ky_run_environment_close(struct ky_run_environment *environment);

/* What one process's preloaded library said. */
enum ky_run_status {
	KY_RUN_STATUS_NONE = 0, /* nothing (yet): the library was not loaded, or is still at it */
	KY_RUN_STATUS_OK,
	KY_RUN_STATUS_NO_TOKIO,
	KY_RUN_STATUS_STRIPPED,
	KY_RUN_STATUS_UNKNOWN_LAYOUT,
	KY_RUN_STATUS_REFUSED,
	KY_RUN_STATUS_OWN_RECORDER, /* a recorder is part of the program */
	KY_RUN_STATUS_OTHER         /* "reason" is its own words */
};
enum ky_run_status ky_run_environment_status(const struct ky_run_environment *environment, int pid,
					     char *reason, size_t reason_bytes);

/* The same on the text of a status file. */
enum ky_run_status ky_run_status_parse(const char *text, char *reason, size_t reason_bytes);

/* LD_PRELOAD with ours after what is there; there may be NULL. Returns 0, or -EINVAL when the path
 * has a character at which the loader splits, -ENAMETOOLONG. */
int ky_run_preload_value(const char *there, const char *ours, char *out, size_t capacity);

#endif
