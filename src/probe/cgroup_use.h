/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cgroup_use.h - what the control groups of a process used, may use, and how they stalled.
 * Threads: owner. Memory: none but the structure.
 */
#ifndef KY_PROBE_CGROUP_USE_H
#define KY_PROBE_CGROUP_USE_H

#include <proc/cgroup_files.h>
#include <wire/resource_area.h>

struct ky_cgroup_use {
	struct ky_cgroup cpu, memory;
	uint8_t base; /* parents on the way to the group called level 0 */
};

/* dir: /proc/PID; mount: NULL for the usual place. */
void ky_cgroup_use_find(struct ky_cgroup_use *use, int dir, const char *mount);

/* The group `level` parents up. Returns whether there is something to report it: of the own one
 * always, of the others where they limit. */
bool ky_cgroup_use_row(const struct ky_cgroup_use *use, uint32_t level,
		       struct ky_resource_row *out);

/* For how long its threads were stopped for its CPU limit, summed over CPUs. False: not counted. */
bool ky_cgroup_use_throttled(const struct ky_cgroup_use *use, uint32_t level, uint64_t *ns);

/* "some" and "full" of three files: PREFIXcpuSUFFIX, memory, io. Returns 0, or -errno of the
 * first that could not be read, when none could. */
int ky_pressure_row(const char *prefix, const char *suffix, uint8_t scope,
		    struct ky_resource_row *out);

#endif
