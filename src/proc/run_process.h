/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* run_process.h - is the process that wrote a ring, or may still make one, there? */
#ifndef KY_PROC_RUN_PROCESS_H
#define KY_PROC_RUN_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* start_ticks: field 22 of /proc/PID/stat, which distinguishes a reused pid. */
bool ky_run_process_is_alive(uint32_t pid, uint64_t start_ticks);

/* Has it ended, and only its parent has not asked how? In a container it may never ask. */
bool ky_run_process_is_zombie(uint32_t pid);

/* The same on the text of /proc/PID/stat. */
bool ky_run_process_stat_is_alive(const char *text, uint64_t start_ticks);

/* ... of a process that shows no variables: is that because it has none, and not because it is
 * about to get those of another program? */
bool ky_run_process_stat_has_no_variables(const char *text);

/* Inode of our own pid namespace; 0 when unknown. */
uint64_t ky_run_process_namespace(void);

/* What memfd_create("kymo-ring") resembles from outside. */
#define KY_RUN_ANONYMOUS_RING "/memfd:kymo-ring"

/* Opens every anonymous ring that process `pid` holds a descriptor of. found: owns fd; path is
 * below /proc. */
typedef void (*ky_run_descriptor_fn)(void *ctx, int fd, const char *path);
void ky_run_process_anonymous_rings_of(uint32_t pid, int open_flags, ky_run_descriptor_fn found,
				       void *ctx);

/* Opens every anonymous ring that a process of this session holds a descriptor of. Reads all of
 * /proc. found: owns fd. */
typedef void (*ky_run_ring_fn)(void *ctx, int fd);
void ky_run_process_anonymous_rings(uint64_t session, ky_run_ring_fn found, void *ctx);

/* Does any process carry this KYMO_SESSION in its environment? Reads all of /proc whose numbers are
 * from `first` on (0: all): where numbers cannot have begun anew since that process began, no later
 * one has a smaller. Again as long as one that ended meanwhile may have left a child, or one is
 * between two programs; true, too, where that does not come to an end. */
bool ky_run_process_of_session_exists(uint64_t session, uint32_t first);

/* The number of a process that began so long ago, if numbers cannot have begun anew since;
 * else 0. */
uint32_t ky_run_process_first(uint32_t pid, uint64_t age_ns);

#endif
