/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include <drain/module_list.h>

#include <base/alloc.h>
#include <drain/drain_parts.h>
#include <errno.h>
#include <kymo/base.h>
#include <string.h>

#define SEEN_MAX 4096u

/* The recorder's modules have numbers, and names that may be links to what is mapped. */
static bool is_same(const struct ky_name_module *module, uint64_t start, const char *path)
{
	return module->entry.start == start && (module->id || strcmp(module->path, path) == 0);
}

bool ky_drain_knows_module(const struct ky_drain *drain, uint64_t start, const char *path)
{
	for (uint32_t i = drain->common.modules.count; i-- > 0;)
		if (!drain->common.modules.list[i].gone_ticks &&
		    is_same(&drain->common.modules.list[i], start, path))
			return true;
	return false;
}

int ky_drain_add_module(struct ky_drain *drain, const struct ky_seen_module *seen)
{
	size_t path_bytes = strlen(seen->path);
	struct ky_name_module *module;

	if (drain->common.modules.count >= SEEN_MAX ||
	    seen->build_id_bytes > sizeof(seen->build_id))
		return KYMO_E_LIMIT;
	module = ky_module_add(&drain->common.modules);
	if (!module)
		return -ENOMEM;
	module->path = ky_alloc(path_bytes + 1);
	if (!module->path)
		return -ENOMEM;
	memcpy(module->path, seen->path, path_bytes + 1);
	memcpy(module->build_id, seen->build_id, seen->build_id_bytes);
	module->entry.start = seen->start;
	module->entry.end = seen->end;
	module->entry.load_bias = seen->start - seen->file_offset - seen->linked_at;
	module->entry.file_offset = seen->file_offset;
	module->entry.from_ticks = drain->common.now_ticks;
	module->entry.build_id_bytes = seen->build_id_bytes;
	module->entry.path_bytes = (uint32_t)path_bytes;
	drain->common.modules.count++;
	return 0;
}

void ky_drain_keep_modules(struct ky_drain *drain, const struct ky_seen_module *seen, size_t count)
{
	for (uint32_t i = 0; i < drain->common.modules.count; i++) {
		struct ky_name_module *module = &drain->common.modules.list[i];
		bool is_there = module->gone_ticks != 0 || module->path[0] != '/';

		for (size_t k = 0; k < count && !is_there; k++)
			is_there = is_same(module, seen[k].start, seen[k].path);
		if (is_there)
			continue;
		module->gone_ticks = drain->common.now_ticks;
		module->is_announced = false;
	}
}
