/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* probe_modules.h - which libraries a recorded process has mapped by now, from /proc/PID/maps.
 *
 * Costs the process nothing and waits for no lock of its loader. A library that comes and goes
 * between two looks is not seen.
 * Threads: owner.
 */
#ifndef KY_AGENT_PROBE_MODULES_H
#define KY_AGENT_PROBE_MODULES_H

#include <drain/module_list.h>
#include <stddef.h>
#include <stdint.h>

/* Tells the drain what is new and what is gone. */
void ky_probe_modules_look(uint32_t pid, struct ky_drain *drain);

/* Files with executable mappings, and the vDSO, in the text of a maps file, which is cut into
 * strings. Returns how many, at most capacity. */
size_t ky_probe_modules_parse(char *text, struct ky_seen_module *out, size_t capacity);

/* The same of a process. text: what their paths lie in, the caller's to free. */
size_t ky_probe_modules_read(uint32_t pid, struct ky_seen_module *out, size_t capacity,
			     char **text);

/* What the file tells, where it can be read: its build id, and where it is linked to lie. */
void ky_probe_modules_read_file(uint32_t pid, struct ky_seen_module *module);

/* Address as linked of an ELF file's first byte, for the segment that holds this offset; 0: it is
 * none. */
uint64_t ky_probe_modules_linked_at(int fd, uint64_t file_offset);

#endif
