/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* clean_spawn.h - a program that is started begins as from a shell: no signal is blocked, and none
 * is ignored, whatever this process does with them.
 *
 * Threads: any.
 */
#ifndef KY_PROC_CLEAN_SPAWN_H
#define KY_PROC_CLEAN_SPAWN_H

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>

/* has_group: in a process group of its own, so that it is ended with its children. Returns 0, then
 * *out is to be destroyed; -ENOMEM. */
static inline int ky_clean_spawn_init(posix_spawnattr_t *out, bool has_group)
{
	short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawnattr_init(out) != 0)
		return -ENOMEM;
	if (has_group)
		flags |= POSIX_SPAWN_SETPGROUP;
	if (posix_spawnattr_setpgroup(out, 0) == 0 && posix_spawnattr_setsigmask(out, &none) == 0 &&
	    posix_spawnattr_setsigdefault(out, &all) == 0 &&
	    posix_spawnattr_setflags(out, flags) == 0)
		return 0;
	posix_spawnattr_destroy(out);
	return -ENOMEM;
}

#endif
