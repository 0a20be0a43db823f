/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* cgroup_files.h - the control groups of a process, version 1 or 2: where their files are.
 *
 * Found by /proc/PID/cgroup and the usual mount. Within a container both may speak of different
 * roots: the folders that are there, from the process's own up to the root of the mount, are what
 * counts.
 * Threads: owner. Memory: none but the structure.
 */
#ifndef KY_PROC_CGROUP_FILES_H
#define KY_PROC_CGROUP_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KY_CGROUP_LEVELS 12u
#define KY_CGROUP_PATH_BYTES 1024u

/* The groups of one controller. */
struct ky_cgroup {
	bool is_v1;
	uint32_t levels; /* the process's own first; 0: none that has the file asked for */
	char path[KY_CGROUP_LEVELS][KY_CGROUP_PATH_BYTES]; /* folders */
	uint8_t up[KY_CGROUP_LEVELS];                      /* parents on the way there */
	char name[KY_CGROUP_PATH_BYTES]; /* of the own one, as /proc/PID/cgroup has it */
};

/* dir: /proc/PID, of which a cgroup is asked that has the controller "cpu" or "memory", and whose
 * folder accepts() (v1: which version it is); mount: NULL for the usual place. Never fails. */
typedef bool (*ky_cgroup_accepts_fn)(const char *path, bool is_v1);
void ky_cgroup_find(struct ky_cgroup *out, int dir, const char *mount, const char *controller,
		    ky_cgroup_accepts_fn accepts);

/* The whole of a small file as text. Returns its bytes or -errno. dir: AT_FDCWD, or of a folder. */
int ky_proc_read_text(int dir, const char *path, char *out, size_t out_bytes);
/* PATH/NAME. */
int ky_cgroup_read(const char *path, const char *name, char *out, size_t out_bytes);

/* The number after a key that begins a line, "throttled_usec 12". False: there is no such line. */
bool ky_proc_number(const char *text, const char *key, uint64_t *out);

#endif
