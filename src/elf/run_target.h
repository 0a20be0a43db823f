/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_target.h - reads CMD before it is started: can a preloaded library reach it at all?
 *
 * Reads at most the ELF header and the program headers; anything unreadable counts as reachable,
 * since exec itself will say what is wrong.
 */
#ifndef KY_ELF_RUN_TARGET_H
#define KY_ELF_RUN_TARGET_H

#include <stddef.h>

enum ky_run_reach {
	KY_RUN_REACHABLE = 0,
	KY_RUN_STATIC,       /* no dynamic loader: LD_PRELOAD means nothing */
	KY_RUN_SETUID,       /* the loader ignores LD_PRELOAD (AT_SECURE) */
	KY_RUN_CAPABILITIES, /* likewise: the file gives capabilities */
	KY_RUN_FOREIGN       /* for another architecture or word size than this library */
};

/* path: as execve would take it (ky_run_target_resolve). */
enum ky_run_reach ky_run_target_reach(const char *path);

/* Finds CMD the way execvp does. Returns 0, -ENOENT, -ENAMETOOLONG. */
int ky_run_target_resolve(const char *command, char *out, size_t capacity);

/* Why it is not recorded, as the rest of a sentence that starts with its path. */
const char *ky_run_reach_text(enum ky_run_reach reach);

#endif
