/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* probe_modules.h - which libraries a recorded process has mapped by now, from /proc/PID/maps:
 * 250 ms after it was found, then every second, while it streams. A flight's end names them itself.
 *
 * Costs the process nothing and waits for no lock of its loader. A library that comes and goes
 * between two readings is not seen.
 * Threads: owner.
 */
#ifndef KY_AGENT_PROBE_MODULES_H
#define KY_AGENT_PROBE_MODULES_H

#include <agent/probes.h>
#include <drain/module_list.h>
#include <stddef.h>
#include <stdint.h>

struct ky_probe_modules {
	uint32_t pid;
	uint64_t due_ns;
};

struct ky_probe ky_probe_modules_init(struct ky_probe_modules *modules, uint32_t pid,
				      uint64_t found_ns);

/* Files with executable mappings, and the vDSO, in the text of a maps file, which is cut into
 * strings. Returns how many, at most capacity. */
size_t ky_probe_modules_parse(char *text, struct ky_seen_module *out, size_t capacity);

/* What the file holds, where it can be read: its build id, and where it is linked to lie. */
void ky_probe_modules_read_file(uint32_t pid, struct ky_seen_module *module);

#endif
