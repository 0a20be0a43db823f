/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* code_map.h - which module an address was in at a moment: absolute address and time become module
 * and virtual address in its file.
 *
 * Invariants:  modules are those of the trace's ProcessMapEvents, each once however often they are
 *              repeated; a number never changes. Where several lay at one address one after the
 *              other, the time decides. Where only one ever did, it is that one at any time,
 *              because maps are noticed late.
 * Memory:      KY_CODE_MODULES_MAX modules.
 * Threads:     owner while it grows; any number of readers after ky_code_map_finish().
 */
#ifndef KY_READ_CODE_MAP_H
#define KY_READ_CODE_MAP_H

#include <base/buf.h>
#include <stdbool.h>
#include <wire/symbol_source.h>
#include <wire/trc_dec.h>

#define KY_CODE_MODULES_MAX 65536u
#define KY_CODE_KERNEL_START UINT64_C(0xffff800000000000)

struct ky_code_module {
	uint64_t start, end, load_bias, file_offset;
	uint64_t from_ns, to_ns; /* UINT64_MAX: to the end */
	uint64_t end_max;        /* highest end of this and those before it; after finish */
	uint32_t path;           /* offset of the NUL-terminated text */
	uint32_t build_id;       /* offset of the bytes */
	uint32_t build_id_bytes;
	uint32_t number;
};

struct ky_code_map {
	struct ky_code_module *modules; /* by start, after finish */
	uint32_t count, capacity;
	uint32_t refused_count; /* beyond the maximum, or malformed */
	bool is_sorted;
	struct ky_buf texts;
};

void ky_code_map_init(struct ky_code_map *map);
void ky_code_map_release(struct ky_code_map *map);

/* Takes a ProcessMapEvent. Returns 0, -ENOMEM. */
int ky_code_map_add(struct ky_code_map *map, const struct ky_schema *schema,
		    const struct ky_value *values);

/* Where an address was. Pointers in *out live as long as nothing is added.
 *
 * time_ns    0: not known, the latest
 * is_shared  set to true when another module lay there at another time; may be NULL
 * Returns    the module; NULL with out->kind saying what it can be then
 */
const struct ky_code_module *ky_code_map_find(struct ky_code_map *map, uint64_t address,
					      uint64_t time_ns, struct ky_code_place *out,
					      bool *is_shared);

const char *ky_code_module_path(const struct ky_code_map *map, const struct ky_code_module *module);

#endif
