/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cgroup_limits.h - what the control groups of a process let it have, version 1 or 2.
 *
 * The smallest limit on the way from its own group to the root is the one that binds; in a
 * container the way ends where the mount does.
 * Threads: owner.
 */
#ifndef KY_PROC_CGROUP_LIMITS_H
#define KY_PROC_CGROUP_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#define KY_CGROUP_LIMIT_BYTES 1152u

struct ky_cgroup_limit {
	bool has_group;                   /* there is one whose limits can be read */
	bool is_v1;                       /* ... of that version */
	bool is_limited;                  /* the rest is valid */
	uint64_t value;                   /* bytes; thousandths of a CPU */
	char file[KY_CGROUP_LIMIT_BYTES]; /* that says so */
};

struct ky_cgroup_limits {
	struct ky_cgroup_limit memory, cpu;
};

/* dir: /proc/PID; mount: NULL for the usual place. Never fails: what is unreadable has no group. */
void ky_cgroup_limits_find(struct ky_cgroup_limits *out, int dir, const char *mount);

#endif
