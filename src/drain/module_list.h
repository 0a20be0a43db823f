/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* module_list.h - objects that were loaded or unloaded unseen by the recorder.
 *
 * A recorder reads the loader's list when it opens; a program that calls dlopen() later need not
 * report it, and asking from inside could wait for a lock that the program holds. The process that
 * drains from outside reads the process's mappings instead and says here what it found.
 */
#ifndef KY_DRAIN_MODULE_LIST_H
#define KY_DRAIN_MODULE_LIST_H

#include <drain/drain.h>
#include <wire/ring_image.h>

struct ky_seen_module {
	const char *path;
	uint64_t start, end; /* mapped range, end exclusive */
	uint64_t file_offset;
	uint64_t linked_at; /* address of the file's first byte, as linked; 0: any */
	uint32_t build_id_bytes;
	uint8_t build_id[32];
};

/* Does the drain know a module that starts there and is not gone? */
bool ky_drain_knows_module(const struct ky_drain *drain, uint64_t start, const char *path);

/* Adds one, from now on. Returns 0, -ENOMEM, KYMO_E_LIMIT. */
int ky_drain_add_module(struct ky_drain *drain, const struct ky_seen_module *seen);

/* What has a file's path and is not among these is gone from now on. */
void ky_drain_keep_modules(struct ky_drain *drain, const struct ky_seen_module *seen, size_t count);

#endif
