/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* ring_process.h - what /proc knows about rings: which process maps one, how to open it from here,
 * and what a pid of another namespace is called in ours.
 * Threads: owner. Whatever we may not read is passed over.
 */
#ifndef KY_RING_RING_PROCESS_H
#define KY_RING_RING_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* fd: read-only, owned by the callee, -1 when it cannot be opened (errno says why). path: where it
 * can be opened again, or what the process calls it. */
typedef void (*ky_mapped_ring_fn)(void *ctx, uint32_t pid, int fd, const char *path);

/* Every ring that process `pid` maps as its writer does: by its path as that process sees it, an
 * anonymous one by a descriptor of the process, a removed one as far as our rights reach. */
void ky_ring_process_mapped(uint32_t pid, ky_mapped_ring_fn found, void *ctx);

/* Calls visit for every process there is; false ends the walk. */
typedef bool (*ky_process_fn)(void *ctx, uint32_t pid);
void ky_ring_process_each(ky_process_fn visit, void *ctx);

/* Whose is it? Returns false when it is gone. */
bool ky_ring_process_user(uint32_t pid, uid_t *out);

/* Its pid in the innermost namespace it is in; 0 unknown. */
uint32_t ky_ring_process_inner_pid(uint32_t pid);

/* Inode of its pid namespace; 0 unknown. */
uint64_t ky_ring_process_namespace(uint32_t pid);

/* Our name for pid `inner` of that namespace; 0: not to be seen from here. Reads all of /proc. */
uint32_t ky_ring_process_outer_pid(uint64_t pid_namespace, uint32_t inner, uint64_t start_ticks);

/* The process, other than `but`, that holds a descriptor of this file; 0: none that we may see.
 * Reads all of /proc. */
uint32_t ky_ring_process_holder(dev_t device, ino_t inode, uint32_t but);

/* Has it a thread of this name? */
bool ky_ring_process_has_thread(uint32_t pid, const char *name);

/* Its command name into out (16 bytes); "" unknown. */
void ky_ring_process_command(uint32_t pid, char *out);

#endif
