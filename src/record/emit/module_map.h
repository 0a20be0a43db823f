/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* module_map.h - which files are mapped where, so that addresses in a trace can become names later.
 *
 * Invariants:  one MODULE entry per loaded object: all of its segments, its build id read from the
 *              mapped note. Bounded; what does not fit is counted by the directory.
 * Threads:     under the engine's lock.      Signals: unsafe (the loader's lock).
 */
#ifndef KY_RECORD_EMIT_MODULE_MAP_H
#define KY_RECORD_EMIT_MODULE_MAP_H

#include <record/emit/clock.h>
#include <record/emit/directory.h>

#define KY_MODULES_MAX 1024u

struct ky_module {
	uint64_t start;
	uint64_t end;
	uint32_t id;
	uint32_t seen; /* round of the last scan that found it */
};

struct ky_module_map {
	struct ky_module modules[KY_MODULES_MAX];
	uint32_t count;
	uint32_t round;
	uint64_t adds; /* the loader's counters at the last scan */
	uint64_t subs;
};

/* Asks the loader; appends what is new and what is gone when its counters moved. Takes the loader's
 * lock, so it is called where a program may call dlopen() itself, never from the emit path: a
 * library's constructor may be waiting for a thread that emits. */
void ky_module_map_scan(struct ky_module_map *map, struct ky_directory *directory,
			const struct ky_clock *clock);

bool ky_module_map_knows(const struct ky_module_map *map, uint64_t address);

#endif
